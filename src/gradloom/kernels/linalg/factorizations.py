"""Factorizations of batches of matrices, and inverses."""

from __future__ import annotations

import numpy as np

from .._common.errors import LinAlgError
from .checks import columns, require_floating, require_lapack, require_matrices, require_precise, require_square
from .solve import lu_factor_ex, lu_solve


def inv_ex(A, check_errors=False):
    """Return the inverses of matrices, and for each 0, or the number of the first zero pivot if it is singular."""
    require_square("linalg.inv", A)
    require_precise("linalg.inv", A)
    info = np.zeros(A.shape[:-2], np.int32)
    if not A.size:
        return columns(A.copy()), info
    try:
        return columns(np.linalg.inv(A)), info
    except np.linalg.LinAlgError:
        factors, pivots, info = lu_factor_ex(A)
    if check_errors and info.any():
        raise LinAlgError(singular_message("linalg.inv_ex", info))
    return lu_solve(factors, pivots, np.broadcast_to(np.eye(A.shape[-1], dtype=A.dtype), A.shape)), info


def singular_message(name, info):
    """Return the message for the first matrix with a zero pivot."""
    position = int((info != 0).reshape(-1).argmax())
    where = f"(Batch element {position}): " if info.ndim else ""
    return (
        f"{name}: {where}The diagonal element {int(info.reshape(-1)[position])} is zero, the inversion could not be "
        "completed because the input matrix is singular."
    )


def qr(A, mode="reduced"):
    """Return Q and R of the QR decomposition of matrices (..., m, n).

    Args:
        mode: "reduced", with k = min(m, n) columns of Q and rows of R; "complete", with m; or "r", with an empty Q.
    """
    require_matrices("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    require_floating("linalg.qr", A)
    require_lapack("geqrf_cpu", A)
    *batch, m, n = A.shape
    if A.size:
        if mode == "r":
            return np.zeros(0, A.dtype), columns(np.linalg.qr(A, "r"))
        q, r = np.linalg.qr(A, mode)
        return columns(q), columns(r)
    k = m if mode == "complete" else min(m, n)
    q = np.zeros((*batch, m, k), A.dtype)
    q[...] = np.eye(m, k)
    return np.zeros(0, A.dtype) if mode == "r" else columns(q), columns(np.zeros((*batch, k, n), A.dtype))
