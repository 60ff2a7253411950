"""Sorting kernels. Sorting is stable, and NaN is greater than every number."""

from __future__ import annotations

from math import prod

import numpy as np

from ._common.blas import dot
from ._common.dims import axes
from ._common.errors import refuse
from ._common.layout import inverse, memory_order, row_major
from ._common.numbers import widen
from .reduction.extrema import INSERTED, by_insertion, taken

_EVERY = (slice(None),) * 64  # NumPy has no more dimensions
_BLOCK = 512
PARTITION_FROM = 256  # elements along a dimension, from which on a partial sort pays


def sort(self, dim=-1, descending=False):
    """Sort along a dimension; return the elements and their indices."""
    axis = axes(dim, self.ndim)
    _refuse_complex(self, "Sort")
    if axis is None:
        return self.copy(), np.zeros((), np.int64)
    if self.flags.c_contiguous:
        return taken(self, order(self, axis, descending), axis, True)
    dims = memory_order(self)  # both results have the input's memory order
    laid, back = self.transpose(dims), inverse(dims)
    return tuple([a.transpose(back) for a in taken(laid, order(laid, back[axis], descending), back[axis], True)])


def sort_stable(self, stable=None, dim=-1, descending=False):
    """`sort`, which is stable."""
    return sort(self, dim, descending)


def order(array, axis, descending) -> np.ndarray:
    """Return the indices that sort an array along `axis`; equal elements keep their order."""
    keys = widen(array)
    if not descending:
        return keys.argsort(axis, "stable")
    if keys.dtype.char in "fd" and keys.flags.c_contiguous and not holds_nan(keys):
        return (-keys).argsort(axis, "stable")
    # The ascending order of the reversed array, read backwards, keeps equal elements in order.
    backwards = (*_EVERY[: axis % keys.ndim], slice(None, None, -1))
    reversed_order = np.argsort(keys[backwards], axis=axis, kind="stable")
    return array.shape[axis] - 1 - reversed_order[backwards]


def holds_nan(array) -> bool:
    """Return whether a contiguous floating array holds a NaN."""
    flat = array.reshape(-1)
    squares = dot(flat, flat)  # infinite at worst without one
    return squares != squares


def topk(self, k, dim=-1, largest=True, sorted=True):
    """Return the k greatest (or least) elements along a dimension, sorted, and their indices; for a 0-dim array,
    itself. Raises RuntimeError if there are fewer than `k`."""
    axis = axes(dim, self.ndim)
    _refuse_complex(self, "topk")
    if not 0 <= k <= (1 if axis is None else self.shape[axis]):
        raise RuntimeError("selected index k out of range")
    if self.dtype.kind == "b":
        raise NotImplementedError("topk does not support bool dtypes on CPU")
    if axis is None:
        return self.copy(), np.zeros((), np.int64)  # also for k = 0, as in PyTorch
    n = self.shape[axis]
    keys = widen(self)
    if k * _BLOCK * 4 <= n:
        found = _from_best_blocks(np.moveaxis(keys, axis, -1), k, largest)
        found = np.moveaxis(found, -1, axis)
    elif n < PARTITION_FROM or k > n // 4 or not k:
        found = order(self, axis, largest)
        found = found[(*_EVERY[:axis], slice(k))] if axis else found[:k]
    else:
        found = _from_partition(keys, k, axis, largest)
    return taken(self, row_major(found), axis, True)


def _from_partition(keys, k, axis, largest):
    """Return the indices of the first k in order, without sorting the rest."""
    n = keys.shape[axis]
    part = np.argpartition(keys, n - k if largest else k - 1, axis)
    candidates = np.sort(np.take(part, np.arange(n - k, n) if largest else np.arange(k), axis), axis)
    inner = order(np.take_along_axis(keys, candidates, axis), axis, largest)
    return np.take_along_axis(candidates, inner, axis)


def _from_best_blocks(rows, k, largest):
    """Return the indices of the first k in order along the last dimension, which is long. They all lie in the k blocks
    whose own first elements rank highest, so only those blocks are sorted."""
    n = rows.shape[-1]
    blocks = n // _BLOCK
    whole = rows[..., : blocks * _BLOCK].reshape(*rows.shape[:-1], blocks, _BLOCK)
    # NaN is the greatest element: np.maximum propagates it, np.fmin ignores it.
    best = (np.maximum if largest else np.fmin).reduce(whole, -1)
    chosen = np.sort(order(best, -1, largest)[..., :k], -1)
    candidates = (chosen[..., None] * _BLOCK + np.arange(_BLOCK)).reshape(*rows.shape[:-1], k * _BLOCK)
    rest = np.broadcast_to(np.arange(blocks * _BLOCK, n), (*rows.shape[:-1], n - blocks * _BLOCK))
    candidates = np.concatenate((candidates, rest), -1)
    inner = order(np.take_along_axis(rows, candidates, -1), -1, largest)
    return np.take_along_axis(candidates, inner[..., :k], -1)


def _refuse_complex(array, name):
    if array.dtype.kind == "c":
        raise TypeError(f" {name} does not support complex dtypes on CPU")


# Each returns (values, inverse, counts); results that were not requested are empty.
_NOTHING = (0,)


def unique2(self, sorted=True, return_inverse=False, return_counts=False):
    """Return the distinct elements in order (NaN differs from NaN); inverse has the shape of `self`."""
    refuse("unique", self, "c")
    flat = self.reshape(-1)
    by_value = np.argsort(widen(flat), kind="stable")
    return _runs(flat, by_value, self.shape, return_inverse, return_counts, 0)


def unique(self, sorted=True, return_inverse=False):
    """`unique2`, without counts."""
    return unique2(self, sorted, return_inverse)[:2]


def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """Return the elements (or slices along `dim`) that differ from the one before them."""
    if dim is not None:
        return unique_dim_consecutive(self, dim, return_inverse, return_counts)
    return _runs(self.reshape(-1), None, self.shape, return_inverse, return_counts, 0)


def unique_dim(self, dim, sorted=True, return_inverse=False, return_counts=False):
    """Return the distinct slices along a dimension in lexicographic order; a few slices with NaN in the order of
    `by_insertion`, as in PyTorch."""
    axis, rows = _slices(self, dim)
    keys = widen(rows).reshape(len(rows), prod(rows.shape[1:]))
    by_value = np.lexsort(keys.T[::-1]) if keys.shape[1] else np.arange(len(rows))
    if keys.dtype.kind == "f" and len(rows) <= INSERTED and np.isnan(keys).any():
        by_value = np.array(by_insertion(keys.tolist(), _precedes), np.int64)
    return _runs(rows, by_value, (len(rows),), return_inverse, return_counts, axis)


def _precedes(first, second) -> bool:
    """Return whether the first numbers that differ are in ascending order; NaN does not differ from a number."""
    for a, b in zip(first, second, strict=True):
        if a < b or a > b:
            return a < b
    return False


def unique_dim_consecutive(self, dim, return_inverse=False, return_counts=False):
    """Return the slices along a dimension that differ from the one before them."""
    axis, rows = _slices(self, dim)
    return _runs(rows, None, (len(rows),), return_inverse, return_counts, axis)


def _slices(array, dim):
    """Return (axis, the slices along it, moved to the front)."""
    if not array.ndim:
        axes(dim, 0)
        return 0, array.reshape(1)
    axis = axes(dim, array.ndim)
    if not array.size and not (array.shape[axis] == 0 and array.shape.count(0) == 1):
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return axis, np.moveaxis(array, axis, 0)


def _runs(rows, by_value, inverse_shape, return_inverse, return_counts, axis):
    """Merge equal neighbours among `rows` in the order `by_value` (their own if None)."""
    n = len(rows)
    ordered = rows if by_value is None else rows[by_value]
    starts = np.ones(n, bool)
    if n:
        different = ordered[1:] != ordered[:-1]
        starts[1:] = different.any(axis=tuple(range(1, different.ndim))) if different.ndim > 1 else different
    values = np.moveaxis(np.ascontiguousarray(ordered[starts]), 0, axis)
    inverse, counts = np.empty(_NOTHING, np.int64), np.empty(_NOTHING, np.int64)
    if return_inverse:
        run = np.cumsum(starts, dtype=np.int64) - 1
        inverse = run
        if by_value is not None:
            inverse = np.empty(n, np.int64)
            inverse[by_value] = run
        inverse = inverse.reshape(inverse_shape)
    if return_counts:
        counts = np.diff(np.flatnonzero(starts), append=n).astype(np.int64)
    return values, inverse, counts
