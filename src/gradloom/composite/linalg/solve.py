"""Factorizations and solutions that raise an error for singular matrices, determinants, powers, and older names."""

from __future__ import annotations

from math import prod

from ...core.tensor import Tensor
from ...core.user_stack import warn_deprecated
from ...dispatch import _operators as ops
from ...kernels._common.dims import wrap_dim
from ...kernels._common.errors import LinAlgError
from ...kernels.linalg.checks import require_precise, require_square
from ...kernels.linalg.solve import ldl_message, positive_message, singular_solve_message, zero_pivot_message
from ...return_types import result_class
from ...types.dtype import scalar_type_name
from ...types.public import found_in as _found_in

_LU_FACTOR = result_class("linalg_lu_factor", ("LU", "pivots"))
_LU_WITH_INFO = result_class("_lu_with_info", ("LU", "pivots", "info"))
_SOLVE_EX = result_class("linalg_solve_ex", ("result", "info"))
_LINALG_SLOGDET = result_class("linalg_slogdet", ("sign", "logabsdet"))
_SLOGDET = result_class("slogdet", ("sign", "logabsdet"))
_LDL_FACTOR = result_class("linalg_ldl_factor", ("LD", "pivots"))


def failures(info: Tensor):
    """Return the array of a factorization's error numbers if one is not zero, else None. Within vmap, those of all
    batch elements count; on the meta device there are none."""
    while (physical := getattr(info, "_physical", None)) is not None:
        info = physical
    return None if info.is_meta or not info.any() else info._array


def linalg_cholesky(self, upper=False):
    """Return Cholesky factors. Raises LinAlgError for a matrix that is not positive-definite."""
    L, info = ops.linalg_cholesky_ex(self, upper=upper)
    if (failed := failures(info)) is not None:
        raise LinAlgError(positive_message("linalg.cholesky", failed))
    return L


def cholesky(self, upper=False):
    """Return Cholesky factors, by the older name."""
    return ops.linalg_cholesky(self, upper=upper)


def lu_factor(A, pivot=True):
    """Return L and U in one matrix, and the pivots. Raises RuntimeError for a singular matrix."""
    LU, pivots, info = ops.linalg_lu_factor_ex(A, pivot=pivot)
    if (failed := failures(info)) is not None:
        raise RuntimeError(zero_pivot_message("torch.linalg.lu_factor", failed))
    return _LU_FACTOR((LU, pivots))


def lu_with_info(self, pivot=True, check_errors=True):
    """Return L and U in one matrix, the pivots, and the first zero pivot of each matrix, or 0."""
    warn_deprecated("lu", "torch.linalg.lu_factor(A), or torch.linalg.lu_factor_ex(A) for three results")
    return _LU_WITH_INFO(tuple(ops.linalg_lu_factor_ex(self, pivot=pivot)))


def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: tuple[Tensor, ...] | None = None
) -> tuple[Tensor, ...]:
    """Return L and U of each matrix in one matrix, and the pivots, counted from 1.

    Args:
        A: (..., m, n).
        pivot: must be True.
        get_infos: whether to return a third tensor, with the number of the first zero pivot of each matrix, or 0.
        out: tensors for the results.
    """
    found = ops._lu_with_info(A, pivot, not get_infos)
    if out is not None:
        count = 2 + bool(get_infos)
        if not isinstance(out, (tuple, list)):
            raise TypeError(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
        if len(out) != count:
            raise TypeError(f"expected tuple of {count} elements but got {len(out)}")
        for target, result in zip(out, found, strict=False):
            target.resize_as_(result).copy_(result)
        return out
    return found if get_infos else (found.LU, found.pivots)


def lu_solve(self, LU_data, LU_pivots):
    """Return X with A X = B from the results of `lu_factor`."""
    return ops.linalg_lu_solve(LU_data, LU_pivots, self)


def solve_ex(A, B, left=True, check_errors=False):
    """Return X with A X = B, or X A = B, and the first zero pivot of each matrix, or 0."""
    found = ops._linalg_solve_ex(A, B, left=left, check_errors=check_errors)
    return _SOLVE_EX((found[0], found[3]))


def solve(A, B, left=True):
    """Return X with A X = B, or X A = B. Raises LinAlgError for singular A."""
    found = ops._linalg_solve_ex(A, B, left=left)
    if (failed := failures(found[3])) is not None:
        raise LinAlgError(singular_solve_message("torch.linalg.solve", failed))
    return found[0]


def det(A):
    """Return the determinants of square matrices."""
    return ops._linalg_det(A)[0]


def det_of_self(self):
    """Return the determinants of square matrices."""
    return ops.linalg_det(self)


def linalg_slogdet(A):
    """Return signs and logarithms of the magnitudes of determinants; for complex matrices, signs of modulus 1."""
    found = ops._linalg_slogdet(A)
    return _LINALG_SLOGDET((found[0], found[1]))


def slogdet(self):
    """Return signs and logarithms of the magnitudes of determinants."""
    return _SLOGDET(tuple(ops.linalg_slogdet(self)))


def logdet(self):
    """Return the logarithms of determinants: nan for negative ones, -inf for 0."""
    require_square("logdet", self._array)
    require_precise("logdet", self._array)
    sign, logabsdet = ops.linalg_slogdet(self)
    if self.is_complex():
        return ops.log(sign) + logabsdet
    return ops.where(sign == -1, ops.full_like(logabsdet, float("nan")), logabsdet)


def orgqr(self, input2):
    """Return the first columns of a product of Householder reflections."""
    return ops.linalg_householder_product(self, input2)


def ldl_factor(self, hermitian=False):
    """Return an LDL factorization and its pivots. Raises RuntimeError if D is singular."""
    LD, pivots, info = ops.linalg_ldl_factor_ex(self, hermitian=hermitian)
    if (failed := failures(info)) is not None:
        raise RuntimeError(ldl_message("torch.linalg.ldl_factor", failed))
    return _LDL_FACTOR((LD, pivots))


def tensorinv(self, ind=2):
    """Return the inverse of the linear map from the dimensions from `ind` on to those before it."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    before, after = tuple(self.shape[:ind]), tuple(self.shape[ind:])
    rows, columns = prod(before), prod(after)
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{columns} != {rows}"
        )
    return ops.reshape(ops.linalg_inv(ops.reshape(self, (rows, columns))), (*after, *before))


def tensorsolve(self, other, dims=None):
    """Return X with tensordot(self, X, X.ndim) = other. `dims` are moved to the end of `self` first."""
    if dims is not None:
        rank = self.dim()
        moved = [wrap_dim(d, rank) for d in dims]
        self = ops.permute(self, (*[d for d in range(rank) if d not in moved], *moved))
    result = tuple(self.shape[other.dim() :])
    rows, columns = other.numel(), prod(result)
    if rows != columns or rows != prod(self.shape[: other.dim()]):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {columns} != {rows}"
        )
    found = ops.linalg_solve(ops.reshape(self, (rows, columns)), ops.flatten(other))
    return ops.reshape(found, result)


def linalg_matrix_power(self, n):
    """Return the n-th power of square matrices, by repeated squaring; negative powers are those of the inverses."""
    require_square("linalg.matrix_power", self._array)
    if n == 0:
        eye = ops.eye(self.shape[-1], dtype=self.dtype, device=self.device)
        return ops.copy_(ops.clone(self), eye.expand(self.shape))
    if n == 1:
        return ops.clone(self)
    if n < 0:
        self, n = ops.linalg_inv(self), -n
    if n == 3:
        return ops.matmul(ops.matmul(self, self), self)
    found, square = None, self
    while n:
        if n & 1:
            found = square if found is None else ops.matmul(found, square)
        n >>= 1
        if n:
            square = ops.matmul(square, square)
    return found


def matrix_power(self, n):
    """Return the n-th power of square matrices."""
    return ops.linalg_matrix_power(self, n)


def power_matrix(x, N=None, increasing=False):
    """Return the powers N - 1 to 0 of each number of a vector, (n, N), or 0 to N - 1 if `increasing`.

    N is n by default. Integers and bools become int64.
    """
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.size(0) if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    powers = ops.cumprod(ops.expand(ops.unsqueeze(x, 1), (-1, max(count - 1, 0))), 1)
    powers = ops.cat([ops.new_ones(powers, (x.size(0), min(count, 1))), powers], 1)
    return powers if increasing else ops.flip(powers, (1,))


def vander(x, N=None):
    """Return the powers 0 to N - 1 of each number, in a new last dimension; N is the length of x by default."""
    if x.dtype.is_complex or x.is_floating_point() or x.dtype.itemsize and scalar_type_name(x.dtype) != "Bool":
        count = N if N is not None else x.shape[-1] if x.dim() else 1
        if count <= 1:
            raise RuntimeError("N must be greater than 1.")
        if not x.dim():
            x = ops.unsqueeze(x, 0)
        powers = ops.unsqueeze(x, -1).expand((*x.shape, count - 1))
        result = ops.cumprod(powers, -1)
        return ops.cat([ops.ones_like(ops.narrow(result, -1, 0, 1)), result], -1)
    raise NotImplementedError(
        f"linalg.vander supports floating point, complex, and integer tensors, but got {scalar_type_name(x.dtype)}"
    )


_found_in("gradloom", lu)
