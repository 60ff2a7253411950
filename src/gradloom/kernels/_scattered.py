"""Arrays with a part set: zeros with a gradient where a view was, and copies with a part replaced."""

from __future__ import annotations

import numpy as np

from . import _views
from ._copies import clone
from ._dims import wrap_dim

_every, _slice = slice(None), slice


def select_backward(grad_output, input_sizes, dim, index):
    """Zeros of the input's shape with the gradient at `index` of `dim`."""
    out = np.zeros(input_sizes, grad_output.dtype)
    out[(_every,) * wrap_dim(dim, len(input_sizes)) + (index,)] = grad_output
    return out


def slice_backward(grad_output, input_sizes, dim, start, end, step):
    """Zeros of the input's shape with the gradient where the slice was."""
    out = np.zeros(input_sizes, grad_output.dtype)
    out[(_every,) * wrap_dim(dim, len(input_sizes)) + (_slice(start, end, step),)] = grad_output
    return out


def diagonal_backward(grad_output, input_sizes, offset, dim1, dim2):
    """Zeros of the input's shape with the gradient on the diagonal."""
    out = np.zeros(input_sizes, grad_output.dtype)
    _views.diagonal(out, offset, dim1, dim2)[...] = grad_output
    return out


def unfold_backward(grad_in, input_sizes, dim, size, step):
    """Zeros of the input's shape to which the gradients of all windows are added."""
    if not input_sizes:
        return grad_in.reshape(-1).sum(dtype=grad_in.dtype, keepdims=True)[0, ...]
    out = np.zeros(input_sizes, grad_in.dtype)
    dim = wrap_dim(dim, len(input_sizes))
    lead, count = (_every,) * dim, grad_in.shape[dim]
    for i in range(size):
        out[(*lead, _slice(i, i + (count - 1) * step + 1, step))] += grad_in[..., i]
    return out


def select_scatter(self, src, dim, index):
    """A copy of `self` with `src` at `index` of `dim`."""
    out = _in_place_copy(self)
    return _replaced(out, _views.select(out, dim, index), src)


def slice_scatter(self, src, dim=0, start=None, end=None, step=1):
    """A copy of `self` with `src` in a slice."""
    out = _in_place_copy(self)
    return _replaced(out, _views.slice(out, dim, start, end, step), src)


def diagonal_scatter(self, src, offset=0, dim1=0, dim2=1):
    """A copy of `self` with `src` on a diagonal."""
    out = _in_place_copy(self)
    return _replaced(out, _views.diagonal(out, offset, dim1, dim2), src)


def _in_place_copy(self):
    """A copy of the whole memory, in which the result is where `self` is: at its offset, with its strides. Where
    elements share memory, a dense copy."""
    if self.base is None or not self.size or type(self) is not np.ndarray:
        return self.copy("K")
    if any(n > 1 and not s for n, s in zip(self.shape, self.strides, strict=True)):
        return clone(self)
    from ..memory.ownership import flat, offset_in_elements, owner, strided_view

    memory = flat(owner(self)).view(self.dtype).copy()
    return strided_view(memory, self.shape, [s // self.itemsize for s in self.strides], offset_in_elements(self))


def _replaced(out, part, src):
    if part.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
            f"slice size = {list(part.shape)}"
        )
    part[...] = src
    return out


def as_strided_scatter(self, src, size, stride, storage_offset=None):
    """A copy of `self`, on a copy of its memory, with `src` in a strided view of that memory."""
    from ..memory.ownership import offset_in_elements, strided_view

    out = _in_place_copy(self)
    part = strided_view(out, size, stride, offset_in_elements(out) if storage_offset is None else storage_offset)
    if part.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
            f"slice size = {list(part.shape)}"
        )
    part[...] = src
    return out
