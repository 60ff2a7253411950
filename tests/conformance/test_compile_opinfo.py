"""Compiled operators over the samples of PyTorch's database: forward and backward equal eager, also for other values.

test_databases compares the operators with PyTorch, so gradloom is compared with itself here. A call with some values is
recorded, and the graph runs on others: an operator whose result depends on values in Python would show.
"""

from __future__ import annotations

import warnings
from collections import Counter

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import gradloom
from gradloom.compiler._api import optimized_of

from .case import UNDEFINED_VALUES, describe
from .library import Absent
from .opinfo_runner import draw_samples, make_case, quiet, spread
from .proxy import callable_for, candidate_library
from .records import Unconvertible
from .results import OpResult

SAMPLES = {"float32": 2, "int64": 1}
TOLERANCES = {"float32": (1e-4, 1e-5), "float64": (1e-7, 1e-9)}  # of results; those of other dtypes are equal


def call(function, values):
    first, args, kwargs = values
    return function(first, *args, **kwargs)


def tensors(value) -> list:
    if isinstance(value, gradloom.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors(v)] if isinstance(value, (tuple, list)) else []


def inputs(case, candidate, shift: int) -> tuple:
    """The sample's values, elements of floating tensors moved by `shift`, and the tensors that get gradients."""
    points: list = []

    def make(record, tensor):
        tensor = tensor.detach()
        if tensor.is_floating_point() and tensor.numel():
            if shift:
                moved = np.roll(tensor.numpy().ravel(), shift).reshape(tensor.shape)
                with gradloom.no_grad():
                    tensor.copy_(gradloom.from_numpy(moved))
            points.append(tensor.requires_grad_())
        return tensor

    return case.values(candidate, make), points


def outcome(run, function, case, candidate, shift: int) -> tuple:
    """The results and gradients; or the error."""
    case.reseed()
    values, points = inputs(case, candidate, shift)
    gradloom.manual_seed(0)
    try:
        found = tensors(run(function, values))
        outputs = [t for t in found if t.requires_grad and t.numel()]
        gradients: tuple = ()
        if outputs:
            weights = [gradloom.linspace(0.5, 1.5, o.numel(), dtype=o.dtype).reshape(o.shape) for o in outputs]
            gradients = gradloom.autograd.grad(outputs, points, weights, allow_unused=True)
    except Absent:
        raise
    except Exception as error:
        return error, ()
    return found, gradients


def difference(found, expected) -> str | None:
    if (found is None) != (expected is None):
        return f"{found} instead of {expected}"
    if found is None:
        return None
    if found.shape != expected.shape or found.dtype != expected.dtype or found.requires_grad != expected.requires_grad:
        return f"{found.shape}, {found.dtype} instead of {expected.shape}, {expected.dtype}"
    if found.stride() != expected.stride() and found.numel() > 1:
        return f"strides {found.stride()}, not {expected.stride()}"
    rtol, atol = TOLERANCES.get(str(expected.dtype).partition(".")[2], (0, 0))
    a, b = (t.detach().resolve_conj().resolve_neg().to(gradloom.complex128).numpy() for t in (found, expected))
    scale = np.max(np.abs(b[np.isfinite(b)]), initial=1.0)
    if not np.allclose(a, b, rtol, atol * scale, equal_nan=True):
        return f"differs by {np.nanmax(np.abs(a - b))}"
    return None


def problem(case, function, candidate, backend: str, counts: Counter) -> str | None:
    compiled = gradloom.compile(call, backend=backend)
    first, _ = outcome(compiled, function, case, candidate, 0)
    if isinstance(first, Exception):
        counts["errors"] += 1
        return None
    optimized = optimized_of(compiled)
    if not optimized.entries:
        counts["eager"] += 1
        counts[optimized.breaks[-1][1]] += 1
        return None
    for shift in (0, 1):
        expected, wanted = outcome(call, function, case, candidate, shift)
        found, gradients = outcome(compiled, function, case, candidate, shift)
        if isinstance(expected, Exception) or isinstance(found, Exception):
            if type(expected) is not type(found):
                return f"{describe(found) if isinstance(found, Exception) else found}, not {expected}"
            continue
        counts["compared"] += 1
        counts["gradients"] += bool(wanted)
        for i, (a, b) in enumerate(zip([*found, *gradients], [*expected, *wanted], strict=True)):
            reason = difference(a, b)
            if reason and case.op.name.partition(".")[0] not in UNDEFINED_VALUES:
                return f"{'result' if i < len(found) else 'gradient'} {i}, values {shift}: {reason}"
    counts["graphs"] += optimized.calls[0]
    return None


def problems(op, candidate, backend: str, counts: Counter) -> list[str]:
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
                reason = problem(case, function, candidate, backend, counts)
            except Unconvertible:
                continue
            if reason:
                found.append(f"{op.full_name}: {dtype} {name}: {reason}")
    return found


def compared(backend: str, problems=problems) -> tuple[Counter, list[str]]:
    """Return counts, and what `problems` finds wrong with the operators of the database."""
    candidate = candidate_library(gradloom)
    counts: Counter = Counter()
    wrong = []
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db:
            try:
                wrong += problems(op, candidate, backend, counts)
            except Absent:
                counts["absent"] += 1
    return counts, wrong


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_compiled_operators_equal_eager(backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite")
    counts, wrong = compared(backend)
    assert wrong == []
    assert [reason for reason in counts if reason.startswith("the compiler failed")] == []
    assert counts["compared"] > 1500 and counts["gradients"] > 700 and counts["graphs"] > 1500
