"""Copies of arrays: in another order of memory, in another dtype, into an array that exists."""

from __future__ import annotations

import numpy as np

from ..device import preserve_format
from ._layout import new_array, new_like


def clone(self, memory_format=None):
    """A copy; in the same order of strides unless a memory format is given."""
    if memory_format is None or memory_format is preserve_format:
        if 0 not in self.strides:
            return self.copy("K")
        out = new_like(self)
    else:
        out = new_array(self.shape, self.dtype, memory_format)
    out[...] = self
    return out


def to_copy(self, dtype=None, memory_format=None):
    """A copy in another dtype."""
    if memory_format is None or memory_format is preserve_format:
        if 0 not in self.strides:
            return self.astype(self.dtype if dtype is None else dtype, order="K", copy=True)
        out = new_like(self, dtype)
    else:
        out = new_array(self.shape, self.dtype if dtype is None else dtype, memory_format)
    out[...] = self
    return out


def copy_(self, src):
    """Write `src`, broadcast and converted, into `self`.

    Raises:
        RuntimeError: if the shapes do not fit.
    """
    if src.shape != self.shape:
        _check_shape(self.shape, src.shape)
    if src.base is not None or self.base is not None:
        from ._overlap import check_no_partial_overlap
        check_no_partial_overlap(self, src)
    self[...] = src


def _check_shape(shape, source):
    if len(source) > len(shape) and all(n == 1 for n in source[:len(source) - len(shape)]):
        source = source[len(source) - len(shape):]
        lead = 0
    else:
        lead = len(shape) - len(source)
    if lead < 0:
        raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape "
                           f"{list(np.broadcast_shapes(shape, source))}")
    for i, n in enumerate(source):
        if n != 1 and n != shape[lead + i]:
            raise RuntimeError(f"The size of tensor a ({shape[lead + i]}) must match the size of tensor b ({n}) at "
                               f"non-singleton dimension {lead + i}")
