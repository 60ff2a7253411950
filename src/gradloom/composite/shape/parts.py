"""Composites that split a tensor."""

from __future__ import annotations

from ...dispatch import _operators as ops
from ...kernels._common.dims import wrap_dim
from ...kernels._common.errors import check_count


def narrow(self, dim, start, length):
    """Return the slice of `length` indices of a dimension from `start` on."""
    array = self._array
    if not array.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    size = array.shape[wrap_dim(dim, array.ndim)]
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    if start < 0:
        start += size
    if start > size - length:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return ops.slice_Tensor(self, dim, start, start + length, 1)


def narrow_tensor(self, dim, start, length):
    """Compute `narrow` with `start` as a 0-dim integer tensor."""
    if start._array.ndim or start._array.dtype.kind not in "iu":
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    return narrow(self, dim, int(start._array), length)


def split_sizes(self, split_size, dim):
    """Return consecutive parts of one dimension, of the given sizes."""
    return ops.split_with_sizes(self, split_size, dim)


def chunk(self, chunks, dim):
    """Return at most `chunks` consecutive parts of one dimension, all but the last of the same size."""
    return _in_chunks(self, chunks, dim, "chunk", ops.split_Tensor, ops.split_with_sizes)


def unsafe_chunk(self, chunks, dim):
    """Compute `chunk`, with results that autograd does not treat as views."""
    return _in_chunks(self, chunks, dim, "chunk", ops.unsafe_split, ops.unsafe_split_with_sizes)


def _in_chunks(self, chunks, dim, name, split, split_with_sizes):
    array = self._array
    if not array.ndim:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"{name} expects `chunks` to be greater than 0, got: {chunks}")
    size = array.shape[wrap_dim(dim, array.ndim)]
    if not size:
        return split_with_sizes(self, (0,) * chunks, dim)
    return split(self, (size + chunks - 1) // chunks, dim)


def tensor_split_sections(self, sections, dim):
    """Return `sections` slices of one dimension; the first ones are longer by one if it does not divide evenly."""
    dim = _splittable(self, dim)
    if sections <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
    check_count(sections, self._array)
    small, longer = divmod(self._array.shape[dim], sections)
    ends = [i * small + min(i, longer) for i in range(sections + 1)]
    return tuple([ops.slice_Tensor(self, dim, a, b, 1) for a, b in zip(ends, ends[1:], strict=False)])


def tensor_split_indices(self, indices, dim):
    """Return slices of one dimension between indices."""
    dim = _splittable(self, dim)
    starts, ends = (0, *indices), (*indices, self._array.shape[dim])
    return tuple([ops.slice_Tensor(self, dim, a, b, 1) for a, b in zip(starts, ends, strict=True)])


def tensor_split_tensor(self, tensor_indices_or_sections, dim):
    """Split by the number of sections, or by the indices, in a tensor."""
    _splittable(self, dim)
    given = tensor_indices_or_sections._array
    if given.dtype != "int64":
        from ...types.dtype import TYPE_OF, scalar_type_name

        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{scalar_type_name(TYPE_OF[given.dtype])}"
        )
    if given.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
            f"one-dimensional tensor, but got a tensor with {given.ndim} dims"
        )
    if not given.ndim:
        return tensor_split_sections(self, given.item(), dim)
    return tensor_split_indices(self, tuple(given.tolist()), dim)


def _splittable(self, dim):
    ndim = self._array.ndim
    if not ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    return wrap_dim(dim, ndim)


def hsplit_int(self, sections):
    """Return equal parts of the second dimension, or of a vector."""
    return _equal_parts(self, sections, "hsplit", 1, self._array.ndim != 1)


def hsplit_array(self, indices):
    """Return parts of the second dimension, or of a vector, between indices."""
    _check_split(self, "hsplit", 1)
    return tensor_split_indices(self, indices, 0 if self._array.ndim == 1 else 1)


def vsplit_int(self, sections):
    """Return equal parts of the first dimension."""
    return _equal_parts(self, sections, "vsplit", 2, 0)


def vsplit_array(self, indices):
    """Return parts of the first dimension between indices."""
    _check_split(self, "vsplit", 2)
    return tensor_split_indices(self, indices, 0)


def dsplit_int(self, sections):
    """Return equal parts of the third dimension."""
    return _equal_parts(self, sections, "dsplit", 3, 2)


def dsplit_array(self, indices):
    """Return parts of the third dimension between indices."""
    _check_split(self, "dsplit", 3)
    return tensor_split_indices(self, indices, 2)


def _check_split(self, name, least):
    ndim = self._array.ndim
    if ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {ndim} dimensions!"
        )


def _equal_parts(self, sections, name, least, dim):
    _check_split(self, name, least)
    dim = int(dim)
    size = self._array.shape[dim]
    if not sections or size % sections:
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{size} is not divisible by the split_size {sections}!"
        )
    return tensor_split_sections(self, sections, dim)
