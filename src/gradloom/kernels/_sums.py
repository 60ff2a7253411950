"""Sums: fast where memory is contiguous, and accurate where NumPy adds one number after the other.

NumPy adds pairwise along the innermost dimension only. Along others it adds row after row, and in float32 the error of
that grows with the number of rows. Here rows are added in blocks and the blocks' sums in blocks again, so that no
number takes part in more than a few thousand roundings (Higham 1993, "The accuracy of floating point summation").
"""

from __future__ import annotations

import numpy as np

from ._axes import axes, cast
from ._precision import is_half
from ._threads import chunks, get_num_threads, share

add = np.add.reduce
_FOLD = 1 << 15      # from here on a flat sum is folded to rows
_WIDTH = 4096        # of a row: what stays in the first-level cache
_ROWS = 512          # added one after the other
_SHARED = 1 << 21    # from here on threads share the work


def total(array: np.ndarray):
    """The sum of all elements of a float32, float64 or complex array, in its dtype."""
    n = array.size
    if n < _FOLD or not array.flags.forc:
        return add(array, None)
    flat = array.reshape(-1, order="A" if array.flags.c_contiguous else "F")
    if n >= _SHARED and get_num_threads() > 1:
        return add(np.stack(share(lambda part: _folded(flat[part]), chunks(n))))
    return _folded(flat)


def _folded(flat):
    """Rows of _WIDTH are added up, which is vectorised; then the sums of the columns, pairwise."""
    step = _WIDTH * _ROWS
    parts = [_fold(flat[i:i + step]) for i in range(0, len(flat), step)]
    return parts[0] if len(parts) == 1 else add(np.stack(parts))


def _fold(flat):
    whole = len(flat) // _WIDTH * _WIDTH
    found = add(add(flat[:whole].reshape(-1, _WIDTH), 0))
    return found if whole == len(flat) else found + add(flat[whole:])


def along(array: np.ndarray, axis, keepdim: bool):
    """The sum over some dimensions, in the dtype of the array."""
    if axis.__class__ is int and array.shape[axis] > _ROWS and array.dtype.char in "fF" and axis < array.ndim - 1:
        return _in_blocks(array, axis, keepdim)
    return add(array, axis, None, None, keepdim)


def _in_blocks(array, axis, keepdim):
    while array.shape[axis] > _ROWS:
        moved = np.moveaxis(array, axis, 0)
        array = np.stack([add(moved[i:i + _ROWS], 0) for i in range(0, len(moved), _ROWS)])
        if axis:
            array = np.moveaxis(array, 0, axis)
    return add(array, axis, None, None, keepdim)


def sum_type(array: np.ndarray) -> np.dtype:
    """The dtype of a sum or a product: int64 for integers."""
    return np.dtype(np.int64) if array.dtype.kind in "iub" else array.dtype


def sum_over(array: np.ndarray, axis, keepdim: bool, kind: np.dtype):
    """The sum in the dtype `kind`; halves are kept in float32 until the end."""
    if kind.kind == "b":
        return np.logical_or.reduce(array, axis, None, None, keepdim)
    half = is_half(kind)
    if array.dtype.kind in "iub" and kind.kind in "iu":
        return add(array, axis, kind, None, keepdim)
    if array.dtype != kind and (half or not is_half(array.dtype)):
        array = cast(array, kind)
    if is_half(array.dtype):
        array = array.astype(np.float32 if half else kind)
    found = total(array) if axis is None and not keepdim else along(array, axis, keepdim)
    return found.astype(kind) if half else found


def sum_of(array: np.ndarray, dim, keepdim: bool):
    """The sum over PyTorch's `dim`, in float32 for halves."""
    axis = axes(dim, array.ndim)
    return sum_over(array, axis, keepdim, np.dtype(np.float32) if is_half(array.dtype) else array.dtype)
