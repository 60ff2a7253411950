"""Copy arrays: convert, repeat, roll, flip, pad, rearrange, or mask to a triangle."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from ...types.device import preserve_format
from .._common.dims import wrap_dim, wrap_dims
from .._common.direct import concatenate, where
from .._common.errors import check_sizes, negative_size, type_name
from .._common.layout import (
    check_no_internal_overlap,
    check_no_partial_overlap,
    in_format,
    is_plain,
    is_same_view,
    new_array,
    new_like,
    row_major,
    suggested_format,
)
from .._common.numbers import convertible, number_as
from .._common.tables import number
from .views import diagonal_view


def clone(self, memory_format=None):
    """Copy an array, in the same memory order unless a memory format is given."""
    if memory_format is None or memory_format is preserve_format:
        if 0 not in self.strides and (1 not in self.shape or is_plain(self)):
            return self.copy("K")
        out = new_like(self)
    else:
        out = new_array(self.shape, self.dtype, memory_format)
    out[...] = self
    return out


def to_copy(self, dtype=None, memory_format=None):
    """Copy an array to another dtype."""
    source = self
    if dtype is not None and dtype is not self.dtype:
        source = convertible(self, dtype)
    if memory_format is None or memory_format is preserve_format:
        if 0 not in self.strides and (1 not in self.shape or is_plain(self)):
            return source.astype(source.dtype if dtype is None else dtype, order="K", copy=True)
        out = new_like(self, dtype)
    else:
        out = new_array(self.shape, self.dtype if dtype is None else dtype, memory_format)
    out[...] = source
    return out


def copy_(self, src):
    """Write `src`, broadcast and converted, into `self`. Raises RuntimeError if the shapes do not fit."""
    if src is self:
        return
    if 0 in self.strides:
        if is_same_view(self, src):
            return
        check_no_internal_overlap(self)
    if src.base is not None or self.base is not None:
        check_no_partial_overlap(self, src)
    if src.shape != self.shape:
        _check_shape(self.shape, src.shape)
    if src.dtype is not self.dtype:
        src = convertible(src, self.dtype)
    self[...] = src


def _check_shape(shape, source):
    ndim = max(len(shape), len(source))
    ours, theirs = (1,) * (ndim - len(shape)) + shape, (1,) * (ndim - len(source)) + source
    for d in range(ndim - 1, -1, -1):
        if ours[d] != theirs[d] and ours[d] != 1 and theirs[d] != 1:
            raise RuntimeError(
                f"The size of tensor a ({ours[d]}) must match the size of tensor b ({theirs[d]}) at "
                f"non-singleton dimension {d}"
            )
    broadcast = tuple([m if n == 1 else n for n, m in zip(ours, theirs, strict=True)])
    if broadcast != shape:
        raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(broadcast)}")


_every, _backwards, _slice = slice(None), slice(None, None, -1), slice


def repeat(self, repeats):
    """Return the array repeated along each dimension; `repeats` may have more dimensions than the array."""
    if len(repeats) < self.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * (len(repeats) - self.ndim) + self.shape
    sizes = [n * r for n, r in zip(shape, repeats, strict=True)]
    if min(sizes, default=0) < 0:
        raise negative_size(sizes)
    check_sizes(sizes, self.itemsize)
    return row_major(np.tile(self, repeats)) if repeats else self.copy()


def repeat_interleave(repeats, output_size=None):
    """Return 0 repeats[0] times, then 1 repeats[1] times, and so on."""
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype not in (np.int32, np.int64):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{type_name(repeats.dtype)}'")
    repeats = repeats.copy()  # Note [Private indices]
    if (repeats < 0).any():
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and output_size != repeats.sum():
        raise RuntimeError("allocated size does not match required size")
    check_sizes((sum(repeats.tolist()),), repeats.itemsize)
    return np.repeat(np.arange(repeats.size, dtype=repeats.dtype), repeats)


def roll(self, shifts, dims=()):
    """Shift the elements cyclically along dimensions (along the flat array if none are given)."""
    if not shifts:
        raise RuntimeError("`shifts` required")
    array = self if not self.ndim or suggested_format(self) is not None else np.ascontiguousarray(self)
    if not dims and len(shifts) == 1:
        return np.roll(array, shifts[0])
    if len(dims) != len(shifts):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if not self.size:  # PyTorch does not look at the dimensions then
        return self.copy()
    if not self.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    axes = tuple([wrap_dim(d, self.ndim) for d in dims])
    return (
        _rolled(array, shifts[0], axes[0])
        if len(axes) == 1 and array.flags.c_contiguous
        else np.roll(array, shifts, axes)
    )


def _rolled(array, shift, axis):
    """Return `np.roll` of a contiguous array along one axis, in a fraction of its time for a small one."""
    before, start = (_every,) * axis, -shift % array.shape[axis]
    return concatenate((array[(*before, slice(start, None))], array[(*before, slice(start))]), axis)


def flip(self, dims):
    """Reverse the order of the elements along dimensions."""
    dims = wrap_dims(dims, self.ndim)
    flipped = self[(*[_backwards if d in dims else _every for d in range(self.ndim)], ...)]
    if self.flags.c_contiguous and 1 not in self.shape:
        return flipped.copy()
    out = new_like(self)
    out[...] = flipped
    return out


def rot90(self, k=1, dims=(0, 1)):
    """Rotate by k times 90 degrees, from the first of two dimensions towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if self.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {self.ndim}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == self.ndim:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    first, second = (wrap_dim(d, self.ndim) for d in dims)
    k %= 4
    if k == 0:
        return self.copy()
    if k == 2:
        return flip(self, (first, second))
    return flip(self, (second if k == 1 else first,)).swapaxes(first, second)


def tril(self, diagonal=0):
    """Set the elements above a diagonal of the last two dimensions to zero."""
    if self.ndim < 2:
        raise RuntimeError("tril: input tensor must have at least 2 dimensions")
    rows, columns = self.shape[-2:]
    diagonal = _in_matrix(self, diagonal) if diagonal else 0
    if rows * columns <= _SMALL_MATRIX and type(self) is np.ndarray and self.dtype.char in _BITS:
        return _masked(self, _few_bits(rows, columns, diagonal, _BITS[self.dtype.char], False))
    return where(_triangle(rows, columns, diagonal), np.ascontiguousarray(self), number(0, self.dtype))


def triu(self, diagonal=0):
    """Set the elements below a diagonal of the last two dimensions to zero."""
    if self.ndim < 2:
        raise RuntimeError("triu: input tensor must have at least 2 dimensions")
    rows, columns = self.shape[-2:]
    diagonal = _in_matrix(self, diagonal) - 1
    if rows * columns <= _SMALL_MATRIX and type(self) is np.ndarray and self.dtype.char in _BITS:
        return _masked(self, _few_bits(rows, columns, diagonal, _BITS[self.dtype.char], True))
    return where(_triangle(rows, columns, diagonal), number(0, self.dtype), np.ascontiguousarray(self))


# char of a dtype -> integers of its size, which differs between platforms for long
_BITS = {char: np.dtype(f"i{np.dtype(char).itemsize}") for char in "fdil"}


def _masked(array, bits):
    """Keep elements where all `bits` are set, and set others to zero, whatever they are; row-major."""
    dtype = array.dtype
    return np.bitwise_and(np.ascontiguousarray(array).view(bits.dtype), bits).view(dtype)


def _triangle(rows, columns, diagonal):
    """Return where a matrix lies on or below a diagonal; read-only."""
    return (_few_triangles if rows * columns <= _SMALL_MATRIX else _made_triangle)(rows, columns, diagonal)


def _made_triangle(rows, columns, diagonal):
    found = np.tri(rows, columns, diagonal, bool)
    found.flags.writeable = False
    return found


_SMALL_MATRIX = 1 << 12  # elements, up to which making the mask takes longer than using it
_few_triangles = lru_cache(32)(_made_triangle)


@lru_cache(32)
def _few_bits(rows, columns, diagonal, dtype, above):
    """Return integers with all bits set on and below a diagonal, or above it, and no bits elsewhere; read-only."""
    mask = _few_triangles(rows, columns, diagonal)
    found = -(~mask if above else mask).astype(dtype)
    found.flags.writeable = False
    return found


def _in_matrix(array, diagonal):
    """Bring the number of a diagonal to the range where it makes a difference."""
    return max(-array.shape[-2] - 1, min(diagonal, array.shape[-1]))


def diag_embed(self, offset=0, dim1=-2, dim2=-1):
    """Put the last dimension on a diagonal of two new dimensions, zeros elsewhere."""
    ndim = self.ndim + 1
    first, second = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length = self.shape[-1] + abs(offset)
    shape = list(self.shape[:-1])
    for d in sorted((first, second)):
        shape.insert(d, length)
    out = np.zeros(shape, self.dtype)
    diagonal_view(out, offset, first, second)[...] = self
    return out


def constant_pad_nd(self, pad, value=0):
    """Pad with a number; `pad` has (before, after) for the last dimension, then the one before. Negatives crop."""
    sides, ndim = len(pad), self.ndim
    if sides % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if sides > 2 * ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad "
            f"length is {sides}while the input has {ndim}dimensions."
        )
    source, target, shape, grows = [_every] * ndim, [_every] * ndim, list(self.shape), False
    for i in range(0, sides, 2):
        before, after = pad[i], pad[i + 1]
        d = ndim - 1 - i // 2
        n = shape[d]
        shape[d] = whole = n + before + after
        start, stop, first, last = 0, n, 0, whole
        if before > 0:
            first, grows = before, True
        elif before:
            start = -before
        if after > 0:
            last, grows = whole - after, True
        elif after:
            stop = n + after
        if start > stop:  # cropping comes first
            raise RuntimeError("narrow(): length must be non-negative.")
        source[d], target[d] = _slice(start, stop), _slice(first, last)
    if not grows:
        return clone(self[tuple(source)])
    order = suggested_format(self)
    out = np.empty(shape, self.dtype) if order is None else new_array(shape, self.dtype, order)
    out[...] = number_as(value, self.dtype)
    out[tuple(target)] = self[tuple(source)]
    return out


def pixel_shuffle(self, upscale_factor):
    """Rearrange (..., C r r, H, W) to (..., C, H r, W r): channels become blocks of pixels."""
    _check_pixels("pixel_shuffle", self, upscale_factor, "upscale_factor")
    *batch, c, h, w = self.shape
    r = upscale_factor
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    blocks = self.reshape(prod(batch), c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return in_format(_fresh(blocks, (*batch, c // (r * r), h * r, w * r)), suggested_format(self))


def pixel_unshuffle(self, downscale_factor):
    """Rearrange (..., C, H r, W r) to (..., C r r, H, W): blocks of pixels become channels."""
    _check_pixels("pixel_unshuffle", self, downscale_factor, "downscale_factor")
    *batch, c, h, w = self.shape
    r = downscale_factor
    for name, size, d in (("height", h, -2), ("width", w, -1)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({d})={size} is not divisible by {r}"
            )
    blocks = self.reshape(prod(batch), c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return in_format(_fresh(blocks, (*batch, c * r * r, h // r, w // r)), suggested_format(self))


def channel_shuffle(self, groups):
    """Interleave the groups of channels (dimension 1): the first of each group, then the second of each, and so on."""
    if self.ndim <= 2:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(self.shape)}")
    b, c, *rest = self.shape
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    dealt = _fresh(self.reshape(b, groups, c // groups, -1 if self.size else 0).swapaxes(1, 2), self.shape)
    return in_format(dealt, suggested_format(self))


def _fresh(rearranged, shape):
    """Return a new contiguous array, even if the rearrangement is a view."""
    return np.array(rearranged, order="C").reshape(shape)


def _check_pixels(name, array, factor, factor_name):
    if array.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {array.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {factor_name}, but got {factor}")
