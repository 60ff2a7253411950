"""Kernels with an index of the result's (or the source's) shape along one dimension: gather and the scatters.

Those whose name ends in `_` write to their first argument.
"""

from __future__ import annotations

import numpy as np

from ._accumulate import flat_places, update
from ._index_checks import along, writable
from ._numbers import number_as

_REDUCTIONS = {"sum": np.add, "prod": np.multiply, "mean": np.add, "amax": np.maximum, "amin": np.minimum}
_OPERATIONS = {"add": np.add, "multiply": np.multiply}


def gather(self, dim, index, sparse_grad=False):
    """out[i][j] = self[index[i][j]][j] for dim 0, and so on.

    Raises:
        RuntimeError: if `index` has another number of dimensions, is larger outside `dim`, or points outside.
    """
    array, places, _, axis = along("gather", self, dim, index)
    if not index.size:
        return np.empty(index.shape, self.dtype)
    if array.flags.c_contiguous:
        return array.reshape(-1).take(flat_places(places, axis, array.shape)).reshape(index.shape)
    part = tuple([slice(None) if i == axis else slice(n) for i, n in enumerate(places.shape)])
    return np.ascontiguousarray(np.take_along_axis(array[part], places, axis)).reshape(index.shape)


def scatter(self, dim, index, src):
    """A copy of `self` with out[index[i][j]][j] = src[i][j] for dim 0, and so on."""
    return scatter_(self.copy(), dim, index, src)


def scatter_(self, dim, index, src):
    """`scatter` in place."""
    array, places, values, axis = along("scatter", self, dim, index, src)
    writable(self, index, src)
    if index.size:
        _assign(array, places, axis, values)
    return self


def scatter_value(self, dim, index, value):
    """A copy of `self` with a number at out[index[i][j]][j]."""
    return scatter_value_(self.copy(), dim, index, value)


def scatter_value_(self, dim, index, value):
    """`scatter_value` in place."""
    array, places, _, axis = along("scatter", self, dim, index)
    writable(self, index)
    if index.size:
        _assign(array, places, axis, number_as(value, self.dtype))
    return self


def _assign(array, places, axis, values):
    if array.flags.c_contiguous:
        array.reshape(-1)[flat_places(places, axis, array.shape)] = values
    else:
        grid = list(np.ogrid[tuple(map(slice, places.shape))])
        grid[axis] = places
        array[tuple(grid)] = values


def scatter_operation(self, dim, index, src, reduce):
    """A copy of `self` to which src[i][j] is added (or by which it is multiplied) at out[index[i][j]][j]."""
    return scatter_operation_(self.copy(), dim, index, src, reduce)


def scatter_operation_(self, dim, index, src, reduce):
    """`scatter_operation` in place; `src` may be a number."""
    ufunc = _OPERATIONS.get(reduce)
    if ufunc is None:
        raise RuntimeError("reduce argument must be either add or multiply.")
    if src.__class__ is np.ndarray:
        import warnings

        warnings.warn(
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a "
            "future PyTorch release. Use torch.scatter_reduce instead, which has more reductions.",
            UserWarning,
            stacklevel=5,
        )
        array, places, values, axis = along("scatter", self, dim, index, src)
        writable(self, index, src)
    else:
        array, places, _, axis = along("scatter", self, dim, index)
        writable(self, index)
        values = np.broadcast_to(number_as(src, self.dtype), places.shape)
    if index.size:
        update(ufunc, array, flat_places(places, axis, array.shape), values)
    return self


def scatter_add(self, dim, index, src):
    """A copy of `self` to which out[index[i][j]][j] += src[i][j] for dim 0, and so on, is applied."""
    return scatter_add_(self.copy(), dim, index, src)


def scatter_add_(self, dim, index, src):
    """`scatter_add` in place."""
    array, places, values, axis = along("scatter", self, dim, index, src)
    writable(self, index, src)
    if index.size:
        update(np.add, array, flat_places(places, axis, array.shape), values)
    return self


def scatter_reduce(self, dim, index, src, reduce, include_self=True):
    """A copy of `self` whose elements are combined with all of `src` that `index` sends to them."""
    return scatter_reduce_(self.copy(), dim, index, src, reduce, include_self)


def scatter_reduce_(self, dim, index, src, reduce, include_self=True):
    """`scatter_reduce` in place.

    Args:
        reduce: sum, prod, mean, amax or amin.
        include_self: whether the elements of `self` take part where something is sent to them.
    """
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    array, places, values, axis = along("scatter", self, dim, index, src)
    writable(self, index, src)
    if index.size:
        combine(array, flat_places(places, axis, array.shape), values, reduce, include_self)
    return self


def combine(array, places, values, reduce, include_self) -> None:
    """Reduce `values` into `array` at flat places, in place."""
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
