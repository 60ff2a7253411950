"""Counting: bincount and histograms."""

from __future__ import annotations

import numpy as np

from ._precision import is_half
from ._refuse import refuse


def bincount(self, weights=None, minlength=0):
    """How often each of 0, 1, 2 ... occurs, or the sum of its weights.

    Returns:
        int64; float32 for float32 weights, else float64 with weights. At least `minlength` long.

    Raises:
        RuntimeError: for negative numbers, more than one dimension, or weights of another length.
    """
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    refuse("bincount_cpu", self, "fcVb")
    if self.ndim == 1 and not self.size:
        return np.zeros(minlength, np.int64)
    if self.ndim != 1 or self.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return np.bincount(self.astype(np.int64, copy=False), minlength=minlength).astype(np.int64, copy=False)
    if weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    kind = np.float32 if weights.dtype == np.float32 else np.float64
    return np.bincount(self.astype(np.int64, copy=False), weights.astype(np.float64), minlength).astype(kind)


def histc(self, bins=100, min=0, max=0):
    """How many elements lie in each of `bins` equal bins between `min` and `max`; other elements are not counted.

    Equal limits stand for the least and the greatest element.

    Returns:
        (bins,) in the dtype of `self`.
    """
    refuse("histogram_cpu", self, "iubc")
    _check_bins(bins)
    low, high = _limits(self, min, max, "torch.histc")
    x = self.astype(np.float32) if is_half(self.dtype) else self
    counts = np.histogram(x[(x >= low) & (x <= high)], bins, (low, high))[0]
    return counts.astype(self.dtype)


def _check_bins(bins):
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")


def _limits(array, low, high, name):
    low, high = float(low), float(high)
    if low == high and array.size:
        low, high = float(array.min()), float(array.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"{name}: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError(f"{name}: max must be larger than min")
    return (low - 1, high + 1) if low == high else (low, high)
