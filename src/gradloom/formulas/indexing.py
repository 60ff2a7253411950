"""Derivative helpers of indexing operators."""

from __future__ import annotations

from .. import _operators as ops


def gather_backward(grad, sizes, dim, index):
    """The gradients added up where each element was taken from."""
    return ops.scatter_add(ops.zeros(sizes, dtype=grad.dtype), dim, index, grad)
