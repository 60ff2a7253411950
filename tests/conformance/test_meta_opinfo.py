"""The meta device over the operators of PyTorch's database: shapes, dtypes, strides and errors are those of the CPU.

test_databases compares the operators with PyTorch on the CPU, so gradloom is compared with itself here.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

import torch
from torch.testing._internal.common_methods_invocations import op_db

import gradloom
from gradloom.meta.tensor import meta_like, wrap_meta

from .case import describe
from .library import Absent
from .opinfo_runner import draw_samples, make_case, quiet, spread
from .proxy import callable_for, candidate_library
from .records import Unconvertible
from .results import OpResult

SAMPLES = {"float64": 8, "float32": 3}
# What the meta device refuses with reason, in the messages of its errors.
REFUSALS = (
    "no fake impl or Meta kernel",
    "register_meta function",
    "Tensor.item() cannot be called on meta tensors",
    "Cannot copy out of meta tensor",
    "without output_size",
)


def tensors(value) -> list:
    if isinstance(value, gradloom.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors(v)] if isinstance(value, (tuple, list)) else []


def on_meta(tensor):
    out = wrap_meta(meta_like(tensor._array))
    out._array.offset = tensor.storage_offset() * tensor.itemsize
    out._array.memory.nbytes = tensor.untyped_storage().nbytes()
    return out


def outcome(case, candidate, adapt) -> tuple:
    """The geometry of the results and of the gradients; or the error."""
    points: list = []

    def make(record, tensor):
        tensor = adapt(tensor.detach())
        if tensor.is_floating_point() or tensor.is_complex():
            points.append(tensor.requires_grad_())
        return tensor

    case.reseed()
    first, args, kwargs = case.values(candidate, make)
    place = contextlib.nullcontext()
    if adapt is on_meta:
        kwargs = {name: "meta" if name == "device" else value for name, value in kwargs.items()}
        if not tensors((first, args, kwargs)):
            place = gradloom.device("meta")
    try:
        with place:
            found = tensors(case.call(candidate, (first, args, kwargs)))
    except Absent:
        raise
    except Exception as error:
        return error, ()
    outputs = [t for t in found if t.requires_grad]
    gradients: tuple = ()
    if outputs:
        try:
            gradients = gradloom.autograd.grad(
                outputs, points, [gradloom.ones_like(o) for o in outputs], allow_unused=True
            )
        except Exception as error:
            return found, error
    return found, gradients


def geometry(tensor):
    return None if tensor is None else (tuple(tensor.shape), str(tensor.dtype), tensor.stride())


def problem(case, candidate, counts: Counter) -> str | None:
    expected, wanted = outcome(case, candidate, lambda t: t)
    found, gradients = outcome(case, candidate, on_meta)
    if isinstance(expected, Exception):
        counts["errors"] += 1
        if not isinstance(found, Exception):
            return f"no error, but on the CPU {describe(expected)}"
        return None
    if isinstance(found, Exception):
        if any(words in str(found) for words in REFUSALS):
            counts["refused"] += 1
            return None
        return describe(found)
    counts["compared"] += 1
    if not all(t.is_meta for t in found):
        return "a result is not on the meta device"
    if list(map(geometry, found)) != list(map(geometry, expected)):
        return f"{[geometry(t) for t in found]}, not {[geometry(t) for t in expected]}"
    if isinstance(wanted, Exception):
        return None
    if isinstance(gradients, Exception):
        if any(words in str(gradients) for words in REFUSALS):
            counts["gradients refused"] += 1
            return None
        return f"gradients: {describe(gradients)}"
    counts["gradients"] += bool(gradients)
    shapes = [[None if t is None else tuple(t.shape) for t in each] for each in (gradients, wanted)]
    if shapes[0] != shapes[1]:
        return f"gradients {shapes[0]}, not {shapes[1]}"
    return None


def problems(op, candidate, counts: Counter) -> list[str]:
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
                reason = problem(case, candidate, counts)
            except Unconvertible:
                continue
            if reason:
                found.append(f"{op.full_name}: {dtype} {name}: {reason}")
    return found


def test_geometry_and_errors_are_those_of_the_cpu():
    counts, wrong = compared()
    assert counts["compared"] > 5000 and counts["gradients"] > 4000 and counts["refused"] < 200
    assert wrong == []


def test_rules_for_large_calls_state_the_sizes_of_kernels(monkeypatch):
    """Every call that has a rule is computed by it, however small."""
    monkeypatch.setattr("gradloom.meta.runs.Run.is_large", lambda run: True)
    monkeypatch.setitem(SAMPLES, "float32", 0)
    counts, wrong = compared()
    assert counts["compared"] > 4000 and wrong == []


def compared() -> tuple[Counter, list[str]]:
    counts: Counter = Counter()
    candidate = candidate_library(gradloom)
    wrong: list[str] = []
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db:
            with contextlib.suppress(Absent):
                wrong += problems(op, candidate, counts)
    print(dict(counts))
    return counts, wrong
