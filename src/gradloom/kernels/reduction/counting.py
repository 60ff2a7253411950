"""Truth and counting: all, any, counts of nonzero elements, bincount and histograms."""

from __future__ import annotations

from math import prod

import numpy as np

from ...types.dtype import c_name
from .._common.dims import axes
from .._common.errors import check_sizes, not_implemented, refuse
from .._common.layout import row_major
from ..creation import linspace
from .sums import add, reduce


def all(self):
    """Return whether all elements are true: bool, or uint8 for uint8."""
    return _logic(np.logical_and, self, None, False)


def all_dim(self, dim, keepdim=False):
    """Return whether all elements along a dimension are true."""
    return _logic(np.logical_and, self, axes(dim, self.ndim), keepdim)


def all_dims(self, dim=None, keepdim=False):
    """Return whether all elements over dimensions are true; () stands for no dimension, None for all."""
    return _logic(np.logical_and, self, () if dim == () else axes(dim, self.ndim), keepdim)


def any(self):
    """Return whether some element is true: bool, or uint8 for uint8."""
    return _logic(np.logical_or, self, None, False)


def any_dim(self, dim, keepdim=False):
    """Return whether some element along a dimension is true."""
    return _logic(np.logical_or, self, axes(dim, self.ndim), keepdim)


def any_dims(self, dim=None, keepdim=False):
    """Return whether some element over dimensions is true; () stands for no dimension, None for all."""
    return _logic(np.logical_or, self, () if dim == () else axes(dim, self.ndim), keepdim)


def _logic(ufunc, array, axis, keepdim):
    kind = array.dtype
    if kind.kind != "b":
        array = array != 0
    found = reduce(ufunc, array, axis, keepdim)
    return found.astype(np.uint8) if kind == np.uint8 else found


def count_nonzero(self, dim=None):
    """Count the nonzero elements over one or more dimensions, all for None or ()."""
    axis = axes(dim, self.ndim)
    if axis is None:
        return np.asarray(np.count_nonzero(self))
    return row_major(add(self if self.dtype.kind == "b" else self != 0, axis, np.int64))


def hash_tensor(self, dim=(), keepdim=False, mode=0):
    """Return the exclusive or of the elements' bits, as float64 or int64, over dimensions; () stands for all. `mode` 0
    is the only one. The result is uint64."""
    refuse("xor_sum_cpu", self, "c")
    if self.dtype.kind == "u" and self.itemsize > 1:
        raise not_implemented("xor_sum_cpu", self)
    if mode:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    axis = axes(dim, self.ndim)
    if not self.size:
        if axis is None:
            raise RuntimeError(
                "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                "with the 'dim' argument."
            )
        for a in axis if isinstance(axis, tuple) else (axis,):
            if not self.shape[a]:
                raise IndexError(f"hash_tensor: Expected reduction dim {a} to have non-zero size.")
    bits = self.astype(np.int64 if self.dtype.kind in "biu" else np.float64).view(np.uint64)
    return row_major(np.asarray(np.bitwise_xor.reduce(bits, axis=axis, keepdims=keepdim)))


def bincount(self, weights=None, minlength=0):
    """Count the occurrences of each of 0, 1, 2 ..., or add up their weights. The result is int64; with weights float32
    for float32 weights, else float64. It has at least `minlength` elements."""
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    refuse("bincount_cpu", self, "fcVb")
    self = self.astype(np.int64)  # a copy: Note [Private indices]
    if self.ndim == 1 and not self.size:
        return np.zeros(minlength, np.int64)
    if self.ndim != 1 or self.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    check_sizes((int(self.max()) + 1,), 8)
    if weights is None:
        return np.bincount(self, minlength=minlength).astype(np.int64, copy=False)
    if weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    kind = np.float32 if weights.dtype == np.float32 else np.float64
    return np.bincount(self, weights.astype(np.float64), minlength).astype(kind)


def histc(self, bins=100, min=0, max=0):
    """Count the elements in each of `bins` equal bins between `min` and `max`; elements outside are not counted. Equal
    limits stand for the least and the greatest element. Returns (bins,) in the dtype of `self`.

    The bin of x is (x - min) * bins / (max - min), rounded in the dtype of x: it decides about elements on an edge.
    """
    refuse("histogram_cpu", self, "iubc")
    _check_bins(bins)
    low, high = _limits(self, min, max, "torch.histc")
    low, high = self.dtype.type(low), self.dtype.type(high)
    x = self[(self >= low) & (self <= high)]
    places = ((x - low) * x.dtype.type(bins) / (high - low)).astype(np.int64)
    return np.bincount(np.minimum(places, bins - 1), minlength=bins).astype(self.dtype)


def _check_bins(bins, position=0):
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension {position}")


def _limits(array, low, high, name):
    low, high = float(low), float(high)
    if low == high and array.size:
        low, high = float(np.minimum.reduce(array, None)), float(np.maximum.reduce(array, None))
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"{name}: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError(f"{name}: max must be larger than min")
    return (low - 1, high + 1) if low == high else (low, high)


def histogram(self, bins=100, range=None, weight=None, density=False):
    """Return the weights of the elements in each of `bins` equal bins, and the edges of the bins. Returns (bins,) and
    (bins + 1,) in the dtype of `self`.

    Args:
        range: two numbers; by default the least and the greatest element.
        weight: the shape of `self`.
        density: divide by the sum of the weights and by the width of the bin.
    """
    return _histogram(self, (_edges(self.reshape(-1), bins, range, 0),), weight, density)


def histogram_of_bins(self, bins, weight=None, density=False):
    """Compute `histogram` with bins of the given edges."""
    return _histogram(self, (bins,), weight, density)


def _histogram(array, edges, weight, density):
    if weight is not None and weight.shape != array.shape:
        raise RuntimeError(_WEIGHT_SHAPE.format([*array.shape, 1], list(weight.shape)))
    flat = None if weight is None else weight.reshape(-1)
    return histogramdd(array.reshape(-1, 1), edges, flat, density), np.array(edges[0])


_WEIGHT_SHAPE = (
    "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
    "excluding its innermost dimension, but got input with shape {} and weight with shape {}"
)


def histogramdd_edges(self, bins, range=None):
    """Return the edges of equal bins for each of the last dimension's columns: a list of arrays."""
    if self.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    columns = self.shape[-1]
    if len(bins) != columns:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    if range is not None and len(range) != 2 * columns:
        raise RuntimeError(
            f"torch.histogramdd: for a {columns}-dimensional histogram range should have "
            f"{2 * columns} elements, but got {len(range)}"
        )
    rows = self.reshape(-1, columns)
    return [_edges(rows[:, i], n, None if range is None else range[2 * i : 2 * i + 2], i) for i, n in enumerate(bins)]


def _edges(column, bins, limits, position):
    refuse("histogramdd", column, "iubcV")
    _check_bins(bins, position)
    if limits is not None:
        low, high = limits
    else:
        low, high = (np.minimum.reduce(column), np.maximum.reduce(column)) if column.size else (0, 1)
    low, high = float(low), float(high)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension {position}'s range [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {position}"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, bins + 1, column.dtype)


def histogramdd(self, bins, weight=None, density=False):
    """Return the weights of the rows in each cell of a grid. Returns an array with one dimension per column, in the
    dtype of `self`.

    Args:
        self: (..., columns)
        bins: the bin edges of each column, in the dtype of `self`.
        weight: the shape of `self` without its last dimension.
    """
    refuse("histogramdd", self, "iubcV")
    if self.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    for i, edges in enumerate(bins):
        if edges.ndim != 1:
            raise RuntimeError(
                "torch.histogramdd: bins tensor should have one dimension, but got "
                f"{edges.ndim} dimensions in the bins tensor for dimension {i}"
            )
        if edges.dtype != self.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got "
                f"input with dtype {c_name(self.dtype)} and bins for dimension {i} with dtype "
                f"{c_name(edges.dtype)}"
            )
    if weight is not None and weight.shape != self.shape[:-1]:
        raise RuntimeError(_WEIGHT_SHAPE.format(list(self.shape), list(weight.shape)))
    if len(bins) != self.shape[-1]:
        raise RuntimeError(
            f"torch.histogramdd: expected {self.shape[-1]} sequences of bin edges for a "
            f"{self.shape[-1]}-dimensional histogram but got {len(bins)}"
        )
    rows = self.reshape(-1, self.shape[-1])
    shape = tuple([max(len(e) - 1, 0) for e in bins])
    if prod(shape) >= 1 << 63:
        raise RuntimeError("numel: integer multiplication overflow")
    check_sizes(shape, 8)
    inside = np.ones(len(rows), bool)
    places = []
    for column, edges in zip(rows.T, bins, strict=True):
        inside &= (column >= edges[0]) & (column <= edges[-1])  # the last bin includes both of its edges
        places.append(np.minimum(np.searchsorted(edges, column, "right") - 1, len(edges) - 2))
    flat = np.ravel_multi_index([p[inside] for p in places], shape)
    weight = None if weight is None else weight.reshape(-1)[inside].astype(np.float64)
    found = np.bincount(flat, weight, prod(shape)).reshape(shape)
    if density:
        found = found / np.add.reduce(found, None)
        for i, edges in enumerate(bins):
            found = found / np.diff(edges).reshape([-1 if i == j else 1 for j in range(len(bins))])
    return found.astype(self.dtype)
