"""Shape kernels: views of arrays, copies of them, and arrays put together.

Views share the memory of their input and never copy; everything else returns memory of its own.
"""

from __future__ import annotations

from ._copies import clone, copy_, to_copy
from ._joins import block_diag, cat, stack
from ._rearranged import (
    channel_shuffle,
    constant_pad_nd,
    diag_embed,
    flip,
    pixel_shuffle,
    pixel_unshuffle,
    repeat,
    repeat_interleave,
    roll,
    rot90,
    tril,
    triu,
)
from ._scattered import (
    as_strided_scatter,
    diagonal_backward,
    diagonal_scatter,
    select_backward,
    select_scatter,
    slice_backward,
    slice_scatter,
    unfold_backward,
)
from ._view_lists import split, split_with_sizes, unbind, unsafe_split, unsafe_split_with_sizes
from ._views import (
    alias,
    as_strided,
    diagonal,
    expand,
    permute,
    reshape_alias,
    select,
    slice,
    squeeze,
    squeeze_dim,
    squeeze_dims,
    t,
    t_in_place,
    transpose,
    unfold,
    unsqueeze,
    view,
    view_dtype,
)

__all__ = [
    "alias",
    "as_strided",
    "as_strided_scatter",
    "block_diag",
    "cat",
    "channel_shuffle",
    "clone",
    "constant_pad_nd",
    "copy_",
    "diag_embed",
    "diagonal",
    "diagonal_backward",
    "diagonal_scatter",
    "expand",
    "flip",
    "narrow_copy",
    "permute",
    "pixel_shuffle",
    "pixel_unshuffle",
    "repeat",
    "repeat_interleave",
    "reshape_alias",
    "roll",
    "rot90",
    "select",
    "select_backward",
    "select_scatter",
    "slice",
    "slice_backward",
    "slice_scatter",
    "split",
    "split_with_sizes",
    "squeeze",
    "squeeze_dim",
    "squeeze_dims",
    "stack",
    "t",
    "t_in_place",
    "to_copy",
    "transpose",
    "tril",
    "triu",
    "unbind",
    "unfold",
    "unfold_backward",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsqueeze",
    "view",
    "view_dtype",
]


def narrow_copy(self, dim, start, length):
    """A copy of `length` indices of a dimension from `start` on."""
    from ._dims import wrap_dim

    if not self.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if dim >= self.ndim:
        raise RuntimeError("Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false.")
    size = self.shape[wrap_dim(dim, self.ndim)]
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [-{size}, {size}], but got {start})")
    begin = start + size if start < 0 else start
    if length < 0 or begin > size - length:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return slice(self, dim, begin, begin + length).copy()
