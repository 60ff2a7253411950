"""Values and gradients at special numbers: zeros of both signs, infinities, NaN, ties, kinks, extremes; 0-dim, empty.

The samples of PyTorch's database with their numbers replaced, in all dtypes. Infinities, NaN and the sign of zero have
to be where PyTorch has them (the parts of an infinite complex number are free, and so is the sign of zero in sums of
gradients); other numbers agree to the tolerances of `compare.py`. What differs is in known_special_values.yaml, with
its reason.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

import torch
import yaml
from torch.testing._internal.common_methods_invocations import op_db

import gradloom
from tests.releases import pytorch_before

from .autograd_checks import _Pass
from .case import UNDEFINED_VALUES, Case, describe
from .compare import TOLERANCES
from .families import family_of, in_database
from .library import PYTORCH, Absent
from .opinfo_runner import draw, make_case, quiet, spread
from .proxy import callable_for, candidate_library
from .records import TensorRecord, Unconvertible, dtype_name, map_leaves, numpy_dtype

KNOWN = yaml.safe_load(Path(__file__).with_name("known_special_values.yaml").read_text(encoding="utf-8"))
# What a release changed has the reason `since 2.15: ...` and counts for older ones.
PATTERNS = [
    pattern
    for reason, patterns in KNOWN.items()
    if not (release := re.match(r"since (\d+\.\d+): ", reason)) or pytorch_before(release[1])
    for pattern in patterns
]
#: Numbers put into tensors; each list is one call for an elementwise operator, and one filling for others.
FLOATS = {
    "zeros": [0.0, -0.0],
    "ties": [1.0, 2.0, 1.0, -1.0, 2.0, -0.5, 0.5, 0.0],
    "infinities": [np.inf, 0.0, -1.0, -np.inf, 1.0, -0.0, 2.5],
    "nan": [1.0, np.nan, -2.0, np.inf, 0.0, np.nan],
    "kinks": [-3.0, 3.0, -2.0, 2.0, 6.0, 0.5, -0.5, 20.0, 1.0, -1.0],
}
SINGLE = {"f": [0.0, -0.0, np.inf, np.nan], "c": [0j, complex(1, -0.0), complex(np.inf, 1), complex(0, np.nan)]}
SINGLE |= {"i": [0, 5], "u": [0, 255], "b": [True]}
#: Samples of an operator by dtype, each with the next fillings of the dtype.
SAMPLES = {"float64": 4, "complex128": 2, "float32": 1, "int32": 2, "int64": 1, "bool": 1, "float16": 1, "bfloat16": 1}
SAMPLES |= {"complex64": 1, "uint8": 1, "int8": 1}
MOVERS = ("shape", "creation", "random", "indexing")  # families that move numbers: two dtypes are enough
PER_SAMPLE, LARGEST = 2, 1000  # fillings of each sample; elements
#: PyTorch divides the least integer by -1 (and the process ends), looks in boundaries that are not sorted, or shows
#: memory as it was found. Degrees of polynomials are counts, too.
LEFT_OUT = UNDEFINED_VALUES | {"lcm", "searchsorted", "bucketize"}


def fillings(dtype: str, pointwise: bool) -> dict[str, np.ndarray]:
    """Lists of special numbers for a dtype, by name."""
    kind = numpy_dtype(dtype)
    if kind.kind == "b":
        return {"bools": np.array([True, False, True]), "false": np.array([False])}
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return {
            "small": np.array([0, 1, 2, 3, 1, 0, 2, limits.max if limits.min == 0 else -1], kind),
            "limits": np.array([limits.max, 0, limits.min, 1, limits.max - 1, limits.min + 1, 2], kind),
            "zeros": np.array([0], kind),
        }
    if kind.kind == "c":
        parts = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5]
        whole = np.array([complex(a, b) for a, b in itertools.product(parts, parts)], kind)
        return {"finite": whole[np.isfinite(whole)], "zeros": whole[whole == 0], "all": whole}
    limits = torch.finfo(getattr(torch, dtype))
    extremes = [limits.max, limits.tiny, -limits.max, 1.0, limits.smallest_normal, -limits.tiny, limits.eps]
    lists = FLOATS | ({"extremes": extremes} if pointwise else {})
    return {name: np.array(numbers).astype(kind) for name, numbers in lists.items()}


def special(case: Case, name: str, numbers: np.ndarray, every: bool) -> Case:
    """The case with special numbers in its tensors of the dtype; with `every`, each with each of the others."""
    count = itertools.count()

    def leaf(value: Any) -> Any:
        if not isinstance(value, TensorRecord) or value.dtype != case.dtype:
            return value
        number = next(count)
        if every:
            shape = () if numbers.ndim == 0 else (1,) * (1 - number) + (-1,) + (1,) * number
            return TensorRecord.of_array(numbers.reshape(shape), value.dtype, value.requires_grad)
        places = np.arange(value.flat.size) * (1 + 2 * number) + number
        return replace(value, flat=numbers[places % len(numbers)])

    changed = map_leaves(leaf, (case.input, case.args, case.kwargs))
    return replace(case, input=changed[0], args=changed[1], kwargs=changed[2], where=f"{case.where} {name}")


def cases(op: Any, dtype: str, candidate: Any) -> Iterator[Case]:
    """Calls of one operator in one dtype."""
    kind = getattr(torch, dtype)
    if kind not in op.supported_dtypes("cpu"):
        return
    differentiable = op.supports_autograd and kind in op.supported_backward_dtypes("cpu")
    function = callable_for(op.op, candidate, op.name)
    pointwise = type(op).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo")
    try:
        samples = list(draw(op, 40, op.sample_inputs_func, op, "cpu", kind, differentiable))
    except Exception:
        return
    chosen = spread(len(samples), SAMPLES[dtype] if not pointwise else 1)
    lists = list(fillings(dtype, pointwise).items())
    for place, index in enumerate(chosen):
        with contextlib.suppress(Unconvertible):
            case = make_case(op, function, candidate, dtype, f"{dtype} sample {index}", samples[index])
            tensors = [leaf for leaf in flat(case) if isinstance(leaf, TensorRecord)]
            if sum(tensor.flat.size for tensor in tensors) > LARGEST:
                continue
            every = pointwise and len(tensors) <= 2
            for turn in range(len(lists) if pointwise else PER_SAMPLE):
                yield special(case, *lists[(place * PER_SAMPLE + turn) % len(lists)], every)
            if place == 0 and len(tensors) < 2:
                for number in SINGLE[numpy_dtype(dtype).kind.replace("V", "f")]:
                    single = np.asarray(number).astype(numpy_dtype(dtype))
                    yield special(replace(case, where=f"{case.where} 0-dim"), str(number), single, True)
                yield special(replace(case, where=f"{case.where} empty"), "", np.empty(0, numpy_dtype(dtype)), True)


def flat(case: Case) -> list[Any]:
    found: list[Any] = []
    map_leaves(found.append, (case.input, case.args, case.kwargs))
    return found


def unequal(
    expected: np.ndarray, actual: np.ndarray, dtype: str, factor: float, signed: bool, by_norm: bool = False
) -> str | None:
    """The first number that differs; `signed`: zeros of different signs do.

    With `by_norm` the tolerance is relative to the greatest number: each is a sum of all inputs, which may cancel.
    """
    if expected.shape != actual.shape:
        return f"shape {expected.shape} expected, got {actual.shape}"
    if dtype not in TOLERANCES:
        wrong = expected != actual
    else:
        wide = expected.astype(np.complex128), actual.astype(np.complex128)
        relative, absolute = (factor * t for t in TOLERANCES[dtype])
        wrong = np.zeros(expected.shape, bool)
        size = np.abs(wide[0])
        if by_norm:
            absolute += relative * size.max(initial=0, where=np.isfinite(size))
        infinite = ~np.isfinite(wide[0]) & ~np.isfinite(wide[1]) & dtype.startswith("complex")
        for one, other in ((wide[0].real, wide[1].real), (wide[0].imag, wide[1].imag)):
            same = (one == other) & ((not signed) | (np.signbit(one) == np.signbit(other)) | (one != 0)) | np.isnan(
                one
            ) & np.isnan(other)
            close = np.abs(one - other) <= absolute + relative * np.where(np.isfinite(size), size, np.abs(one))
            wrong |= ~(
                same
                | close & np.isfinite(one) & np.isfinite(other) & ((not signed) | (one != 0) | (other != 0))
                | infinite
            )
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{expected[place]} expected at {place}, got {actual[place]} ({int(wrong.sum())} of {wrong.size})"


def compare(case: Case, expected: list[Any], actual: list[Any], factor: float) -> str | None:
    for number, (wanted, found) in enumerate(zip(expected, actual, strict=True)):
        if wanted is None or found is None:
            present = wanted if found is None else found
            if wanted is not found and (factor <= 10 or present.abs().sum().item() != 0):
                return f"{number}: {'None' if wanted is None else 'a tensor'} expected"
            continue
        if dtype_name(wanted.dtype) != dtype_name(found.dtype):
            return f"{number}: {wanted.dtype} expected, got {found.dtype}"
        arrays = case.reference.array(wanted), case.candidate.array(found)
        name = dtype_name(wanted.dtype)
        pointwise = type(case.op).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo")
        signed = (factor == 1 or pointwise and factor == 10) and not name.startswith("complex")
        if reason := unequal(*arrays, name, factor, signed, case.op.name.startswith("fft.")):
            return f"{number}: {reason}"
    return None


def differences(case: Case, counts: Counter) -> Iterator[str]:
    """Where the value and the first and second gradients differ from PyTorch's, as lines."""
    try:
        theirs = _Pass(case, PYTORCH, None)
    except Exception:
        return
    counts["value"] += 1
    try:
        ours = _Pass(case, case.candidate, None)
    except Absent:
        raise
    except Exception as error:
        case.candidate.check_absence(error)
        yield f"value: {describe(error)}"
        return
    if len(theirs.outputs) != len(ours.outputs):
        yield "value: number of results"
        return
    if reason := compare(case, theirs.outputs, ours.outputs, 1):
        yield f"value {reason}"
        return
    if not theirs.inputs or not any(theirs.flags()):
        return
    cotangents = [
        case.random(tuple(output.shape), dtype_name(output.dtype), f"cotangent {index}", True)
        for index, output in enumerate(theirs.outputs)
        if output.requires_grad
    ]
    try:
        wanted = gradients(theirs, cotangents)
    except Exception:
        return
    try:
        found = gradients(ours, cotangents)
    except Exception as error:
        yield f"gradient: {describe(error)}"
        return
    for order, (expected, actual) in enumerate(zip(wanted, found, strict=False), 1):
        counts[f"gradient {order}"] += 1
        if reason := compare(case, expected, actual, 10**order):
            yield f"gradient {order} of {reason}"
            return


def gradients(run: _Pass, cotangents: list[TensorRecord]) -> list[list[Any]]:
    """First gradients, and second ones where there are any."""
    built = run.library.build(cotangents)
    first = run._grad(run._differentiable(), run.inputs, built, True)
    terms = [(i, grad) for i, grad in enumerate(first) if grad is not None and grad.requires_grad]
    found = [first]
    if terms:
        weights = [run.case.random(tuple(g.shape), dtype_name(g.dtype), f"second cotangent {i}") for i, g in terms]
        with contextlib.suppress(NotImplementedError):
            found.append(run._grad([g for _, g in terms], [*run.inputs, *built], run.library.build(weights), False))
    return found


def misses(family: str, counts: Counter) -> Iterator[str]:
    """Where the operators of a family differ, as lines."""
    candidate = candidate_library(gradloom)
    for op in op_db:
        if family_of(op) == family and op.name not in LEFT_OUT and "polynomial" not in op.name:
            for dtype in SAMPLES if family not in MOVERS else ("float64", "int64"):
                with contextlib.suppress(Absent):
                    for case in cases(op, dtype, candidate):
                        for line in differences(case, counts):
                            yield f"{op.full_name}: {case.where}: {line}"


@pytest.mark.parametrize("family", in_database())
def test_special_values_give_what_pytorch_gives(family):
    counts: Counter = Counter()
    with quiet():
        found = list(misses(family, counts))
    new = [line for line in found if not any(fnmatch(line, pattern) for pattern in PATTERNS)]
    assert not new, "\n".join([f"{family}: {len(new)} of {dict(counts)} differ:", *new])
