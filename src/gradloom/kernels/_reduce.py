"""Reductions by an associative ufunc where NumPy's own is slow: few elements in a row.

`ufunc.reduce` runs one inner loop per row of the innermost dimension, whose start costs as much as a hundred elements.
"""

from __future__ import annotations

import numpy as np

from ._layout import row_major

_SEQUENTIAL = (np.add, np.multiply)  # one element after the other, also where all are in a row
_NARROW = 8  # columns, up to which rows are reduced column by column
_MANY = 256  # rows, from which on that is worth it
_WIDTH = 4096  # elements of the rows that a narrow matrix is folded to


def reduce(ufunc, array: np.ndarray, axis, keepdim: bool):
    """`ufunc.reduce(array, axis, keepdims=keepdim)`.

    Args:
        axis: int, tuple or None.
    """
    if axis is None and not keepdim:
        if ufunc in _SEQUENTIAL and array.size > _WIDTH and array.flags.c_contiguous:
            array = _folded(ufunc, array.reshape(-1, 1))
        return ufunc.reduce(array, None, _kept(ufunc, array))
    if axis.__class__ is int and array.size > _MANY:
        n = array.shape[axis]
        if axis == array.ndim - 1:
            if 0 < n <= _NARROW and array.size >= _MANY * n:
                found = _columns(ufunc, array)
                return found[..., None] if keepdim else found
        elif axis == 0 and array.flags.c_contiguous and n > _MANY and array.size <= n * _WIDTH // _MANY:
            found = _folded(ufunc, array.reshape(n, -1)).reshape(array.shape[1:])
            return found[None] if keepdim else found
    found = ufunc.reduce(array, axis, _kept(ufunc, array), None, keepdim)
    return found if found.ndim < 2 or array.flags.c_contiguous else row_major(found)


def _kept(ufunc, array):
    """The dtype to reduce in: the array's own, where NumPy would widen small integers."""
    return array.dtype if ufunc in _SEQUENTIAL else None


def _columns(ufunc, array):
    """The last dimension, by whole columns."""
    found = array[..., 0].copy()
    for i in range(1, array.shape[-1]):
        ufunc(found, array[..., i], out=found)
    return found


def _folded(ufunc, matrix):
    """The rows of a contiguous matrix as one, by way of rows that are as wide as several of them."""
    n, m = matrix.shape
    together = max(1, _WIDTH // m)
    whole = n // together * together
    kind = _kept(ufunc, matrix)
    if not whole:
        return ufunc.reduce(matrix, 0, kind)
    wide = ufunc.reduce(matrix[:whole].reshape(-1, together * m), 0, kind)
    found = ufunc.reduce(wide.reshape(together, m), 0, kind)
    return found if whole == n else ufunc(found, ufunc.reduce(matrix[whole:], 0, kind))
