"""Derivative helpers of pooling."""

from __future__ import annotations

from ..dispatch import _operators as ops


def gather_spatial(tensor, indices, dims):
    """Return the elements at `indices`, positions in the flattened last `dims` dimensions; the result has the shape of
    `indices`. Max pooling is such a selection, so this is its jvp and the adjoint of its backward."""
    flat, places = ops.flatten(tensor, -dims), ops.flatten(indices, -dims)
    return ops.reshape(ops.gather(flat, -1, places, sparse_grad=False), indices.shape)
