"""Join arrays; write one array into part of another, or into zeros (the gradients of views)."""

from __future__ import annotations

import numpy as np

from .._common.dims import wrap_dim
from .._common.direct import concatenate
from .._common.layout import new_array, suggested_format
from . import views
from .copies import clone


def cat(tensors, dim=0):
    """Concatenate arrays along a dimension, in their common dtype; empty 1-d arrays are left out."""
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    first = tensors[0]
    # NumPy suffices, unless something is unusual or wrong. To NumPy the least C int means no axis.
    for a in tensors:
        if a.dtype is not first.dtype or not a.flags.c_contiguous or dim <= -64:
            break
    else:
        try:
            return concatenate(tensors, dim)
        except (ValueError, OverflowError):
            pass
    kept = []
    for i, a in enumerate(tensors):
        if not a.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
        if a.shape != (0,):
            kept.append(a)
    dtype = common_dtype(tensors)
    if not kept:  # then any `dim` will do
        return np.empty((0,), dtype)
    first = kept[0]
    dim = wrap_dim(dim, first.ndim)
    shape = list(first.shape)
    shape[dim] = 0
    for a in kept:
        shape[dim] += _length(first, a, dim, tensors)
    return concatenate(kept, dim, out=_new_like_all(kept, shape, dtype), casting="unsafe")


def _new_like_all(arrays, shape, dtype):
    """Return a new array, channels-last if all the arrays are."""
    order = suggested_format(arrays[0])
    return new_array(shape, dtype, order if all(suggested_format(a) is order for a in arrays) else None)


def _length(first, array, dim, tensors):
    if array.ndim != first.ndim:
        raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {array.ndim}")
    for i, n in enumerate(array.shape):
        if n != first.shape[i] and i != dim:
            number = next(k for k, a in enumerate(tensors) if a is array)
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}. Expected size "
                f"{first.shape[i]} but got size {n} for tensor number {number} in the list."
            )
    return array.shape[dim]


def chunk_cat(tensors, dim, num_chunks):
    """Cut each array into `num_chunks` chunks along `dim`, padded with zeros to one size, and join the first chunks,
    flattened from `dim` on, the second ones, and so on along a new dimension `dim`.

    Shape:
        output: (*sizes before `dim`, num_chunks, elements of a chunk of each array).
    """
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    first = tensors[0]
    dim = wrap_dim(dim, first.ndim)
    rows = []
    for a in tensors:
        if not a.size:
            raise RuntimeError("_chunk_cat expects non-empty tensor")
        if a.dtype != first.dtype:
            raise RuntimeError("_chunk_cat expects all input tensors with the same dtype")
        if a.ndim <= dim:
            raise RuntimeError("_chunk_cat expects dim < ndim for all tensors")
        if a.shape[:dim] != first.shape[:dim]:
            raise RuntimeError("_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors")
        more = -a.shape[dim] % num_chunks
        widths = [(0, more if d == dim else 0) for d in range(a.ndim)]
        rows.append(np.pad(a, widths).reshape((*a.shape[:dim], num_chunks, -1)))
    return np.ascontiguousarray(concatenate(rows, -1))


def stack(tensors, dim=0):
    """Join arrays of one shape along a new dimension, in their common dtype."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]
    shape = first.shape
    if dim == 0 and 0 < len(shape) < 4:  # contiguous arrays one after the other, none of which is channels-last
        for a in tensors:
            if a.dtype is not first.dtype or not a.flags.c_contiguous or a.shape != shape:
                break
        else:
            return concatenate(tensors).reshape((len(tensors), *shape))
    dim = wrap_dim(dim, len(shape) + 1)
    for i, a in enumerate(tensors):
        if a.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(a.shape)} at entry {i}"
            )
    stacked, dtype = (*shape[:dim], len(tensors), *shape[dim:]), common_dtype(tensors)
    if dim < len(shape) and suggested_format(tensors[0]) is not None:  # with the layout of `cat`
        joined = (*shape[:dim], len(tensors) * shape[dim], *shape[dim + 1 :])
        out = _new_like_all(tensors, joined, dtype).reshape(stacked)
    else:
        out = np.empty(stacked, dtype)
    lead = (slice(None),) * dim
    for i, a in enumerate(tensors):
        out[(*lead, i)] = a
    return out


def block_diag(tensors):
    """Put matrices along the diagonal of a matrix of zeros; vectors are rows."""
    for i, a in enumerate(tensors):
        if a.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {a.ndim} dimensions"
            )
    if not tensors:
        from ...types.dtype import default

        return np.empty((1, 0), default.numpy_float)
    blocks = [a.reshape(1, -1) if a.ndim < 2 else a for a in tensors]
    out = np.zeros([sum([b.shape[d] for b in blocks]) for d in (0, 1)], common_dtype(tensors))
    row = column = 0
    for b in blocks:
        out[row : row + b.shape[0], column : column + b.shape[1]] = b
        row, column = row + b.shape[0], column + b.shape[1]
    return out


def common_dtype(arrays):
    """Return the dtype to which PyTorch promotes several arrays; those with dimensions precede 0-dim ones."""
    first = arrays[0].dtype
    for a in arrays:
        if a.dtype is not first:
            return _promoted([a.dtype for a in arrays if a.ndim], [a.dtype for a in arrays if not a.ndim]).numpy
    return first


def _promoted(of_arrays, of_numbers):
    from functools import reduce

    from ...types.dtype import COMPLEX, FLOATING, TYPE_OF, promote_types

    high, low = ([TYPE_OF[d] for d in group] for group in (of_arrays, of_numbers))
    if not high or not low:
        return reduce(promote_types, high or low)
    found, number = reduce(promote_types, high), reduce(promote_types, low)
    if number.category <= found.category:
        return found
    return found.to_complex() if number.category == COMPLEX and found.category == FLOATING else number


_every, _slice = slice(None), slice


def select_backward(grad_output, input_sizes, dim, index):
    """Return zeros of the input's shape with the gradient at `index` of `dim`."""
    out = np.zeros(input_sizes, grad_output.dtype)
    out[(_every,) * wrap_dim(dim, len(input_sizes)) + (index,)] = grad_output
    return out


def slice_backward(grad_output, input_sizes, dim, start, end, step):
    """Return zeros of the input's shape with the gradient where the slice was."""
    out = np.zeros(input_sizes, grad_output.dtype)
    out[(_every,) * wrap_dim(dim, len(input_sizes)) + (_slice(start, end, step),)] = grad_output
    return out


def diagonal_backward(grad_output, input_sizes, offset, dim1, dim2):
    """Return zeros of the input's shape with the gradient on the diagonal."""
    out = np.zeros(input_sizes, grad_output.dtype)
    views.diagonal(out, offset, dim1, dim2)[...] = grad_output
    return out


def unfold_backward(grad_in, input_sizes, dim, size, step):
    """Return zeros of the input's shape to which the gradients of all windows are added."""
    if not input_sizes:
        return np.add.reduce(grad_in.reshape(-1), None, grad_in.dtype, keepdims=True)[0, ...]
    out = np.zeros(input_sizes, grad_in.dtype)
    dim = wrap_dim(dim, len(input_sizes))
    lead, count = (_every,) * dim, grad_in.shape[dim]
    for i in range(size):
        out[(*lead, _slice(i, i + (count - 1) * step + 1, step))] += grad_in[..., i]
    return out


def select_scatter(self, src, dim, index):
    """Return a copy of `self` with `src` at `index` of `dim`."""
    out = _in_place_copy(self)
    return _replaced(out, views.select(out, dim, index), src)


def slice_scatter(self, src, dim=0, start=None, end=None, step=1):
    """Return a copy of `self` with `src` in a slice."""
    out = _in_place_copy(self)
    return _replaced(out, views.slice(out, dim, start, end, step), src)


def diagonal_scatter(self, src, offset=0, dim1=0, dim2=1):
    """Return a copy of `self` with `src` on a diagonal."""
    out = _in_place_copy(self)
    return _replaced(out, views.diagonal(out, offset, dim1, dim2), src)


def _in_place_copy(self):
    """Copy the whole memory, and return the view at self's position; if elements share memory, make a dense copy."""
    if self.base is None or not self.size or type(self) is not np.ndarray:
        return self.copy("K")
    if any(n > 1 and not s for n, s in zip(self.shape, self.strides, strict=True)):
        return clone(self)
    from ...memory.ownership import flat, offset_in_elements, owner, strided_view

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
    """Return a copy of `self`, with the rest of its memory, and `src` written to a strided view of that."""
    out = _in_place_copy(self)
    return _replaced(out, views.as_strided(out, size, stride, storage_offset), src)
