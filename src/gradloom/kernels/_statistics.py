"""Variance and standard deviation: in two passes, the mean and then the squares of what is left."""

from __future__ import annotations

import warnings

import numpy as np

from ._axes import axes, count, dropped
from ._precision import widen
from ._sums import along


def var(self, dim=None, correction=None, keepdim=False):
    """The variance over dimensions, divided by the number of elements less `correction` (1 if None); real."""
    return _moments("var", self, dim, correction, keepdim, "std and var")[0]


def std(self, dim=None, correction=None, keepdim=False):
    """The square root of the variance."""
    return _moments("std", self, dim, correction, keepdim, "std and var")[0]


def var_mean(self, dim=None, correction=None, keepdim=False):
    """The variance and the mean."""
    return _moments("var_mean", self, dim, correction, keepdim, "var_mean")


def std_mean(self, dim=None, correction=None, keepdim=False):
    """The standard deviation and the mean."""
    return _moments("std_mean", self, dim, correction, keepdim, "std_mean")


def _moments(name, array, dim, correction, keepdim, refusing):
    """(variance or standard deviation, mean).

    Raises:
        RuntimeError: for integers.
    """
    kind = array.dtype
    if kind.kind not in "fcV":
        raise RuntimeError(f"{refusing} only support floating point and complex dtypes")
    axis = axes(dim, array.ndim)
    n = count(array, axis)
    free = n - (1 if correction is None else correction)
    if free <= 0:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
            "factor (input numel divided by output numel).",
            UserWarning,
            stacklevel=5,
        )
    x = widen(array)
    mean = along(x, axis, True) / (n or np.nan)
    spread = x - mean
    if kind.kind == "c":
        squares = along(spread.real**2 + spread.imag**2, axis, True)
        kind = squares.dtype
    else:
        squares = along(np.multiply(spread, spread, out=spread if spread.__class__ is np.ndarray else None), axis, True)
    with np.errstate(all="ignore" if free <= 0 else None):
        found = squares / squares.dtype.type(free if free > 0 else 0)
    if name.startswith("std"):
        found = np.sqrt(found)
    found, mean = found.astype(kind, copy=False), mean.astype(array.dtype, copy=False)
    return (found, mean) if keepdim else (dropped(found, axis), dropped(mean, axis))
