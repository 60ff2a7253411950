"""Numbers as arguments of compiled operators: each number of a sample of PyTorch's database takes other values.

As in test_compile_opinfo, gradloom is compared with itself: results, gradients and errors are those of eager mode, for
values at which formulas and kernels choose another way, too.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

import torch

import gradloom
from gradloom.compiler._api import optimized_of

from .case import UNDEFINED_VALUES
from .opinfo_runner import draw_samples, make_case, spread
from .proxy import callable_for
from .records import Unconvertible
from .results import OpResult
from .test_compile_opinfo import compared, difference, outcome

SAMPLES = 12  # of an operator, of which one is taken for each set of numbers
FLOATS = (0.3, 0.7, 1.0, 2.0, 0.0, -0.0, -1.5, 0.5, 3.0, -2.0, float("inf"), float("nan"), 1e-30)
INTS = (3, 1, 0, -1, 2, 5)
# Values for which the kernel and the definition of an operator differ, also where they are constants.
OTHERWISE = {("nn.functional.softplus", "threshold", "nan")}


def places(args, kwargs) -> list:
    """Where the numbers among the arguments are."""
    found = [*enumerate(args), *kwargs.items()]
    return [place for place, value in found if value.__class__ in (int, float)]


def call(function, values, place, number):
    first, args, kwargs = values
    if place.__class__ is int:
        return function(first, *args[:place], number, *args[place + 1 :], **kwargs)
    return function(first, *args, **{**kwargs, place: number})


def problem(case, function, candidate, place, backend: str, counts: Counter) -> str | None:
    compiled = gradloom.compile(call, backend=backend, dynamic=True)
    first, args, kwargs = case.values(candidate)
    number = args[place] if place.__class__ is int else kwargs[place]
    for value in FLOATS if number.__class__ is float else INTS:
        if not isinstance(value, number.__class__):
            continue
        expected, wanted = outcome(partial(call, place=place, number=value), function, case, candidate, 0)
        found, gradients = outcome(partial(compiled, place=place, number=value), function, case, candidate, 0)
        if isinstance(expected, Exception) or isinstance(found, Exception):
            counts["errors"] += 1
            if type(expected) is not type(found) or str(expected) != str(found):
                return f"{place} = {value}: {type(found)} {found!s:.300}, not {type(expected)} {expected!s:.300}"
            continue
        counts["compared"] += 1
        if case.op.name.partition(".")[0] in UNDEFINED_VALUES:
            continue
        for i, (a, b) in enumerate(zip([*found, *gradients], [*expected, *wanted], strict=True)):
            reason = None if b is not None and b.layout is not gradloom.strided else difference(a, b)
            if reason and (case.op.name, place, str(value)) not in OTHERWISE:
                return f"{place} = {value}: {'result' if i < len(found) else 'gradient'} {i}: {reason}"
    optimized = optimized_of(compiled)
    if any(reason.startswith("the compiler failed") for _, reason in optimized.breaks):
        return optimized.breaks[-1][1]
    numbers = [e.numbers for e in optimized.entries]
    name = "kwargs['number']"
    free = [n for n in numbers if name in n.names and n.names.index(name) not in n.read]
    counts["graphs"] += len(optimized.entries)
    counts[f"free {number.__class__.__name__}"] += bool(free)
    counts[f"fixed {number.__class__.__name__}"] += bool(optimized.entries) and not free
    if number.__class__ is float and optimized.entries and not free:
        counts[f"fixed: {case.op.name} {place}"] += 1
    return None


def problems(op, candidate, backend: str, counts: Counter) -> list[str]:
    function = callable_for(op.op, candidate, op.name)
    if torch.float32 not in op.supported_dtypes("cpu"):
        return []
    samples = draw_samples(op, torch.float32, False, OpResult(op.full_name, ""))
    found, known = [], set()
    for index in spread(len(samples), SAMPLES):
        name, sample = samples[index]
        try:
            case = make_case(op, function, candidate, "float32", f"sample {name}", sample)
            _, args, kwargs = case.values(candidate)
            for place in places(args, kwargs):
                key = place, (args[place] if place.__class__ is int else kwargs[place]).__class__
                if key in known:
                    continue
                known.add(key)
                reason = problem(case, function, candidate, place, backend, counts)
                if reason:
                    found.append(f"{op.full_name}: {name}: {reason}")
        except Unconvertible:
            continue
    return found


@pytest.mark.parametrize("backend", ["numpy", "llvm", "aot_eager"])
def test_numbers_of_compiled_operators_equal_eager(backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite")
    counts, wrong = compared(backend, problems)
    assert wrong == []
    assert counts["compared"] > 2500 and counts["errors"] > 1000
    assert counts["free float"] > 75 and counts["free int"] > 50, counts
