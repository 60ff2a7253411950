"""Indexing kernels."""

from __future__ import annotations

import numpy as np

from ._dims import wrap_dim
from ._numbers import number_as
from ._select import select


def gather(self, dim, index, sparse_grad=False):
    """out[i][j] = self[index[i][j]][j] for dim 0, and so on.

    Raises:
        RuntimeError: if `index` has another number of dimensions, is larger outside `dim`, or points outside.
    """
    if not self.ndim or not index.ndim:
        _check_index("gather", index, max(self.shape, default=1), 0)
        return np.broadcast_to(self.reshape(-1)[:1] if self.ndim == 0 else self[index.reshape(-1)],
                               (index.size,)).reshape(index.shape).copy()
    axis = wrap_dim(dim, self.ndim)
    if index.ndim != self.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    _check_sizes("gather", index, self, axis)
    _check_index("gather", index, self.shape[axis], axis)
    return np.take_along_axis(_part(self, index, axis), index, axis)


def _part(array, index, axis):
    """The part of an array that an index reaches in the other dimensions."""
    if array.shape == index.shape:
        return array
    return array[tuple([slice(None) if i == axis else slice(n) for i, n in enumerate(index.shape)])]


def _check_sizes(name, index, array, axis):
    if any(n > m for i, (n, m) in enumerate(zip(index.shape, array.shape, strict=True)) if i != axis):
        raise RuntimeError(f"Size does not match at dimension {axis} expected index {list(index.shape)} to be no larger "
                           f"than self {list(array.shape)} apart from dimension {axis}")


def _check_index(name, index, n, axis):
    if index.dtype.kind not in "iu":
        raise RuntimeError(f"{name}(): Expected dtype int64 for index")
    if index.size:
        low, high = index.min(), index.max()
        if low < 0 or high >= n:
            raise RuntimeError(f"index {low if low < 0 else high} is out of bounds for dimension {axis} with size {n}")


def scatter_add(self, dim, index, src):
    """A copy of `self` to which out[index[i][j]][j] += src[i][j] for dim 0, and so on, is applied."""
    out = self.copy()
    flat, places, values = (x.reshape(1) if not x.ndim else x for x in (out, index, src))
    axis = wrap_dim(dim, flat.ndim)
    if index.size:
        _check_index("scatter", places, flat.shape[axis], axis)
        values = _part_of(values, places)
        grid = list(np.ogrid[tuple(map(slice, places.shape))])
        grid[axis] = places
        np.add.at(flat, tuple(grid), values)
    return out


def _part_of(values, index):
    return values if values.shape == index.shape else values[tuple(map(slice, index.shape))]


def masked_fill(self, mask, value):
    """`self` with a number (or 0-dim array) where a bool mask holds; the shapes broadcast.

    Raises:
        RuntimeError: for another mask, a value with dimensions, or a number that does not fit the dtype.
    """
    if mask.dtype.kind != "b":
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype "
                           f"{_C_TYPES.get(mask.dtype.name, mask.dtype.name)}")
    if value.__class__ is not np.ndarray:
        value = number_as(value, self.dtype)
    elif value.ndim:
        raise RuntimeError(f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} "
                           "dimension(s).")
    elif value.dtype.kind == "c" and self.dtype.kind != "c":
        raise RuntimeError("value cannot be converted to a real type without overflow")
    return select(mask, value.astype(self.dtype, copy=False), self)


_C_TYPES = {"int64": "long int", "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char",
            "float32": "float", "float64": "double"}
