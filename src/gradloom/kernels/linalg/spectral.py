"""Spectral decompositions of batches of matrices: eigenvalues, singular values, and the matrix exponential."""

from __future__ import annotations

import numpy as np

from .._common.blas import gemm
from .._common.errors import LinAlgError, size_mismatch, type_name
from .._common.numbers import is_half, widen
from .checks import (
    adjoint_of,
    columns,
    failed_element,
    require_floating,
    require_lapack,
    require_matrices,
    require_precise,
    require_square,
)

_FAILED = "The algorithm failed to converge because the input matrix"
_LARGE = 64  # rows and columns from which SciPy's call costs less than it saves


def eigh(A, UPLO="L", compute_v=True):
    """Return the eigenvalues of Hermitian matrices, ascending, and their eigenvectors, or an empty array for them.

    Args:
        A: (..., n, n); only one triangle is read.
        UPLO: which, "L" or "U".
    """
    require_square("linalg.eigh", A)
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    require_lapack("linalg_eigh_cpu", A)
    if not A.size:
        return np.zeros(A.shape[:-1], A.real.dtype), columns(A.copy()) if compute_v else np.zeros(0, A.dtype)
    try:
        if not compute_v:
            return np.ascontiguousarray(np.linalg.eigvalsh(A, UPLO)), np.zeros(0, A.dtype)
        values, vectors = np.linalg.eigh(A, UPLO)
    except np.linalg.LinAlgError:
        code = max(1, A.shape[-1] - (1 if compute_v else 2))
        raise LinAlgError(f"linalg.eigh: {_not_converged(A, code)}") from None
    return np.ascontiguousarray(values), columns(vectors)


def _not_converged(array, code):
    return (
        f"{failed_element(~np.isfinite(array))}{_FAILED} is ill-conditioned or has too many repeated eigenvalues "
        f"(error code: {code})."
    )


def _complex_input(name, A):
    """Check a batch of square matrices, and return the complex dtype of its eigenvalues."""
    require_square(name, A)
    if A.dtype.kind not in "fcV":
        raise RuntimeError(f"Unknown Complex ScalarType for {type_name(A.dtype)}")
    require_lapack("linalg_eig_out_cpu", A)
    if not np.isfinite(A).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    return np.result_type(A.dtype, np.complex64)


def eig(self):
    """Return the eigenvalues of square matrices, and eigenvectors of norm 1; complex, also for real matrices."""
    kind = _complex_input("linalg.eig", self)
    if not self.size:
        return np.zeros(self.shape[:-1], kind), columns(self.astype(kind))
    try:
        values, vectors = np.linalg.eig(self)
    except np.linalg.LinAlgError:
        raise LinAlgError(f"linalg.eig: {_not_converged(self, self.shape[-1] - 1)}") from None
    return np.ascontiguousarray(values, kind), columns(vectors.astype(kind, copy=False))


def eigvals(self):
    """Return the eigenvalues of square matrices, which are complex, also for real matrices."""
    kind = _complex_input("linalg.eigvals", self)
    if not self.size:
        return np.zeros(self.shape[:-1], kind)
    try:
        return np.ascontiguousarray(np.linalg.eigvals(self), kind)
    except np.linalg.LinAlgError:
        raise LinAlgError(f"linalg.eig: {_not_converged(self, self.shape[-1] - 1)}") from None


def svd(A, full_matrices=False, compute_uv=True, driver=None):
    """Return U, S, Vh with A = U diag(S) Vh and S descending; empty arrays for U and Vh without `compute_uv`.

    Args:
        A: (..., m, n).
        full_matrices: whether U is (m, m) and Vh (n, n), not (m, k) and (k, n) with k = min(m, n).
        driver: None; the others are for GPUs.
    """
    require_matrices("linalg.svd", A)
    require_floating("linalg.svd", A)
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    require_lapack("linalg_svd_cpu", A)
    if not A.size:
        return _empty_svd(A, full_matrices, compute_uv)
    finite = np.isfinite(A).all((-2, -1))
    if not finite.all():
        if (nan := np.isnan(A)).any():
            raise LinAlgError(f"linalg.svd: {failed_element(nan)}{_FAILED} contained non-finite values.")
        A = np.where(finite[..., None, None], A, 0)  # LAPACK's gesdd may not end where there are infinities
    try:
        if compute_uv:
            found = _svd(A, full_matrices)
        else:
            found = [np.zeros(0, A.dtype), np.linalg.svd(A, compute_uv=False), np.zeros(0, A.dtype)]
    except np.linalg.LinAlgError:
        why = "is ill-conditioned or has too many repeated singular values (error code: 1)"
        raise LinAlgError(f"linalg.svd: {_FAILED} {why}.") from None
    u, s, vh = found
    if not finite.all():
        for array in (u, s, vh) if compute_uv else (s,):
            array[~finite] = np.nan
    return (columns(u), np.ascontiguousarray(s), columns(vh)) if compute_uv else (u, np.ascontiguousarray(s), vh)


def _svd(A, full_matrices):
    """Decompose by LAPACK: a large matrix of single precision in that precision, by SciPy, in half the time of NumPy,
    which computes it in double precision."""
    if A.ndim == 2 and A.dtype.char in "fF" and min(A.shape) >= _LARGE:
        from scipy.linalg import svd

        return svd(A, full_matrices, check_finite=False)
    return np.linalg.svd(A, full_matrices)


def _empty_svd(A, full_matrices, compute_uv):
    *batch, m, n = A.shape
    k = min(m, n)
    values = np.zeros((*batch, k), A.real.dtype)
    if not compute_uv:
        return np.zeros(0, A.dtype), values, np.zeros(0, A.dtype)
    u = np.zeros((*batch, m, m if full_matrices else k), A.dtype)
    vh = np.zeros((*batch, n if full_matrices else k, n), A.dtype)
    if full_matrices:
        u[...], vh[...] = np.eye(m), np.eye(n)
    return columns(u), values, columns(vh)


def pinv(self, atol=None, rtol=None, hermitian=False):
    """Return the pseudoinverses (..., n, m) of matrices (..., m, n): singular values up to max(atol, rtol * greatest)
    count as zero.

    Args:
        atol, rtol: real arrays that broadcast against the batch. By default, `atol` is 0 and `rtol` max(m, n) * eps,
            or 0 where `atol` is positive.
        hermitian: whether the matrices are Hermitian, of which the lower triangles are read.
    """
    if self.ndim < 2 or self.dtype.kind not in "fc" or is_half(self.dtype):
        raise RuntimeError(
            f"linalg.pinv({type_name(self.dtype)}{{[{', '.join(map(str, self.shape))}]}}): expected a tensor with 2 "
            "or more dimensions of float, double, cfloat or cdouble types"
        )
    for name, given in (("atol", atol), ("rtol", rtol)):
        if given is not None and given.dtype.kind == "c":
            raise RuntimeError(
                f"torch.linalg.pinv: {name} tensor of complex type is not supported. Got {type_name(given.dtype)}"
            )
    if not self.size:
        return np.zeros((*self.shape[:-2], self.shape[-1], self.shape[-2]), self.dtype)
    if hermitian:
        values, vectors = eigh(self)
        sizes = np.abs(values)
        inverse = _reciprocals(values, sizes, np.maximum.reduce(sizes, -1, keepdims=True), self, atol, rtol)
        return gemm(vectors * inverse[..., None, :], adjoint_of(vectors))
    u, s, vh = svd(self)
    inverse = _reciprocals(s, s, s[..., :1], self, atol, rtol)
    return gemm(adjoint_of(vh) * inverse[..., None, :], adjoint_of(u))


def _reciprocals(values, sizes, greatest, matrix, atol, rtol):
    """Return 1 / values where their magnitudes exceed the tolerance, and 0 elsewhere."""
    if rtol is None:
        rtol = np.asarray(np.finfo(values.dtype).eps * max(matrix.shape[-2:]), values.dtype)
        rtol = rtol if atol is None else np.where(atol > 0, 0, rtol)
    least = rtol[..., None] * greatest
    kept = sizes > (least if atol is None else np.maximum(least, atol[..., None]))
    values = np.broadcast_to(values, kept.shape)
    return np.divide(1, values, out=np.zeros(kept.shape, values.dtype), where=kept)


def matrix_sqrth(self):
    """Return the principal square roots of Hermitian matrices, of which the lower triangles are read. Negative
    eigenvalues count as zero."""
    require_square("linalg.matrix_sqrth", self)
    require_precise("linalg.matrix_sqrth", self)
    values, vectors = eigh(self)
    return gemm(vectors * np.sqrt(np.maximum(values, 0))[..., None, :], adjoint_of(vectors))


def polar(A):
    """Return U with orthonormal columns and H, Hermitian and positive-semidefinite, with A = U H.

    Args:
        A: (..., m, n) with m >= n.
    """
    require_matrices("linalg.polar", A)
    require_floating("linalg.polar", A)
    rows, columns = A.shape[-2:]
    if rows < columns:
        raise RuntimeError(
            f"linalg.polar: input must have at least as many rows as columns, but got {rows} by {columns} matrices"
        )
    u, s, vh = svd(A)
    v = adjoint_of(vh)
    return gemm(u, vh), gemm(v * s[..., None, :], vh)


def nuclear_norm(A):
    """Return the sums of the singular values of matrices, and their derivative U Vh."""
    u, s, vh = svd(A)
    return s.sum(-1), gemm(u, vh)


def lyapunov(self, other):
    """Return Y with X Y + Y X = E for Hermitian X = `self` and E = `other`, both (..., n, n). That of a real E that is
    skew is skew, so that X may have the eigenvalue 0 once."""
    values, vectors = eigh(self)
    inverse, sums = adjoint_of(vectors), values[..., None] + values[..., None, :]
    inner = gemm(gemm(inverse, other), vectors)
    if other.dtype.kind == "f" and np.array_equal(other, -np.swapaxes(other, -1, -2)):
        diagonal = np.arange(other.shape[-1])
        inner[..., diagonal, diagonal], sums[..., diagonal, diagonal] = 0, 1
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = inner / sums
    return gemm(gemm(vectors, inner), inverse)


# The order of the Pade approximant of exp, and the 1-norm up to which its backward error is below the dtype's precision
# (Higham, The scaling and squaring method for the matrix exponential revisited, 2005).
_PADE = {4: (7, 3.925724783138660), 8: (13, 5.371920351148152)}


def matrix_exp(self):
    """Return the exponentials of square matrices: the Pade approximant of A / 2^s, squared s times.

    Each matrix of the batch has its own s, and is squared no more often than it needs.
    """
    require_square("linalg.matrix_exp", self)
    require_floating("linalg.matrix_exp", self)
    if not self.size:
        return self.copy()
    x = np.ascontiguousarray(widen(self)).reshape(-1, *self.shape[-2:])
    if x.shape[-1] == 1:
        return np.exp(x).reshape(self.shape).astype(self.dtype, copy=False)
    order, most = _PADE[x.real.dtype.itemsize]
    norms = np.maximum.reduce(np.add.reduce(np.abs(x), -2), -1)
    finite = np.isfinite(norms)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        halvings = np.where(finite, np.ceil(np.maximum(np.log2(norms / most), 0)), 0).astype(np.int64)
        scaled = np.where(finite[:, None, None], x, 0) * np.exp2(-halvings.astype(norms.dtype))[:, None, None]
        found = _pade_exp(scaled, order)
        for done in range(int(halvings.max())):
            more = halvings > done
            part = found if more.all() else found[more]
            found[more] = gemm(part, part)
    found[~finite] = np.nan
    return found.reshape(self.shape).astype(self.dtype, copy=False)


def _pade_exp(x, order):
    """Return (V - U)^-1 (V + U), where U and V are the odd and even terms of the numerator of the approximant."""
    terms = [1.0]
    for j in range(order):
        terms.append(terms[-1] * (order - j) / ((2 * order - j) * (j + 1)))
    square = gemm(x, x)
    power = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    odd, even = terms[1] * power, terms[0] * power
    for j in range(2, order, 2):
        power = gemm(power, square) if j > 2 else square
        even = even + terms[j] * power
        odd = odd + terms[j + 1] * power
    odd = gemm(x, odd)
    return np.linalg.solve(even - odd, even + odd)


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def lstsq(self, b, rcond=None, driver=None):
    """Return the X of least norm that minimises the norms of the columns of self X - b.

    Args:
        self: (..., m, n).
        b: (..., m, k), whose batch dimensions broadcast, or (..., m) of the same batch.
        rcond: singular values below `rcond` times the greatest one are zeros; max(m, n) * eps by default.
        driver: gels supposes full rank; gelsy, the default, gelsd and gelss find the rank.

    Returns:
        X; the squared norms of the columns of self X - b, if m > n, for all drivers but gelsy, and if the rank is full;
        the ranks, for all drivers but gels; the singular values, for gelsd and gelss. Empty arrays stand for the rest.
    """
    driver = _check_lstsq(self, b, driver)
    vectors = b.ndim == 1 or (self.ndim - 1 == b.ndim and self.shape[:-1] == b.shape)
    right = b[..., None] if vectors else b
    if self.shape[-2] != right.shape[-2]:
        raise RuntimeError(f"torch.linalg.lstsq: input.size(-2) should match other.size({-1 if vectors else -2})")
    # As in PyTorch, one dimension less makes vectors, even where the check above takes `b` for matrices.
    of_right = b.shape[:-1] if self.ndim - 1 == b.ndim else right.shape[:-2]
    text = size_mismatch((self.shape[:-2], of_right))
    if text:
        raise RuntimeError(text)
    if self.dtype.kind not in "fc" or is_half(self.dtype):
        raise RuntimeError("This function doesn't handle types other than float and double")
    m, n = self.shape[-2:]
    real = self.real.dtype
    batch = np.broadcast_shapes(self.shape[:-2], right.shape[:-2])
    solution = np.swapaxes(np.zeros((*batch, right.shape[-1], max(1, m, n)), self.dtype), -1, -2)[..., :n, :]
    rank, values = np.zeros(0, np.int64), np.zeros(0, real)
    if driver == "gels":
        if solution.size and m:
            solution[...] = _full_rank_solution(self, right)
    else:
        u, s, vh = svd(self)
        cut = max(m, n) * np.finfo(real).eps if rcond is None else rcond
        kept = s > real.type(cut) * s[..., :1]
        rank = kept.sum(-1, dtype=np.int64)
        inverse = np.divide(1, s, out=np.zeros_like(s), where=kept)
        solution[...] = gemm(adjoint_of(vh), inverse[..., None] * gemm(adjoint_of(u), right))
        values = s if driver != "gelsy" else values
    residuals = np.zeros(0, real)
    if m > n and driver != "gelsy" and (driver == "gels" or (rank == n).all()):
        error = gemm(self, solution) - right
        if driver == "gels":  # which writes zeros over the right-hand side of a matrix of zeros
            error = np.where(self.any((-2, -1), keepdims=True), error, 0)
        squares = error.real**2 + error.imag**2 if error.dtype.kind == "c" else error**2
        residuals = np.add.reduce(squares, -2)
    return (solution[..., 0] if vectors else solution), residuals, rank, values


def _check_lstsq(A, B, driver):
    if A.ndim < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if B.ndim < 1:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    if A.dtype != B.dtype:
        raise RuntimeError(
            "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype "
            f"{type_name(A.dtype)} and other's dtype {type_name(B.dtype)}"
        )
    if not 0 <= A.ndim - B.ndim <= 1:
        raise RuntimeError(
            "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) "
            "<= 1"
        )
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(f"torch.linalg.lstsq: parameter `driver` should be one of ({', '.join(_DRIVERS)})")
    return driver or "gelsy"


def _full_rank_solution(A, B):
    """Solve by a QR decomposition of A, or of A^H if A is wide. Raises LinAlgError if the triangle is singular."""
    tall = A.shape[-2] >= A.shape[-1]
    q, r = np.linalg.qr(A if tall else adjoint_of(A))
    without = ~A.any((-2, -1), keepdims=True)  # matrices of zeros, of which LAPACK's solution is 0
    r, B = np.where(without, np.eye(r.shape[-1], dtype=r.dtype), r), np.where(without, 0, B)
    zeros = np.diagonal(r, 0, -2, -1) == 0
    if zeros.any():
        first = int(zeros.any(-1).reshape(-1).argmax())
        where = f"(Batch element {first}): " if A.ndim > 2 else ""
        code = int(zeros.reshape(-1, zeros.shape[-1])[first].argmax()) + 1
        raise LinAlgError(
            f"torch.linalg.lstsq: {where}The least squares solution could not be computed because the input matrix "
            f"does not have full rank (error code: {code})."
        )
    if tall:
        return np.linalg.solve(r, gemm(adjoint_of(q), B))
    return gemm(q, np.linalg.solve(adjoint_of(r), B))
