"""Integers at the ends of 32 and 64 bits, for every integer argument and index tensor of every operator.

NumPy cuts some of its arguments to a C int and multiplies sizes without a check, so that a wrong integer can read or
write outside of an array. All calls are made in a child process, which may die.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

resource = pytest.importorskip("resource")

CHILD = """
import resource, warnings
import numpy as np
import gradloom
from gradloom.memory.ownership import extent, owner
from gradloom.tools.verify.sampling import samples
from gradloom.tools.verify.operators import own_operators

limit = 4 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
warnings.simplefilter("ignore")
gradloom.set_num_threads(1)
EXTREMES = (2**31, -(2**31), 2**32 + 1, 2**62, -(2**63), 2**63)
ALLOWED = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)


def tensors(value):
    if isinstance(value, gradloom.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors(part)


def variations(operator, args):
    # (position, value) with an extreme integer in place of an integer, an element of a list or of an index tensor
    for i, argument in enumerate(operator.schema.inputs[: len(args)]):
        old, kind = args[i], str(argument.type)
        for extreme in EXTREMES:
            if isinstance(old, gradloom.Tensor):
                if old.dtype is gradloom.int64 and old.numel() and extreme < 2**63:
                    changed = old.detach().clone()
                    changed.view(-1)[-1:] = extreme
                    yield i, changed
            elif kind.startswith(("int", "SymInt")):
                yield i, (*old[:-1], extreme) if isinstance(old, tuple) else (extreme,) if "[" in kind else extreme


for operator in own_operators():
    calls = operator.samples() if operator.samples is not None else samples(operator)
    try:
        args, kwargs = operator.completed(*next(iter(calls)))
    except Exception:
        continue
    for i, value in variations(operator, args):
        given = [a.detach().clone() if isinstance(a, gradloom.Tensor) else a for a in args]
        given[i] = value
        shown = value if isinstance(value, (int, tuple)) else value.view(-1)[-1].item()
        print(operator.name, i, shown, flush=True)
        try:
            result = operator.call(*given, **kwargs)
        except ALLOWED:
            continue
        except (MemoryError, OverflowError) as error:
            if operator.name.partition(".")[0] not in {known}:
                print("LEAKS", type(error).__name__, error)
            continue
        for tensor in tensors(result):
            array = np.asarray(tensor._array)
            if array.size:
                (low, high), (start, end) = np.lib.array_utils.byte_bounds(array), extent(owner(array))
                if low < start or high > end:
                    print("OUTSIDE")
"""
# Composites that allocate without a kernel.
KNOWN = ["combinations", "resize_", "histogramdd"]


@pytest.mark.skipif(
    "GRADLOOM_DEBUG" in os.environ, reason="the checks copy what a kernel has made, which may be too much"
)
def test_extreme_integers_neither_crash_nor_reach_outside_of_memory():
    child = subprocess.run(
        [sys.executable, "-c", CHILD.replace("{known}", repr(KNOWN))],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    lines = child.stdout.splitlines()
    assert child.returncode == 0, (child.returncode, lines[-1:], child.stderr[-2000:])
    wrong = [(lines[n - 1], line) for n, line in enumerate(lines) if line.startswith(("LEAKS", "OUTSIDE"))]
    assert wrong == [] and len(lines) > 2000
