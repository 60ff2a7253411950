"""Greatest and least elements and where they are; medians, modes and the k-th element.

As in PyTorch, NaN is greater than every number in sorting, and is the result of both `max` and `min`.
"""

from __future__ import annotations

from operator import lt

import numpy as np

from .._common.dims import axes, count, require_elements, to_last
from .._common.errors import refuse, type_name
from .._common.layout import row_major
from .._common.numbers import widen
from .._common.tables import LONGEST, flat_places, starts
from .sums import reduce

_NO_COMPLEX = "c"
_SELECTED = 1 << 18  # elements in slices with ties, up to which kthvalue chooses among equals as PyTorch does


def max(self):
    """Return the greatest element; NaN if there is one."""
    return _extreme(np.maximum, "max", "max_all", self, None, False)


def min(self):
    """Return the least element; NaN if there is one."""
    return _extreme(np.minimum, "min", "min_all", self, None, False)


def amax(self, dim=(), keepdim=False):
    """Return the greatest element over dimensions, all for ()."""
    return _extreme(np.maximum, "amax", "max_values_cpu", self, dim, keepdim)


def amin(self, dim=(), keepdim=False):
    """Return the least element over dimensions, all for ()."""
    return _extreme(np.minimum, "amin", "min_values_cpu", self, dim, keepdim)


def _extreme(ufunc, name, kernel, array, dim, keepdim):
    axis = axes(dim, array.ndim)
    size = array.size
    if size and array.dtype.char in "fd":
        if axis is None and not keepdim:
            if size <= LONGEST and array.flags.c_contiguous:  # as below; the place of a NaN comes before all others
                return array.reshape(-1)[array.argmax() if ufunc is np.maximum else array.argmin()]
            return ufunc.reduce(array, None)
        if axis.__class__ is int and size <= LONGEST and axis == array.ndim - 1 and array.flags.c_contiguous:
            # The place of the extremum takes less per row than a reduction, whatever the row holds.
            shape = array.shape
            n = shape[axis]
            places = array.argmax(axis) if ufunc is np.maximum else array.argmin(axis)
            if axis == 1 and not keepdim:
                return array.take(places + starts[shape[0], n])
            places = places.reshape(-1) + starts[size // n, n]
            return array.take(places).reshape((*shape[:-1], 1)[: array.ndim - 1 + keepdim])
    refuse(kernel, array, _NO_COMPLEX)
    require_elements(name, array, axis, None if axis is None else dim if dim.__class__ is tuple else (dim,))
    return reduce(ufunc, array, axis, keepdim)


def aminmax(self, dim=None, keepdim=False):
    """Return the least and the greatest element, of all or along a dimension."""
    axis = axes(dim, self.ndim)
    if not self.size:
        if dim is None:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            )
        if not self.shape[axis]:
            raise IndexError(f"aminmax: Expected reduction dim {axis} to have non-zero size.")
    if self.dtype.kind == "c":
        raise TypeError(f"aminmax not implemented for {type_name(self.dtype)}")
    return (np.asarray(reduce(np.minimum, self, axis, keepdim)), np.asarray(reduce(np.maximum, self, axis, keepdim)))


def argmax(self, dim=None, keepdim=False):
    """Return the position of the greatest element, the first of several; in the flattened array if `dim` is None."""
    return _position("argmax", self, dim, keepdim)


def argmin(self, dim=None, keepdim=False):
    """Return the position of the least element, the first of several; in the flattened array if `dim` is None."""
    return _position("argmin", self, dim, keepdim)


def _position(name, array, dim, keepdim):
    if array.dtype.kind in "cb":
        if array.dtype.kind == "b":
            raise NotImplementedError(f"{name}(): does not support bool input")
        raise TypeError(f"{name}(): does not support complex input")
    axis = axes(dim, array.ndim)
    if not array.size and dim is None:
        raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
    require_elements(name, array, axis)
    return np.asarray(getattr(_ordered(array), name)(axis, keepdims=keepdim), np.int64)


def _ordered(array):
    """Convert bfloat16 to float32, since NumPy can neither compare it nor recognise its NaN."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def max_dim(self, dim, keepdim=False):
    """Return the greatest element along a dimension, and the index of the first of them."""
    return _with_position("argmax", "max", self, dim, keepdim)


def min_dim(self, dim, keepdim=False):
    """Return the least element along a dimension, and the index of the first of them."""
    return _with_position("argmin", "min", self, dim, keepdim)


def _with_position(find, name, array, dim, keepdim):
    axis = axes(dim, array.ndim)
    require_elements(name, array, axis)
    if array.dtype.kind == "c":
        raise TypeError(f"{name}(): does not support complex input")
    if axis is None:
        return array.copy(), np.zeros((), np.int64)
    found = getattr(_ordered(array), find)(axis)
    if axis and axis == array.ndim - 1 and array.flags.c_contiguous and found.dtype.char == "l":  # rows of a matrix
        values = array.reshape(-1).take(found.reshape(-1) + starts[found.size, array.shape[axis]])
        shape = (*found.shape, 1) if keepdim else found.shape
        return values.reshape(shape), found.reshape(shape)
    return taken(array, np.expand_dims(np.asarray(found, np.int64), axis), axis, keepdim)


def taken(array, indices, axis, keepdim):
    """Return (values, indices) for `indices` along a dimension, which is dropped unless `keepdim`."""
    if array.ndim == 1:
        values = array[indices]
    elif array.flags.c_contiguous and array.size:
        values = array.take(flat_places(indices, axis % array.ndim, array.shape))
    else:
        values = np.take_along_axis(array, indices, axis)
    return (values, indices) if keepdim else (np.squeeze(values, axis), np.squeeze(indices, axis))


def kthvalue(self, k, dim=-1, keepdim=False):
    """Return the k-th smallest element along a dimension (k counts from 1), and its index. See `_SELECTED` for ties."""
    axis = axes(dim, self.ndim)
    require_elements("kthvalue", self, axis)
    if not 1 <= k <= count(self, axis):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis or 0}")
    if axis is None:
        return self.copy(), np.zeros((), np.int64)
    refuse("kthvalue_cpu", self, "cb")
    found = np.take(np.argpartition(widen(self), k - 1, axis), [k - 1], axis)
    rows, places = to_last(widen(self), axis), np.moveaxis(found, axis, -1)  # views
    value = np.take_along_axis(rows, places, -1)
    tied = np.add.reduce((rows == value) | (rows != rows) & (value != value), -1) > 1
    if tied.any() and np.count_nonzero(tied) * rows.shape[-1] <= _SELECTED:
        places[tied, 0] = [_selected(row, k - 1) for row in rows[tied].tolist()]
    return taken(self, found, axis, keepdim)


def _selected(row, rank):
    """Return the index of the element of a rank that quickselect with the median of three as pivot ends with, which
    decides among equal elements as in PyTorch. NaN is the greatest."""
    order = list(range(len(row)))

    def above(i, j):
        x, y = row[order[i]], row[order[j]]
        return x > y or (x != x and y == y)

    def swap(i, j):
        order[i], order[j] = order[j], order[i]

    low, high = 0, len(row) - 1
    while high > low + 1:
        swap((low + high) // 2, low + 1)
        for i, j in ((low + 1, high), (low, high), (low + 1, low)):
            if above(i, j):
                swap(i, j)
        up, down = low + 1, high
        while True:
            up, down = up + 1, down - 1
            while above(low, up):
                up += 1
            while above(down, low):
                down -= 1
            if down < up:
                break
            swap(up, down)
        swap(low, down)
        if down <= rank:
            low = up
        if down >= rank:
            high = down - 1
    if high == low + 1 and above(low, high):
        swap(low, high)
    return order[rank]


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
    if not array.size:  # NaN, converted as PyTorch's processors do
        kind, itemsize = array.dtype.kind, array.dtype.itemsize
        least = np.iinfo(array.dtype).min if kind == "i" and itemsize > 2 else 0 if kind in "iu" else np.nan
        return np.asarray(least).astype(array.dtype)
    refuse("median_cpu", array, "cb")
    flat = widen(array.reshape(-1))
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
    refuse("median_out", array, "cb")
    return axis, widen(array)


def _of_ranks(array, ordered, rank, axis, keepdim):
    """Return the elements of given ranks, which may differ between slices."""
    order = np.argsort(ordered, axis=axis, kind="stable")
    shape = (*array.shape[:axis], 1, *array.shape[axis + 1 :])
    return taken(array, np.take_along_axis(order, np.broadcast_to(rank, shape), axis), axis, keepdim)


INSERTED = 16  # the longest row that C++'s std::sort sorts by insertion


def by_insertion(row, less=lt) -> list[int]:
    """Return the order in which an insertion sort leaves the elements of a row. NaN is not less than a number, nor a
    number less than NaN, so a number passes no NaN unless it becomes the first."""
    order: list[int] = []
    for i, element in enumerate(row):
        at = 0 if order and less(element, row[order[0]]) else len(order)
        while at and less(element, row[order[at - 1]]):
            at -= 1
        order.insert(at, i)
    return order


def mode(self, dim=-1, keepdim=False):
    """Return the most frequent element along a dimension (the least of several), and its last index. Rows with NaN are
    in the order of `by_insertion` if they are short, as in PyTorch."""
    axis = axes(dim, self.ndim)
    require_elements("mode", self, axis)
    if axis is None:
        return self.copy(), np.zeros((), np.int64)
    refuse("mode_cpu", self, _NO_COMPLEX)
    rows = to_last(widen(self), axis)
    order = np.argsort(rows, axis=-1, kind="stable")
    if rows.dtype.kind == "f" and rows.shape[-1] <= INSERTED:
        for place in np.argwhere(np.isnan(rows).any(-1)):
            order[tuple(place)] = by_insertion(rows[tuple(place)])
    ordered = np.take_along_axis(rows, order, -1)
    n = ordered.shape[-1]
    # The number of equal elements before each one; at a run's last element, its length minus one.
    starts = np.ones(ordered.shape, bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    first = np.maximum.accumulate(np.where(starts, np.arange(n), 0), axis=-1)
    lengths = np.arange(n) - first
    best = np.argmax(lengths, axis=-1, keepdims=True)
    indices = row_major(np.moveaxis(np.take_along_axis(order, best, -1), -1, axis))
    return taken(self, indices, axis, keepdim)


def value_selecting_reduction_backward(grad, dim, indices, sizes, keepdim):
    """Return zeros of shape `sizes`, with `grad` at the positions `indices` along `dim` that the reduction selected.

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
    np.put_along_axis(out, indices.copy(), grad, axis)  # Note [Private indices]
    return out
