"""Factorizations for solving: Cholesky, LU and LDL, and solutions by them.

LAPACK's routines take one matrix; SciPy provides those that NumPy does not. Batches broadcast.
"""

from __future__ import annotations

import numpy as np

from .._common.errors import LinAlgError, size_mismatch, type_name
from .checks import (
    adjoint_of,
    columns,
    lapack,
    matrices_of,
    require_floating,
    require_lapack,
    require_matrices,
    require_precise,
    require_square,
)
from .in_step import (
    cholesky_in_step,
    cholesky_inverse_in_step,
    cholesky_solve_in_step,
    goes_in_step,
    lu_solve_in_step,
    solve_in_step,
    triangular_in_step,
)


def positive_message(name, info):
    """Return the message for the first matrix whose Cholesky factorization failed."""
    position = int((info != 0).reshape(-1).argmax())
    where = f"(Batch element {position}): " if info.ndim else ""
    return (
        f"{name}: {where}The factorization could not be completed because the input is not positive-definite (the "
        f"leading minor of order {int(info.reshape(-1)[position])} is not positive-definite)."
    )


def _cholesky(A, upper):
    """Return triangular factors, and for each matrix 0 or the order of the first minor that is not positive."""
    info = np.zeros(A.shape[:-2], np.int32)
    if not A.size:
        return columns(A.copy()), info
    lower = adjoint_of(A) if upper else A
    if goes_in_step(A) and (found := cholesky_in_step(lower)) is not None:
        return columns(adjoint_of(found) if upper else found), info
    try:
        found = np.linalg.cholesky(lower)
    except np.linalg.LinAlgError:
        found, codes = np.empty_like(lower, order="C"), info.reshape(-1)
        factor, out = lapack("potrf", lower), matrices_of(found)
        for i, matrix in enumerate(matrices_of(lower)):
            out[i], codes[i] = factor(matrix, lower=True, clean=True)
    nan = np.isnan(np.diagonal(found, 0, -2, -1))
    if nan.any():  # of which LAPACK need not say that it is not positive
        info[...] = np.where((info == 0) & nan.any(-1), nan.argmax(-1) + 1, info)
    return columns(adjoint_of(found) if upper else found), info


def cholesky_ex(self, upper=False, check_errors=False):
    """Return L with L L^H = A, or U with U^H U = A, and the order of the first minor that is not positive, or 0."""
    require_square("linalg.cholesky", self)
    require_floating("linalg.cholesky", self)
    require_lapack("cholesky_cpu", self)
    found, info = _cholesky(self, upper)
    if check_errors and info.any():
        raise LinAlgError(positive_message("linalg.cholesky_ex", info))
    return found, info


def cholesky_inverse(self, upper=False):
    """Return (L L^H)^-1, or (U^H U)^-1 for `upper`, from a Cholesky factor."""
    require_square("cholesky_inverse", self)
    require_lapack("cholesky_inverse_out_cpu", self)
    if not self.size:
        return columns(self.copy())
    if goes_in_step(self) and np.diagonal(self, 0, -2, -1).all():
        return columns(cholesky_inverse_in_step(self, upper))
    found, invert = np.empty_like(self, order="C"), lapack("potri", self)
    out = matrices_of(found)
    for i, matrix in enumerate(matrices_of(self)):
        triangle, info = invert(matrix, lower=not upper)
        if info:
            where = f"(Batch element {i}): " if self.ndim > 2 else ""
            raise LinAlgError(
                f"cholesky_inverse: {where}The diagonal element {info} is zero, the inversion could not be completed "
                "because the input matrix is singular."
            )
        half = np.triu(triangle, 1) if upper else np.tril(triangle, -1)
        out[i] = half + half.T.conj() + np.diag(np.diagonal(triangle).real)
    return columns(found)


def _require_two(b, A, name, b_name, a_name):
    """Check a right-hand side and a matrix, for the operators that existed before torch.linalg."""
    for array, called in ((b, b_name), (A, a_name)):
        if array.ndim < 2:
            raise RuntimeError(f"{called} should have at least 2 dimensions, but has {array.ndim} dimensions instead")
    _require_pair(b, A, name)


def _require_pair(b, A, name):
    if b.dtype != A.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {type_name(b.dtype)} and A of type "
            f"{type_name(A.dtype)} instead."
        )
    rows, cols = A.shape[-2:]
    if rows != cols:
        raise RuntimeError(f"A must be batches of square matrices, but they are {rows} by {cols} matrices")
    if b.shape[-2] != rows:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {rows} by {cols} but each b matrix is "
            f"{b.shape[-2]} by {b.shape[-1]}"
        )


def _batch(A, B):
    """Return the common batch dimensions of two batches of matrices."""
    if text := size_mismatch((B.shape[:-2], A.shape[:-2])):
        raise RuntimeError(text)
    return np.broadcast_shapes(B.shape[:-2], A.shape[:-2])


def _broadcast(A, B):
    """Broadcast the batch dimensions of two batches of matrices."""
    batch = _batch(A, B)
    return np.broadcast_to(A, batch + A.shape[-2:]), np.broadcast_to(B, batch + B.shape[-2:])


def cholesky_solve(self, input2, upper=False):
    """Return the solution X of A X = B from the Cholesky factor of A."""
    _require_two(self, input2, "cholesky_solve", "b", "u")
    require_lapack("cholesky_cpu", self)
    B, L = self, input2
    L, B = _broadcast(L, B)
    if B.size and goes_in_step(L):
        return cholesky_solve_in_step(L, B, upper)
    found = np.zeros(B.shape, B.dtype)
    if B.size:
        out, solve = matrices_of(found), lapack("potrs", L)
        for i, (factor, right) in enumerate(zip(matrices_of(L), matrices_of(B), strict=True)):
            out[i] = solve(factor, right, lower=not upper)[0]
    return columns(found)


def _triangular(A, B, upper, unit=False, trans=0):
    """Solve op(A) X = B, where op(A) is A, A^T or A^H for `trans` 0, 1 or 2; divide by zero without an error."""
    from scipy.linalg import blas

    A, B = _broadcast(A, B)
    if B.size and goes_in_step(A):
        return triangular_in_step(A, B, upper, unit, trans)
    found = np.zeros(B.shape, B.dtype)
    if B.size:
        out, solve = matrices_of(found), blas.get_blas_funcs("trsm", (A,))
        for i, (a, b) in enumerate(zip(matrices_of(A), matrices_of(B), strict=True)):
            out[i] = solve(1.0, a, b, side=0, lower=not upper, trans_a=trans, diag=unit)
    return columns(found)


def _equation(name, A, B, left):
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX' if left else 'XA'} = B "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )


def solve_triangular(self, B, upper, left=True, unitriangular=False):
    """Return X with A X = B, or X A = B, for triangular A, of which only one triangle is read."""
    name = "linalg.solve_triangular"
    require_square(name, self)
    require_matrices(name, B, "B")
    _equation(name, self, B, left)
    require_lapack("triangular_solve_cpu", self)
    if left:
        return _triangular(self, B, upper, unitriangular)
    return np.swapaxes(_triangular(self, np.swapaxes(B, -1, -2), upper, unitriangular, 1), -1, -2)


def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False):
    """Return X with A X = B, or A^T X = B, for triangular A, and a copy of A."""
    for array, called in ((self, "b"), (A, "A")):
        if array.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {called} to have at least 2 dimensions, but it has {array.ndim} "
                "dimensions instead"
            )
    _require_pair(self, A, "triangular_solve")
    require_lapack("triangular_solve_cpu", self)
    A, B = _broadcast(A, self)
    return _triangular(A, B, upper, unitriangular, int(transpose)), columns(A.copy())


def _lu(A, B=None):
    """Return the LU factorization of each matrix, its pivots counted from 1, the first zero of the diagonal, and the
    solution of A X = B, with B in the same batch, or None."""
    *batch, m, n = A.shape
    if goes_in_step(A):
        factors, pivots, info, solution = solve_in_step(A, B)
        pivots += 1
        return factors, pivots, info, solution
    factors, pivots = np.zeros(A.shape, A.dtype), np.zeros((*batch, min(m, n)), np.int32)
    info = np.zeros(batch, np.int32)
    if A.size:
        factor, out, order, codes = lapack("getrf", A), matrices_of(factors), matrices_of(pivots, 1), info.reshape(-1)
        for i, matrix in enumerate(matrices_of(A)):
            out[i], order[i], codes[i] = factor(matrix)
    pivots += 1
    factors = columns(factors)
    return factors, pivots, info, None if B is None else _lu_solve(factors, pivots, B)


def lu_factor_ex(A, pivot=True, check_errors=False):
    """Return L and U in one matrix, pivots counted from 1, and the number of the first zero pivot, or 0."""
    _require_lu("torch.lu_factor", A, pivot)
    factors, pivots, info, _ = _lu(A)
    if check_errors and info.any():
        raise RuntimeError(zero_pivot_message("torch.linalg.lu_factor_ex", info))
    return factors, pivots, info


def _require_lu(name, A, pivot):
    if A.ndim < 2:
        shown = ", ".join(map(str, A.shape))
        raise RuntimeError(f"{name}: Expected tensor with 2 or more dimensions. Got size: [{shown}] instead")
    require_lapack("lu_cpu", A)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


def zero_pivot_message(name, info):
    """Return the message for the first matrix with a zero pivot."""
    position = int((info != 0).reshape(-1).argmax())
    where = f"(Batch element {position}): " if info.ndim else ""
    k = int(info.reshape(-1)[position])
    return (
        f"{name}: {where}U[{k},{k}] is zero and using it on lu_solve would result in a division by zero. If you still "
        "want to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )


def _order(pivots, m):
    """Return the permutation of m rows that a list of interchanges makes."""
    batch = pivots.shape[:-1]
    order = np.broadcast_to(np.arange(m), (*batch, m)).copy()
    for i in range(pivots.shape[-1]):
        chosen = pivots[..., i : i + 1].astype(np.int64) - 1
        taken = np.take_along_axis(order, chosen, -1)
        np.put_along_axis(order, chosen, order[..., i : i + 1].copy(), -1)
        order[..., i : i + 1] = taken
    return order


def _unpacked(LU, pivots):
    m, n = LU.shape[-2:]
    k = min(m, n)
    L = np.tril(LU[..., :k], -1)
    L[..., range(k), range(k)] = 1
    order = _order(pivots, m)
    P = np.zeros((*LU.shape[:-2], m, m), LU.dtype)
    np.put_along_axis(P, order[..., None, :], 1, -2)
    return P, L, np.triu(LU[..., :k, :])


def lu(A, pivot=True):
    """Return P, L and U with A = P L U."""
    _require_lu("linalg.lu", A, pivot)
    factors, pivots, _, _ = _lu(A)
    return _unpacked(factors, pivots)


def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """Return P, L and U from the results of `lu_factor`; empty tensors for what is not wanted."""
    if LU_data.ndim < 2:
        _require_lu("torch.lu_unpack", LU_data, True)
    if unpack_pivots and LU_pivots.dtype != np.int32:
        raise RuntimeError("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.")
    m, n = LU_data.shape[-2:]
    P, L, U = (np.zeros(0, LU_data.dtype) for _ in range(3))
    if unpack_pivots:
        wrong = LU_pivots.size and (LU_pivots.min() < 1 or LU_pivots.max() > m)
        if wrong or LU_pivots.shape != (*LU_data.shape[:-2], min(m, n)):
            raise RuntimeError(
                "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                "Did you properly pass the result of lu_factor?"
            )
        P = _unpacked(LU_data, LU_pivots)[0]
    if unpack_data:
        _, L, U = _unpacked(LU_data, LU_pivots[..., :0] if LU_pivots.ndim else np.zeros(0, np.int32))
        L, U = np.ascontiguousarray(L), np.ascontiguousarray(U)
    return P, L, U


def lu_solve(LU, pivots, B, left=True, adjoint=False):
    """Return X with A X = B, or X A = B, or for A^H in place of A, from the results of `lu_factor`."""
    name = "linalg.lu_solve"
    require_floating(f"torch.{name}", LU)
    if pivots.dtype != np.int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    require_square(f"torch.{name}", LU)
    require_matrices(name, B, "B")
    if LU.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected LU and B to have the same dtype, but found LU of type {type_name(LU.dtype)} and B of "
            f"type {type_name(B.dtype)} instead"
        )
    _equation(name, LU, B, left)
    if pivots.shape[-1:] != LU.shape[-1:]:
        raise RuntimeError(f"{name}: Number of pivots per batch should be same as the dimension of the matrix")
    if pivots.shape != LU.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if pivots.size and pivots.min() < 1:
        raise RuntimeError(
            "Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the result of lu_factor?"
        )
    if pivots.size and pivots.max() > LU.shape[-2]:
        raise RuntimeError(
            "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you properly pass the result of "
            "lu_factor?"
        )
    return _lu_solve(LU, pivots, B, left, adjoint)


def _lu_solve(LU, pivots, B, left=True, adjoint=False):
    if not left:
        return columns(adjoint_of(_lu_solve(LU, pivots, adjoint_of(B), True, not adjoint)))
    LU, B = _broadcast(LU, B)
    if B.size and goes_in_step(LU):
        return lu_solve_in_step(LU, np.broadcast_to(pivots, LU.shape[:-1]), B, adjoint)
    order = np.broadcast_to(_order(pivots, LU.shape[-1]), LU.shape[:-1])[..., None]
    if not adjoint:
        taken = np.take_along_axis(B, order, -2)
        return _triangular(LU, _triangular(LU, taken, False, True), True)
    found = _triangular(LU, _triangular(LU, B, True, False, 2), False, True, 2)
    result = np.empty_like(found)
    np.put_along_axis(result, np.broadcast_to(order, result.shape), found, -2)
    return columns(result)


def _is_vector(A, B):
    """Return whether the right-hand side is a batch of vectors, not of matrices."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])


def solve_ex(A, B, left=True, check_errors=False):
    """Return X with A X = B, or X A = B, the LU factorization, its pivots, and the first zero pivot, or 0."""
    name = "linalg.solve"
    require_floating(name, A)
    require_square(name, A)
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {type_name(A.dtype)} and B of type "
            f"{type_name(B.dtype)} instead"
        )
    vector = _is_vector(A, B)
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case "
            "linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    right = B[..., None] if vector else B
    require_matrices(name, right, "B")
    _equation(name, A, right, left)
    require_lapack("lu_cpu", A)
    wide, rights = _broadcast(A, right)
    LU, pivots, info, found = _lu(wide, rights if left else None)
    if check_errors and info.any():
        raise LinAlgError(singular_solve_message("torch.linalg.solve_ex", info))
    if found is None:
        found = _lu_solve(LU, pivots, right, left)
    return found[..., 0] if vector else found, LU, pivots, info


def singular_solve_message(name, info):
    """Return the message for the first singular matrix of a system."""
    where = f"(Batch element {int((info != 0).reshape(-1).argmax())}): " if info.ndim else ""
    return f"{name}: {where}The solver failed because the input matrix is singular."


def _require_det(name, A):
    require_square(name, A)
    require_floating(name, A)
    require_lapack("lu_cpu", A)


def _is_odd(pivots):
    """Return whether interchanges make an odd permutation, as -1 or 1."""
    moved = pivots != np.arange(1, pivots.shape[-1] + 1, dtype=np.int32)
    return 1 - 2 * (moved.sum(-1) % 2)


def det(A):
    """Return the determinants, and the LU factorizations with their pivots."""
    _require_det("linalg.det", A)
    LU, pivots, _, _ = _lu(A)
    diagonal = np.diagonal(LU, axis1=-2, axis2=-1)
    return np.asarray(np.multiply.reduce(diagonal, -1) * _is_odd(pivots).astype(A.dtype)), LU, pivots


def slogdet(A):
    """Return the signs and the logarithms of the magnitudes of determinants, and LU factorizations with pivots."""
    require_square("linalg.slogdet", A)
    require_precise("linalg.slogdet", A)
    LU, pivots, _, _ = _lu(A)
    diagonal = np.diagonal(LU, axis1=-2, axis2=-1)
    logs = np.add.reduce(np.log(np.abs(diagonal)), -1)
    sign = np.sign(diagonal)
    if sign.dtype.kind == "f":
        sign[np.isnan(sign)] = 0  # as torch.sign does
    sign = np.multiply.reduce(sign, -1) * _is_odd(pivots).astype(A.dtype)
    return np.asarray(sign), np.asarray(logs), LU, pivots


def ldl_factor_ex(self, hermitian=False, check_errors=False):
    """Return L and the block-diagonal D of A = L D L^T, or L D L^H, in one matrix; pivots; the first zero of D."""
    name = "torch.linalg.ldl_factor_ex"
    require_square(name, self)
    require_floating(name, self)
    require_lapack("ldl_factor_kernel_cpu", self)
    factors, pivots = np.zeros(self.shape, self.dtype), np.zeros(self.shape[:-1], np.int32)
    info = np.zeros(self.shape[:-2], np.int32)
    if self.size:
        factor = lapack("hetrf" if hermitian and self.dtype.kind == "c" else "sytrf", self)
        out, order, codes = matrices_of(factors), matrices_of(pivots, 1), info.reshape(-1)
        for i, matrix in enumerate(matrices_of(self)):
            triangle, order[i], codes[i] = factor(matrix, lower=True)
            out[i] = np.tril(triangle)
    if check_errors and info.any():
        raise RuntimeError(ldl_message(name, info))
    return columns(factors), pivots, info


def ldl_message(name, info):
    """Return the message for the first matrix whose block-diagonal factor is singular."""
    position = int((info != 0).reshape(-1).argmax())
    where = f"(Batch element {position}): " if info.ndim else ""
    return f"{name}: {where}Unknown error code: {int(info.reshape(-1)[position])}."


def ldl_solve(LD, pivots, B, hermitian=False):
    """Return X with A X = B from the results of `ldl_factor`."""
    name = "torch.linalg.ldl_solve"
    if B.ndim < 2:
        raise RuntimeError(f"{name}: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead")
    require_square(name, LD)
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if pivots.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {type_name(pivots.dtype)}")
    _require_pair(B, LD, name)
    require_lapack("ldl_solve_kernel_cpu", LD)
    LD, B = _broadcast(LD, B)
    found = np.zeros(B.shape, B.dtype)
    if B.size:
        solve = lapack("hetrs" if hermitian and LD.dtype.kind == "c" else "sytrs", LD)
        order = np.broadcast_to(pivots, LD.shape[:-1])
        out = matrices_of(found)
        for i, (factor, swaps, right) in enumerate(
            zip(matrices_of(LD), matrices_of(order, 1), matrices_of(B), strict=True)
        ):
            out[i] = solve(factor, swaps, right, lower=True)[0]
    return columns(found)
