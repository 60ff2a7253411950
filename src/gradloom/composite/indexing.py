"""Indexing operators made of others."""

from __future__ import annotations

from ..core import late
from ..dispatch import _operators as ops
from ..kernels._common.dims import require_dim, wrap_dim
from ..types.dtype import int64, scalar_type_name


def take_along_dim(self, indices, dim):
    """Take the elements at the indices along a dimension; the other dimensions broadcast."""
    if indices.dtype is not int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {scalar_type_name(indices.dtype)}"
        )
    if self.is_meta != indices.is_meta:
        raise RuntimeError(
            f"Expected tensor to have {self.device} Device, but got tensor with {indices.device} Device "
            "(while checking arguments for torch.take_along_dim():)"
        )
    if dim is None:
        self, indices, dim = ops.reshape(self, (-1,)), ops.reshape(indices, (-1,)), 0
    elif self.dim() != indices.dim():
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but "
            f"got {self.dim()} dimensions for input, and {indices.dim()} dimensions for indices"
        )
    else:
        require_dim(dim, self.dim())
        axis = wrap_dim(dim, self.dim())
        ours, theirs = _broadcast_but(self.shape, indices.shape, axis)
        self, indices, dim = ops.broadcast_to(self, ours), ops.broadcast_to(indices, theirs), axis
    n = self.shape[dim] if self.dim() else 1
    return ops.gather(self, dim, ops.remainder(indices, n) if n else indices)


def _broadcast_but(first, second, axis):
    """Broadcast two shapes, except in one dimension."""
    from ..functional import broadcast_shapes

    common = broadcast_shapes((*first[:axis], 1, *first[axis + 1 :]), (*second[:axis], 1, *second[axis + 1 :]))
    return tuple([(*common[:axis], s[axis], *common[axis + 1 :]) if s else s for s in (first, second)])


def argwhere(self):
    """Return the positions of the nonzero elements: (count, dimensions)."""
    return ops.nonzero(self)


def nonzero_numpy(self):
    """Return the positions of the nonzero elements: one vector for each dimension."""
    if not self.dim():
        return ops.unbind(ops.nonzero(ops.unsqueeze(self, 0)), 1)
    return ops.unbind(ops.nonzero(self), 1)


def embedding_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq, sparse):
    """Return the gradient of the table. A sparse one has an entry for each row that was read, in that order.

    Raises RuntimeError for a sparse gradient scaled by frequency.
    """
    if sparse:
        return late.sparse_embedding_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
    return ops.embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)


def embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset):
    """Return sums, means or maxima of bags of rows."""
    return ops._embedding_bag(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset
    )


def embedding_bag_padding_idx(
    weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx
):
    """Compute `embedding_bag` without the rows at `padding_idx`. Raises RuntimeError if that is out of range."""
    rows = weight.size(0)
    if padding_idx is None:
        padding_idx = -1
    elif not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, but got {padding_idx}"
        )
    elif padding_idx < 0:
        padding_idx += rows
    return ops._embedding_bag(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx
    )
