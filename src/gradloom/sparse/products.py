"""Products of a sparse matrix with a dense one whose results are sparse: `smm`, `hspmm` and `sspaddmm`."""

from __future__ import annotations

from collections.abc import Callable

from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..dispatch.overloads import parsed
from .construction import sparse_coo_tensor


@parsed(("mat1", "Tensor"), ("mat2", "Tensor"))
def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """Return mat1 @ mat2 of a sparse (n, m) and a dense (m, p) matrix as a hybrid tensor: the rows that mat1 has.

    Raises RuntimeError if `mat1` is not sparse.
    """
    rows, values = _rows(mat1, mat2, "hspmm: Argument #2: Expected a sparse tensor")
    return sparse_coo_tensor(rows.unsqueeze(0), values, (mat1.shape[0], mat2.shape[1]))


@parsed(("self", "Tensor"), ("mat2", "Tensor"))
def smm(self: Tensor, mat2: Tensor) -> Tensor:
    """Return self @ mat2 of a sparse (n, m) and a dense (m, p) matrix, sparse: the elements of the rows that self has.

    Raises RuntimeError if `self` is not sparse.
    """
    indices, values = _elements(self, mat2)
    return sparse_coo_tensor(indices, values, (self.shape[0], mat2.shape[1]))


@parsed(("self", "Tensor"), ("mat1", "Tensor"), ("mat2", "Tensor"), "*", ("beta", "Scalar", 1), ("alpha", "Scalar", 1))
def sspaddmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta * self + alpha * mat1 @ mat2, sparse and not coalesced, for sparse `self` (n, p) and `mat1` (n, m).

    Args:
        mat2: dense, (m, p).
        beta, alpha: factors.

    Raises RuntimeError if `self` or `mat1` is not sparse.
    """
    _require_sparse(self)
    indices, values = _elements(mat1, mat2)
    places = ops.cat([self._indices(), indices], 1)
    return sparse_coo_tensor(places, ops.cat([self._values() * beta, values * alpha]), self.shape)


def _elements(mat1, mat2):
    """Return the places (2, n) and the values (n,) of a product."""
    rows, values = _rows(mat1, mat2)
    columns = ops.arange(mat2.shape[1], device=mat2.device)
    places = [rows.repeat_interleave(len(columns)), columns.repeat(len(rows))]
    return ops.stack(places), values.reshape(-1)


def _rows(mat1, mat2, message="tensor.sspaddmm(...) can only be called on sparse tensors"):
    """Return the numbers of the rows that a sparse matrix has, and these rows of its product with a dense one."""
    _require_sparse(mat1, message)
    rows = mat1.coalesce().indices()[0].unique()
    return rows, ops.mm(mat1, mat2)[rows]


def _require_sparse(tensor, message="tensor.sspaddmm(...) can only be called on sparse tensors"):
    if not tensor.is_sparse:
        raise RuntimeError(message)


dsmm: Callable[..., Tensor] = ops.mm
hsmm: Callable[..., Tensor] = hspmm
saddmm: Callable[..., Tensor] = sspaddmm
