"""Kernels for sparse tensors that join, select, copy and reorder entries.

An entry is an index into the sparse dimensions with its values, an array of the dense ones. See Note [Sparse tensors].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor import Tensor, wrap
from ...dispatch import _operators as ops
from ...dispatch.promotion import result_type
from ...kernels._common.dims import require_dim, wrap_dim
from ...types.dtype import TYPE_OF
from ...types.silence import silence
from ..tensor import SparseTensor, components, empty, make
from ..values import sizes


def cat(tensors: Any, dim: int = 0) -> SparseTensor:
    """Join sparse tensors along a sparse or a dense dimension. The result is not coalesced."""
    first = tensors[0]
    for i, t in enumerate(tensors):
        if not isinstance(t, SparseTensor):
            raise RuntimeError(f"Concatenating sparse tensors, but a dense tensor was found at position {i}.")
    shape, count = first._array.shape, len(first._index_array)
    dim = wrap_dim(dim, len(shape))
    for i, t in enumerate(tensors):
        other, of_other = t._array.shape, len(t._index_array)
        if (*other[:dim], *other[dim + 1 :]) != (*shape[:dim], *shape[dim + 1 :]):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(shape)} (except in the concatenating dimension), but "
                f"found shape: {list(other)} at position {i}."
            )
        if of_other != count:
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {count}, {len(shape) - count}, but tensor "
                f"at position {i} has {of_other}, {len(other) - of_other}."
            )
    dtype = result_type(*tensors).numpy
    ends = np.cumsum([t._array.shape[dim] for t in tensors])
    whole = (*shape[:dim], int(ends[-1]), *shape[dim + 1 :])
    pairs = [components(t)[:2] for t in tensors]
    if dim < count:
        starts = ends - [t._array.shape[dim] for t in tensors]
        moved = [_moved(indices, dim, start) for (indices, _), start in zip(pairs, starts, strict=True)]
        joined = np.concatenate([values.astype(dtype, copy=False) for _, values in pairs])
        return make(np.concatenate(moved, 1), joined, whole)
    axis, found = dim - count + 1, []
    for (_, values), end in zip(pairs, ends, strict=True):
        each = np.zeros((len(values), *whole[count:]), dtype)
        np.moveaxis(each, axis, 0)[end - values.shape[axis] : end] = np.moveaxis(values, axis, 0)
        found.append(each)
    return make(np.concatenate([indices for indices, _ in pairs], 1), np.concatenate(found), whole)


def _moved(indices: np.ndarray, dim: int, by: int) -> np.ndarray:
    found = indices.copy()
    found[dim] += by
    return found


def stack(tensors: Any, dim: int = 0) -> SparseTensor:
    """Join sparse tensors along a new dimension."""
    return cat([unsqueeze(t, dim) for t in tensors], wrap_dim(dim, tensors[0]._array.ndim + 1))


def select(self: SparseTensor, dim: int, index: int) -> Tensor:
    """Return the entries at one index of a dimension; a dense tensor if no sparse dimension is left."""
    shape = self._array.shape
    dim = wrap_dim(dim, len(shape))
    if not -shape[dim] <= index < shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {dim}")
    index %= shape[dim]
    indices, values, _ = components(self)
    count, rest = len(indices), (*shape[:dim], *shape[dim + 1 :])
    if dim >= count:
        return make(indices, values.take(index, dim - count + 1), rest, self._coalesced)
    chosen = indices[dim] == index
    if count == 1:
        return wrap(np.asarray(values[chosen].sum(0, dtype=values.dtype)))
    return make(np.delete(indices[:, chosen], dim, 0), values[chosen], rest, self._coalesced)


def unbind(self: SparseTensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return the parts at all indices of a dimension."""
    return tuple([select(self, dim, i) for i in range(self._array.shape[wrap_dim(dim, self._array.ndim)])])


def index_select(self: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    """Return the entries at some indices of a dimension, in their order; not coalesced along a sparse dimension."""
    shape = self._array.shape
    dim = wrap_dim(dim, len(shape))
    wanted = np.asarray(index._array)
    if index.is_sparse or wanted.ndim != 1 or wanted.dtype != np.int64:
        raise IndexError("index_select() argument index must be 1-D strided (non-sparse) long-tensor.")
    outside = (wanted < -shape[dim]) | (wanted >= shape[dim])
    if outside.any():
        raise IndexError(
            f"index_select(): index contains {int(wanted[outside][0])} that is out of range for tensor of size "
            f"{list(shape)} at dimension {dim}"
        )
    wanted = np.where(wanted < 0, wanted + shape[dim], wanted)
    indices, values, _ = components(self)
    count, found = len(indices), (*shape[:dim], len(wanted), *shape[dim + 1 :])
    if dim >= count:
        return make(indices, values.take(wanted, dim - count + 1), found, self._coalesced)
    order = np.argsort(indices[dim], kind="stable")
    rows = indices[dim][order]
    starts, stops = np.searchsorted(rows, wanted), np.searchsorted(rows, wanted, "right")
    counts = stops - starts
    begins = np.cumsum(counts) - counts
    entries = order[np.repeat(starts - begins, counts) + np.arange(counts.sum())]
    chosen = indices.take(entries, 1)
    chosen[dim] = np.repeat(np.arange(len(wanted)), counts)
    return make(chosen, values[entries], found)


def narrow_copy(self: SparseTensor, dim: int, start: int, length: int) -> SparseTensor:
    """Return the entries in a range of a dimension."""
    shape = self._array.shape
    dim = wrap_dim(dim, len(shape))
    stop = start + length
    if not 0 <= start <= stop <= shape[dim]:
        raise RuntimeError(
            f"Invalid range to narrow. range(start, start+length) must be a subset of range(0, {shape[dim]})."
        )
    indices, values, _ = components(self)
    count, found = len(indices), (*shape[:dim], length, *shape[dim + 1 :])
    if dim >= count:
        part = (slice(None),) * (dim - count + 1) + (slice(start, stop),)
        return make(indices, values[part].copy(), found, self._coalesced)
    chosen = (indices[dim] >= start) & (indices[dim] < stop)
    return make(_moved(indices[:, chosen], dim, -start), values[chosen], found, self._coalesced)


def unsqueeze(self: SparseTensor, dim: int) -> SparseTensor:
    """Return the tensor with a dimension of extent 1: a sparse one up to the first dense one. It is not coalesced."""
    indices, values, _ = components(self)
    rank, count = self._array.ndim, len(indices)
    dim = wrap_dim(dim, rank + 1)
    shape = (*self._array.shape[:dim], 1, *self._array.shape[dim:])
    if dim <= count:
        return make(np.insert(indices, dim, 0, 0), values, shape)
    return make(indices, np.expand_dims(values, dim - count + 1), shape)


def transpose(self, dim0, dim1):
    """Exchange two sparse or two dense dimensions."""
    count, rank = len(self._index_array), self._array.ndim
    for dim in (dim0, dim1):
        require_dim(dim, rank)
    order = list(range(rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    if (dim0 % rank < count) != (dim1 % rank < count):
        raise RuntimeError(
            f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {count}, d0: {dim0}, d1: {dim1}"
        )
    return _permuted(self, order)


def _permuted(self, order):
    indices, values, _ = components(self)
    count = len(indices)
    shape = tuple([self._array.shape[d] for d in order])
    values = values.transpose(0, *[d - count + 1 for d in order[count:]])
    return make(indices[order[:count]], values, shape, list(order) == sorted(order) and self._coalesced)


def permute(self, dims):
    """Reorder sparse and dense dimensions, each among themselves."""
    rank, count = self._array.ndim, len(self._index_array)
    if len(dims) != rank:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(dims)}"
        )
    order = [wrap_dim(d, rank) for d in dims]
    if len(set(order)) != rank:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    if sorted(order[:count]) != list(range(count)):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed."
            f"Got sparse_dim = {count}"
        )
    return _permuted(self, order)


def t(self):
    """Transpose a matrix; return an alias of a vector."""
    rank = self._array.ndim
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    return transpose(self, 0, 1) if rank == 2 else detach(self)


def expand(self, *_):
    """Raise RuntimeError: entries are not repeated."""
    raise RuntimeError("expand is unsupported for Sparse tensors")


def copy_(self, src, non_blocking=False):
    """Take the entries of another sparse tensor."""
    if not isinstance(self, SparseTensor) or not isinstance(src, SparseTensor):
        names = [t.type() for t in (self, src)]
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{names[0]} and src type = {names[1]}"
        )
    if self._array.shape != src._array.shape:
        raise RuntimeError(f"copy_(): the sizes differ: {sizes(self)} and {sizes(src)}")
    self._replace(src._index_array.copy(), src._value_array.astype(self._array.dtype), src._coalesced)
    return self


def clone(self, memory_format=None):
    """Return a copy of the entries."""
    return make(self._index_array.copy(), self._value_array.copy(), self._array.shape, self._coalesced)


def to_copy(self, dtype=None, *_):
    """Return a copy of the entries in a dtype."""
    numpy_type = self._array.dtype if dtype is None else dtype.numpy
    values = ops.to_dtype(wrap(self._value_array), TYPE_OF[numpy_type], False, True, None)._array
    return make(self._index_array.copy(), values, self._array.shape, self._coalesced)


def transpose_(self, dim0, dim1):
    """Exchange two sparse or two dense dimensions in place. The result is not coalesced."""
    return _become(self, transpose(self, dim0, dim1))


def t_(self):
    """Transpose a matrix in place."""
    return _become(self, t(self))


def _become(self, found):
    self._array = found._array
    self._replace(found._index_array, found._value_array, False)
    return self


def new_zeros(self, size, dtype=None, *_):
    """Return a tensor of some sizes without entries, all of whose dimensions are sparse."""
    return empty(tuple(size), self._array.dtype if dtype is None else dtype.numpy)


def empty_like(self, dtype=None, *_):
    """Return a tensor of the same sizes without entries."""
    numpy_type = self._array.dtype if dtype is None else dtype.numpy
    return empty(self._array.shape, numpy_type, self._array.ndim - len(self._index_array))


def detach(self):
    """Return an alias without history."""
    return self._detached_alias()


def contiguous(self, *_):
    """Raise RuntimeError: there are no strides."""
    raise RuntimeError("unsupported memory format option Contiguous: a sparse tensor has none")


silence(globals())
