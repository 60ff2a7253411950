"""Kernels for sparse tensors that join, select and reshape entries, and what is made of them.

An entry is an index into the sparse dimensions with its values, an array of the dense ones. See Note [Sparse tensors].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..dispatch import _operators as ops
from ..dispatch.promotion import result_type
from ..kernels._common.dims import wrap_dim
from ..types.dtype import TYPE_OF, can_cast, scalar_type_name
from ..types.silence import silence
from . import arrays
from .differentiable import coalesce
from .tensor import SparseTensor, components, make


def _coalesced(self: SparseTensor) -> SparseTensor:
    return self if self._coalesced else coalesce(self.detach())


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
    chosen = indices[:, entries]
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


def power(self: SparseTensor, exponent: Any) -> SparseTensor:
    """Raise the values of the coalesced tensor to a power other than 0."""
    if exponent == 0:
        raise RuntimeError("pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    source = _coalesced(self)
    values = ops.pow(wrap(source._value_array), exponent)
    given, wanted = values.dtype, TYPE_OF[self._array.dtype]
    if not can_cast(given, wanted):
        raise RuntimeError(
            f"result type {scalar_type_name(given)} can't be cast to the desired output type {scalar_type_name(wanted)}"
        )
    return make(source._index_array, values._array, self._array.shape, True)


def norm(self: SparseTensor, p: Any = 2, dim: Any = (), keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Return the norm of the values of the coalesced tensor, over all dimensions."""
    rank = self._array.ndim
    if dim and sorted(wrap_dim(d, rank) for d in dim) != list(range(rank)):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all "
            "dimensions of the input"
        )
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dtype is not None:
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    values = wrap(np.ascontiguousarray(_coalesced(self)._value_array))
    return ops.linalg_vector_norm(values, 2 if p is None else p)


def bmm(self: Tensor, mat2: Tensor) -> Tensor:
    """Return the products of a batch of sparse matrices and a batch of dense ones, dense."""
    if not isinstance(self, SparseTensor) or isinstance(mat2, SparseTensor):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    indices, values, shape = components(_coalesced(self))
    first, second = self._array, mat2._array
    if len(indices) != 3 or first.ndim != 3:
        raise RuntimeError(f"bmm_sparse: Tensor 'self' must have 3 sparse dims, but has {len(indices)}")
    if second.ndim != 3:
        raise RuntimeError(f"bmm_sparse: Tensor 'mat2' must have 3 dims, but has {second.ndim}")
    for a, b in ((0, 0), (2, 1)):
        if first.shape[a] != second.shape[b]:
            raise RuntimeError(f"bmm_sparse: 'self.size({a})' and 'mat2.size({b})' must match")
    if first.dtype != second.dtype:
        names = [scalar_type_name(TYPE_OF[a.dtype]) for a in (first, second)]
        raise RuntimeError(f"expected scalar type {names[0]} but found {names[1]}")
    batch, rows, columns = shape  # the batch is one matrix of blocks along the diagonal
    places = np.stack([indices[0] * rows + indices[1], indices[0] * columns + indices[2]])
    right = arrays.widened(np.ascontiguousarray(second)).reshape(batch * columns, second.shape[2])
    found = arrays.matrix(places, values, (batch * rows, batch * columns)) @ right
    return wrap(np.asarray(found).reshape(batch, rows, second.shape[2]).astype(first.dtype, copy=False))


KERNELS: dict[str, Callable[..., Any]] = {
    "cat": cat,
    "stack": stack,
    "select": select,
    "index_select": index_select,
    "narrow_copy": narrow_copy,
    "unsqueeze": unsqueeze,
    "pow_Tensor_Scalar": power,
    "norm_Scalar": norm,
    "norm_ScalarOpt_dim": norm,
    "norm_ScalarOpt_dtype": lambda self, p, dtype: norm(self, p, dtype=dtype),
    "norm_ScalarOpt_dim_dtype": norm,
    "bmm": bmm,
    "any": lambda self: ops.any(wrap(self._value_array)),
}


silence(globals())
