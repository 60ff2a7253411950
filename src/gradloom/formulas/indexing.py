"""Derivative helpers of indexing operators."""

from __future__ import annotations

from .. import _operators as ops


def index_backward(grad, sizes, indices):
    """The gradients added up where each element was taken from."""
    return ops._index_put_impl_(ops.new_zeros(grad, sizes), indices, grad, True)


def index_put_self_backward(grad, indices, values, accumulate):
    """The gradient of `index_put` for `self`: all of it, or zeros where something was put."""
    return grad if accumulate else ops.index_put(grad, indices, ops.zeros_like(values))


def index_select_backward(grad, sizes, dim, index):
    """The gradients added up where each part was taken from."""
    return ops.index_add_(ops.new_zeros(grad, sizes), dim, index, grad)


def gather_backward(grad, sizes, dim, index):
    """The gradients added up where each element was taken from."""
    return ops.scatter_add_(ops.new_zeros(grad, sizes), dim, index, grad)


def index_add_source_backward(grad, dim, index, source_dim, alpha):
    """The gradient of what `index_add` adds: the parts at the indices, times alpha."""
    parts = ops.index_select(grad, dim, index)
    if not source_dim and parts.dim():
        parts = ops.squeeze(parts, 0)
    return parts if alpha == 1 else ops.mul(parts, alpha)
