"""Kernels of machine code over the samples of PyTorch's database: results and gradients are those of NumPy's kernels.

test_databases compares NumPy's kernels with PyTorch, so gradloom is compared with itself here. Calls are counted in
which a replaced kernel computes something itself; tests/compiler/test_set_kernels.py calls each of them.
"""

from __future__ import annotations

import warnings
from collections import Counter

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")
pytest.importorskip("llvmlite")

import torch
from torch.testing._internal.common_methods_invocations import op_db

import gradloom
from tests.compiler.eager_calls import counted_replacements, places, take_as_large

from . import test_compile_opinfo as compiled
from .case import UNDEFINED_VALUES, describe
from .library import Absent
from .opinfo_runner import draw_samples, make_case, quiet, spread
from .proxy import callable_for, candidate_library
from .records import Unconvertible
from .results import OpResult

SAMPLES = {"float32": 6, "float64": 2}


@pytest.fixture
def calls(monkeypatch) -> Counter:
    """How often each replaced kernel computed something itself, by its place."""
    take_as_large(8, monkeypatch)
    return counted_replacements(monkeypatch)


def problem(case, function, candidate, calls) -> str | None:
    before = calls.total()
    compiled.outcome(compiled.call, function, case, candidate, 0)  # NumPy's kernels see the first calls
    found, gradients = compiled.outcome(compiled.call, function, case, candidate, 0)
    if calls.total() == before and not isinstance(found, Exception):
        return None
    with gradloom.set_kernels("numpy"):
        expected, wanted = compiled.outcome(compiled.call, function, case, candidate, 0)
    if isinstance(expected, Exception) or isinstance(found, Exception):
        same = type(expected) is type(found) and str(expected) == str(found)
        return None if same else f"{describe(found) if isinstance(found, Exception) else found}, not {expected}"
    for i, (a, b) in enumerate(zip([*found, *gradients], [*expected, *wanted], strict=True)):
        if b is not None and b.layout != gradloom.strided:
            continue
        reason = compiled.difference(a, b)
        if reason and case.op.name.partition(".")[0] not in UNDEFINED_VALUES:
            return f"{'result' if i < len(found) else 'gradient'} {i}: {reason}"
    return None


def problems(op, candidate, calls) -> list[str]:
    function = callable_for(op.op, candidate, op.name)
    found = []
    for dtype, most in SAMPLES.items():
        kind = getattr(torch, dtype)
        if kind not in op.supported_dtypes("cpu"):
            continue
        samples = draw_samples(op, kind, False, OpResult(op.full_name, ""))
        for index in spread(len(samples), most):
            name, sample = samples[index]
            try:
                case = make_case(op, function, candidate, dtype, f"{dtype} sample {name}", sample)
                reason = problem(case, function, candidate, calls)
            except Unconvertible:
                continue
            if reason:
                found.append(f"{op.full_name}: {dtype} {name}: {reason}")
    return found


def test_operators_give_the_same_with_both_kernels(calls):
    candidate = candidate_library(gradloom)
    wrong = []
    with quiet(), warnings.catch_warnings(), gradloom.set_kernels("llvm"):
        warnings.simplefilter("ignore")
        for op in op_db:
            try:
                wrong += problems(op, candidate, calls)
            except Absent:
                continue
    assert not wrong, "\n".join(wrong)
    assert sum(calls[place] > 0 for place in places()) > 0.7 * len(places())  # tests/compiler calls all
