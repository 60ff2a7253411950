"""`gradloom.sparse`: tensors in the COO format, and the functions that PyTorch has in `torch.sparse`.

`sparse_coo_tensor` and `Tensor.to_sparse` make sparse tensors. docs/sparse.md lists their operators; Note [Sparse
tensors] tells how they are dispatched.
"""

from __future__ import annotations

import typing as _typing
from collections.abc import Callable, Sequence

from ..core.tensor import Tensor
from ..dispatch import _operators as _ops
from ..kernels._common.dims import require_dim as _require_dim, wrap_dims as _wrap_dims
from ..types.dtype import dtype as _dtype
from ..types.public import found_in as _found_in
from . import differentiable as _differentiable, operators as _operators
from .construction import (
    check_sparse_tensor_invariants as check_sparse_tensor_invariants,
    sparse_coo_tensor as sparse_coo_tensor,
    spdiags as spdiags,
)
from .tensor import SparseTensor as _SparseTensor

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "softmax",
    "spdiags",
    "sum",
]

spmm: Callable[..., Tensor] = _ops.mm  # by its old name


def mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices, of which either or both may be sparse; sparse if both are.

    The gradient of a sparse factor is sparse, with its places.

    Raises RuntimeError if the shapes or dtypes do not fit, TypeError for what is no tensor.
    """
    _differentiable.require_tensors("mm", mat1=mat1, mat2=mat2)
    if mat1.is_sparse and mat2.is_sparse:
        return _differentiable.sparse_sparse_matmul(mat1, mat2)  # type: ignore[arg-type]
    if mat2.is_sparse:
        return mm(mat2.transpose(-2, -1), mat1.transpose(-2, -1)).transpose(-2, -1)
    zeros = _ops.new_zeros(mat2, (mat1.shape[0], mat2.shape[-1]))
    return _differentiable.sparse_addmm(zeros, mat1, mat2, 0, 1)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta * mat + alpha * mat1 @ mat2 for a sparse `mat1` (n, m) and dense `mat` (n, p) and `mat2` (m, p).

    The gradient of `mat1` is sparse, with its places.
    """
    _differentiable.require_tensors("addmm", mat=mat, mat1=mat1, mat2=mat2)
    return _differentiable.sparse_addmm(mat, mat1, mat2, beta, alpha)


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: _dtype | None = None) -> Tensor:
    """Return the sum of a sparse tensor over all or some dimensions; sparse if a sparse dimension is left.

    Args:
        dim: the dimensions to sum; all by default.
        dtype: of the result; that of `input` by default.

    Raises RuntimeError for a dense tensor or a repeated dimension, IndexError for a dimension out of range.
    """
    source = _differentiable.sparse_or_raise(input, "sum")
    if dim is None:
        return _ops.sum(_differentiable.entries(_differentiable.coalesce(source)), dtype=dtype)
    rank, dims = source.dim(), (dim,) if isinstance(dim, int) else tuple(dim)
    for d in dims:
        _require_dim(d, rank)
    dims = tuple(sorted(_wrap_dims(dims, rank)))
    if dtype is not None:
        source = source.to(dtype)  # type: ignore[assignment]
    return _differentiable.sparse_sum(source, dims)


def softmax(input: Tensor, dim: int, *, dtype: _dtype | None = None) -> Tensor:
    """Return the softmax of a sparse tensor along `dim`, over its entries only, coalesced.

    Args:
        dtype: to which `input` is converted first.
    """
    return _differentiable.softmax(*_softmax_arguments(input, dim, dtype, "softmax"))  # type: ignore[no-any-return]


def log_softmax(input: Tensor, dim: int, *, dtype: _dtype | None = None) -> Tensor:
    """Return the logarithm of the softmax of a sparse tensor along `dim`, over its entries only, coalesced.

    Args:
        dtype: to which `input` is converted first.
    """
    arguments = _softmax_arguments(input, dim, dtype, "log_softmax")
    return _differentiable.log_softmax(*arguments)  # type: ignore[no-any-return]


def _softmax_arguments(input, dim, dtype, name) -> tuple[_SparseTensor, int]:
    source = _differentiable.sparse_or_raise(input, name)
    rank = source.dim()
    if not isinstance(dim, int):
        raise TypeError(f"{name}(): argument 'dim' (position 2) must be int, not {type(dim).__name__}")
    _require_dim(dim, rank)
    return (source if dtype is None else source.to(dtype)), dim % rank  # type: ignore[return-value]


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """Return a form of gradcheck or gradgradcheck for functions with sparse outputs.

    Its argument `masked`, False by default, says whether elements without an entry are constant zeros. Otherwise sparse
    inputs get an entry for each element.
    """

    def checked(func: Callable[..., _typing.Any], inputs: _typing.Any, **kwargs: _typing.Any) -> bool:
        masked = kwargs.pop("masked", False)
        given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)

        def dense(*args: _typing.Any) -> _typing.Any:
            found = func(*args)
            several = found if isinstance(found, (tuple, list)) else (found,)
            return tuple([t.to_dense(masked_grad=masked) if t.is_sparse else t for t in several])

        return gradcheck(dense, given if masked else tuple([_filled(x) for x in given]), masked=True, **kwargs)

    return checked


def _filled(value: _typing.Any) -> _typing.Any:
    """Return a sparse tensor with an entry for each element; anything else as it is."""
    if not isinstance(value, _SparseTensor):
        return value
    dense = value.detach().to_dense()
    places = _ops.ones_like(dense).to_sparse(value.sparse_dim())
    return dense.sparse_mask(places).requires_grad_(value.requires_grad)


if not _typing.TYPE_CHECKING:

    def __getattr__(name):
        from .legacy_types import sparse_type

        found = sparse_type(name)
        if found is None:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        globals()[name] = found
        return found


_found_in(__name__, as_sparse_gradcheck, check_sparse_tensor_invariants, spdiags)
