"""Derivative helpers of pooling."""

from __future__ import annotations

from .. import _operators as ops


def gather_spatial(tensor, indices, dims):
    """The elements of a tensor at positions in its last `dims` dimensions, flattened; of the shape of `indices`.

    Max pooling is such a selection, so this is its derivative in forward mode and the adjoint of its backward.
    """
    lead = tensor.shape[:-dims]
    flat = ops.reshape(tensor, (*lead, -1))
    return ops.reshape(ops.gather(flat, -1, ops.reshape(indices, (*lead, -1)), sparse_grad=False), indices.shape)
