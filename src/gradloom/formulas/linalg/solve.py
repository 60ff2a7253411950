"""Derivative helpers of Cholesky, LU and Householder factorizations, of solutions by them, and of determinants."""

from __future__ import annotations

from ...core.tangents import is_differentiated
from ...dispatch import _operators as ops
from ..reduction import prod_backward


def _diagonal(matrix):
    return ops.diagonal(matrix, 0, -2, -1)


def _added(total, term):
    return term if total is None else total + term


def _triangle(matrix, upper, diagonal=0):
    return ops.triu(matrix, diagonal) if upper else ops.tril(matrix, -diagonal)


def _solve(A, B, upper, left=True, unit=False):
    return ops.linalg_solve_triangular(A, B, upper=upper, left=left, unitriangular=unit)


def _is_vector(A, B):
    return B.dim() == 1 or (A.dim() - 1 == B.dim() and B.shape == A.shape[:-1])


def _summed(grad, shape):
    """Sum a gradient over the dimensions in which its input was broadcast."""
    return grad if grad.shape == shape else grad.sum_to_size(shape)


def _half_diagonal(matrix):
    """Return the lower triangle with half of the diagonal: for Hermitian X, X = F + F^H."""
    return ops.tril(matrix, -1) + ops.diag_embed(_diagonal(matrix) * 0.5)


def cholesky_backward(grad, upper, L):
    """Return the gradient of A = L L^H: L^-H F L^-1, where F has half of the lower triangle of L^H gL, and its
    conjugate above the diagonal. For complex A the diagonal of L^H gL keeps its imaginary part, as in PyTorch: changes
    of a Hermitian matrix do not see it."""
    if upper:
        L, grad = L.mH, grad.mH
    X = ops.matmul(L.mH, grad)
    inner = (ops.tril(X) + ops.tril(X, -1).mH) * 0.5
    return _solve(L, _solve(L.mH, inner, True), False, left=False)


def cholesky_jvp(dA, L, upper):
    """Return the tangent of L with A = L L^H: L F, where F is the lower triangle of L^-1 dA L^-H with half of its
    diagonal."""
    lower = L.mH if upper else L
    F = _half_diagonal(_solve(lower.mH, _solve(lower, dA, False), True, left=False))
    dL = ops.matmul(lower, F)
    return dL.mH if upper else dL


def _of_factor(symmetric, L, upper):
    """Return the gradient of L from S, where a change dL changes A = L L^H (or L^H L, for `upper`), whose gradient has
    the Hermitian part S / 2."""
    return ops.matmul(L, symmetric) if upper else ops.matmul(symmetric, L)


def cholesky_inverse_backward(grad, L, upper, inverse):
    """Return the gradient of the factor L of A, with R = A^-1: the triangle that is read of -R (G + G^H) R L, or of
    -L R (G + G^H) R for `upper`."""
    inner = ops.matmul(inverse, ops.matmul(grad + grad.mH, inverse))
    return -_triangle(_of_factor(inner, _triangle(L, upper), upper), upper)


def cholesky_inverse_jvp(L, dL, inverse, upper):
    """Return the tangent of R = A^-1 for A = L L^H: -R dA R."""
    change = _product_tangent(_triangle(L, upper), _triangle(dL, upper), upper)
    return -ops.matmul(inverse, ops.matmul(change, inverse))


def _product_tangent(L, dL, upper):
    half = ops.matmul(dL.mH, L) if upper else ops.matmul(dL, L.mH)
    return half + half.mH


def cholesky_solve_backward(grad, B, L, X, upper, mask):
    """Return the gradients of B and of the factor L of A, with X = A^-1 B: gB = A^-1 gX and the triangle that is read
    of -(gB X^H + X gB^H) L."""
    gB = ops.cholesky_solve(grad, L, upper)
    gL = None
    if mask[1]:
        half = ops.matmul(gB, X.mH)
        L = _triangle(L, upper)
        gL = _summed(_triangle(-_of_factor(half + half.mH, L, upper), upper), L.shape)
    return _summed(gB, B.shape) if mask[0] else None, gL


def cholesky_solve_jvp(X, L, dL, dB, upper):
    """Return the tangent of X = A^-1 B: A^-1 (dB - dA X)."""
    change = _product_tangent(_triangle(L, upper), _triangle(dL, upper), upper)
    return ops.cholesky_solve(dB - ops.matmul(change, X), L, upper)


def linalg_solve_triangular_backward(grad, A, X, upper, left, unit, mask):
    """Return the gradients of A and B for A X = B: gB = A^-H gX, and the triangle of -gB X^H (X A = B: -X^H gB)."""
    gB = _solve(A.mH, grad, not upper, left, unit)
    gA = None
    if mask[0]:
        full = ops.matmul(gB, X.mH) if left else ops.matmul(X.mH, gB)
        gA = _summed(-_triangle(full, upper, int(unit)), A.shape)
    return gA, gB if mask[1] else None


def linalg_solve_triangular_jvp(dA, dB, A, X, upper, left, unit):
    """Return the tangent of X for A X = B: A^-1 (dB - dA X), with the triangle of dA."""
    dA = _triangle(dA, upper, int(unit))
    change = ops.matmul(dA, X) if left else ops.matmul(X, dA)
    return _solve(A, dB - change, upper, left, unit)


def triangular_solve_backward(gX, gM, B, A, X, upper, transpose, unit, mask):
    """Return the gradients of B and A for op(A) X = B, and for the copy of A."""
    gA = gB = None
    if gX is not None:
        gB = ops.triangular_solve(gX, A.conj(), upper, not transpose, unit)[0]
        if mask[1]:
            full = ops.matmul(X.conj(), gB.mT) if transpose else ops.matmul(gB, X.mH)
            gA = _summed(-_triangle(full, upper, int(unit)), A.shape)
        gB = _summed(gB, B.shape) if mask[0] else None
    if gM is not None and mask[1]:
        gA = _added(gA, _summed(gM, A.shape))
    return gB, gA


def triangular_solve_jvp(X, A, dA, dB, upper, transpose, unit):
    """Return the tangent of X for op(A) X = B."""
    dA = _triangle(dA, upper, int(unit))
    change = ops.matmul(dA.mT if transpose else dA, X)
    return ops.triangular_solve(dB - change, A, upper, transpose, unit)[0]


def _lu_parts(LU):
    """Return the unit lower and the upper triangle of a square factorization."""
    eye = ops.eye(LU.shape[-1], dtype=LU.dtype, device=LU.device)
    return ops.tril(LU, -1) + eye, ops.triu(LU)


def linalg_lu_backward(gL, gU, P, L, U):
    """Return the gradient of A = P L U.

    For square A it is P L^-H (stril(L^H gL) + triu(gU U^H)) U^-H, where stril is the strictly lower triangle. If A is
    wide, U = [U1, U2]: the gradient of P L U2 is P L^-H gU2, and gL gets -L^-H gU2 U2^H. If it is tall, L = [L1; L2]:
    the gradient of L2 U is gL2 U^-H, and gU gets -L2^H gL2 U^-H.
    """
    m, n = L.shape[-2], U.shape[-1]
    k = min(m, n)
    rest = None
    L1, U1 = ops.narrow(L, -2, 0, k), ops.narrow(U, -1, 0, k)
    g1 = None if gL is None else ops.tril(ops.narrow(gL, -2, 0, k), -1)
    g2 = None if gU is None else ops.triu(ops.narrow(gU, -1, 0, k))
    if n > m and gU is not None:
        rest = _solve(L.mH, ops.narrow(gU, -1, k, n - k), True, unit=True)
        g1 = _added(g1, -ops.matmul(rest, ops.narrow(U, -1, k, n - k).mH))
    if m > n and gL is not None:
        rest = _solve(U.mH, ops.narrow(gL, -2, k, m - k), False, left=False)
        g2 = _added(g2, -ops.matmul(ops.narrow(L, -2, k, m - k).mH, rest))
    inner = None if g1 is None else ops.tril(ops.matmul(L1.mH, g1), -1)
    if g2 is not None:
        inner = _added(inner, ops.triu(ops.matmul(g2, U1.mH)))
    if inner is None:
        return None
    found = _solve(U1.mH, _solve(L1.mH, inner, True, unit=True), False, left=False)
    if m != n:
        dim = -1 if n > m else -2
        found = ops.cat([found, _missing(L, U, n > m) if rest is None else rest], dim)
    return ops.matmul(P, found)


def _missing(L, U, wide):
    """Return zeros for the columns or rows of A that no gradient reaches."""
    m, n = L.shape[-2], U.shape[-1]
    return ops.zeros_like(ops.narrow(U, -1, m, n - m) if wide else ops.narrow(L, -2, n, m - n))


def linalg_lu_jvp(dA, P, L, U):
    """Return the tangents of L and U with A = P L U: L stril(X) and triu(X) U for X = L^-1 P^T dA U^-1 of the square
    part; dU2 = L^-1 (P^T dA2 - dL U2) of further columns, dL2 = (P^T dA2 - L2 dU) U^-1 of further rows."""
    m, n = L.shape[-2], U.shape[-1]
    k = min(m, n)
    L1, U1 = ops.narrow(L, -2, 0, k), ops.narrow(U, -1, 0, k)
    B = ops.matmul(P.mT, dA)
    square = ops.narrow(ops.narrow(B, -2, 0, k), -1, 0, k)
    X = _solve(U1, _solve(L1, square, False, unit=True), True, left=False)
    dL, dU = ops.matmul(L1, ops.tril(X, -1)), ops.matmul(ops.triu(X), U1)
    if n > m:
        change = ops.narrow(B, -1, k, n - k) - ops.matmul(dL, ops.narrow(U, -1, k, n - k))
        dU = ops.cat([dU, _solve(L, change, False, unit=True)], -1)
    if m > n:
        change = ops.narrow(B, -2, k, m - k) - ops.matmul(ops.narrow(L, -2, k, m - k), dU)
        dL = ops.cat([dL, _solve(U, change, True, left=False)], -2)
    return dL, dU


def lu_factor_ex_backward(grad, LU, pivots, pivot):
    """Return the gradient of A from that of its L and U, which are in one matrix."""
    P, L, U = ops.lu_unpack(LU, pivots)
    k = min(LU.shape[-2:])
    return linalg_lu_backward(ops.narrow(grad, -1, 0, k), ops.narrow(grad, -2, 0, k), P, L, U)


def lu_factor_ex_jvp(dA, LU, pivots, pivot):
    """Return the tangents of L and U in one matrix."""
    dL, dU = linalg_lu_jvp(dA, *ops.lu_unpack(LU, pivots))
    m, n = LU.shape[-2:]
    if n > m:
        dL = ops.constant_pad_nd(dL, (0, n - m))
    if m > n:
        dU = ops.constant_pad_nd(dU, (0, 0, 0, m - n))
    return dL + dU


def lu_unpack_backward(gL, gU, m, n):
    """Return the strictly lower triangle of gL and the upper one of gU in one matrix."""
    lower = upper = None
    if gL is not None and gL.dim() > 1:
        lower = ops.constant_pad_nd(ops.tril(gL, -1), (0, max(n - m, 0)))
    if gU is not None and gU.dim() > 1:
        upper = ops.constant_pad_nd(ops.triu(gU), (0, 0, 0, max(m - n, 0)))
    return lower if upper is None else _added(lower, upper)


def lu_unpack_jvp(dLU, L, U, unpack_data):
    """Return the tangents of L and U: the strictly lower and the upper triangle of that of LU, in their shapes."""
    if not unpack_data:
        return ops.zeros_like(L), ops.zeros_like(U)
    k = min(dLU.shape[-2:])
    return ops.tril(ops.narrow(dLU, -1, 0, k), -1), ops.triu(ops.narrow(dLU, -2, 0, k))


def linalg_lu_solve_LU(grad, LU, pivots, X, left, adjoint):
    """Return the gradient of LU for A X = B (or X A = B, or with A^H), where A = P L U.

    With the gradient G of A and Y = P^T G: the strictly lower triangle of Y U^H and the upper one of L^H Y.
    """
    P, L, U = ops.lu_unpack(LU, pivots)
    gB = ops.linalg_lu_solve(LU, pivots, grad, left=left, adjoint=not adjoint)
    if left:
        G = ops.matmul(X, gB.mH) if adjoint else ops.matmul(gB, X.mH)
    else:
        G = ops.matmul(gB.mH, X) if adjoint else ops.matmul(X.mH, gB)
    Y = ops.matmul(P.mT, -G)
    return _summed(ops.tril(ops.matmul(Y, U.mH), -1) + ops.triu(ops.matmul(L.mH, Y)), LU.shape)


def linalg_lu_solve_jvp(X, LU, pivots, dLU, dB, left, adjoint):
    """Return the tangent of X for A X = B (or X A = B, or with A^H), where A = P L U: A^-1 (dB - dA X)."""
    P, L, U = ops.lu_unpack(LU, pivots)
    dA = ops.matmul(P, ops.matmul(ops.tril(dLU, -1), U) + ops.matmul(L, ops.triu(dLU)))
    dA = dA.mH if adjoint else dA
    change = ops.matmul(dA, X) if left else ops.matmul(X, dA)
    return ops.linalg_lu_solve(LU, pivots, dB - change, left=left, adjoint=adjoint)


def linalg_solve_backward(grad, X, A, LU, pivots, left, mask):
    """Return the gradients of A and B for A X = B (or X A = B): gB = A^-H gX and -gB X^H (or -X^H gB).

    The factorization serves a first derivative. Higher ones solve anew, because LU is no differentiable output. The
    engine sums gB over the dimensions in which B was broadcast.
    """
    vector = X.dim() == 1 or X.shape == LU.shape[:-1]
    if vector:
        grad, X = ops.unsqueeze(grad, -1), ops.unsqueeze(X, -1)
    if is_differentiated(A):
        gB = ops.linalg_solve(A.mH, grad, left=left)
    else:
        gB = ops.linalg_lu_solve(LU, pivots, grad, left=left, adjoint=True)
    gA = None
    if mask[0]:
        gA = _summed(-(ops.matmul(gB, X.mH) if left else ops.matmul(X.mH, gB)), A.shape)
    gB = ops.squeeze(gB, -1) if vector else gB
    return gA, gB if mask[1] else None


def linalg_solve_jvp(A, dA, dB, X, LU, pivots, left):
    """Return the tangent of X for A X = B (or X A = B): A^-1 (dB - dA X)."""
    vector = dA.dim() - 1 == X.dim() or (X.dim() == 1)
    if vector:
        X, dB = ops.unsqueeze(X, -1), ops.unsqueeze(dB, -1)
    change = ops.matmul(dA, X) if left else ops.matmul(X, dA)
    found = _solved(A, dB - change, LU, pivots, left)
    return ops.squeeze(found, -1) if vector else found


def _solved(A, B, LU, pivots, left=True):
    """Return X with A X = B (or X A = B): by the factorization or, where A is differentiated, so that it depends on A,
    because LU is no differentiable output."""
    if is_differentiated(A):
        return ops.linalg_solve(A, B, left=left)
    return ops.linalg_lu_solve(LU, pivots, B, left=left)


def _regular(LU):
    """Return LU with tiny numbers for the zeros of its diagonal, so that one can divide by them."""
    diagonal = _diagonal(LU)
    tiny = ops.diag_embed((diagonal == 0).to(LU.dtype)) * _EPS[LU.element_size() // (2 if LU.is_complex() else 1)]
    return LU + tiny


_EPS = {4: 1.1920928955078125e-07, 8: 2.220446049250313e-16}


def linalg_det_backward(grad, det, A, LU, pivots):
    """Return the gradient of A: gdet conj(det) A^-H.

    For singular A the first derivative divides by a tiny number in place of each zero pivot; its determinant is that of
    the changed matrix, so the product is the matrix of cofactors up to rounding.
    """
    if not A.numel():
        return ops.zeros_like(A)
    if A.shape[-1] == 1:
        return _as_matrix(grad)
    if is_differentiated(A):
        return _differentiable_cofactors(grad, det, A, LU)
    LU = _regular(LU)
    found = det if det.is_meta or not (det == 0).any() else _sign(pivots, LU) * ops.prod(_diagonal(LU), -1)
    scaled = _identity(A) * _as_matrix(grad * found.conj())
    return ops.linalg_lu_solve(LU, pivots, scaled, adjoint=True)


def _differentiable_cofactors(grad, det, A, LU):
    """Return gdet conj(det) A^-H by operators that differentiate by A; see `_singular_cofactors` for A that is singular
    up to rounding, whose inverse has no digit that is right."""
    if det.is_meta:
        return _regular_cofactors(grad, A, det)
    sizes = ops.abs(_diagonal(LU))
    rounding = A.shape[-1] * _EPS[sizes.element_size()]
    singular = (det == 0) | (ops.amin(sizes, -1) <= ops.amax(sizes, -1) * rounding)
    if singular.all():
        return _singular_cofactors(grad, A)
    if singular.any():
        parts = ops.zeros_like(A)
        for chosen, found in ((singular, _singular_cofactors), (~singular, _regular_cofactors)):
            g, each, d = (ops.index(x, (chosen,)) for x in (grad, A, det))
            parts = ops.index_put(parts, (chosen,), found(g, each, d))
        return parts
    return _regular_cofactors(grad, A, det)


def _regular_cofactors(grad, A, det):
    return ops.linalg_solve(A.mH, _identity(A) * _as_matrix(grad * det.conj()))


def _singular_cofactors(grad, A, det=None):
    """Return the same without an inverse.

    For small matrices, by the powers of A (Faddeev and LeVerrier), whose derivatives are right also where singular
    values coincide; for others by A = U S V^H: gdet conj(det U det V^H) U D V^H, where D has the products of all
    singular values but one.
    """
    n = A.shape[-1]
    if n <= _SMALL:
        found = one = _identity(A)
        for k in range(1, n):
            found = ops.matmul(A, found)
            found = found - one * _as_matrix(ops.sum(_diagonal(found), -1) / k)
        return _as_matrix(grad if n % 2 else -grad) * found.mH
    U, S, Vh = ops.linalg_svd(A)
    factor = grad * (ops.linalg_det(U) * ops.linalg_det(Vh)).conj()
    others = prod_backward(ops.ones_like(S), S, ops.prod(S, -1, True), -1, True)
    return ops.matmul(U * ops.unsqueeze(ops.unsqueeze(factor, -1) * others, -2), Vh)


_SMALL = 8  # rows of a matrix, from powers of which cofactors lose few digits


def _as_matrix(numbers):
    return ops.unsqueeze(ops.unsqueeze(numbers, -1), -1)


def _identity(A):
    return ops.eye(A.shape[-1], dtype=A.dtype, device=A.device)


def _sign(pivots, LU):
    straight = ops.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype, device=pivots.device)
    odd = ops.sum((pivots != straight).to(LU.dtype), -1)
    return ops.cos(odd * 3.141592653589793) if not LU.is_complex() else ops.cos(ops.real(odd) * 3.141592653589793)


def linalg_det_jvp(A, dA, det, LU, pivots):
    """Return the tangent of the determinant: det tr(A^-1 dA), the sum of cofactors times dA for a singular matrix."""
    if not det.is_meta and (is_differentiated(A) or (det == 0).any()):
        return ops.sum(linalg_det_backward(ops.ones_like(det), det, A, LU, pivots).conj() * dA, (-2, -1))
    return ops.sum(_diagonal(ops.linalg_lu_solve(_regular(LU), pivots, dA)), -1) * det


def slogdet_backward(gsign, glog, A, sign, LU, pivots):
    """Return the gradient of A: gA A^-H, with gA = glog, and for complex A glog - i Im(gsign conj(sign)), because
    d sign = i Im(tr(A^-1 dA)) sign."""
    if A.is_complex():
        if gsign is None and glog is None:
            return None
        g = None if glog is None else glog.to(A.dtype)
        if gsign is not None:
            turned = gsign * sign.conj()
            g = _added(g, (turned - turned.conj()) * 0.5)
    else:
        g = glog
        if g is None:
            return None
    scaled = _identity(A) * _as_matrix(g)
    if is_differentiated(A):
        return ops.linalg_solve(A.mH, scaled)
    return ops.linalg_lu_solve(LU, pivots, scaled, adjoint=True)


def slogdet_jvp(A, LU, pivots, dA, sign):
    """Return the tangents of sign and logarithm: with t = tr(A^-1 dA), i Im(t) sign and Re(t)."""
    trace = ops.sum(_diagonal(_solved(A, dA, LU, pivots)), -1)
    if not trace.is_complex():
        return ops.zeros_like(trace), trace
    return (trace - trace.conj()) * 0.5 * sign, ops.real(trace)


def _vector(V, i):
    """Return the i-th reflection vector as a column: zeros, a one, and the numbers below the diagonal of V."""
    m = V.shape[-2]
    below = ops.narrow(ops.narrow(V, -1, i, 1), -2, i + 1, m - i - 1)
    one = ops.ones_like(ops.narrow(ops.narrow(V, -1, i, 1), -2, 0, 1))
    return ops.constant_pad_nd(ops.cat([one, below], -2), (0, 0, i, 0))


def _reflections(V, tau):
    """Return the vectors and factors of reflections, as matrices."""
    return [(_vector(V, i), ops.unsqueeze(ops.narrow(tau, -1, i, 1), -1)) for i in range(tau.shape[-1])]


def _steps(reflections, start):
    """Apply reflections from the last to the first, and return the matrix before each, and the product."""
    before = []
    for v, t in reversed(reflections):
        before.append(start)
        start = start - t * ops.matmul(v, ops.matmul(v.mH, start))
    return before[::-1], start


def _reflections_backward(grad, V, tau, start):
    """Return the gradients of V, tau and the matrix C for the product of the reflections H = 1 - t v v^H with C.

    From the first reflection to the last, for Y = H X with gradient G: gt = -v^H G X^H v,
    gv = -conj(t) G X^H v - t X G^H v, and gX = H^H G.
    """
    reflections = _reflections(V, tau)
    before, _ = _steps(reflections, start)
    vectors, factors = [], []
    for (v, t), X in zip(reflections, before, strict=True):
        XHv = ops.matmul(X.mH, v)
        GXHv = ops.matmul(grad, XHv)
        GHv = ops.matmul(grad.mH, v)
        factors.append(-ops.matmul(v.mH, GXHv))
        vectors.append(-(t.conj() * GXHv) - t * ops.matmul(X, GHv))
        grad = grad - t.conj() * ops.matmul(v, GHv.mH)
    gV = ops.tril(ops.cat(vectors, -1), -1)
    if V.shape[-1] > tau.shape[-1]:
        gV = ops.constant_pad_nd(gV, (0, V.shape[-1] - tau.shape[-1]))
    return gV, ops.squeeze(ops.cat(factors, -2), -1), grad


def _first_columns(input):
    eye = ops.eye(input.shape[-2], input.shape[-1], dtype=input.dtype, device=input.device)
    return eye.expand(input.shape)


def householder_product_backward(grad, result, input, tau):
    """Return the gradients of the vectors and factors of reflections whose product is the result."""
    if not (input.numel() and tau.numel()):
        return None, None
    gV, gtau, _ = _reflections_backward(grad, input, tau, _first_columns(input))
    return gV, gtau


def _reflected_tangent(V, dV, tau, dtau, X, dX, adjoint):
    """Return the tangent of Q X, or of Q^H X, where Q is a product of reflections H = 1 - t v v^H, by the product
    rule; Q^H applies H^H = 1 - conj(t) v v^H from the first reflection to the last."""
    if adjoint:
        tau, dtau = tau.conj(), dtau.conj()
    order = range(tau.shape[-1])
    for i in order if adjoint else reversed(order):
        v, dv = _vector(V, i), ops.tril(_vector(dV, i), -(i + 1))
        t, dt = (ops.unsqueeze(ops.narrow(each, -1, i, 1), -1) for each in (tau, dtau))
        w, dw = ops.matmul(v.mH, X), ops.matmul(dv.mH, X) + ops.matmul(v.mH, dX)
        dX = dX - ops.matmul(dt * v + t * dv, w) - ops.matmul(t * v, dw)
        X = X - t * ops.matmul(v, w)
    return dX


def householder_product_jvp(dV, dtau, result, input, tau):
    """Return the tangent of the product of reflections."""
    X = _first_columns(input)
    return _reflected_tangent(input, dV, tau, dtau, X, ops.zeros_like(X), False)


def ormqr_backward(grad, result, self, tau, other, left, transpose, mask):
    """Return the gradients for Q C, C Q, Q^H C or C Q^H, where Q is a product of reflections.

    C Q = (Q^H C^H)^H; and Y = Q^H C has the gradient of Q that Q gC has for C as gradient of the result.
    """
    gother = ops.ormqr(self, tau, grad, left, not transpose) if mask[2] else None
    if not ((mask[0] or mask[1]) and self.numel() and tau.numel()):
        return None, None, gother
    C, G = (other, grad) if left else (other.mH, grad.mH)
    if transpose is left:
        C, G = G, C
    gV, gtau, _ = _reflections_backward(G, self, tau, C)
    return gV, gtau, gother


def ormqr_jvp(V, tau, C, dV, dtau, dC, left, transpose):
    """Return the tangent of Q C, C Q, Q^H C or C Q^H, where Q is a product of reflections. C Q = (Q^H C^H)^H."""
    if left:
        return _reflected_tangent(V, dV, tau, dtau, C, dC, transpose)
    return _reflected_tangent(V, dV, tau, dtau, C.mH, dC.mH, not transpose).mH
