"""Sorting operators made of others."""

from __future__ import annotations

from ..dispatch import _operators as ops


def argsort(self, dim, descending):
    """The indices that put a dimension in order."""
    return ops.sort(self.detach(), dim, descending)[1]


def argsort_stable(self, stable, dim, descending):
    """The indices that put a dimension in order, equal elements in the order they have."""
    return ops.sort(self.detach(), stable=stable, dim=dim, descending=descending)[1]


def msort(self):
    """The elements in order along the first dimension."""
    return ops.sort(self, 0)[0]
