"""Kernels indexed by a vector along one dimension."""

from __future__ import annotations

import numpy as np

from ...types.silence import warn_user
from .._common.dims import wrap_dim
from .._common.errors import type_name
from .._common.numbers import is_half, number_as
from .._common.tables import flat_places
from ..shape.copies import clone
from .along_dim import combine
from .places import add_rows, check_range, is_in_range, on_a_copy, private, still_writable, workspace, writable


def index_select(self, dim, index):
    """Return the parts of `self` at the indices of a vector, along `dim`."""
    axis = wrap_dim(dim, self.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype.char not in "li" and index.dtype not in (np.int64, np.int32):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not self.ndim and index.size != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)")
    n = self.shape[axis] if self.ndim else 1
    if not is_in_range(index, n):
        raise _unselectable(self, axis, index, n)
    return self.take(index.reshape(-1), axis=axis) if self.ndim else self.copy()


def _unselectable(self, axis, index, n):
    """Return PyTorch's error for an index that index_select refuses: its class depends on the dimension."""
    if self.ndim < 2 or (axis != 1 and self.size):
        return IndexError("index out of range in self")
    if not n:
        return RuntimeError("index_select(): self indexing axis dim should be positive")
    wrong = index[(index < 0) | (index >= n)]
    return RuntimeError(f"INDICES element is out of DATA bounds, id={wrong.reshape(-1)[:1].sum()} axis_dim={n}")


def _check_inside(index, n):
    """Raise IndexError unless 0 <= index < n everywhere."""
    if not is_in_range(index, n):
        raise IndexError("index out of range in self")


def index_add_(self, dim, index, source, alpha=1):
    """Add `alpha` times the parts of `source` to the parts of `self` at the indices."""
    axis = wrap_dim(dim, self.ndim)
    _check_vector("index_add_()", self, axis, index, source)
    places = private(index).reshape(-1)
    rows, values = _rows(self, axis), _rows(source, axis)
    if self.ndim < 2:
        _check_inside(places, rows.shape[0])
    check_range(places, rows.shape[0], axis)
    if rows.shape[1:] != values.shape[1:]:
        raise _shape_mismatch(self, source)
    writable(self, index, source)
    if not values.size:
        return self
    scales = alpha is True or alpha != 1
    if scales:
        values = values * number_as(alpha, values.dtype)
    if is_half(self.dtype) and (scales or rows.ndim < 2):  # PyTorch rounds each sum in this case
        np.add.at(rows, places, values)
        return self
    work = workspace(rows)
    values = values.astype(work.dtype, copy=False)
    add_rows(work.reshape(rows.shape[0], -1), places, values.reshape(places.size, -1))
    if work is not rows:
        rows[...] = work
    return self


index_add = on_a_copy(index_add_)


def _rows(array, axis):
    """Return a view with `axis` first; a 0-dim array becomes a vector."""
    return array.reshape(1) if not array.ndim else np.moveaxis(array, axis, 0) if axis else array


def _shape_mismatch(self, source):
    return RuntimeError(
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
        f"self.shape = {list(self.shape)} source.shape = {list(source.shape)}"
    )


def _check_vector(name, self, axis, index, source):
    if index.ndim > 1:
        raise IndexError(
            f"{name}: Index is supposed to be a vector, but got dim: {index.ndim} with type: "
            f"{type_name(index.dtype)} and size: {list(index.shape)}"
        )
    if index.dtype not in (np.int64, np.int32):
        raise RuntimeError(f"{name}: Expected dtype int32/int64 for index but got: {type_name(index.dtype)}")
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"{name}: self ({type_name(self.dtype)}) and source ({type_name(source.dtype)}) must have the same scalar "
            "type"
        )
    if axis and source.ndim <= axis:
        raise RuntimeError(f"{name}: Indexing dim {axis} is out of bounds of the source tensor with dim {source.ndim}")
    count = source.shape[axis] if source.ndim > axis else 1
    if index.size != count:
        raise RuntimeError(
            f"{name}: Number of indices ({index.size}) should be equal to source.size(dim): ({count}), for dim: {axis}"
        )
    if bool(self.ndim) != bool(source.ndim):
        raise _shape_mismatch(self, source)


def index_copy_(self, dim, index, source):
    """Set the parts of `self` at the indices to those of `source`."""
    axis = wrap_dim(dim, self.ndim)
    rows = _rows(writable(self, index, source), axis)
    if index.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    if source.ndim and self.ndim and source.ndim != self.ndim:
        raise IndexError(
            f"index_copy_(): When source and destination are not scalars, their dimensionality must "
            f"match. Source dimensionality ({source.ndim}), destination dimensionality ({self.ndim})"
        )
    if not source.ndim and index.size != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {index.size})")
    if index.dtype != np.int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {type_name(index.dtype)}")
    if source.dtype is not self.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{type_name(self.dtype)} and (source) {type_name(source.dtype)}"
        )
    values = _rows(source, axis if source.ndim else 0)
    slices = values.shape[1:] if source.ndim else ()
    if self.ndim and rows.shape[1:] != slices:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice "
            f"shape: {' '.join(map(str, rows.shape[1:]))} at dimension {axis} and source slice shape: "
            f"{' '.join(map(str, slices))} at dimension 0."
        )
    if source.ndim and index.size != values.shape[0]:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.size}) should be equal to source.size(dim) ({values.shape[0]})"
        )
    if index.size:
        index = private(index)
        n = rows.shape[0]
        bad = index[(index < 0) | (index >= n)]
        if bad.size:
            raise IndexError(f"index_copy_(): index {bad[0]} is out of bounds for dimension {axis} with size {n}")
        rows[index.reshape(-1)] = values
    return self


index_copy = on_a_copy(index_copy_)


def index_fill(self, dim, index, value):
    """Return a copy of `self` whose parts at the indices are filled with one value."""
    return index_fill_(clone(self), dim, index, value)


def index_fill_(self, dim, index, value):
    """`index_fill` in place; negative indices count from the end. `value` is a number, or a 0-dim array."""
    axis = wrap_dim(dim, self.ndim)
    if index.dtype != np.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if value.__class__ is np.ndarray:
        if value.ndim:
            raise RuntimeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        if value.dtype.kind == "c" and self.dtype.kind != "c":
            raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
        value = value.astype(self.dtype)
    else:
        if value.__class__ is complex and self.dtype.kind != "c":
            raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
        value = number_as(value, self.dtype)
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    rows = _rows(still_writable(self, "index_fill_", index), axis)
    n, index = rows.shape[0], private(index)
    bad = index[(index < -n) | (index >= n)]
    if bad.size and (self.size or not n):
        raise IndexError(f"index {bad.reshape(-1)[0]} is out of bounds for dimension {axis} with size {n}")
    if self.size:
        rows[index.reshape(-1)] = value
    return self


def index_reduce_(self, dim, index, source, reduce, include_self=True):
    """Reduce the parts of `source` into the parts of `self` at the indices. With `include_self`, the reduction includes
    the parts of `self`."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    warn_user("index_reduce() is in beta and the API may change at any time.")
    axis = wrap_dim(dim, self.ndim)
    _check_vector("index_reduce_()", self, axis, index, source)
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"index_reduce_(): self ({type_name(self.dtype)}) and source ({type_name(source.dtype)}) must have "
            "the same scalar type"
        )
    if self.shape[:axis] + self.shape[axis + 1 :] != source.shape[:axis] + source.shape[axis + 1 :]:
        raise _shape_mismatch(self, source)
    array, values = (x if x.ndim else x.reshape(1) for x in (writable(self, index, source), source))
    index = private(index)
    _check_inside(index, array.shape[axis])
    if values.size:
        places = index.reshape([-1 if d == axis else 1 for d in range(values.ndim)])
        places = flat_places(np.array(np.broadcast_to(places, values.shape), np.int64), axis, array.shape)
        combine(array, places, values, reduce, include_self)
    return self


index_reduce = on_a_copy(index_reduce_)
