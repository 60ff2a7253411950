"""Views: another shape, other strides or another offset of the same memory."""

from __future__ import annotations

import numpy as np

from ...memory.metadata import reshape_view, view_geometry
from ...memory.ownership import negative_strides, offset_in_elements, owner, strided_view
from ...types.dtype import TYPE_OF, type_text
from .._common.dims import infer_size, wrap_dim, wrap_dims
from .._common.errors import check_count, type_name
from .._common.layout import is_plain

_every, _slice, _ndarray = slice(None), slice, np.ndarray
_SMALL = frozenset(range(-64, 64))  # NumPy has no more dimensions


def view(self, size):
    """Return a view of another shape; one size may be -1."""
    try:
        # Of a contiguous array every shape is a view; only dimensions of size 1 may have strides that NumPy ignores.
        if self.flags.c_contiguous and ((1 not in size and self.size) or 1 not in self.shape or is_plain(self)):
            found = self.reshape(size)
            # NumPy infers a size as PyTorch does if there are elements, but for any negative number.
            if found.shape == size or (found.size and min(size) == -1 and (1 not in found.shape or is_plain(self))):
                return found
        if size and min(size) < 0:
            size = infer_size(size, self.size)
        found = reshape_view(self, size)
        if self.size and (1 in size or 1 in self.shape):  # NumPy ignores the strides of dimensions of size 1
            strides = view_geometry(self, size)[2]
            return found if found.strides == strides else _restrided(self, size, strides)
        return found
    except ValueError:
        pass  # PyTorch's error, raised below, does not mention NumPy
    infer_size(size, self.size)
    raise RuntimeError(
        "view size is not compatible with input tensor's size and stride (at least one dimension spans "
        "across two contiguous subspaces). Use .reshape(...) instead."
    )


def reshape_alias(self, size, stride):
    """Return a view of another shape, with the strides that `view` finds."""
    return view(self, size)


def view_dtype(self, dtype):
    """Reinterpret the bytes as another dtype; the last dimension shrinks or grows with the element's size."""
    if type(self) is not np.ndarray:
        bit = "conjugate view tensors" if self.conj_bit else "tensors with negative bit set"
        raise RuntimeError(f"torch.Tensor.view is not supported for {bit} when converting to a different dtype.")
    if self.dtype.itemsize == dtype.itemsize:
        return self.view(dtype)
    names = f"{type_name(self.dtype)} as {type_name(dtype)}"
    if not self.ndim:
        raise RuntimeError(f"self.dim() cannot be 0 to view {names} (different element sizes)")
    strides = [s // self.itemsize for s in self.strides]
    ratio = dtype.itemsize // self.itemsize
    if ratio > 1 and self.shape[-1] % ratio:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {ratio} to view {names} (different element sizes), but "
            f"got {self.shape[-1]}"
        )
    if not self.size:  # its strides are NumPy's, which are zeros
        return self.reshape(-1).view(dtype).reshape(*self.shape[:-1], self.shape[-1] * self.itemsize // dtype.itemsize)
    if strides[-1] != 1:
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {names} (different element sizes), but got {strides[-1]}"
        )
    if ratio > 1:
        if offset_in_elements(self) % ratio:
            raise RuntimeError(
                f"self.storage_offset() must be divisible by {ratio} to view {names} (different "
                f"element sizes), but got {offset_in_elements(self)}"
            )
        for d, s in enumerate(strides[:-1]):
            if s % ratio:
                raise RuntimeError(
                    f"self.stride({d}) must be divisible by {ratio} to view {names} (different "
                    f"element sizes), but got {s}"
                )
    return self.view(dtype)


def expand(self, size, implicit=False):
    """Return a view with dimensions of size 1 repeated; -1 keeps a size."""
    old_shape, old_strides = self.shape, self.strides
    lead = len(size) - len(old_shape)
    if lead < 0:
        raise RuntimeError(
            f"expand({type_text(TYPE_OF[self.dtype])}{{{list(old_shape)}}}, size="
            f"{list(size)}): the number of sizes provided ({len(size)}) must be greater or equal to "
            f"the number of dimensions in the tensor ({self.ndim})"
        )
    if lead == 1 and size[1:] == old_shape and type(self) is _ndarray and self.flags.c_contiguous and self.size:
        dtype = self.dtype
        if size[0] > 1 and dtype.kind != "V":  # the common case: one dimension in front
            return _ndarray(size, dtype, self, 0, (0, *old_strides))
    shape, strides, step = [], [], self.itemsize
    negative = False
    for d in range(len(size) - 1, -1, -1):
        n = size[d]
        if d >= lead:
            old = old_shape[d - lead]
            if n == old or n == -1:
                n, stride = old, old_strides[d - lead]
            elif old == 1:
                stride, negative = 0, negative or n < 0
            else:
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) must match the existing size ({old}) at "
                    f"non-singleton dimension {d}.  Target sizes: {list(size)}.  Tensor sizes: "
                    f"{list(old_shape)}"
                )
        elif n == -1:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing dimension {d}"
            )
        else:
            stride = step if n == 1 and old_shape else 0  # NumPy's would be 0 in both cases
            negative = negative or n < 0
        shape.append(n)
        strides.append(stride)
        step = stride * n
    if negative:
        raise RuntimeError("numel: integer multiplication overflow")
    shape.reverse()
    strides.reverse()
    if self.size and self.dtype.kind != "V" and type(self) is np.ndarray:
        flags = self.flags
        if flags.c_contiguous:
            return np.ndarray(shape, self.dtype, self, 0, strides)
        if flags.f_contiguous:
            return np.ndarray(shape, self.dtype, self.T, 0, strides)
    if 1 in shape and self.size:
        return _restrided(self, shape, strides)
    out = np.broadcast_to(self, shape)
    if self.flags.writeable:
        out.flags.writeable = True
    return out


def permute(self, dims):
    """Return a view with the dimensions in another order."""
    if len(dims) != self.ndim:
        raise RuntimeError(
            f"permute(): number of dimensions in the tensor input does not match the length of the "
            f"desired ordering of dimensions i.e. input.dim() = {self.ndim} is not equal to "
            f"len(dims) = {len(dims)}"
        )
    if _SMALL.issuperset(dims):  # NumPy cuts others to 32 bits
        try:
            return self.transpose(dims)
        except ValueError:
            pass
    for d in dims:
        wrap_dim(d, self.ndim)
    raise RuntimeError("permute(): duplicate dims are not allowed.")


def transpose(self, dim0, dim1):
    """Return a view with two dimensions swapped."""
    ndim = self.ndim
    dim0, dim1 = wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)
    return self.swapaxes(dim0, dim1) if ndim else self[...]


def t(self):
    """Return the transpose of a matrix; vectors and scalars stay as they are."""
    return _transposed(self, "t()")


def t_in_place(self):
    """Transpose like `t`, with the name of the in-place operator in its error."""
    return _transposed(self, "t_()")


def _transposed(self, name):
    if self.ndim > 2:
        raise RuntimeError(f"{name} expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return self.T


def alias(self):
    """Return a view of everything."""
    return self[...]


def squeeze(self):
    """Return a view without the dimensions of size 1."""
    return self.squeeze()


def squeeze_dim(self, dim):
    """Return a view without dimension `dim`, if its size is 1."""
    dim = wrap_dim(dim, self.ndim)
    return self.squeeze(dim) if self.ndim and self.shape[dim] == 1 else self[...]


def squeeze_dims(self, dim):
    """Return a view without those of the given dimensions whose size is 1."""
    dims = wrap_dims(dim, self.ndim)
    return self.squeeze(tuple([d for d in dims if self.shape[d] == 1])) if self.ndim else self[...]


def unsqueeze(self, dim):
    """Return a view with a dimension of size 1 inserted."""
    shape = self.shape
    if not 0 <= dim <= len(shape):
        dim = wrap_dim(dim, len(shape) + 1)
    new_shape = (*shape[:dim], 1, *shape[dim:]) if dim else (1, *shape)
    if self.flags.c_contiguous and 1 not in shape or not self.size:
        return self.reshape(new_shape)
    strides = self.strides  # which reshape would change for dimensions of size 1
    stride = shape[dim] * strides[dim] if dim < len(shape) else self.itemsize
    new_strides = (*strides[:dim], stride, *strides[dim:])
    if self.flags.c_contiguous and type(self) is np.ndarray and self.dtype.kind != "V":
        return np.ndarray(new_shape, self.dtype, self, 0, new_strides)
    return _restrided(self, new_shape, new_strides)


def _restrided(array, shape, byte_strides):
    """Return a view with other strides from the same start."""
    item = array.itemsize
    return strided_view(array, shape, [s // item for s in byte_strides], offset_in_elements(array))


def as_strided(self, size, stride, storage_offset=None):
    """Return a view of the memory of `self`; sizes, strides and offset in elements."""
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if min(stride, default=0) < 0:
        raise negative_strides(stride)
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    return strided_view(self, size, stride, offset_in_elements(self) if storage_offset is None else storage_offset)


def select(self, dim, index):
    """Return a view of the part at `index` of dimension `dim`."""
    if not self.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, self.ndim)
    try:
        return self[(_every,) * dim + (index, ...)]
    except IndexError:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {dim}"
        ) from None


def slice(self, dim=0, start=None, end=None, step=1):
    """Return a view of the indices start, start + step, ... below end of one dimension; bounds are clamped."""
    if not self.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    axis = wrap_dim(dim, self.ndim)
    found = self[(_every,) * axis + (_slice(start, end, step),)]
    return found if found.size or not start or not self.size else _empty_at(self, axis, start)


def _empty_at(self, axis, start):
    """Return a view without elements that begins at an index, where NumPy's own begin at the array's first element."""
    lead = (_every,) * axis
    start = _slice(start, None).indices(self.shape[axis])[0]
    found = self[(*lead, _slice(start, start + 1))][(*lead, _slice(0))]
    if start < self.shape[axis] or type(found) is not np.ndarray:  # a copy would lose a conjugate or negative bit
        return found
    memory = owner(self)
    offset = self.ctypes.data + start * self.strides[axis] - memory.ctypes.data
    if memory.flags.c_contiguous and 0 <= offset <= memory.nbytes:
        return np.ndarray(found.shape, found.dtype, memory, offset, found.strides)
    return found.copy()  # there is no memory to begin at


def unfold(self, dimension, size, step):
    """Return a view of all windows of `size` indices of a dimension, `step` apart, as a new last dimension."""
    dim = wrap_dim(dimension, self.ndim)
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    length, stride = (self.shape[dim], self.strides[dim]) if self.ndim else (1, self.itemsize)
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    shape, strides = [*self.shape, size], [s // self.itemsize for s in (*self.strides, stride)]
    if self.ndim:
        shape[dim] = (length - size) // step + 1
        strides[dim] *= step
    return strided_view(self, shape, strides, offset_in_elements(self))


def diagonal(self, offset=0, dim1=0, dim2=1):
    """Return a view in which a diagonal of two dimensions is the last dimension."""
    ndim = self.ndim
    if offset == dim1 == 0 and dim2 == 1 < ndim:
        if ndim == 2 and self.flags.c_contiguous and self.size:  # NumPy's is read-only, and to change that takes time
            rows, columns = self.shape
            step = columns + 1
            return self.reshape(-1)[: (columns if columns < rows else rows) * step : step]
    else:
        dim1, dim2 = _two_dims(dim1, dim2, ndim)
    return diagonal_view(self, offset, dim1, dim2)


def _two_dims(dim1, dim2, ndim):
    first, second = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return first, second


def diagonal_view(array, offset, first, second):
    """Return a view of a diagonal, writable if the array is; `first` and `second` are counted from the front."""
    # beyond these offsets it is empty; NumPy would cut the offset to 32 bits
    if offset:
        offset = max(-array.shape[first], min(offset, array.shape[second]))
    out = array.diagonal(offset, first, second)
    if array.flags.writeable:
        out.flags.writeable = True
    return out


def unbind(self, dim=0):
    """Return a tuple of views, one for each index of a dimension."""
    if not self.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    lead = (_every,) * wrap_dim(dim, self.ndim)
    count = self.shape[len(lead)]
    check_count(count, self)
    return [self[(*lead, i, ...)] for i in range(count)]


def split(self, split_size, dim=0):
    """Return views of consecutive parts of one dimension, `split_size` long; the last may be shorter."""
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
    check_count(total // split_size, self)
    starts = range(0, total or 1, split_size)
    if not lead:
        return [self[i : i + split_size] for i in starts]
    return [self[(*lead, _slice(i, i + split_size))] for i in starts]


def split_with_sizes(self, split_sizes, dim=0):
    """Return views of consecutive parts of one dimension, of the given lengths."""
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
        parts.append(self[(*lead, _slice(start, start + n))] if n else slice(self, dim, start, start))
        start += n
    return parts


# Unlike PyTorch's name suggests, these return views as well; only autograd treats them as separate tensors, each with
# its own version counter. Conjugate and negative bits are resolved.
def unsafe_split(self, split_size, dim=0):
    """Split like `split`, into copies."""
    return split(np.asarray(self), split_size, dim)


def unsafe_split_with_sizes(self, split_sizes, dim=0):
    """Split like `split_with_sizes`, into copies."""
    return split_with_sizes(np.asarray(self), split_sizes, dim)


def narrow_copy(self, dim, start, length):
    """Copy `length` indices of a dimension from `start` on."""
    from .._common.dims import wrap_dim

    if not self.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if dim >= self.ndim:
        raise RuntimeError("Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false.")
    size = self.shape[wrap_dim(dim, self.ndim)]
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    begin = start + size if start < 0 else start
    if length < 0 or begin > size - length:
        raise RuntimeError(f"start ({begin}) + length ({length}) exceeds dimension size ({size}).")
    return slice(self, dim, begin, begin + length).copy()
