"""The methods of tensors that concern sparse tensors; `gradloom.binding` puts them on Tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import is_grad_enabled
from ..autograd.passes import increment_version
from ..core.tensor import Tensor, wrap
from ..dispatch.overloads import parsed
from ..types.device import layout as _layout, sparse_coo, strided
from ..types.dtype import dtype as _dtype
from . import differentiable, products
from .differentiable import sparse_or_raise
from .tensor import SparseTensor, empty, make


def coalesce(self: Tensor) -> Tensor:
    """Return the sparse tensor with its places in lexicographic order, and the values of each place summed.

    Raises RuntimeError for a dense tensor.
    """
    return differentiable.coalesce(sparse_or_raise(self, "coalesce"))  # type: ignore[no-any-return]


def is_coalesced(self: Tensor) -> bool:
    """Return whether a sparse tensor's places are known to be in lexicographic order without repetitions.

    Raises RuntimeError for a dense tensor.
    """
    return sparse_or_raise(self, "is_coalesced")._coalesced


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Set whether the places count as lexicographically ordered without repetitions, which is not checked.

    Raises RuntimeError for a dense tensor and for a leaf that requires grad, TypeError for what is no bool.
    """
    changed = sparse_or_raise(self, "_coalesced_")
    if not isinstance(coalesced, bool):
        kind = type(coalesced).__name__
        raise TypeError(f"_coalesced_(): argument 'coalesced' (position 1) must be bool, not {kind}")
    if changed.requires_grad and changed.is_leaf and is_grad_enabled():
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    increment_version(changed)
    changed._coalesced = coalesced
    return changed


def indices(self: Tensor) -> Tensor:
    """Return the places of a coalesced sparse tensor: int64 (sparse dimensions, nnz).

    Raises RuntimeError for any other tensor.
    """
    found = sparse_or_raise(self, "indices")
    if not found._coalesced:
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return wrap(found._index_array)


def values(self: Tensor) -> Tensor:
    """Return the values of a coalesced sparse tensor, (nnz, *dense dimensions), differentiably. They share memory.

    Raises RuntimeError for any other tensor.
    """
    if not isinstance(self, SparseTensor):
        raise RuntimeError("values expected sparse tensor layout but got Strided")
    if not self._coalesced:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return differentiable.entries(self)


def _indices(self: Tensor) -> Tensor:
    """Return the places of a sparse tensor, coalesced or not."""
    return wrap(_sparse(self, "_indices")._index_array)


def _values(self: Tensor) -> Tensor:
    """Return the values of a sparse tensor, coalesced or not, without history."""
    return wrap(_sparse(self, "_values")._value_array)


def _nnz(self: Tensor) -> int:
    """Return the number of entries of a sparse tensor."""
    return len(_sparse(self, "_nnz")._value_array)


def _sparse(tensor: Tensor, name: str) -> SparseTensor:
    if isinstance(tensor, SparseTensor):
        return tensor
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: the tensor is not sparse."
    )


def sparse_dim(self: Tensor) -> int:
    """Return the number of sparse dimensions, the leading ones; 0 for a dense tensor."""
    return len(self._index_array) if isinstance(self, SparseTensor) else 0


def _dimI(self: Tensor) -> int:
    """Return the number of sparse dimensions of a sparse tensor."""
    return len(_sparse(self, "sparse_dim")._index_array)


def _dimV(self: Tensor) -> int:
    """Return the number of dense dimensions of a sparse tensor."""
    return dense_dim(_sparse(self, "dense_dim"))


def dense_dim(self: Tensor) -> int:
    """Return the number of dense dimensions, those of each value."""
    return self.dim() - sparse_dim(self)


def to_dense(self: Tensor, dtype: _dtype | None = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return a dense tensor with the same elements; a dense tensor itself, converted if a dtype is given.

    Args:
        masked_grad: whether elements without an entry get no gradient; True by default.

    Raises RuntimeError for a sparse tensor and a dtype.
    """
    if isinstance(self, SparseTensor):
        if dtype is not None:
            raise RuntimeError("dtype argument is not supported by sparse_to_dense")
        return differentiable.to_dense(self, masked_grad is not False)
    if dtype is None:
        return self
    if not isinstance(dtype, _dtype):
        raise TypeError(f"to_dense(): argument 'dtype' (position 1) must be torch.dtype, not {type(dtype).__name__}")
    return self.to(dtype)


def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: _layout | None = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:
    """Return a sparse tensor with an entry for each nonzero element; a sparse tensor itself.

    Args:
        sparse_dim: the number of leading dimensions that are sparse, instead of all.
        layout: sparse_coo; with strided, the result is dense.
        blocksize, dense_dim: must be None; they belong to other layouts.

    Raises:
        RuntimeError: for a number of dimensions that is out of range, or differs from a sparse tensor's.
        NotImplementedError: for another layout.
    """
    if blocksize is not None or dense_dim is not None or layout not in (None, sparse_coo, strided):
        raise NotImplementedError("to_sparse: gradloom has the layout sparse_coo only, without blocksize or dense_dim")
    if layout is strided:
        return differentiable.to_dense(self)
    rank = self.dim()
    if isinstance(self, SparseTensor):
        if sparse_dim is not None and sparse_dim != len(self._index_array):
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not "
                "supported"
            )
        return self
    if sparse_dim is not None:
        if rank and sparse_dim == 0:
            raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
        if not 0 <= sparse_dim <= rank:
            raise RuntimeError(
                f"dense_to_sparse: sparse_dim argument must be in [0,{rank}] range, but {sparse_dim} is given"
            )
    return differentiable.to_sparse(self, sparse_dim)


def to_sparse_coo(self: Tensor) -> Tensor:
    """Return `to_sparse()`."""
    return to_sparse(self)


@parsed(("self", "Tensor"), ("mask", "Tensor"), method=True)
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """Return the elements at the places of a sparse tensor of the same size, as a sparse tensor.

    Raises RuntimeError if the sizes differ or `mask` is dense.
    """
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask: expected a mask of layout sparse_coo, but got Strided")
    if mask.shape != self.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    return differentiable.sparse_mask(self, mask)  # type: ignore[no-any-return]


@parsed(("self", "Tensor"), ("mat2", "Tensor"), method=True)
def smm(self: Tensor, mat2: Tensor) -> Tensor:
    """Return the product with a dense matrix, sparse; see `torch.smm`."""
    return products.smm(self, mat2)


@parsed(
    ("self", "Tensor"),
    ("mat1", "Tensor"),
    ("mat2", "Tensor"),
    "*",
    ("beta", "Scalar", 1),
    ("alpha", "Scalar", 1),
    method=True,
)
def sspaddmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta * self + alpha * mat1 @ mat2, sparse; see `torch.sspaddmm`."""
    return products.sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)


@parsed(("self", "Tensor"), ("size", "int[]"), ("sparse_dim", "int"), ("dense_dim", "int"), method=True)
def sparse_resize_(self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
    """Change the sizes of a sparse tensor in place; its entries stay.

    Args:
        size: the new sizes.
        sparse_dim, dense_dim: how many of them are sparse and dense; those of a tensor with entries stay.

    Raises:
        RuntimeError: if the numbers do not add up, or a tensor with entries would lose some or change its dimensions.
        NotImplementedError: for a dense tensor.
    """
    tensor = _sparse(self, "sparse_resize_")
    _check_dims(size, sparse_dim, dense_dim)
    if not len(tensor._value_array):
        return _resized(tensor, size, sparse_dim)
    old, dims = tuple(tensor.shape), (tensor.sparse_dim(), tensor.dense_dim())
    if (sparse_dim, dense_dim) != dims:
        raise RuntimeError(
            f"changing the number of sparse and dense dimensions (from {dims[0]} and {dims[1]} to {sparse_dim} and "
            f"{dense_dim}) on a non-empty sparse tensor is not supported: use sparse_resize_and_clear_"
        )
    if any(new < before for new, before in zip(size[:sparse_dim], old, strict=False)):
        raise RuntimeError(
            f"shrinking the size of sparse dimensions (from {list(old[:sparse_dim])} to {list(size[:sparse_dim])}) on "
            "a non-empty sparse tensor is not supported: use sparse_resize_and_clear_"
        )
    if tuple(size[sparse_dim:]) != old[sparse_dim:]:
        raise RuntimeError(
            f"changing the size of dense dimensions (from {list(old[sparse_dim:])} to {list(size[sparse_dim:])}) on a "
            "non-empty sparse tensor is not supported: use sparse_resize_and_clear_"
        )
    found = make(tensor._index_array, tensor._value_array, tuple(size), tensor._coalesced)
    return _become(tensor, found)


@parsed(("self", "Tensor"), ("size", "int[]"), ("sparse_dim", "int"), ("dense_dim", "int"), method=True)
def sparse_resize_and_clear_(self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
    """Remove all entries of a sparse tensor and give it other sizes, in place.

    Args:
        size: the new sizes.
        sparse_dim, dense_dim: how many of them are sparse and dense.

    Raises:
        RuntimeError: if the numbers do not add up.
        NotImplementedError: for a dense tensor.
    """
    tensor = _sparse(self, "sparse_resize_and_clear_")
    _check_dims(size, sparse_dim, dense_dim)
    return _resized(tensor, size, sparse_dim)


@parsed(("self", "Tensor"), ("the_template", "Tensor"), method=True)
def resize_as_sparse_(self: Tensor, the_template: Tensor) -> Tensor:
    """Give a sparse tensor the sizes of another one, in place; see `sparse_resize_`."""
    _sparse(self, "resize_as_sparse_")
    template = _sparse(the_template, "resize_as_sparse_")
    return sparse_resize_(self, template.shape, template.sparse_dim(), template.dense_dim())


def _check_dims(size, sparse_dim, dense_dim):
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )


def _resized(tensor, size, sparse_dim):
    return _become(tensor, empty(tuple(size), tensor._array.dtype, len(size) - sparse_dim))


def _become(tensor, found):
    """Give a sparse tensor the sizes and entries of another one."""
    tensor._array = found._array
    tensor._replace(found._index_array, found._value_array, found._coalesced)
    return tensor
