"""Values of rows, for kernels that are made from definitions with `over:`.

A row is the elements that differ in the dimensions `dim` only: an int, a sequence of ints, or None or () for all. The
elements are those of the arrays `like`, broadcast; None among them stands for no array. Values have size 1 along rows.
"""

from __future__ import annotations

import numpy as np

from ._common.dims import axes
from ._common.numbers import is_half
from .reduction.sums import sum_type


def last_dims(sizes):
    """Return as many last dimensions as there are sizes."""
    return tuple(range(-len(sizes), 0))


def _rows(x, dim, like):
    """Return an array of all elements, and the dimensions of rows."""
    shapes = [a.shape for a in like if a is not None]
    shape = shapes[0] if len(shapes) == 1 else np.broadcast_shapes(*shapes)
    x = np.asarray(x)
    return x if x.shape == shape else np.broadcast_to(x, shape), axes(dim, len(shape))


def _with_elements(x, axis):
    if x.size == 0 and 0 in (x.shape if axis is None else [x.shape[d] for d in np.atleast_1d(axis)]):
        raise RuntimeError(f"a row without elements has no extreme; the elements have the shape {list(x.shape)}")
    return x


def _combined(ufunc, x, dim, like):
    """Return sums or products of rows, of halves by way of float32, of integers and bools in int64."""
    x, axis = _rows(x, dim, like)
    wide = np.dtype(np.float32) if is_half(x.dtype) else sum_type(x)
    found = ufunc.reduce(x.astype(wide, copy=False), axis, keepdims=True)
    return found.astype(x.dtype) if is_half(x.dtype) else found


def row_sum(x, dim, like):
    """Return the sum of each row; of integers and bools in int64."""
    return _combined(np.add, x, dim, like)


def row_prod(x, dim, like):
    """Return the product of each row; of integers and bools in int64."""
    return _combined(np.multiply, x, dim, like)


def row_max(x, dim, like):
    """Return the largest element of each row, NaN if there is one. Raises RuntimeError for rows without elements."""
    x, axis = _rows(x, dim, like)
    return np.maximum.reduce(_with_elements(x, axis), axis, keepdims=True)


def row_min(x, dim, like):
    """Return the smallest element of each row, NaN if there is one. Raises RuntimeError for rows without elements."""
    x, axis = _rows(x, dim, like)
    return np.minimum.reduce(_with_elements(x, axis), axis, keepdims=True)


def row_any(x, dim, like):
    """Return whether an element of each row is true."""
    x, axis = _rows(x, dim, like)
    return np.logical_or.reduce(x, axis, keepdims=True)


def row_all(x, dim, like):
    """Return whether all elements of each row are true."""
    x, axis = _rows(x, dim, like)
    return np.logical_and.reduce(x, axis, keepdims=True)


def row_count(dim, like):
    """Return the number of elements of a row."""
    x, axis = _rows(0, dim, like)
    return x.size if axis is None else int(np.prod([x.shape[d] for d in np.atleast_1d(axis)], dtype=np.int64))


def row_elements(x, like):
    """Return a value for each element."""
    whole, _ = _rows(x, None, like)
    return whole if whole is x else whole.copy()


def row_result(x, dim, keepdim):
    """Return values of rows without the dimensions of rows, unless `keepdim`."""
    x = np.asarray(x)
    if keepdim:
        return x
    axis = axes(dim, x.ndim)
    rows = range(x.ndim) if axis is None else np.atleast_1d(axis)
    return x.reshape([n for d, n in enumerate(x.shape) if d not in rows])
