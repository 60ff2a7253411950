"""Sorting operators made of others."""

from __future__ import annotations

from ..dispatch import _operators as ops


def argsort(self, dim, descending):
    """Return the indices that sort a dimension."""
    return ops.sort(self.detach(), dim, descending)[1]


def argsort_stable(self, stable, dim, descending):
    """Return the indices that sort a dimension; equal elements keep their order."""
    return ops.sort(self.detach(), stable=stable, dim=dim, descending=descending)[1]


def msort(self):
    """Sort along the first dimension."""
    return ops.sort(self, 0)[0]
