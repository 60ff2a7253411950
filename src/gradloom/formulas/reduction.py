"""Derivative helpers of reductions."""

from __future__ import annotations


def sum_backward(grad, sizes, dims, keepdim):
    """The gradient of a sum: expanded over the summed dimensions."""
    if not keepdim and len(sizes) > 0:
        if dims is None or len(dims) == 0:
            return grad.expand(sizes)
        ndim = len(sizes)
        shape = list(sizes)
        for d in dims:
            shape[d % ndim] = 1
        grad = grad.reshape(shape)
    return grad.expand(sizes)
