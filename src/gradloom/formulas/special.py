"""Derivative helpers of special functions."""

from __future__ import annotations

import math

from ..dispatch import _operators as ops


def i1_backward(grad, self, result):
    """d I1(x)/dx = I0(x) - I1(x) / x, 1/2 at 0."""
    return grad * _without_zero(self, lambda x: ops.i0(x) - result / x)


def i1e_backward(grad, self, result):
    """d (e^-|x| I1(x))/dx = e^-|x| I0(x) - e^-|x| I1(x) (sign(x) + 1 / x), 1/2 at 0."""
    return grad * _without_zero(self, lambda x: ops.special_i0e(x) - result * (x.sgn() + 1 / x))


def _without_zero(x, slope):
    """Return `slope(x)`, and 1/2 where x is too close to 0 to divide by."""
    zero = (x.abs() < 1e-12).logical_or(x == 0)  # 1e-12 is 0 in half precision
    return ops.where(zero, 0.5, slope(ops.where(zero, 1.0, x)))


def incomplete_gamma_slope(self, other):
    """Return the derivative of P(a, x) for x: x^(a - 1) e^-x / gamma(a)."""
    return ((self - 1) * other.log() - other - self.lgamma()).exp()


def xlog1py_self_backward(grad, self, other):
    """d(x log(1 + y))/dx = log(1 + y); 0 where x = 0 and y <= -1, where the function is defined to be 0."""
    if isinstance(other, ops.Tensor):
        return ops.where(ops.logical_and(self == 0, other <= -1), 0, ops.special_xlog1py(grad, other))
    if other > -1:
        return ops.special_xlog1py(grad, other)
    return ops.where(self == 0, 0, ops.special_xlog1py(grad, other))


def log_ndtr_slope(self, result):
    """d log(Phi(x))/dx = phi(x) / Phi(x)."""
    return (-(result + self * self / 2)).exp() / math.sqrt(2 * math.pi)


def only_second(first_t, name, tangent):
    """Return the tangent of a function that is differentiable only in its second input. Raises NotImplementedError if
    the tangent of the first input is not zero."""
    if not first_t.is_meta and ops.any(first_t).item():
        raise NotImplementedError(f"the forward-mode derivative of {name} for its first input is not implemented")
    return tangent
