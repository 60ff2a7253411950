"""Derivative helpers of factorizations."""

from __future__ import annotations

from ...dispatch import _operators as ops


def _inverse(matrix):
    return ops.linalg_inv_ex(matrix)[0]


def _check_qr(mode, m, n):
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, "
            "mode='reduced') if you are going to differentiate through linalg.qr."
        )
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")


def _diagonal(matrix):
    return ops.diagonal(matrix, 0, -2, -1)


def linalg_qr_backward(gQ, gR, Q, R, mode):
    """Return the gradient of A = Q R, where the diagonal of R is real.

    With square R, N = Q^H gQ and K = gR R^H, it is (Q G + (1 - Q Q^H) gQ) R^-H, where G has the strictly lower triangle
    of N - N^H + K^H, the strictly upper one of K, and the diagonal Re(K) + i Im(N). If A is wide, A = [A1, A2] and
    R = [R1, R2] with square A1 and R1: the gradient for A2 = Q R2 is Q gR2, and N gets R2 gR2^H.
    """
    m, n = Q.shape[-2], R.shape[-1]
    _check_qr(mode, m, n)
    if gQ is None and gR is None:
        return None
    wide = n > m
    rest = None
    if wide:
        R, R2 = ops.narrow(R, -1, 0, m), ops.narrow(R, -1, m, n - m)
        if gR is not None:
            gR, rest = ops.narrow(gR, -1, 0, m), ops.narrow(gR, -1, m, n - m)
    QH = Q.mH
    N = None if gQ is None else ops.matmul(QH, gQ)
    outside = None if gQ is None or wide else gQ - ops.matmul(Q, N)
    if rest is not None:
        through = ops.matmul(R2, rest.mH)
        N = through if N is None else N + through
    K = None if gR is None else ops.matmul(gR, R.mH)
    G = ops.matmul(Q, _qr_inner(N, K))
    if outside is not None:
        G = G + outside
    found = ops.matmul(G, _inverse(R).mH)
    if not wide:
        return found
    return ops.cat([found, ops.matmul(Q, rest) if rest is not None else ops.zeros_like(R2)], -1)


def _qr_inner(N, K):
    lower = None if N is None else N - N.mH
    if K is not None:
        lower = K.mH if lower is None else lower + K.mH
    found = ops.tril(lower, -1)
    if K is not None:
        found = found + ops.triu(K, 1) + ops.diag_embed(ops.real(_diagonal(K)) if K.is_complex() else _diagonal(K))
    if N is not None and N.is_complex():
        diagonal = _diagonal(N)
        found = found + ops.diag_embed((diagonal - diagonal.conj()) * 0.5)
    return found


def linalg_qr_jvp(dA, Q, R, mode):
    """Return the tangents of Q and R. With X = Q^H dA R^-1 and T, the upper triangular matrix with real diagonal for
    which X - T is skew-Hermitian: dQ = dA R^-1 - Q T and dR = Q^H dA - (X - T) R. If A is wide, R^-1 and dA are those
    of its first columns in all but the first term of dR."""
    m, n = Q.shape[-2], R.shape[-1]
    _check_qr(mode, m, n)
    QHdA = ops.matmul(Q.mH, dA)
    square, first = (ops.narrow(R, -1, 0, m), ops.narrow(dA, -1, 0, m)) if n > m else (R, dA)
    scaled = ops.matmul(first, _inverse(square))
    X = ops.matmul(Q.mH, scaled)
    diagonal = ops.real(_diagonal(X)) if X.is_complex() else _diagonal(X)
    T = ops.triu(X, 1) + ops.tril(X, -1).mH + ops.diag_embed(diagonal)
    return scaled - ops.matmul(Q, T), QHdA - ops.matmul(X - T, R)
