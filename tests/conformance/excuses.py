"""When results that differ are no miss: more exact than PyTorch's, equal up to a free choice, ties broken
otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .case import WIDER, Case, Reject
from .compare import further_off, values_differ
from .records import dtype_name

#: Operators that may return any of several equal elements, and the places of equal elements in any order.
#: PyTorch says so of each of them; `stable=True` takes the freedom away.
UNORDERED = frozenset("sort argsort msort topk kthvalue mode median nanmedian".split())


def excused(
    case: Case, expected: list[Any], actual: list[Any], tolerances: dict, compute: Callable[[Case], list[Any]]
) -> bool:
    """Whether derivatives in low precision (None where there is none) are as exact as PyTorch's own.

    Near a pole or after cancellation PyTorch's float32 is itself far off, and being nearer to its float64
    result, which `compute` gives for the widened case, is no miss. Raises Reject where the forward pass broke
    ties in another way than PyTorch's, so that there is nothing to compare.
    """
    if case.op.name in UNORDERED and ties_differ(case):
        raise Reject("ties are broken in another way")
    if case.dtype not in WIDER and not case.mixed():
        return False
    try:
        exact = compute(case.widened())
    except Exception:
        return False
    if not len(exact) == len(expected) == len(actual):
        return False
    return all(map(_as_exact, exact, expected, actual, [tolerances] * len(exact), [case] * len(exact)))


def _as_exact(truth: Any, theirs: Any, ours: Any, tolerances: dict, case: Case) -> bool:
    """Whether `ours` is about as near to `truth` as `theirs` is; what has no wider truth must be equal."""
    if truth is None or theirs is None or ours is None:
        return truth is theirs is ours
    if theirs.shape != tuple(ours.shape) or dtype_name(theirs.dtype) != dtype_name(ours.dtype):
        return False
    arrays = [case.reference.array(theirs), case.candidate.array(ours)]
    exact = truth.dtype == theirs.dtype and not case.mixed()  # an index, or a dtype= argument
    if truth.shape != theirs.shape or exact or not (theirs.is_floating_point() or theirs.is_complex()):
        return not values_differ(*arrays, dtype_name(theirs.dtype), tolerances)
    return not further_off(case.reference.array(truth), *arrays, tolerances[dtype_name(theirs.dtype)])


def forward_excused(case: Case, expected: Any, actual: Any, tolerances: dict) -> bool:
    """Whether a forward result of the right structure, shapes and dtypes is right though its values
    differ."""
    if case.op.name in UNORDERED and not case.kwargs.get("stable"):
        return _same_up_to_ties(case, expected, actual)
    if case.dtype not in WIDER and not case.mixed():
        return False
    wide = case.widened()
    try:
        exact = wide.tensors(wide.reference_call(), case.reference)
    except Reject:
        return False
    sides = exact, case.tensors(expected, case.reference), case.tensors(actual, case.candidate)
    if len({len(side) for side in sides}) != 1:
        return False
    return all(_as_exact(*three, tolerances, case) for three in zip(*sides, strict=True))


def ties_differ(case: Case) -> bool:
    """Whether the candidate's forward pass is right, but its indices are others than PyTorch's."""
    try:
        expected, actual = case.reference_call(), case.candidate_call()
    except Exception:
        return False
    sides = case.tensors(expected, case.reference), case.tensors(actual, case.candidate)
    if case.op.name == "msort":  # returns no indices, but has sent its gradients by some
        values = case.reference.array(sides[0][0])
        return bool((values[1:] == values[:-1]).any()) and _same_up_to_ties(case, expected, actual)
    exact = all(_equal(case, *pair) for pair in zip(*sides, strict=False) if not pair[0].is_floating_point())
    return not exact and _same_up_to_ties(case, expected, actual)


def _equal(case: Case, theirs: Any, ours: Any) -> bool:
    return bool(np.array_equal(case.reference.array(theirs), case.candidate.array(ours)))


def _same_up_to_ties(case: Case, expected: Any, actual: Any) -> bool:
    """Whether values are equal and every index output points at the elements that PyTorch's points at."""
    source, _, _ = case.values(case.reference, lambda record, tensor: tensor.detach())
    sides = case.tensors(expected, case.reference), case.tensors(actual, case.candidate)
    single = len(sides[0]) == 1
    for place, (theirs, ours) in enumerate(zip(*sides, strict=False)):
        index = theirs.dtype == torch.int64 and (single or place == 1)
        if index and case.op.name != "msort":
            if not _same_elements(source, theirs, torch.from_numpy(np.array(case.candidate.array(ours)))):
                return False
        else:
            arrays = case.reference.array(theirs), case.candidate.array(ours)
            if values_differ(*arrays, dtype_name(theirs.dtype)):
                return False
    return True


def _same_elements(source: torch.Tensor, theirs: torch.Tensor, ours: torch.Tensor) -> bool:
    """Whether along some dimension both indices gather the same elements, and ours takes none of them
    twice."""
    for dim in range(source.ndim):
        theirs_full, ours_full = (_with_dim(index, source, dim) for index in (theirs, ours))
        if theirs_full is None or ours_full is None:
            continue
        if ours_full.numel() and not (0 <= int(ours_full.min()) <= int(ours_full.max()) < source.shape[dim]):
            continue
        same = source.gather(dim, theirs_full), source.gather(dim, ours_full)
        in_order = ours_full.sort(dim).values
        twice = in_order.shape[dim] > 1 and bool((in_order.diff(dim=dim) == 0).any())
        if not twice and torch.equal(*(tensor.nan_to_num(nan=torch.inf) for tensor in same)):
            return True
    return source.ndim == 0 and torch.equal(theirs, ours)


def _with_dim(index: torch.Tensor, source: torch.Tensor, dim: int) -> torch.Tensor | None:
    """An index output with the dimension that a reduction dropped; None if it does not run along `dim`."""
    if index.ndim == source.ndim - 1:
        index = index.unsqueeze(dim)
    fits = index.ndim == source.ndim and all(
        size == whole for place, (size, whole) in enumerate(zip(index.shape, source.shape, strict=True)) if place != dim
    )
    return index if fits else None
