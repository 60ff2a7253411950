"""Reductions."""

from __future__ import annotations

import numpy as np


def sum(self, dtype=None):
    """Sum of all elements; integers add up in int64."""
    return self.sum(dtype=dtype if dtype is not None else _sum_type(self))


def sum_dim(self, dim=None, keepdim=False, dtype=None):
    """Sum over dimensions (all if None or empty)."""
    return self.sum(axis=tuple(dim) or None if dim is not None else None, keepdims=keepdim,
                    dtype=dtype if dtype is not None else _sum_type(self))


def _sum_type(array):
    return np.int64 if array.dtype.kind in "iub" else array.dtype
