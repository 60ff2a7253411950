"""Derivative helpers of Fourier transforms.

The unnormalised transform F is symmetric, so that its adjoint is conj(F), the inverse transform without its factor.
"""

from __future__ import annotations

from ..dispatch import _operators as ops


def fft_r2c_backward(grad, dim, normalization, onesided, last_dim_size):
    """Return Re(F* g), where g is zero in the half of the spectrum that the operator left out.

    Args:
        last_dim_size: the input's size along the last of `dim`.
    """
    last = dim[-1]
    if not last_dim_size:
        return ops.real(ops.narrow(grad, last, 0, 0))
    if onesided and last_dim_size > grad.shape[last]:
        shape = list(grad.shape)
        shape[last] = last_dim_size
        whole = ops.new_zeros(grad, tuple(shape))
        ops.copy_(ops.slice(whole, last, 0, grad.shape[last], 1), grad)
        grad = whole
    return ops.real(ops._fft_c2c(grad, dim, normalization, False))


def fft_c2r_backward(grad, dim, normalization):
    """Return the onesided transform of g. Each element with a conjugate in the other half stands for both, so that its
    gradient counts twice."""
    found = ops._fft_r2c(grad, dim, normalization, True)
    twice = grad.shape[dim[-1]] - found.shape[dim[-1]]
    if twice > 0:
        ops.mul_(ops.narrow(found, dim[-1], 1, twice), 2)
    return found
