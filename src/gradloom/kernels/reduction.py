"""Reductions: sums, products, extrema, logic. Statistics, norms and running results are in modules of their own."""

from __future__ import annotations

from builtins import sum as python_sum

import numpy as np

from ..types.dtype import TYPE_OF, scalar_type_name
from ._axes import axes, cast, count
from ._cumulative import cummax, cummin, cumprod, cumsum, logcumsumexp  # noqa: F401
from ._distances import cdist, dist, euclidean  # noqa: F401
from ._extrema import (  # noqa: F401
    amax,
    amin,
    aminmax,
    argmax,
    argmin,
    kthvalue,
    max,
    max_dim,
    median,
    median_dim,
    min,
    min_dim,
    mode,
    nanmedian,
    nanmedian_dim,
)
from ._histograms import bincount, histc, histogram, histogram_of_bins  # noqa: F401
from ._layout import row_major
from ._norms import norm, norm_dim, renorm, vector_norm  # noqa: F401
from ._precision import is_half
from ._reduce import reduce
from ._refuse import refuse
from ._statistics import std, std_mean, var, var_mean  # noqa: F401
from ._sums import add, along, sum_over, sum_type, total

_TINY = 8  # elements, up to which Python adds faster than NumPy


def sum(self, dtype=None):
    """The sum of all elements; integers add up in int64."""
    if dtype is None:
        kind = self.dtype
        if kind.char in "fdFD":
            if self.size <= _TINY and self.ndim == 1:  # twice as fast as one call of a ufunc's reduce
                return np.array(python_sum(self.tolist()), kind)
            return total(self)
        dtype = sum_type(self)
    return sum_over(self, None, False, dtype)


def sum_dim(self, dim=None, keepdim=False, dtype=None):
    """The sum over dimensions, all for None or ()."""
    axis = axes(dim, self.ndim)
    if dtype is None and self.dtype.char in "fdFD":
        return along(self, axis, keepdim)
    return sum_over(self, axis, keepdim, sum_type(self) if dtype is None else dtype)


def mean(self, dtype=None):
    """The mean of all elements.

    Raises:
        RuntimeError: for integers, unless `dtype` is a floating type.
    """
    if dtype is None and self.dtype.char in "fdFD":
        return sum(self) / (self.size or np.nan)
    return mean_dim(self, None, False, dtype)


def mean_dim(self, dim=None, keepdim=False, dtype=None):
    """The mean over dimensions, all for None or ()."""
    kind = self.dtype if dtype is None else dtype
    if kind.kind not in "fcV":
        what = "Input" if dtype is None else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {what} dtype must be either a floating point or "
            f"complex dtype. Got: {scalar_type_name(TYPE_OF[kind])}"
        )
    axis = axes(dim, self.ndim)
    half = is_half(kind)
    found = sum_over(cast(self, kind), axis, keepdim, np.dtype(np.float32) if half else kind)
    found = found / (count(self, axis) or np.nan)
    return found.astype(kind) if half else found


def nansum(self, dim=None, keepdim=False, dtype=None):
    """The sum over dimensions with NaN counted as zero."""
    if self.dtype.kind == "c":
        raise RuntimeError("nansum on CPU does not support complex inputs")
    if self.dtype.kind in "fV":
        self = np.where(np.isnan(self), self.dtype.type(0), self)
    return sum_dim(self, dim, keepdim, dtype)


def prod(self, dtype=None):
    """The product of all elements; integers multiply in int64."""
    return _prod(self, None, False, dtype)


def prod_dim(self, dim, keepdim=False, dtype=None):
    """The product over one dimension."""
    return _prod(self, axes(dim, self.ndim), keepdim, dtype)


def _prod(self, axis, keepdim, dtype):
    kind = sum_type(self) if dtype is None else dtype
    if kind.kind == "b":
        return np.logical_and.reduce(self, axis, None, None, keepdim)
    if self.dtype.kind not in "iub" or kind.kind not in "iu":
        self = cast(self, kind)
    if is_half(kind):
        return reduce(np.multiply, self.astype(np.float32), axis, keepdim).astype(kind)
    return reduce(np.multiply, self if self.dtype == kind else self.astype(kind), axis, keepdim)


# --- logic ----------------------------------------------------------------------------------------------------------


def all(self):
    """Whether all elements are true. As a bool, or as uint8 for uint8."""
    return _logic(np.logical_and, self, None, False)


def all_dim(self, dim, keepdim=False):
    """Whether all elements along a dimension are true."""
    return _logic(np.logical_and, self, axes(dim, self.ndim), keepdim)


def all_dims(self, dim=None, keepdim=False):
    """Whether all elements over dimensions are true; () is no dimension, None all of them."""
    return _logic(np.logical_and, self, () if dim == () else axes(dim, self.ndim), keepdim)


def any(self):
    """Whether some element is true. As a bool, or as uint8 for uint8."""
    return _logic(np.logical_or, self, None, False)


def any_dim(self, dim, keepdim=False):
    """Whether some element along a dimension is true."""
    return _logic(np.logical_or, self, axes(dim, self.ndim), keepdim)


def any_dims(self, dim=None, keepdim=False):
    """Whether some element over dimensions is true; () is no dimension, None all of them."""
    return _logic(np.logical_or, self, () if dim == () else axes(dim, self.ndim), keepdim)


def _logic(ufunc, array, axis, keepdim):
    kind = array.dtype
    if kind.kind != "b":
        array = array != 0
    found = reduce(ufunc, array, axis, keepdim)
    return found.astype(np.uint8) if kind == np.uint8 else found


def count_nonzero(self, dim=None):
    """The number of elements that are not zero, over one or more dimensions, all for None or ()."""
    axis = axes(dim, self.ndim)
    if axis is None:
        return np.asarray(np.count_nonzero(self))
    return row_major(add(self if self.dtype.kind == "b" else self != 0, axis, np.int64))


# --- others ----------------------------------------------------------------------------------------------------------


def logsumexp(self, dim, keepdim=False):
    """log(sum(exp(x))) over dimensions, shifted by the greatest element (of the real parts) so as not to overflow."""
    kind = self.dtype
    x = self.astype(np.float32) if is_half(kind) else self
    axis = axes(dim, x.ndim)
    real = x.real if kind.kind == "c" else x
    if not count(x, axis):
        top = np.zeros((), real.dtype)
    else:
        top = np.maximum.reduce(real, axis, None, None, True)
        top = np.where(np.isinf(top), real.dtype.type(0), top)
    if is_half(kind):  # each step is rounded, and sums are of float32
        top = top.astype(kind)
        terms = np.exp(self - top).astype(np.float32)
        found = np.log(along(terms, axis, True).astype(kind)) + top
    else:
        found = np.log(along(np.exp(x - top), axis, True)) + top
    if not keepdim:
        found = found.reshape(()) if axis is None else np.squeeze(found, axis)
    return found.astype(kind, copy=False)


def trace(self):
    """The sum of the diagonal of a matrix; integers add up in int64.

    Raises:
        RuntimeError: if the array is no matrix.
    """
    if self.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.ndim}")
    refuse("trace", self, "b")
    return sum(np.diagonal(self))


def value_selecting_reduction_backward(grad, dim, indices, sizes, keepdim):
    """Zeros of the shape `sizes`, with `grad` where `indices` along `dim` say that it came from.

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
