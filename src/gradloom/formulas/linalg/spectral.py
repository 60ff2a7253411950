"""Derivative helpers of eigenvalues, singular values, pseudoinverses, least squares and the matrix exponential.

Eigenvectors and singular vectors are determined up to a factor of modulus 1 each, their gauge. Gradients exist for
functions that do not depend on it. The formulas choose the tangents of the vectors in a fixed gauge, and the backward
formulas raise an error if the gradient shows that the loss depends on the gauge.
"""

from __future__ import annotations

from ...core.tangents import is_differentiated
from ...dispatch import _operators as ops
from ...memory.metadata import Metadata


def _has_values(tensor):
    """Return whether a tensor's values can be read; within vmap they cannot."""
    return not isinstance(tensor._array, Metadata)


def _diagonal(tensor):
    return ops.diagonal(tensor, 0, -2, -1)


def _as_rows(vector):
    """Shape a batch of vectors for multiplication with the columns of matrices."""
    return ops.unsqueeze(vector, -2)


def _as_columns(vector):
    """Shape a batch of vectors for multiplication with the rows of matrices."""
    return ops.unsqueeze(vector, -1)


def _eye_like(matrix):
    return ops.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def _gaps(values):
    """Return E with E[i, j] = values[j] - values[i], and 1 on the diagonal, so that one can divide by it."""
    return _as_rows(values) - _as_columns(values) + ops.eye(values.shape[-1], dtype=values.dtype, device=values.device)


def _off_diagonal(matrix):
    return matrix - ops.diag_embed(_diagonal(matrix))


def _solved(A, B):
    """Return A^-1 B; A is invertible wherever the eigenvectors have derivatives."""
    return ops.matmul(ops.linalg_inv_ex(A)[0], B)


def _gauge_error(name, what, phase):
    return RuntimeError(
        f"{name}: The {what} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss "
        f"function depends on this {phase}"
    )


def linalg_eig_backward(gL, gV, L, V, is_hermitian):
    """Return the gradient of A = V diag(L) V^-1.

    With E[i, j] = L[j] - L[i] and X = V^H gV, it is V^-H (diag(gL) + offdiagonal(P(X) / conj(E))) V^H. P projects onto
    the changes that keep the eigenvectors normalised: P(X) = (X - X^H) / 2 for Hermitian A, whose V is unitary, and
    P(X) = X - V^H V Re(diag(X)) otherwise. Raises RuntimeError if V is complex and Im(diag(X)), the derivative with
    respect to the phases of the eigenvectors, is not zero.
    """
    VH = V.mH
    if gV is None:
        inner = _as_columns(gL) * VH
        return ops.matmul(V, inner) if is_hermitian else _solved(VH, inner)
    X = ops.matmul(VH, gV)
    if V.is_complex() and _has_values(X):
        phases = ops.imag(_diagonal(X))
        if not ops.allclose(phases, ops.zeros_like(phases), 1e-2, 1e-2):
            name = f"linalg_eig{'h' if is_hermitian else ''}_backward"
            raise _gauge_error(name, "eigenvectors", "quantity, so it is ill-defined.")
    if is_hermitian:
        X = (X - X.mH) * 0.5
    else:
        X = X - ops.matmul(VH, V * _as_rows(ops.real(_diagonal(X))))
    inner = _off_diagonal(X / _gaps(L).conj())
    if gL is not None:
        inner = inner + ops.diag_embed(gL)
    inner = ops.matmul(inner, VH)
    return ops.matmul(V, inner) if is_hermitian else _solved(VH, inner)


def linalg_eig_jvp(dA, L, V, is_hermitian):
    """Return the tangents of the eigenvalues and eigenvectors.

    With X = V^-1 dA V and E[i, j] = L[j] - L[i]: dL = diag(X) and dV = V Y, where Y = offdiagonal(X / E). If A is not
    Hermitian, V Re(diag(V^H V Y)) is subtracted, so that the eigenvectors keep norm 1.
    """
    if is_hermitian:
        X = ops.matmul(V.mH, ops.matmul(dA, V))
        dL = ops.real(_diagonal(X)) if X.is_complex() else _diagonal(X)
        return dL, ops.matmul(V, _off_diagonal(X / _gaps(L)))
    X = _solved(V, ops.matmul(dA.to(V.dtype), V))
    dV = ops.matmul(V, _off_diagonal(X / _gaps(L)))
    return _diagonal(X), dV - V * _as_rows(ops.real(ops.sum(V.conj() * dV, -2)))


def hermitian_part(X):
    """Return (X + X^H) / 2."""
    return (X + X.mH) * 0.5


def lyapunov_backward(grad, self, result, mask):
    """Return the gradients of the solution Y of X Y + Y X = E: Z with X Z + Z X = gY for E, and -(Z Y^H + Y^H Z) for
    X, which is Hermitian."""
    Z, YH = ops._linalg_lyapunov(self, grad), result.mH
    return -(ops.matmul(Z, YH) + ops.matmul(YH, Z)) if mask[0] else None, Z


def linalg_polar_backward(gU, gH, U, H):
    """Return the gradient of A = U H.

    With P = U^H gU, Q = P - gH H and skew Z for which H Z + Z H = Q - Q^H, it is U (Z + gH), and (gU - U P) H^-1 is
    added where U has more rows than columns.
    """
    P = None if gU is None else ops.matmul(U.mH, gU)
    Q = None if gH is None else -ops.matmul(gH, H)
    if P is None and Q is None:
        return None
    Q = Q if P is None else P if Q is None else P + Q
    inner = ops._linalg_lyapunov(H, _skew(Q))
    found = ops.matmul(U, inner if gH is None else inner + gH)
    if gU is not None and U.shape[-2] > U.shape[-1]:
        found = found + ops._linalg_solve_ex(H, gU - ops.matmul(U, P), left=False)[0]
    return found


def linalg_polar_jvp(dA, U, H):
    """Return the tangents of U and H.

    With M = U^H dA and skew W for which H W + W H = M - M^H: dU = U W, dH = M - W H, and where U has more rows than
    columns (dA - U M) H^-1 is added to dU.
    """
    M = ops.matmul(U.mH, dA)
    W = ops._linalg_lyapunov(H, _skew(M))
    dU = ops.matmul(U, W)
    if U.shape[-2] > U.shape[-1]:
        dU = dU + ops._linalg_solve_ex(H, dA - ops.matmul(U, M), left=False)[0]
    return dU, M - ops.matmul(W, H)


def nuclear_norm_slope(A, U):
    """Return the derivative of the sum of the singular values of A, the unitary factor of its polar decomposition; that
    has derivatives where singular values coincide, and its own formula is for matrices that are not wide."""
    if not is_differentiated(A):
        return U
    return ops.linalg_polar(A.mH)[0].mH if A.shape[-2] < A.shape[-1] else ops.linalg_polar(A)[0]


def nuclear_norm_jvp(dA, A, U):
    """Return Re(tr(U^H dA))."""
    product = nuclear_norm_slope(A, U).conj() * dA
    return ops.sum(ops.real(product) if product.is_complex() else product, (-2, -1))


def svd_backward(gU, gS, gVh, U, S, Vh):
    """Return the gradient of A = U diag(S) Vh, with k = min(m, n) columns of U and rows of Vh.

    With skew(X) = X - X^H, E[i, j] = S[j]^2 - S[i]^2, X = skew(U^H gU) and Y = skew(Vh gVh^H), it is U Z Vh with
    Z = (X / E) S + S (Y / E) + diag(gS), where for complex A the diagonal has diag(X) / (2 S), too. If m > k, U is no
    basis, and (1 - U U^H) gU S^-1 Vh is added; if n > k, so is U S^-1 gVh (1 - V V^H). Raises RuntimeError if the loss
    depends on the common phase of a pair of singular vectors, that is, if diag(X) + diag(Y) is not zero.
    """
    if gU is None and gVh is None:
        if gS is None:
            return None
        wide = U.shape[-2] < Vh.shape[-1]
        return ops.matmul(U * _as_rows(gS), Vh) if wide else ops.matmul(U, _as_columns(gS) * Vh)
    X = None if gU is None else _skew(ops.matmul(U.mH, gU))
    Y = None if gVh is None else _skew(ops.matmul(Vh, gVh.mH))
    if U.is_complex():
        _check_phases(X, Y)
    squares = S * S
    E = _gaps(squares)
    Z = None if gS is None else ops.diag_embed(gS)
    if X is not None:
        Z = _added(Z, _as_rows(S) * (X / E if not U.is_complex() else _off_diagonal(X / E)))
        if U.is_complex():
            Z = Z + ops.diag_embed(_diagonal(X) / (2 * S))
    if Y is not None:
        Z = _added(Z, _as_columns(S) * _off_diagonal(Y / E))
    m, k, n = U.shape[-2], S.shape[-1], Vh.shape[-1]
    if m > k and gU is not None:
        scaled = gU / _as_rows(S)
        found = ops.matmul(ops.matmul(U, Z - ops.matmul(U.mH, scaled)) + scaled, Vh)
    else:
        found = ops.matmul(U, ops.matmul(Z, Vh))
    if n > k and gVh is not None:
        scaled = gVh / _as_columns(S)
        found = found + ops.matmul(U, scaled - ops.matmul(ops.matmul(scaled, Vh.mH), Vh))
    return found


def _skew(X):
    return X - X.mH


def _added(total, term):
    return term if total is None else total + term


def _check_phases(X, Y):
    """Raise RuntimeError unless diag(X) = -diag(Y), where None is zero."""
    given = X if X is not None else Y
    if not _has_values(given):
        return
    of_u = ops.imag(_diagonal(X)) if X is not None else None
    of_v = -ops.imag(_diagonal(Y)) if Y is not None else None
    of_u, of_v = (ops.zeros_like(b) if a is None else a for a, b in ((of_u, of_v), (of_v, of_u)))
    if not ops.allclose(of_u, of_v, 1e-2, 1e-2):
        raise _gauge_error("svd_backward", "singular vectors", "phase term, making it ill-defined.")


def linalg_svd_jvp(dA, U, S, Vh, full_matrices):
    """Return the tangents of U, S and Vh.

    With X = U^H dA V, sym(M) = M + M^H and E[i, j] = S[j]^2 - S[i]^2: dS = Re(diag(X)); with X := X - diag(dS),
    dU = U (sym(X S) / E) and dV = V (sym(S X) / E). For complex A the phase is divided between them: the diagonals get
    diag(X) / (2 S) and -diag(X) / (2 S). If m > k or n > k, the parts (1 - U U^H) dA V S^-1 and
    (1 - V V^H) dA^H U S^-1 are added. With full matrices, the tangents of the further columns of U and rows of Vh are
    zeros.
    """
    k = S.shape[-1]
    full = U, Vh
    if full_matrices:
        U, Vh = ops.narrow(U, -1, 0, k), ops.narrow(Vh, -2, 0, k)
    m, n = U.shape[-2], Vh.shape[-1]
    V = Vh.mH
    dAV = ops.matmul(dA, V)
    X = ops.matmul(U.mH, dAV)
    dS = ops.real(_diagonal(X)) if X.is_complex() else _diagonal(X)
    X = X - ops.diag_embed(dS)
    E = _gaps(S * S)
    right, left = X * _as_rows(S), X * _as_columns(S)
    of_u, of_v = (right + right.mH) / E, (left + left.mH) / E
    if X.is_complex():
        phase = ops.diag_embed(_diagonal(X) / (2 * S))
        of_u, of_v = _off_diagonal(of_u) + phase, _off_diagonal(of_v) - phase
    if m > k:
        outside = dAV / _as_rows(S)
        dU = ops.matmul(U, of_u - ops.matmul(U.mH, outside)) + outside
    else:
        dU = ops.matmul(U, of_u)
    dVh = ops.matmul(of_v.mH, Vh)
    if n > k:
        outside = ops.matmul(U.mH, dA) / _as_columns(S)
        dVh = dVh + outside - ops.matmul(ops.matmul(outside, V), Vh)
    if full_matrices:
        dU, dVh = _with_zeros(dU, full[0], -1), _with_zeros(dVh, full[1], -2)
    return dU, dS, dVh


def _with_zeros(tangent, like, dim):
    missing = like.shape[dim] - tangent.shape[dim]
    if not missing:
        return tangent
    return ops.cat([tangent, ops.zeros_like(ops.narrow(like, dim, 0, missing))], dim)


def pinv_backward(grad, P, A):
    """Return the gradient of the pseudoinverse P of A, of constant rank:
    -P^H G P^H + (1 - A P) G^H P P^H + P^H P G^H (1 - P A)."""
    GH, PH = grad.mH, P.mH
    if A.shape[-2] <= A.shape[-1]:
        K = ops.matmul(GH, P)  # (m, m)
        KPH = ops.matmul(K, PH)
        inside = ops.matmul(P, K)
        return (
            KPH
            - ops.matmul(A, ops.matmul(P, KPH))
            + ops.matmul(PH, ops.matmul(P, GH) - ops.matmul(inside, A))
            - inside.mH
        )
    K = ops.matmul(P, GH)  # (n, n)
    PHK = ops.matmul(PH, K)
    inside = ops.matmul(K, P)
    return (
        PHK - ops.matmul(ops.matmul(PHK, P), A) + ops.matmul(ops.matmul(GH, P) - ops.matmul(A, inside), PH) - inside.mH
    )


def pinv_jvp(A, P, dA):
    """Return the tangent of the pseudoinverse P of A, of constant rank:
    -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P."""
    PdA, dAP = ops.matmul(P, dA), ops.matmul(dA, P)
    outer = ops.matmul(P, dAP.mH)
    inner = ops.matmul(PdA.mH, P)
    if A.shape[-2] <= A.shape[-1]:
        first = outer - ops.matmul(ops.matmul(outer, A), P) - ops.matmul(P, dAP)
        return first + inner - ops.matmul(P, ops.matmul(A, inner))
    first = inner - ops.matmul(P, ops.matmul(A, inner)) - ops.matmul(PdA, P)
    return first + outer - ops.matmul(ops.matmul(outer, A), P)


def _has_vectors(A, B):
    """Return whether B is a batch of vectors, not of matrices."""
    return B.dim() == 1 or (A.dim() - 1 == B.dim() and A.shape[:-1] == B.shape)


def _to_matrix(vector, wanted):
    return None if vector is None else ops.unsqueeze(vector, -1) if wanted else vector


def linalg_lstsq_backward(gX, gL, A, B, X, mask):
    """Return the gradients of the solution X = pinv(A) B and of the residuals L, the squared norms of the columns of
    R = A X - B. Since A^H R = 0, L changes with A and B as if X were constant: its gradients are 2 R gL X^H and
    -2 R gL."""
    vectors = _has_vectors(A, B)
    B, X, gX = (_to_matrix(t, vectors) for t in (B, X, gX))
    gA = gB = None
    if gX is not None:
        P = ops.linalg_pinv(A)
        if mask[0]:
            gA = pinv_backward(ops.matmul(gX, B.mH), P, A)
        if mask[1]:
            gB = ops.matmul(P.mH, gX)
    if gL is not None and gL.numel():
        gR = 2 * (ops.matmul(A, X) - B) * _as_rows(gL)
        if mask[0]:
            gA = _added(gA, ops.matmul(gR, X.mH))
        if mask[1]:
            gB = -gR if gB is None else gB - gR
    return gA, ops.squeeze(gB, -1) if vectors and gB is not None else gB


def linalg_lstsq_solution_jvp(A, B, dA, dB):
    """Return the tangent of X = pinv(A) B by the product rule."""
    vectors = _has_vectors(A, B)
    B, dB = _to_matrix(B, vectors), _to_matrix(dB, vectors)
    P = ops.linalg_pinv(A)
    dX = ops.matmul(pinv_jvp(A, P, dA), B) + ops.matmul(P, dB)
    return ops.squeeze(dX, -1) if vectors else dX


def linalg_lstsq_residuals_jvp(A, B, dA, dB, X, L):
    """Return 2 Re(R^H (dA X - dB)), summed over the rows of R = A X - B."""
    if not L.numel():
        return ops.zeros_like(L)
    vectors = _has_vectors(A, B)
    B, dB, X = (_to_matrix(t, vectors) for t in (B, dB, X))
    product = (ops.matmul(A, X) - B).conj() * (ops.matmul(dA, X) - dB)
    return 2 * ops.sum(ops.real(product) if product.is_complex() else product, -2)


def linalg_matrix_exp_differential(A, direction, adjoint):
    """Return the derivative of exp at A in a direction, or its adjoint, which is the derivative at A^H: the upper right
    block of exp([[A, direction], [0, A]])."""
    if adjoint:
        A = A.mH
    n = A.shape[-1]
    upper = ops.cat([A, direction.expand(A.shape)], -1)
    lower = ops.cat([ops.zeros_like(A), A], -1)
    found = ops.linalg_matrix_exp(ops.cat([upper, lower], -2))
    return ops.narrow(ops.narrow(found, -2, 0, n), -1, n, n)
