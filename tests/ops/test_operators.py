"""The generic operator test: every entry of native_functions.yaml, with what its derivatives claim.

An operator needs no registration here. Its samples come from its schema and `domain:`, or from SAMPLES in
src/gradloom/tools/verify/samples/<family>.py, which maps full names to functions that yield (args, kwargs). An operator
for which neither gives a sample fails.
"""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

import gradloom.tools.verify.samples
from gradloom.codegen.reading.python_files import families_in
from gradloom.tools.verify import own_operators, verify_operator
from gradloom.tools.verify.findings import WRONG, OperatorResult
from gradloom.tools.verify.operators import family_constants, family_samples
from gradloom.tools.verify.runner import VALUE_CHECKS, _at_boundaries
from gradloom.tools.verify.sampling import cases
from gradloom.tools.verify.variations import plan
from tests.samples import ALL

ROOT = Path(__file__).parents[2]
SAMPLES = Path(gradloom.tools.verify.samples.__file__).parent


@pytest.mark.parametrize("operator", own_operators(), ids=lambda o: o.name)
def test_operator(operator):
    """Variants, first and second derivatives, both modes: nothing is wrong, and nothing is missing.

    One operator in twelve gets all checks of `gradloom verify`, the others those of `--fast`, one in four of them with
    the checks of layouts and dtypes; GRADLOOM_ALL_SAMPLES=1 gives all to all.
    """
    number = 0 if ALL else zlib.crc32(operator.name.encode())
    result = verify_operator(operator, "fast" if number % 12 else "default")
    assert result.counts, "nothing was checked"
    undeclared = operator.joined.strategy == "not_implemented"  # as in PyTorch, it has no entry in derivatives.yaml
    wrong = [f for f in result.findings if f.severity == WRONG or not undeclared]
    assert not wrong, "\n\n".join(map(str, wrong))
    if number % 12 and number % 3 == 0:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            faults = [fault for case in plan(operator, "fast").base for fault in values_of(case)]
        assert not faults, "\n\n".join(map(str, faults))


def values_of(case):
    """Yield the faults that the checks find which `--fast` leaves out."""
    for _, check in VALUE_CHECKS[2:] if case.operator.schema.kind == "functional" else ():
        yield from check(case)


def test_families_have_the_same_names_in_every_room():
    """One family, one name: kernels, composites, formulas and samples exist only for families that exist; `rowwise` is
    for the operators of others, whose kernels and formulas follow from `over:`."""
    families = {o.family for o in own_operators()} | {"rowwise"}
    for room in ("kernels", "composite", "formulas"):
        unknown = families_in(ROOT / "src" / "gradloom" / room) - families
        assert not unknown, f"src/gradloom/{room}: there are no families {sorted(unknown)}"
    for path in SAMPLES.glob("*.py"):
        assert path.stem in families | {"__init__"}, f"{path.name}: there is no family {path.stem}"
    for room in ("functions", "variable_type"):
        for path in (ROOT / "generated" / room).glob("*.py"):
            assert path.stem in families | {"__init__"}, f"generated/{room}/{path.name}: no such family"


def test_samples_name_operators_that_exist():
    """A sample for an operator that was renamed would test nothing."""
    names = {o.name for o in own_operators()}
    for family in {o.family for o in own_operators()}:
        unknown = (set(family_samples(family)) | set(family_constants(family))) - names
        assert not unknown, f"{SAMPLES / family}.py: {sorted(unknown)} are not operators"


# Operators whose derivatives are no limits of difference quotients at boundary points, with the reason.
APART = {
    "binary_cross_entropy_backward": "it is smoothed over an eps that is less than the quotients' step",
    "hinge_embedding_loss": "its target chooses a branch where it is 1 or -1, and no other number is one",
    "cosine_embedding_loss": "its target chooses a branch where it is 1 or -1, and no other number is one",
    "corrcoef": "it clips what rounding takes above 1, with the derivatives",
}


@pytest.mark.parametrize("operator", own_operators()[:: 1 if ALL else 30], ids=lambda o: o.name)
def test_modes_agree_at_boundaries(operator):
    """All first and second derivatives, where formulas divide by zero or change their branch: all operators with
    GRADLOOM_ALL_SAMPLES=1."""
    if operator.name in APART or not operator.differentiable or operator.is_random:
        return
    found = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        mode = "thorough" if ALL else "default"
        for fault in _at_boundaries(cases(operator), mode, OperatorResult("", "", ""), limits=True):
            found.append(f"{fault.case}: {fault.message}: {fault.expected}, {fault.found}")
    assert not found, "\n".join(found)
