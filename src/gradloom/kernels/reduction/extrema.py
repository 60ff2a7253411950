"""Greatest and least elements and where they are; medians, modes and the k-th element.

NaN is greater than every number where things are ordered, and wins in `max` as well as in `min`, as in PyTorch.
"""

from __future__ import annotations

import numpy as np

from .._common.dims import axes, count, require_elements, to_last
from .._common.errors import refuse
from .._common.layout import row_major
from .._common.numbers import widen
from .sums import reduce

_NO_COMPLEX = "c"


def max(self):
    """Return the greatest element; NaN if there is one."""
    return _extreme(np.maximum, "max", "max_all", self, None, False)


def min(self):
    """Return the least element; NaN if there is one."""
    return _extreme(np.minimum, "min", "min_all", self, None, False)


def amax(self, dim=(), keepdim=False):
    """Return the greatest element over dimensions, all for ()."""
    return _extreme(np.maximum, "amax", "max_values_cpu", self, axes(dim, self.ndim), keepdim)


def amin(self, dim=(), keepdim=False):
    """Return the least element over dimensions, all for ()."""
    return _extreme(np.minimum, "amin", "min_values_cpu", self, axes(dim, self.ndim), keepdim)


def _extreme(ufunc, name, kernel, array, axis, keepdim):
    refuse(kernel, array, _NO_COMPLEX)
    require_elements(name, array, axis)
    return reduce(ufunc, array, axis, keepdim)


def aminmax(self, dim=None, keepdim=False):
    """Return the least and the greatest element, of all or along a dimension."""
    refuse("aminmax_cpu", self, _NO_COMPLEX)
    axis = axes(dim, self.ndim)
    if not self.size:
        if dim is None:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            )
        if not self.shape[axis]:
            raise IndexError(f"aminmax: Expected reduction dim {axis} to have non-zero size.")
    return (np.asarray(reduce(np.minimum, self, axis, keepdim)), np.asarray(reduce(np.maximum, self, axis, keepdim)))


def argmax(self, dim=None, keepdim=False):
    """Return the position of the greatest element, the first of several; in the flattened array if `dim` is None."""
    return _position(np.argmax, "argmax", self, dim, keepdim)


def argmin(self, dim=None, keepdim=False):
    """Return the position of the least element, the first of several; in the flattened array if `dim` is None."""
    return _position(np.argmin, "argmin", self, dim, keepdim)


def _position(find, name, array, dim, keepdim):
    if array.dtype.kind in "cb":
        what = "bool" if array.dtype.kind == "b" else "complex"
        raise RuntimeError(f"{name}(): does not support {what} input")
    axis = axes(dim, array.ndim)
    if not array.size and dim is None:
        raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
    require_elements(name, array, axis)
    return np.asarray(find(_ordered(array), axis=axis, keepdims=keepdim), np.int64)


def _ordered(array):
    """Convert bfloat16, which NumPy cannot compare and in which it does not know NaN, to float32."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def max_dim(self, dim, keepdim=False):
    """Return the greatest element along a dimension, and the index of the first of them."""
    refuse("max_cpu", self, _NO_COMPLEX)
    return _with_position(np.argmax, "max", self, dim, keepdim)


def min_dim(self, dim, keepdim=False):
    """Return the least element along a dimension, and the index of the first of them."""
    refuse("min_cpu", self, _NO_COMPLEX)
    return _with_position(np.argmin, "min", self, dim, keepdim)


def _with_position(find, name, array, dim, keepdim):
    axis = axes(dim, array.ndim)
    if axis is None:
        return array.copy(), np.zeros((), np.int64)
    require_elements(name, array, axis)
    found = np.asarray(find(_ordered(array), axis=axis, keepdims=True), np.int64)
    return taken(array, found, axis, keepdim)


def taken(array, indices, axis, keepdim):
    """Return (values, indices) where `indices` points into a dimension, which is dropped unless `keepdim`."""
    values = array[indices] if array.ndim == 1 else np.take_along_axis(array, indices, axis)
    return (values, indices) if keepdim else (np.squeeze(values, axis), np.squeeze(indices, axis))


def kthvalue(self, k, dim=-1, keepdim=False):
    """Return the k-th smallest element along a dimension (k counts from 1), and its index."""
    axis = axes(dim, self.ndim)
    require_elements("kthvalue", self, axis)
    if not 1 <= k <= count(self, axis):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis or 0}")
    refuse("kthvalue_cpu", self, "cb")
    return _of_rank(self, k - 1, axis, keepdim)


def _of_rank(array, rank, axis, keepdim):
    if axis is None:
        return array.copy(), np.zeros((), np.int64)
    order = np.argpartition(widen(array), rank, axis)
    return taken(array, np.take(order, [rank], axis), axis, keepdim)


def median(self):
    """Return the lower of the two middle elements, NaN if there is one or if there is no element."""
    return _median(self, ignore_nan=False)


def nanmedian(self):
    """Return the lower of the two middle elements of those that are not NaN."""
    return _median(self, ignore_nan=True)


def _median(array, ignore_nan):
    refuse("median_cpu", array, "cb")
    flat = widen(array.reshape(-1))
    if not flat.size:
        least = np.nan if array.dtype.kind in "fV" else np.iinfo(array.dtype).min
        return np.asarray(least).astype(array.dtype)
    if flat.dtype.kind == "f":
        nan = np.isnan(flat)
        if nan.any():
            flat = flat[~nan] if ignore_nan and not nan.all() else flat[nan]
    rank = (flat.size - 1) // 2
    return np.asarray(np.partition(flat, rank)[rank]).astype(array.dtype)


def median_dim(self, dim, keepdim=False):
    """Return the lower of the two middle elements along a dimension and its index; the first NaN if there is one."""
    axis, ordered = _for_median(self, dim)
    if axis is None:
        return self.copy(), np.zeros((), np.int64)
    rank = (self.shape[axis] - 1) // 2
    if ordered.dtype.kind == "f":
        nan = np.isnan(ordered)
        if nan.any():
            counts = np.add.reduce(nan, axis, np.int64, None, True)
            return _of_ranks(self, ordered, np.where(counts > 0, self.shape[axis] - counts, rank), axis, keepdim)
    return _of_rank(self, rank, axis, keepdim)


def nanmedian_dim(self, dim, keepdim=False):
    """Return the lower of the two middle elements that are not NaN along a dimension, and its index."""
    axis, ordered = _for_median(self, dim)
    if axis is None:
        return self.copy(), np.zeros((), np.int64)
    if ordered.dtype.kind == "f":
        nan = np.isnan(ordered)
        if nan.any():
            counts = self.shape[axis] - np.add.reduce(nan, axis, np.int64, None, True)
            return _of_ranks(self, ordered, np.maximum(counts - 1, 0) // 2, axis, keepdim)
    return _of_rank(self, (self.shape[axis] - 1) // 2, axis, keepdim)


def _for_median(array, dim):
    axis = axes(dim, array.ndim)
    require_elements("median", array, axis)
    refuse("median_cpu", array, "cb")
    return axis, widen(array)


def _of_ranks(array, ordered, rank, axis, keepdim):
    """Return the elements of a rank that may differ from slice to slice."""
    order = np.argsort(ordered, axis=axis, kind="stable")
    shape = (*array.shape[:axis], 1, *array.shape[axis + 1 :])
    return taken(array, np.take_along_axis(order, np.broadcast_to(rank, shape), axis), axis, keepdim)


def mode(self, dim=-1, keepdim=False):
    """Return the most frequent element along a dimension, the least of several, and the index of its last one."""
    axis = axes(dim, self.ndim)
    require_elements("mode", self, axis)
    refuse("mode_cpu", self, _NO_COMPLEX)
    if axis is None:
        return self.copy(), np.zeros((), np.int64)
    rows = to_last(widen(self), axis)
    order = np.argsort(rows, axis=-1, kind="stable")
    ordered = np.take_along_axis(rows, order, -1)
    n = ordered.shape[-1]
    # How many equal elements precede each one; a run's last element knows the length of its run.
    starts = np.ones(ordered.shape, bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    first = np.maximum.accumulate(np.where(starts, np.arange(n), 0), axis=-1)
    lengths = np.arange(n) - first
    best = np.argmax(lengths, axis=-1, keepdims=True)
    indices = row_major(np.moveaxis(np.take_along_axis(order, best, -1), -1, axis))
    return taken(self, indices, axis, keepdim)


def value_selecting_reduction_backward(grad, dim, indices, sizes, keepdim):
    """Return zeros of the shape `sizes`, with `grad` at the positions `indices` along `dim` that the reduction
    selected.

    Args:
        grad, indices: the shape of a reduction over `dim`; without that dimension unless `keepdim`.
    """
    out = np.zeros(sizes, grad.dtype)
    if not sizes:
        out[...] = grad
        return out
    axis = axes(dim, len(sizes))
    if not keepdim:
        grad, indices = np.expand_dims(grad, axis), np.expand_dims(indices, axis)
    np.put_along_axis(out, indices, grad, axis)
    return out
