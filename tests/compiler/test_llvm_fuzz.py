"""Random loop programs: machine code computes what the interpreter does.

GRADLOOM_FUZZ_LOOPS sets the number of programs, GRADLOOM_FUZZ_SEED the first one's seed.
"""

import os

import numpy as np
import pytest

from gradloom.compiler import _llvm
from gradloom.compiler._interpreter import run

from .loop_programs import difference, random_case

COUNT = int(os.environ.get("GRADLOOM_FUZZ_LOOPS", "150"))
FIRST = int(os.environ.get("GRADLOOM_FUZZ_SEED", "0"))
GROUPS = 10

pytestmark = pytest.mark.skipif(not _llvm.available(), reason="needs llvmlite: pip install 'gradloom[compile]'")


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_programs_compute_what_the_interpreter_does(group):
    for seed in range(FIRST + group, FIRST + COUNT, GROUPS):
        case = random_case(seed)
        count = len(case.program.inputs)
        before = [x.copy() for x in case.arrays[count:]]
        run(case.program, case.arrays, case.numbers)
        expected = [x.copy() for x in case.arrays[count:]]
        for x, old in zip(case.arrays[count:], before, strict=True):
            x[...] = old
        _llvm.compile(case.program)(case.arrays, case.numbers)
        wrong = difference(case, [np.asarray(x) for x in case.arrays[count:]], expected)
        assert not wrong, f"seed {seed}: {wrong}\n{case.program}"
