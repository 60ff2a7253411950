"""Helpers of the formulas that are derived from definitions of rows (`over:`).

A row is the elements that differ in the dimensions `dim` only: an int, a tuple of them, or None or () for all. A value
of a row has size 1 in these dimensions, or no dimension where a row is all elements.
"""

from __future__ import annotations

from math import prod

from numpy import broadcast_shapes

from ..dispatch import _operators as ops
from .reduction import _products_of_others, _restored, _shares, _wrapped


def row_last_dims(sizes):
    """Return as many last dimensions as there are sizes."""
    return tuple(range(-len(sizes), 0))


def row_values(x, dim, ndim):
    """Return a result with one value for each row of a tensor with `ndim` dimensions, with size 1 along rows; 0 for a
    gradient that is undefined."""
    if x is None:
        return 0
    return x if x.dim() == ndim else _restored(x, dim, False, ndim)


def row_broadcast(x, *tensors):
    """Return `x` in the shape that the tensors have together."""
    return x.expand(broadcast_shapes(*(t.shape for t in tensors)))


def row_count(dim, *shapes):
    """Return the number of elements in a row of tensors that are broadcast."""
    shape = broadcast_shapes(*shapes)
    return prod(shape[d] for d in _wrapped(dim, len(shape))) if shape else 1


def row_max(x, dim):
    """Return the largest element of each row."""
    return ops.amax(x, tuple(_wrapped(dim, x.dim())), True)


def row_min(x, dim):
    """Return the smallest element of each row."""
    return ops.amin(x, tuple(_wrapped(dim, x.dim())), True)


def row_prod(x, dim):
    """Return the product of the elements of each row."""
    for d in _wrapped(dim, x.dim()):
        x = ops.prod_dim_int(x, d, True)
    return x


def row_any(x, dim):
    """Return whether an element of each row is true."""
    return ops.any(x, tuple(_wrapped(dim, x.dim())), True) if x.dim() else x


def row_all(x, dim):
    """Return whether all elements of each row are true."""
    return ops.all(x, tuple(_wrapped(dim, x.dim())), True) if x.dim() else x


def row_shares(x, extreme, dim):
    """Return 1 / n for each of the n elements of a row that equal its extreme, 0 for the others."""
    return _shares(x, extreme, tuple(_wrapped(dim, x.dim())))


def row_others(x, dim):
    """Return the product of the other elements of its row for each element."""
    dims = _wrapped(dim, x.dim())
    if len(dims) < 2:
        return _products_of_others(x, dims[0]) if dims else ops.ones_like(x)
    last = tuple(range(x.dim() - len(dims), x.dim()))
    moved = ops.movedim(x, tuple(dims), last)
    flat = ops.flatten(moved, last[0])
    return ops.movedim(ops.reshape(_products_of_others(flat, -1), moved.shape), last, tuple(dims))
