"""Shape kernels: views of arrays, copies of them, and arrays put together."""

from __future__ import annotations

import numpy as np

from ..device import preserve_format
from ..storage import offset_in_elements, strided_view
from ._dims import infer_size, wrap_dim, wrap_dims
from ._layout import new_array

_all = slice  # the operator `slice` below takes its name
_EVERY = _all(None)


# --- copies ----------------------------------------------------------------------------------------------------

def clone(self, memory_format=None):
    """A copy; in the same order of strides unless a memory format is given."""
    if memory_format is None or memory_format is preserve_format:
        return self.copy("K")
    out = new_array(self.shape, self.dtype, memory_format)
    out[...] = self
    return out


def to_copy(self, dtype=None, memory_format=None):
    """A copy in another dtype."""
    if memory_format is None or memory_format is preserve_format:
        return self.astype(self.dtype if dtype is None else dtype, order="K", copy=True)
    out = new_array(self.shape, self.dtype if dtype is None else dtype, memory_format)
    out[...] = self
    return out


def copy(self, src):
    """Values of `src` in the shape and dtype of `self`, for copy_."""
    if src.dtype is not self.dtype:
        src = src.astype(self.dtype)
    if src.shape == self.shape:
        return src
    if src.ndim <= self.ndim:
        lead = self.ndim - src.ndim
        for i, n in enumerate(src.shape):
            if n != 1 and n != self.shape[lead + i]:
                raise RuntimeError(f"The size of tensor a ({self.shape[lead + i]}) must match the size of tensor b "
                                   f"({n}) at non-singleton dimension {lead + i}")
    return np.broadcast_to(src, np.broadcast_shapes(src.shape, self.shape))


# --- views: one input, one output ---------------------------------------------------------------------------------

def view(self, size):
    """A view of another shape; one size may be -1."""
    if -1 in size or min(size, default=0) < 0:
        size = infer_size(size, self.size)
    try:
        return self.reshape(size, copy=False)
    except ValueError:
        infer_size(size, self.size)
        raise RuntimeError("view size is not compatible with input tensor's size and stride (at least one dimension "
                           "spans across two contiguous subspaces). Use .reshape(...) instead.") from None


def expand(self, size, implicit=False):
    """A view with dimensions of size 1 repeated; -1 keeps a size."""
    lead = len(size) - self.ndim
    if lead < 0:
        raise RuntimeError(f"The number of sizes provided ({len(size)}) must be greater or equal to the number of "
                           f"dimensions in the tensor ({self.ndim})")
    shape = size
    if min(size, default=0) < 0:
        shape = tuple([_kept_size(self, size, i) if n < 0 else n for i, n in enumerate(size)])
    for i, n in enumerate(self.shape):
        wanted = shape[lead + i]
        if n != 1 and n != wanted:
            raise RuntimeError(f"The expanded size of the tensor ({wanted}) must match the existing size ({n}) at "
                               f"non-singleton dimension {lead + i}.  Target sizes: {list(size)}.  Tensor sizes: "
                               f"{list(self.shape)}")
    out = np.broadcast_to(self, shape)
    if self.flags.writeable:
        out.flags.writeable = True
    return out


def _kept_size(self, size, i):
    at = i - (len(size) - self.ndim)
    if size[i] == -1 and at >= 0:
        return self.shape[at]
    raise RuntimeError(f"The expanded size of the tensor ({size[i]}) isn't allowed in a leading, non-existing "
                       f"dimension {i}")


def permute(self, dims):
    """A view with the dimensions in another order."""
    if len(dims) != self.ndim:
        raise RuntimeError(f"permute(sparse_coo): number of dimensions in the tensor input does not match the length "
                           f"of the desired ordering of dimensions i.e. input.dim() = {self.ndim} is not equal to "
                           f"len(dims) = {len(dims)}".replace("sparse_coo", ""))
    try:
        return self.transpose(dims)
    except ValueError:
        found = [wrap_dim(d, self.ndim) for d in dims]
        if len(set(found)) < len(found):
            raise RuntimeError("permute(): duplicate dims are not allowed.") from None
        raise


def transpose(self, dim0, dim1):
    """A view with two dimensions swapped."""
    ndim = self.ndim
    dim0, dim1 = wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)
    return self.swapaxes(dim0, dim1) if ndim else self[...]


def t(self):
    """The transpose of a matrix; vectors and scalars stay as they are."""
    if self.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return self.T


def squeeze(self):
    """A view without the dimensions of size 1."""
    return self.squeeze()


def squeeze_dim(self, dim):
    """A view without dimension `dim`, if its size is 1."""
    dim = wrap_dim(dim, self.ndim)
    return self.squeeze(dim) if self.ndim and self.shape[dim] == 1 else self[...]


def squeeze_dims(self, dim):
    """A view without those of the given dimensions whose size is 1."""
    ndim = self.ndim
    return self.squeeze(tuple([d for d in wrap_dims(dim, ndim) if self.shape[d] == 1])) if ndim else self[...]


def unsqueeze(self, dim):
    """A view with a dimension of size 1 inserted."""
    dim = wrap_dim(dim, self.ndim + 1)
    return self[(_EVERY,) * dim + (None, ...)]


def as_strided(self, size, stride, storage_offset=None):
    """A view of the memory of `self`; sizes, strides and offset in elements."""
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    return strided_view(self, size, stride, offset_in_elements(self) if storage_offset is None else storage_offset)


def select(self, dim, index):
    """A view of the part at `index` of dimension `dim`."""
    if not self.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, self.ndim)
    try:
        return self[(_EVERY,) * dim + (index, ...)]
    except IndexError:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension "
                         f"{dim}") from None


def slice(self, dim=0, start=None, end=None, step=1):
    """A view of the indices start, start + step, ... below end of one dimension; bounds are clamped."""
    if not self.ndim:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    dim = wrap_dim(dim, self.ndim)
    return self[(_EVERY,) * dim + (_all(start, end, step),)]


# --- views: one input, several outputs ----------------------------------------------------------------------------

def unbind(self, dim=0):
    """A view of each index of one dimension."""
    if not self.ndim:
        raise RuntimeError("Dimension specified as 0 but tensor has no dimensions")
    lead = (_EVERY,) * wrap_dim(dim, self.ndim)
    return [self[(*lead, i, ...)] for i in range(self.shape[len(lead)])]


def split(self, split_size, dim=0):
    """Views of consecutive parts of one dimension, `split_size` long; the last may be shorter."""
    if not self.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if split_size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    lead = (_EVERY,) * wrap_dim(dim, self.ndim)
    total = self.shape[len(lead)]
    if not split_size:
        if total:
            raise RuntimeError("split_size can only be 0 if dimension size is 0, but got dimension size of "
                               f"{total}")
        return [self[...]]
    return [self[(*lead, _all(i, i + split_size))] for i in range(0, max(total, 1), split_size)]


def split_with_sizes(self, split_sizes, dim=0):
    """Views of consecutive parts of one dimension, each as long as told."""
    if not self.ndim:
        raise RuntimeError("split_with_sizes expects at least a 1-dimensional tensor")
    lead = (_EVERY,) * wrap_dim(dim, self.ndim)
    total = self.shape[len(lead)]
    if min(split_sizes, default=0) < 0:
        raise RuntimeError("split_with_sizes expects split_sizes have only non-negative entries, but got "
                           f"split_sizes={list(split_sizes)}")
    if sum(split_sizes) != total:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at "
                           f"dimension {dim}), but got split_sizes={list(split_sizes)}")
    parts, start = [], 0
    for n in split_sizes:
        parts.append(self[(*lead, _all(start, start + n))])
        start += n
    return parts


# --- the backward of views ------------------------------------------------------------------------------------------

def select_backward(grad_output, input_sizes, dim, index):
    """Zeros of the input's shape with the gradient at `index` of `dim`."""
    out = np.zeros(input_sizes, grad_output.dtype)
    out[(_EVERY,) * wrap_dim(dim, len(input_sizes)) + (index,)] = grad_output
    return out


def slice_backward(grad_output, input_sizes, dim, start, end, step):
    """Zeros of the input's shape with the gradient where the slice was."""
    out = np.zeros(input_sizes, grad_output.dtype)
    out[(_EVERY,) * wrap_dim(dim, len(input_sizes)) + (_all(start, end, step),)] = grad_output
    return out


# --- arrays put together --------------------------------------------------------------------------------------------

def cat(tensors, dim=0):
    """Arrays one after the other along a dimension, in their common dtype."""
    if not tensors:
        raise RuntimeError("torch.cat(): expected a non-empty list of Tensors")
    dtype = _common_dtype(tensors)
    for i, a in enumerate(tensors):
        if not a.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    kept = [a for a in tensors if a.shape != (0,)]
    if not kept:
        return np.empty((0,), dtype)
    first = kept[0]
    dim = wrap_dim(dim, first.ndim)
    shape = list(first.shape)
    shape[dim] = 0
    for a in kept:
        shape[dim] += _cat_length(first, a, dim, tensors)
    return np.concatenate(kept, dim, out=np.empty(shape, dtype), casting="unsafe")


def _cat_length(first, array, dim, tensors):
    if array.ndim != first.ndim:
        raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {array.ndim}")
    for i, n in enumerate(array.shape):
        if n != first.shape[i] and i != dim:
            number = next(k for k, a in enumerate(tensors) if a is array)
            raise RuntimeError(f"Sizes of tensors must match except in dimension {dim}. Expected size "
                               f"{first.shape[i]} but got size {n} for tensor number {number} in the list.")
    return array.shape[dim]


def stack(tensors, dim=0):
    """Arrays of one shape side by side along a new dimension, in their common dtype."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    shape = tensors[0].shape
    for i, a in enumerate(tensors):
        if a.shape != shape:
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                               f"{list(a.shape)} at entry {i}")
    dim = wrap_dim(dim, len(shape) + 1)
    out = np.empty((*shape[:dim], len(tensors), *shape[dim:]), _common_dtype(tensors))
    lead = (_EVERY,) * dim
    for i, a in enumerate(tensors):
        out[(*lead, i)] = a
    return out


def _common_dtype(arrays):
    """The dtype that PyTorch's promotion gives several arrays, whatever their dimensions."""
    first = arrays[0].dtype
    for a in arrays:
        if a.dtype is not first:
            from ..dtype import TYPE_OF, promote_types
            found = TYPE_OF[first]
            for b in arrays:
                found = promote_types(found, TYPE_OF[b.dtype])
            return found.numpy
    return first
