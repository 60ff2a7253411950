"""Norms, condition numbers and ranks of matrices, in terms of singular values; further forms of the pseudoinverse."""

from __future__ import annotations

from math import inf

from ...core.tangents import is_differentiated
from ...dispatch import _operators as ops
from ...kernels._common.dims import wrap_dim
from ...types.dtype import finfo, scalar_type_name


def _promoted(A, dtype):
    """Convert A to a dtype, after PyTorch's checks: real for real, complex for complex, and not narrower."""
    if dtype is None:
        return A
    what = "complex" if A.is_complex() else "real"
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            f"linalg.matrix_norm: dtype should be floating point or complex, but got {scalar_type_name(dtype)}"
        )
    if dtype.is_complex is not A.is_complex():
        raise RuntimeError(
            f"linalg.matrix_norm: dtype should be {what} for {what} inputs, but got {scalar_type_name(dtype)}"
        )
    if dtype.itemsize < A.itemsize:
        raise RuntimeError(
            f"linalg.matrix_norm: the dtype of the input ({scalar_type_name(A.dtype)}) should be convertible without "
            f"narrowing to the specified dtype ({scalar_type_name(dtype)})"
        )
    return A.to(dtype)


def _check_matrix(A, dim):
    """Check the input and the dimensions of a matrix norm; return the dimensions, counted from the front."""
    if A.dim() < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    if not (A.is_floating_point() or A.is_complex()):
        raise NotImplementedError(
            "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got " + scalar_type_name(A.dtype)
        )
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    rows, columns = (wrap_dim(d, A.dim()) for d in dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return rows, columns


def _of_matrices(reduce, A, dim, keepdim, dtype):
    """Reduce the matrices in two dimensions to one number each, by a function of matrices and `keepdim`."""
    order = [d for d in range(A.dim()) if d not in dim] + list(dim)
    found = reduce(ops.permute(_promoted(A, dtype), order), keepdim)
    if not keepdim:
        return found
    return ops.permute(ops.unsqueeze(found, -1), [order.index(d) for d in range(A.dim())])


def matrix_norm(self, ord, dim=(-2, -1), keepdim=False, dtype=None):
    """Return the norm of matrices that is induced by a vector norm: 1 and inf are the greatest sums of magnitudes of a
    column and of a row, 2 is the greatest singular value. The negative orders are the least."""
    dims = _check_matrix(self, dim)
    size = abs(ord)
    if size not in (1, 2, inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord:g} not supported.")
    if size == 2:
        if self.itemsize < 4:
            raise NotImplementedError(
                f"linalg.matrix_norm: Low precision dtypes not supported. Got {scalar_type_name(self.dtype)}"
            )
        extreme = ops.amax if ord > 0 else ops.amin
        return _of_matrices(lambda A, keep: extreme(ops.linalg_svdvals(A), (-1,), keep), self, dims, keepdim, dtype)
    _promoted(self, dtype)
    inner, outer = dims if size == 1 else dims[::-1]
    sums = ops.linalg_vector_norm(self, 1, (inner,), keepdim, dtype=dtype)
    if not keepdim and outer > inner:
        outer -= 1
    return (ops.amax if ord > 0 else ops.amin)(sums, (outer,), keepdim)


def _sum_of_singular_values(A, keepdim):
    if not is_differentiated(A):
        return ops.sum(ops.linalg_svdvals(A), (-1,), keepdim)
    found = ops._linalg_nuclear_norm(A)[0]
    return ops.unsqueeze(found, -1) if keepdim else found


def matrix_norm_by_name(self, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    """Return the root of the sum of squares of matrices, "fro", or the sum of their singular values, "nuc"."""
    dims = _check_matrix(self, dim)
    if ord not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if ord == "nuc":
        return _of_matrices(_sum_of_singular_values, self, dims, keepdim, dtype)
    _promoted(self, dtype)
    return ops.linalg_vector_norm(self, 2, dims, keepdim, dtype=dtype)


def _check_norm_dim(self, ord, dim):
    if dim is not None:
        if len(dim) not in (1, 2):
            shown = ", ".join(map(str, dim))
            raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got [{shown}]")
    elif ord is not None and self.dim() not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {self.dim()}D."
        )


def linalg_norm(self, ord=None, dim=None, keepdim=False, dtype=None):
    """Return the vector norm over one dimension or all, or the matrix norm over two if `ord` is given."""
    _check_norm_dim(self, ord, dim)
    if ord is not None and (len(dim) == 2 if dim is not None else self.dim() == 2):
        return ops.linalg_matrix_norm(self, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    return ops.linalg_vector_norm(self, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def linalg_norm_by_name(self, ord, dim=None, keepdim=False, dtype=None):
    """Return the Frobenius norm, "fro", or the nuclear norm, "nuc", of a matrix."""
    _check_norm_dim(self, ord, dim)
    return ops.linalg_matrix_norm(self, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype)


def nuclear_norm(self, keepdim=False):
    """Return the sums of the singular values of matrices."""
    return ops.linalg_matrix_norm(self, "nuc", (-2, -1), keepdim)


def nuclear_norm_dim(self, dim, keepdim=False):
    """Return the sums of the singular values of the matrices in two dimensions."""
    return ops.linalg_matrix_norm(self, "nuc", dim, keepdim)


def cond(self, p=None):
    """Return the condition number |A| |A^-1| of matrices; for 2 and -2, and None, which is 2, the quotient of the
    greatest and the least singular value, which also matrices that are not square have. Singular matrices have inf."""
    if self.dim() < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p is not None and abs(p) not in (1, 2, inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p:g}")
    if not self.numel():
        return _no_cond(self)
    if p is None or abs(p) == 2:
        values = ops.linalg_svdvals(self)
        greatest, least = ops.narrow(values, -1, 0, 1), ops.narrow(values, -1, -1, 1)
        return ops.squeeze(least / greatest if p == -2 else greatest / least, -1)
    _check_square(self, f"{p:g}")
    return _norm_of_inverse(self, p)


def cond_by_name(self, p):
    """Return |A| |A^-1| in the Frobenius norm, "fro", or in the nuclear norm, "nuc"."""
    if not self.numel() and self.dim() >= 2 and p in ("fro", "nuc"):
        return _no_cond(self)
    if self.numel():
        _check_square(self, p)
    if p not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if p == "nuc":
        values = ops.linalg_svdvals(self)
        return ops.sum(values, -1) * ops.sum(ops.reciprocal(values), -1)
    return _norm_of_inverse(self, p)


def _no_cond(A):
    return ops.zeros(A.shape[:-2], dtype=A.dtype.to_real(), device=A.device)


def _check_square(A, p):
    if A.dim() < 2:
        raise RuntimeError(f"linalg.cond(ord={p}): The input tensor A must have at least 2 dimensions.")
    rows, columns = A.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"linalg.cond(ord={p}): A must be batches of square matrices, but they are {rows} by {columns} matrices"
        )


def _norm_of_inverse(A, p):
    inverse, info = ops.linalg_inv_ex(A)
    inverse = ops.masked_fill(inverse, (info > 0).unsqueeze(-1).unsqueeze(-1), inf)
    return ops.linalg_matrix_norm(A, p) * ops.linalg_matrix_norm(inverse, p)


def _tolerances(A, atol, rtol):
    """Return the absolute and the relative tolerance, as numbers or tensors. By default, the absolute is 0, and the
    relative max(m, n) * eps, or 0 if there is a positive absolute one."""
    for what, given in (("atol", atol), ("rtol", rtol)):
        if isinstance(given, ops.Tensor) and given.is_complex():
            raise RuntimeError(
                f"torch.linalg.matrix_rank: {what} tensor of complex type is not supported. Got "
                f"{scalar_type_name(given.dtype)}"
            )
    if rtol is None:
        if not (A.is_floating_point() or A.is_complex()) or A.itemsize < 4:
            raise RuntimeError("This function doesn't handle types other than float and double")
        rtol = finfo(A.dtype).eps * max(A.shape[-2:])
        if isinstance(atol, ops.Tensor):
            rtol = ops.where(atol > 0, 0.0, ops.full_like(atol, rtol, dtype=A.dtype.to_real()))
        elif atol is not None and atol > 0:
            rtol = 0.0
    return 0.0 if atol is None else atol, rtol


def _threshold(greatest, atol, rtol):
    """Return max(atol, rtol * greatest); `greatest` has the dimension of the values, tolerances of tensors lack it."""
    atol, rtol = (ops.unsqueeze(t, -1) if isinstance(t, ops.Tensor) else t for t in (atol, rtol))
    relative = greatest * rtol
    return ops.maximum(atol, relative) if isinstance(atol, ops.Tensor) else ops.clamp(relative, min=atol)


def matrix_rank(input, atol=None, rtol=None, hermitian=False):
    """Return how many singular values of matrices, or magnitudes of eigenvalues, exceed max(atol, rtol * greatest).

    Args:
        input: (..., m, n).
        atol, rtol: numbers or tensors that broadcast against the batch.
        hermitian: whether the matrices are Hermitian, of which the lower triangles are read.
    """
    if input.dim() < 2:
        raise RuntimeError("torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions.")
    atol, rtol = _tolerances(input, atol, rtol)
    if not input.numel():
        return ops.zeros(input.shape[:-2], dtype=_int64(), device=input.device)
    values = ops.linalg_eigvalsh(input).abs() if hermitian else ops.linalg_svdvals(input)
    return ops.sum(values > _threshold(ops.amax(values, (-1,), True), atol, rtol), -1)


def _int64():
    from ...types.dtype import int64

    return int64


def matrix_rank_tol(input, tol, hermitian=False):
    """Return how many singular values of matrices, or magnitudes of eigenvalues, exceed `tol`."""
    zero = ops.zeros_like(tol) if isinstance(tol, ops.Tensor) else 0.0
    return ops.linalg_matrix_rank(input, atol=tol, rtol=zero, hermitian=hermitian)


def _as_tensor(self, value):
    """Return a tolerance as a 0-dim tensor, of the dtype of the singular values."""
    if value is None:
        return None
    dtype = self.dtype.to_real() if self.is_floating_point() or self.is_complex() else None
    return ops.full((), value, dtype=dtype, device=self.device)


def pinv_float(self, atol=None, rtol=None, hermitian=False):
    """Return the pseudoinverses of matrices, with tolerances that are numbers."""
    return ops.linalg_pinv(self, atol=_as_tensor(self, atol), rtol=_as_tensor(self, rtol), hermitian=hermitian)


def pinv_rcond(self, rcond, hermitian=False):
    """Return the pseudoinverses of matrices, with `rcond` as the relative tolerance."""
    return pinv_float(self, 0.0, rcond, hermitian)


def pinv_rcond_tensor(self, rcond, hermitian=False):
    """Return the pseudoinverses of matrices, with a tensor `rcond` as the relative tolerance."""
    return ops.linalg_pinv(self, atol=ops.zeros((), dtype=rcond.dtype), rtol=rcond, hermitian=hermitian)


def pinverse(self, rcond=1e-15):
    """Return the pseudoinverses of matrices."""
    return ops.linalg_pinv(self, rcond, False)


def matrix_exp(self):
    """Return the exponentials of square matrices."""
    return ops.linalg_matrix_exp(self)


def matrix_exp_backward(self, grad):
    """Return the gradient of the exponential of square matrices."""
    from ...formulas.linalg.spectral import linalg_matrix_exp_differential

    return linalg_matrix_exp_differential(self, grad, True)
