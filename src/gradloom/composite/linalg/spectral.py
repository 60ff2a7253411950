"""Eigenvalues, singular values, and what follows from them: norms of matrices, condition, rank and pseudoinverse."""

from __future__ import annotations

from ...core.tangents import is_differentiated
from ...dispatch import _operators as ops
from ...return_types import result_class

_EIGH = result_class("linalg_eigh", ("eigenvalues", "eigenvectors"))
_LINALG_SVD = result_class("linalg_svd", ("U", "S", "Vh"))
_SVD = result_class("svd", ("U", "S", "V"))


def eigh(self, UPLO="L"):
    """Return the eigenvalues and eigenvectors of Hermitian matrices (..., n, n), of which one triangle is read."""
    return _EIGH(tuple(ops._linalg_eigh(self, UPLO, True)))


def eigvalsh(self, UPLO="L"):
    """Return the eigenvalues of Hermitian matrices, ascending. Eigenvectors are computed if a derivative needs them."""
    return ops._linalg_eigh(self, UPLO, is_differentiated(self))[0]


def eigvals(self):
    """Return the eigenvalues of square matrices. Eigenvectors are computed if a derivative needs them."""
    if not is_differentiated(self):
        return ops._linalg_eigvals(self)
    return ops.linalg_eig(self)[0]


def linalg_svd(A, full_matrices=True, driver=None):
    """Return U, S and Vh with A = U diag(S) Vh."""
    return _LINALG_SVD(tuple(ops._linalg_svd(A, full_matrices, True, driver=driver)))


def svdvals(A, driver=None):
    """Return the singular values, descending. Singular vectors are computed if a derivative needs them."""
    return ops._linalg_svd(A, False, is_differentiated(A), driver=driver)[1]


def svd(self, some=True, compute_uv=True):
    """Return U, S and V with self = U diag(S) V^H: reduced ones for `some`; zeros for U and V without `compute_uv`."""
    if self.dim() < 2:
        raise RuntimeError(
            f"linalg.svd: input should have at least 2 dimensions, but has {self.dim()} dimensions instead"
        )
    if compute_uv:
        U, S, Vh = ops._linalg_svd(self, not some, True)
        return _SVD((U, S, Vh.mH))
    S = ops.linalg_svdvals(self)
    *batch, m, n = self.shape
    return _SVD((ops.new_zeros(self, (*batch, m, m)), S, ops.new_zeros(self, (*batch, n, n))))
