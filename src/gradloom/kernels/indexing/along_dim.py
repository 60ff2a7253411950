"""Kernels whose index has the shape of the result or the source, along one dimension or over all elements."""

from __future__ import annotations

import numpy as np

from ...types.silence import warn_user
from .._common.errors import type_name
from .._common.numbers import number_as
from .._common.tables import flat_places
from ..shape.copies import clone
from .places import along, on_a_copy, private, private_places, update, writable

_REDUCTIONS = {"sum": np.add, "prod": np.multiply, "mean": np.add, "amax": np.maximum, "amin": np.minimum}
_OPERATIONS = {"add": np.add, "multiply": np.multiply}


def gather(self, dim, index, sparse_grad=False):
    """Return out[i][j] = self[index[i][j]][j] for dim 0, and so on. Raises RuntimeError if `index` has another number
    of dimensions, is larger than `self` outside `dim`, or is out of range."""
    array, places, _, axis = along("gather", self, dim, index)
    if not index.size:
        return np.empty(index.shape, self.dtype)
    if array.flags.c_contiguous:
        found = array.take(flat_places(places, axis, array.shape))
        return found if index.ndim else found.reshape(())
    part = tuple([slice(None) if i == axis else slice(n) for i, n in enumerate(places.shape)])
    return np.ascontiguousarray(np.take_along_axis(array[part], private(places), axis)).reshape(index.shape)


def scatter_(self, dim, index, src):
    """Set self[index[i][j]][j] = src[i][j] for dim 0, and so on."""
    array, places, values, axis = along("scatter", self, dim, index, src)
    writable(self, index, src)
    if index.size:
        _assign(array, places, axis, values)
    return self


scatter = on_a_copy(scatter_)


def scatter_value_(self, dim, index, value):
    """Set self[index[i][j]][j] to a number."""
    array, places, _, axis = along("scatter", self, dim, index)
    writable(self, index)
    if index.size:
        _assign(array, places, axis, number_as(value, self.dtype))
    return self


scatter_value = on_a_copy(scatter_value_)


def _assign(array, places, axis, values):
    if array.flags.c_contiguous:
        array.reshape(-1)[private_places(places, axis, array.shape)] = values
    else:
        grid = list(np.ogrid[tuple(map(slice, places.shape))])
        grid[axis] = private(places)
        array[tuple(grid)] = values


def scatter_operation_(self, dim, index, src, reduce):
    """Add src[i][j] to self[index[i][j]][j], or multiply by it; `src` may be a number."""
    ufunc = _OPERATIONS.get(reduce)
    if ufunc is None:
        raise RuntimeError("reduce argument must be either add or multiply.")
    if src.__class__ is np.ndarray:
        warn_user(
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a "
            "future PyTorch release. Use torch.scatter_reduce instead, which has more reductions."
        )
        array, places, values, axis = along("scatter", self, dim, index, src)
        writable(self, index, src)
    else:
        array, places, _, axis = along("scatter", self, dim, index)
        writable(self, index)
        values = np.broadcast_to(number_as(src, self.dtype), places.shape)
    if index.size:
        update(ufunc, array, private_places(places, axis, array.shape), values)
    return self


scatter_operation = on_a_copy(scatter_operation_)


def scatter_add_(self, dim, index, src):
    """Add src[i][j] to self[index[i][j]][j] for dim 0, and so on."""
    array, places, values, axis = along("scatter", self, dim, index, src)
    writable(self, index, src)
    if index.size:
        update(np.add, array, private_places(places, axis, array.shape), values)
    return self


scatter_add = on_a_copy(scatter_add_)


def scatter_reduce_(self, dim, index, src, reduce, include_self=True):
    """Reduce the elements of `src` into the elements of `self` at `index`.

    Args:
        reduce: sum, prod, mean, amax or amin.
        include_self: whether the reduction includes the elements of `self`.
    """
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    is_read_again = reduce == "mean" or not include_self
    array, places, values, axis = along("scatter", self, dim, private(index) if is_read_again else index, src)
    writable(self, index, src)
    if index.size:
        combine(array, private_places(places, axis, array.shape), values, reduce, include_self)
    return self


scatter_reduce = on_a_copy(scatter_reduce_)


def combine(array, places, values, reduce, include_self) -> None:
    """Reduce `values` into `array` at flat positions, in place."""
    if not include_self:
        start = np.zeros(array.size, bool)
        start[places.reshape(-1)] = True
        array[start.reshape(array.shape)] = _identity(reduce, array.dtype)
    update(_REDUCTIONS[reduce], array, places, values)
    if reduce == "mean":
        counts = np.bincount(places.reshape(-1), minlength=array.size).reshape(array.shape)
        counts = np.maximum(counts + 1 if include_self else counts, 1)
        if array.dtype.kind in "iu":
            array //= counts.astype(array.dtype)
        else:
            array /= counts.astype(array.dtype)


def _identity(reduce, dtype):
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if reduce == "amax" else limits.max
    if dtype.kind == "b":
        return reduce == "amin"
    return -np.inf if reduce == "amax" else np.inf


def take(self, index):
    """Return the elements at the indices; negative ones count from the end. The result has the shape of the index."""
    if index.dtype != np.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {type_name(index.dtype)}")
    if index.size and not self.size:
        raise IndexError("take(): tried to take from an empty tensor")
    _check_range(index, self.size)
    return self.take(index) if index.size else np.empty(index.shape, self.dtype)


def put(self, index, source, accumulate=False):
    """Return a copy of `self` with `source` written, or added, at the indices."""
    return put_(clone(self), index, source, accumulate)


def put_(self, index, source, accumulate=False):
    """`put` in place."""
    if index.dtype != np.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {type_name(index.dtype)}")
    if source.dtype is not self.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{type_name(self.dtype)} and source.dtype = {type_name(source.dtype)}"
        )
    if source.size != index.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.size}, index.numel() = {index.size}"
        )
    if index.size and not self.size:
        raise IndexError("put_(): Tried to put elements into an empty tensor")
    _check_range(index, self.size)
    if not index.size:
        return self
    writable(self, index, source)
    if accumulate:
        update(np.add, self, np.where(index < 0, index + self.size, index), source)
    elif self.flags.c_contiguous:
        self.reshape(-1)[private(index).reshape(-1)] = source.reshape(-1)
    else:
        places = np.unravel_index(np.where(index < 0, index + self.size, index).reshape(-1), self.shape)
        self[places] = source.reshape(-1)
    return self


def _check_range(index, n) -> None:
    if index.size:
        bad = index[(index < -n) | (index >= n)]
        if bad.size:
            raise IndexError(f"out of range: tried to access index {bad[0]} on a tensor of {n} elements.")
