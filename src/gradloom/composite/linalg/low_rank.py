"""Decompositions of matrices of low rank, from products with random matrices, and a few extreme eigenvalues.

They are functions of the main namespace, not operators: PyTorch has them in Python, too.
"""

from __future__ import annotations

from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ...types.public import found_in as _found_in


def _basis(A: Tensor, q: int, niter: int, M: Tensor | None) -> Tensor:
    """Return q orthonormal columns that nearly span the range of B = A - M: those of (B B^H)^niter B R for a random R,
    made orthonormal after each product (Halko, Martinsson and Tropp, 2009, algorithm 4.4)."""
    dtype = A.dtype if A.is_floating_point() or A.is_complex() else None
    Q = ops.linalg_qr(_product(A, M, ops.randn((A.shape[-1], q), dtype=dtype, device=A.device)))[0]
    for _ in range(niter):
        Q = ops.linalg_qr(_product(A, M, Q, True))[0]
        Q = ops.linalg_qr(_product(A, M, Q))[0]
    return Q


def _product(A: Tensor, M: Tensor | None, X: Tensor, adjoint: bool = False) -> Tensor:
    """Return (A - M) X, or (A - M)^H X, as a difference of products."""
    product = ops.matmul(A.mH if adjoint else A, X)
    return product if M is None else product - ops.matmul(M.mH if adjoint else M, X)


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a singular value decomposition of matrices that are nearly of rank `q`: A - M = U diag(S) V^H.

    Args:
        A: (..., m, n).
        q: how many singular values to return; more than the rank makes them more exact.
        niter: how many power iterations refine the random subspace.
        M: the mean of the rows, which broadcasts against A; None is zero.

    Returns:
        U (..., m, q), S (..., q) and V (..., n, q).
    """
    count = 6 if q is None else q
    if M is not None:
        M = ops.broadcast_to(M, A.shape)
    wide = A.shape[-2] < A.shape[-1]
    if wide:
        A, M = A.mH, None if M is None else M.mH
    Q = _basis(A, count, 2 if niter is None else niter, M)
    B = ops.matmul(Q.mH, A)
    if M is not None:
        B = B - ops.matmul(Q.mH, M)
    U, S, Vh = ops.linalg_svd(B, False)
    V = Vh.mH
    U = ops.matmul(Q, U)
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return the principal components of rows: `svd_lowrank` of A, less the mean of its rows if `center`.

    Args:
        A: (..., m, n): m samples of n values.
        q: how many components to return; min(6, m, n) by default.
        niter: how many power iterations refine the random subspace.

    Returns:
        U (..., m, q), S (..., q) and V (..., n, q), whose columns are the principal directions.

    Raises:
        ValueError: for q beyond min(m, n) or negative, or a negative niter.
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - ops.mean(A, (-2,), True)
    return svd_lowrank(A, q, niter)


_found_in("gradloom", pca_lowrank, svd_lowrank)
