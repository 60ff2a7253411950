"""Kernels with a vector of indices along one dimension."""

from __future__ import annotations

import numpy as np

from ._accumulate import add_rows, workspace
from ._dims import wrap_dim
from ._index_checks import check_range, type_name, writable
from ._numbers import number_as


def index_select(self, dim, index):
    """The parts of `self` at the indices of a vector, along `dim`.

    Raises:
        IndexError: for an index with more than one dimension, or that points outside.
        RuntimeError: for an index of another dtype than int32 and int64.
    """
    axis = wrap_dim(dim, self.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype not in (np.int64, np.int32):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not self.ndim and index.size != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)")
    n = self.shape[axis] if self.ndim else 1
    if index.size and (index.min() < 0 or index.max() >= n):
        raise IndexError("index out of range in self")
    return self.take(index.reshape(-1), axis=axis) if self.ndim else self.copy()


def index_add(self, dim, index, source, alpha=1):
    """A copy of `self` to whose parts at the indices `alpha` times the parts of `source` are added."""
    return index_add_(self.copy("K"), dim, index, source, alpha)


def index_add_(self, dim, index, source, alpha=1):
    """`index_add` in place.

    Raises:
        IndexError, RuntimeError: for indices that are no vector, point outside, or do not match `source`.
    """
    axis = wrap_dim(dim, self.ndim)
    _check_vector("index_add_()", self, axis, index, source)
    if source.dtype is not self.dtype:
        raise RuntimeError(f"index_add_(): self ({type_name(self)}) and source ({type_name(source)}) must have the same "
                           "scalar type")
    places = index.reshape(-1)
    rows, values = _rows(writable(self), axis), _rows(source, axis)
    check_range(places, rows.shape[0], axis)
    if rows.shape[1:] != values.shape[1:]:
        raise RuntimeError("source tensor shape must match self tensor shape, excluding the specified dimension. Got "
                           f"self.shape = {list(self.shape)} source.shape = {list(source.shape)}")
    if not values.size:
        return self
    work = workspace(rows)
    values = values.astype(work.dtype, copy=False)
    if alpha is True or alpha != 1:
        values = values * number_as(alpha, work.dtype)
    add_rows(work.reshape(rows.shape[0], -1), places, values.reshape(places.size, -1))
    if work is not rows:
        rows[...] = work
    return self


def _rows(array, axis):
    """A view with `axis` in front; of a 0-dim array, a vector."""
    return array.reshape(1) if not array.ndim else np.moveaxis(array, axis, 0) if axis else array


def _check_vector(name, self, axis, index, source):
    if index.ndim > 1:
        raise IndexError(f"{name}: Index is supposed to be a vector, but got dim: {index.ndim} with type: "
                         f"{type_name(index)} and size: {list(index.shape)}")
    if index.dtype not in (np.int64, np.int32):
        raise RuntimeError(f"{name}: Expected dtype int32/int64 for index but got: {type_name(index)}")
    count = source.shape[axis] if source.ndim > axis else 1
    if index.size != count:
        raise RuntimeError(f"{name}: Number of indices ({index.size}) should be equal to source.size(dim): ({count}), for "
                           f"dim: {axis}")
