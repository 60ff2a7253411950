"""Shape kernels: views of arrays, and copies."""

from __future__ import annotations

import numpy as np

from ..storage import strided_view


def clone(self, memory_format=None):
    """A copy with the same order of strides."""
    return np.array(self, order="K")


def copy(self, src, non_blocking=False):
    """Values of `src` in the shape and dtype of `self`, for copy_."""
    return np.broadcast_to(src, self.shape).astype(self.dtype)


def expand(self, size, implicit=False):
    """A view with dimensions of size 1 repeated; -1 keeps a size."""
    lead = len(size) - self.ndim
    shape = tuple(self.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(size))
    return np.broadcast_to(self, shape)


def view(self, size):
    """A view of another shape."""
    return self.reshape(size)


def as_strided(self, size, stride, storage_offset=None):
    """A view of the memory of `self`; sizes, strides and offset in elements."""
    from ..storage import offset_in_elements
    return strided_view(self, size, stride, offset_in_elements(self) if storage_offset is None else storage_offset)
