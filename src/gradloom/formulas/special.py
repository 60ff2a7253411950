"""Derivative helpers of special functions."""

from __future__ import annotations

import math

from ..core.tangents import is_differentiated
from ..dispatch import _operators as ops
from ..types.dtype import float32


def i1_backward(grad, self, result):
    """d I1(x)/dx = I0(x) - I1(x) / x; by its series near 0, where the terms of its derivatives cancel each other. Where
    both are infinite, so is the slope."""
    finite = ops.masked_fill(result, result.isinf(), 0)
    return grad * _near_zero(self, _i1_slope_series, lambda x: ops.i0(x) - finite / x)


def bessel_j1_backward(grad, self, result):
    """d J1(x)/dx = J0(x) - J1(x) / x; by its series near 0."""
    return grad * _near_zero(self, lambda x: _i1_slope_series(x, -1), lambda x: ops.special_bessel_j0(x) - result / x)


def bessel_y1_backward(grad, self, result):
    """d Y1(x)/dx = Y0(x) - Y1(x) / x, of which the second outweighs the first at 0, where both are infinite."""
    return grad * (ops.special_bessel_y0(ops.masked_fill(self, self == 0, 1)) - result / self)


def i1e_backward(grad, self, result):
    """d (e^-|x| I1(x))/dx = e^-|x| I0(x) - e^-|x| I1(x) (sign(x) + 1 / x), 1/2 at 0."""

    def near(x):
        return (-x.abs()).exp() * _i1_slope_series(x) - result * x.sgn()

    return grad * _near_zero(self, near, lambda x: ops.special_i0e(x) - result * (x.sgn() + 1 / x))


def _near_zero(x, near, slope):
    """Return `near(x)` where |x| < 1, and `slope(x)` elsewhere."""
    small = x.abs() < 1
    return ops.where(small, near(ops.where(small, x, 0.0)), slope(ops.where(small, 1.0, x)))


def _i1_slope_series(x, sign=1):
    """Return I1'(x) for |x| <= 1: the sum of (2 k + 1) / (2 k! (k + 1)!) (x / 2)^(2 k). With sign -1, J1'(x)."""
    square, total = x * x * (sign / 4), 0.0
    for k in range(9, -1, -1):
        total = total * square + (2 * k + 1) / (2 * math.factorial(k) * math.factorial(k + 1))
    return total


def incomplete_gamma_slope(self, other):
    """Return the derivative of P(a, x) for x: x^(a - 1) e^-x / gamma(a). The power by a logarithm cannot overflow; at 0
    it has no derivatives."""
    if not is_differentiated(self, other):
        return (ops.xlogy(self - 1, other) - other - self.lgamma()).exp()
    zero = other == 0
    at_zero, beyond = ops.masked_fill(other, ops.logical_not(zero), 0), ops.masked_fill(other, zero, 1)
    slope = ((self - 1) * beyond.log() - beyond - self.lgamma()).exp()
    return ops.where(zero, at_zero.pow(self - 1) * (-at_zero - self.lgamma()).exp(), slope)


def xlog1py_self_backward(grad, self, other):
    """d(x log(1 + y))/dx = log(1 + y); 0 where x = 0 and y <= -1, where the function is defined to be 0."""
    if isinstance(other, ops.Tensor):
        zero = ops.logical_and(self == 0, other <= -1)
        if is_differentiated(grad, other):
            other = ops.masked_fill(other, zero, 0)
        return ops.where(zero, 0, ops.special_xlog1py(grad, other))
    if other > -1:
        return ops.special_xlog1py(grad, other)
    return ops.where(self == 0, 0, ops.special_xlog1py(grad, other))


def log_ndtr_slope(self, result):
    """d log(Phi(x))/dx = phi(x) / Phi(x); for x < 0, where both vanish, sqrt(2 / pi) / erfcx(-x / sqrt(2))."""
    x = _wide(self)
    below = x < 0
    above, result = ops.masked_fill(x, below, 0), ops.masked_fill(_wide(result), below, 0)
    scaled = ops.special_erfcx(ops.masked_fill(x, ops.logical_not(below), 0) * -math.sqrt(0.5))
    slope = ops.where(below, 2 / scaled, (-(result + above * above / 2)).exp())
    return (slope / math.sqrt(2 * math.pi)).to(self.dtype)


def erfcx_slope(self, result):
    """d erfcx(x)/dx = 2 x erfcx(x) - 2 / sqrt(pi); where these cancel, by the asymptotic series of the difference."""
    x = _wide(self)
    far = x > 10
    near = 2 * x * (result if x is self else ops.special_erfcx(x)) - 2 / math.sqrt(math.pi)
    inverse = 1 / ops.masked_fill(x, ops.logical_not(far), 10)
    square, series = inverse * inverse / 2, 0.0
    for factor in _ERFCX_SLOPE:
        series = series * square + factor
    return ops.where(far, series * square, near).to(self.dtype)


# 2 x erfcx(x) = 2 / sqrt(pi) times the sum of (-1)^k (2k - 1)!! / (2 x^2)^k; for x > 10, what is left out is below a
# float64's rounding.
_ERFCX_SLOPE = [2 / math.sqrt(math.pi) * (-1) ** k * math.prod(range(1, 2 * k, 2)) for k in range(12, 0, -1)]


def _wide(x):
    """Return half-precision numbers as float32, in which the formulas keep their digits."""
    return x.to(float32) if x.itemsize < 4 else x


def only_second(first_t, name, tangent):
    """Return the tangent of a function that is differentiable only in its second input. Raises NotImplementedError if
    the tangent of the first input is not zero."""
    if not first_t.is_meta and ops.any(first_t).item():
        raise NotImplementedError(f"the forward-mode derivative of {name} for its first input is not implemented")
    return tangent
