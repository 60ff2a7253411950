"""QR decompositions in LAPACK's form, and the products of Householder reflections that they stand for."""

from __future__ import annotations

import numpy as np

from .._common.blas import gemm
from .._common.dims import require_dim
from .._common.errors import type_name
from .checks import adjoint_of, columns, lapack, matrices_of, require_lapack


def geqrf(self):
    """Return the QR decomposition in LAPACK's form: R and the reflections in one matrix, and their factors tau."""
    if self.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    require_lapack("geqrf_cpu", self)
    *batch, m, n = self.shape
    found, tau = np.zeros(self.shape, self.dtype), np.zeros((*batch, min(m, n)), self.dtype)
    if self.size:
        factor, out, factors = lapack("geqrf", self), matrices_of(found), matrices_of(tau, 1)
        for i, matrix in enumerate(matrices_of(self)):
            out[i], factors[i] = factor(matrix)[:2]
    return columns(found), tau


def _reflect(V, tau, found, reverse, adjoint=False):
    """Apply the reflections 1 - tau v v^H, of which V has the vectors in its columns, to columns; in place."""
    m, k = V.shape[-2], tau.shape[-1]
    for i in range(k - 1, -1, -1) if reverse else range(k):
        v = V[..., i:, i : i + 1].copy()
        v[..., 0, :] = 1
        factor = tau[..., i : i + 1, None]
        _subtract_reflected(found[..., i:m, :], v, factor.conj() if adjoint else factor)
    return found


def _subtract_reflected(part, v, factor):
    """Apply 1 - factor v v^H to columns in place; not where the factor is 0, even if v is not finite, as LAPACK."""
    with np.errstate(all="ignore"):
        part -= np.where(factor == 0, 0, factor * gemm(v, gemm(adjoint_of(v), part)))


def householder_product(input, tau):
    """Return the first columns of the product of reflections: Q from the results of `geqrf`."""
    name = "torch.linalg.householder_product"
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    m, n = input.shape[-2:]
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    require_dim(-1, tau.ndim)
    if n < tau.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if input.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {input.ndim}"
        )
    if tau.shape[:-1] != input.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}"
        )
    if tau.dtype != input.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {type_name(tau.dtype)} does not match input dtype {type_name(input.dtype)}"
        )
    require_lapack("orgqr_cpu", input)
    found = np.zeros(input.shape, input.dtype)
    found[...] = np.eye(m, n)
    for i in range(tau.shape[-1] - 1, -1, -1):
        v = input[..., i:, i : i + 1].copy()
        v[..., 0, :] = 1
        factor = tau[..., i : i + 1, None]
        _subtract_reflected(found[..., i:, i + 1 :], v, factor)
        with np.errstate(all="ignore"):
            found[..., i:, i : i + 1] = -factor * v  # of the unit vector e, e - factor v
        found[..., i, i] += 1
    return columns(found)


def ormqr(self, input2, input3, left=True, transpose=False):
    """Return Q C, C Q, Q^H C or C Q^H, where Q is the product of the reflections in `self` and `input2`."""
    name, tau, other = "torch.ormqr", input2, input3
    if self.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if other.ndim < 2:
        raise RuntimeError(f"{name}: other must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.shape[side] < tau.shape[-1]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    if tau.shape[-1] != min(other.shape[side], self.shape[-1]):
        raise RuntimeError(f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    if other.shape[side] != self.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if self.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {self.ndim}"
        )
    if self.ndim != other.ndim:
        raise RuntimeError(
            f"{name}: Expected other to have the same number of dimensions as input, but got other.ndim equal to "
            f"{other.ndim} and input.ndim is equal to {self.ndim}"
        )
    for array, called, core in ((tau, "tau", 1), (other, "other", 2)):
        batch = array.shape[: array.ndim - core]
        if batch != self.shape[:-2]:
            raise RuntimeError(
                f"{name}: Expected batch dimensions of {called} to be equal to input.shape[:-2], but got {list(batch)}"
            )
    for array, called in ((tau, "tau"), (other, "other")):
        if array.dtype != self.dtype:
            raise RuntimeError(
                f"{name}: Expected input and {called} to have the same dtype, but input has dtype"
                f"{type_name(self.dtype)} and {called} has dtype {type_name(array.dtype)}"
            )
    require_lapack("ormqr_cpu", self)
    if left:
        return columns(_reflect(self, tau, other.copy(), not transpose, transpose))
    return columns(adjoint_of(_reflect(self, tau, adjoint_of(other).copy(), transpose, not transpose)))
