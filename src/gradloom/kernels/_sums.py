"""Sums of floating arrays as products with ones: BLAS is several times faster than NumPy's reductions, most of all
where few elements lie next to each other, as in the last dimension of a (100000, 2) array.

Rounding: no number takes part in more than a few thousand additions one after the other. Longer dimensions are added
in blocks, and the blocks' sums in blocks again (Higham 1993, "The accuracy of floating point summation").
"""

from __future__ import annotations

import numpy as np

from ._axes import cast
from ._layout import row_major
from ._precision import is_half
from ._reduce import reduce

add = np.add.reduce
_BLOCK = 4096  # the longest sum of one product
_FEW = 512  # elements, up to which one call of NumPy is as fast as anything
_ONES: dict = {}  # char of a dtype -> _BLOCK ones; four at most


def _ones(char: str, n: int) -> np.ndarray:
    found = _ONES.get(char)
    if found is None:
        found = _ONES[char] = np.ones(_BLOCK, char)
        found.flags.writeable = False
    return found[:n]


def total(array: np.ndarray):
    """The sum of all elements of a float32, float64 or complex array, in its dtype."""
    flags = array.flags
    if array.size <= _BLOCK or not flags.forc:
        return add(array, None)
    flat = array.reshape(-1, order="C" if flags.c_contiguous else "F")
    while flat.size > _BLOCK:
        flat = _halved(flat.reshape(1, -1))[0]
    return add(flat)


def _halved(rows: np.ndarray) -> np.ndarray:
    """Each block of a row as one number: (m, n) becomes (m, n / _BLOCK)."""
    m, n = rows.shape
    blocks = n // _BLOCK
    whole = blocks * _BLOCK
    parts = rows[:, :whole].reshape(m, blocks, _BLOCK) @ _ones(rows.dtype.char, _BLOCK)
    if whole == n:
        return parts
    rest = rows[:, whole:] @ _ones(rows.dtype.char, n - whole)
    return np.concatenate((parts, rest[:, None]), 1)


def along(array: np.ndarray, axis, keepdim: bool):
    """The sum of a float32, float64 or complex array over some dimensions, in its dtype."""
    if array.size <= _FEW or not array.flags.c_contiguous:
        return _added(array, axis, keepdim)
    shape, ndim = array.shape, array.ndim
    reduced = range(ndim) if axis is None else (axis,) if axis.__class__ is int else sorted(axis)
    found, end = array, ndim
    while end:  # groups of neighbouring dimensions, the last one first
        start = end
        while start and (start - 1 in reduced) == (end - 1 in reduced):
            start -= 1
        if end - 1 in reduced:
            outer, n, inner = _product(shape[:start]), _product(shape[start:end]), found.size
            inner = inner // (outer * n) if outer * n else 0
            found = _group(found.reshape(outer, n, inner))
        end = start
    return found.reshape([1 if d in reduced else n for d, n in enumerate(shape) if keepdim or d not in reduced])


def _product(sizes) -> int:
    found = 1
    for n in sizes:
        found *= n
    return found


def _group(array: np.ndarray) -> np.ndarray:
    """(outer, n, inner) summed over n: (outer, inner)."""
    outer, n, inner = array.shape
    char = array.dtype.char
    if inner == 1:
        rows = array.reshape(outer, n)
        while rows.shape[1] > _BLOCK:
            rows = _halved(rows)
        return rows @ _ones(char, rows.shape[1])
    if n > _BLOCK:
        blocks = n // _BLOCK
        whole = blocks * _BLOCK
        parts = _ones(char, _BLOCK) @ array[:, :whole].reshape(outer, blocks, _BLOCK, inner)
        if whole < n:
            parts = np.concatenate((parts, (_ones(char, n - whole) @ array[:, whole:])[:, None]), 1)
        return _group(parts)
    if outer > 64 and n * inner < 256:  # many small products: their number is what costs time
        return reduce(np.add, array, 1, False)
    return _ones(char, n) @ array


def _added(array, axis, keepdim):
    """By NumPy, which adds pairwise along the innermost dimension only: long other dimensions are cut to blocks."""
    if axis.__class__ is int and array.shape[axis] > _BLOCK and array.dtype.char in "fF":
        moved = np.moveaxis(array, axis, 0)
        array = np.stack([add(moved[i : i + _BLOCK], 0) for i in range(0, len(moved), _BLOCK)])
        found = add(array, 0)
        return np.expand_dims(found, axis) if keepdim else found
    found = add(array, axis, None, None, keepdim)
    return found if found.ndim < 2 or array.flags.c_contiguous else row_major(found)


def sum_type(array: np.ndarray) -> np.dtype:
    """The dtype of a sum or a product: int64 for integers."""
    return np.dtype(np.int64) if array.dtype.kind in "iub" else array.dtype


def sum_over(array: np.ndarray, axis, keepdim: bool, kind: np.dtype):
    """The sum in the dtype `kind`; halves are kept in float32 until the end."""
    if kind.kind == "b":
        return np.logical_or.reduce(array, axis, None, None, keepdim)
    half = is_half(kind)
    if array.dtype.kind in "iub" and kind.kind in "iu":
        return reduce(np.add, array if array.dtype == kind else array.astype(kind), axis, keepdim)
    if array.dtype != kind and (half or not is_half(array.dtype)):
        array = cast(array, kind)
    if is_half(array.dtype):
        array = array.astype(np.float32 if half else kind)
    if array.dtype.kind not in "fc":
        return reduce(np.add, array, axis, keepdim)
    found = total(array) if axis is None and not keepdim else along(array, axis, keepdim)
    return found.astype(kind) if half else found
