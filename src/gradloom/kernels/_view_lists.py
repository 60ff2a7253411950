"""Views of arrays with several results: the parts of one dimension."""

from __future__ import annotations

import numpy as np

from ._dims import wrap_dim

_every, _slice = slice(None), slice


def unbind(self, dim=0):
    """A view of each index of one dimension."""
    if not self.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    lead = (_every,) * wrap_dim(dim, self.ndim)
    return [self[(*lead, i, ...)] for i in range(self.shape[len(lead)])]


def split(self, split_size, dim=0):
    """Views of consecutive parts of one dimension, `split_size` long; the last may be shorter."""
    if not self.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if split_size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    lead = (_every,) * wrap_dim(dim, self.ndim)
    total = self.shape[len(lead)]
    if not split_size:
        if total:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}")
        return [self[...]]
    return [self[(*lead, _slice(i, i + split_size))] for i in range(0, max(total, 1), split_size)]


def split_with_sizes(self, split_sizes, dim=0):
    """Views of consecutive parts of one dimension, each as long as told."""
    if not self.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    lead = (_every,) * wrap_dim(dim, self.ndim)
    total = self.shape[len(lead)]
    if min(split_sizes, default=0) < 0:
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={list(split_sizes)}"
        )
    if sum(split_sizes) != total:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at "
            f"dimension {dim}), but got split_sizes={list(split_sizes)}"
        )
    parts, start = [], 0
    for n in split_sizes:
        parts.append(self[(*lead, _slice(start, start + n))])
        start += n
    return parts


# The memory is shared all the same; it is autograd that does not hear of it, and counts versions of each part apart.
# What has a conjugate or negative bit is resolved.


def unsafe_split(self, split_size, dim=0):
    """As `split`, not as views."""
    return split(np.asarray(self), split_size, dim)


def unsafe_split_with_sizes(self, split_sizes, dim=0):
    """As `split_with_sizes`, not as views."""
    return split_with_sizes(np.asarray(self), split_sizes, dim)
