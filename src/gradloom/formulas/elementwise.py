"""Derivative helpers of elementwise operators. `g` stands for the gradient of the result, `dx` for a tangent."""

from __future__ import annotations

import math

from ..core.tangents import is_differentiated
from ..dispatch import _operators as ops
from ..dispatch.state import GRAD_OFF, state


def quotient_or_zero(x, y, zero=None):
    """Return x / y, and 0 where y is 0, or at `zero`. The derivatives are 0 there as well."""
    zero = y == 0 if zero is None else zero
    if not is_differentiated(x, y):
        return ops.masked_fill(x / y, zero, 0)
    return ops.masked_fill(x, zero, 0) / ops.masked_fill(y, zero, 1)


def of_real_numbers(derivative, dtype):
    """Return a derivative that follows from a definition of real numbers; raise for an input of a complex dtype."""
    if dtype.is_complex:
        raise NotImplementedError(
            f"the derivative follows from a definition of real numbers, which has none for {dtype}: "
            "write the operator's formulas into derivatives.yaml"
        )
    return derivative


def maybe_multiply(tensor, scalar):
    """Return `tensor * scalar`, without multiplying if `scalar` is 1."""
    return tensor if scalar == 1 else ops.mul_Scalar(tensor, scalar)


def div_mode_self_backward(grad, other, rounding_mode):
    """d(a / b)/da = 1 / b; a rounded quotient is constant almost everywhere."""
    return grad / _conj(other) if rounding_mode is None else ops.zeros_like(grad)


def div_mode_other_backward(grad, self, other, rounding_mode):
    """d(a / b)/db = -a / b^2; 0 for a rounded quotient."""
    if rounding_mode is None:
        return -grad * ((self / other) / other).conj()
    return ops.zeros_like(grad)


def div_mode_jvp(self_t, other_t, self, other, rounding_mode):
    """d(a / b) = da / b - db a / b^2; 0 for a rounded quotient."""
    quotient = self / other
    if rounding_mode is None:
        return self_t / other - other_t * quotient / other
    return ops.zeros_like(quotient)


def _conj(value):
    return value.conj() if isinstance(value, ops.Tensor) else value.conjugate()


def pow_backward(grad, self, exponent):
    """d(x^p)/dx = p x^(p - 1) for a number p; 0 for p = 0."""
    if exponent == 0:
        return ops.zeros_like(self)
    power = self if exponent == 2 and is_unseen(self) else self.pow(exponent - 1)
    return grad * ops.mul_Scalar(power, exponent).conj()


def is_unseen(tensor):
    """Return whether neither a graph nor a mode nor a subclass sees what is called on a tensor."""
    return state.flags == GRAD_OFF and tensor.__class__ is ops.Tensor


def pow_backward_self(grad, self, exponent):
    """d(x^p)/dx = p x^(p - 1) for a tensor p; 0 where p = 0, also at x = 0."""
    zero = exponent == 0
    if is_differentiated(grad, self, exponent):  # d/dp of p x^(p - 1) is 1 / x where p = 0
        zero = ops.logical_and(zero, ops.logical_not(self.abs() > 0))
        self = ops.masked_fill(self, zero, 1)
        grad = ops.masked_fill(grad, zero, 0)
    slope = exponent * self.pow(ops.sub_Scalar(exponent, 1, 1))
    return ops.where(zero, 0, grad * slope.conj())


def pow_backward_exponent(grad, base, exponent, result):
    """d(b^p)/dp = b^p log(b); 0 where b = 0 and p = 0 or Re(p) > 0 (b^p is constant there, or has no
    derivative)."""
    if isinstance(base, ops.Tensor):
        constant = ops.logical_and(base == 0, _not_negative(exponent))
        if result.is_complex() and not base.is_complex():
            base = base.to(result.dtype)  # a negative number has a logarithm
        if is_differentiated(base, result):
            base, result = ops.masked_fill(base, constant, 1), ops.masked_fill(result, constant, 0)
        return grad * ops.where(constant, 0, result * base.log()).conj()
    if base == 0:
        constant = _not_negative(exponent)
        return grad * ops.masked_fill(ops.masked_fill(result, constant, 1) * -math.inf, constant, 0).conj()
    return grad * (result * _log(base, exponent)).conj()


def _log(number, power):
    """Return the logarithm of a number other than 0; of a negative one NaN, unless the power is complex."""
    if isinstance(number, complex) or power.is_complex():
        import cmath

        return cmath.log(number)
    return math.nan if number < 0 else math.log(number)


def _not_negative(exponent):
    return ops.logical_or(_real(exponent) > 0, exponent == 0)


def _real(tensor):
    return ops.real(tensor) if tensor.is_complex() else tensor


def pow_jvp(self_t, exponent_t, self, exponent, result):
    """d(x^p) = dx p x^(p - 1) + dp x^p log(x); without dp the logarithm is not computed, since it may be NaN."""
    of_self = pow_backward_self(self_t.conj(), self, exponent)
    fixed = exponent_t == 0
    if is_differentiated(self, exponent, self_t, exponent_t):
        fixed = ops.logical_and(fixed, ops.logical_not(ops.isfinite(result.detach() * self.detach().log())))
        self, result = ops.masked_fill(self, fixed, 1), ops.masked_fill(result, fixed, 1)
    of_exponent = pow_backward_exponent(exponent_t.conj(), self, exponent, result)
    return (of_self + ops.where(fixed, 0, of_exponent)).conj()


def abs_jvp(self_t, self):
    """d|z| = Re(conj(dz) z / |z|)."""
    return _real(self_t.conj() * self.sgn())


def sgn_backward(self, grad, sgn):
    """The vjp of s = z / |z|, which varies with the angle only: (g - Re(g conj(s)) s) / |z|; 0 at 0 and for reals."""
    if not self.is_complex():
        return ops.zeros_like(grad)
    along = ops.real(grad * sgn.conj()) * sgn
    return quotient_or_zero(grad - along, self.abs())


def asinh_slope(self):
    """d asinh(z)/dz = 1 / sqrt(z^2 + 1). Of real numbers beyond a limit, where the square may be out of range, 1 / |x|;
    the factor that leads over to it is 1 to rounding."""
    if self.is_complex():
        return (self * self + 1).rsqrt()
    limit, size = {2: 200.0, 4: 1e6}.get(self.itemsize, 1e12), ops.abs(self)
    beyond = size > limit
    near, far = ops.masked_fill(self, beyond, limit), ops.masked_fill(size, ops.logical_not(beyond), limit)
    return (near * near + 1).rsqrt() * (limit / far)


def acosh_backward(grad, self):
    """d acosh(z)/dz = 1 / (sqrt(z + 1) sqrt(z - 1)), which is 1 / sqrt(z^2 - 1) without the square."""
    # self - 1 would keep an imaginary part of -0, which leads to the other root.
    return grad * (ops.add_Scalar(self, 1, 1).rsqrt() * ops.add_Scalar(self, -1, 1).rsqrt()).conj()


def sinc_backward(grad, self):
    """d sinc(x)/dx = pi (a cos(a) - sin(a)) / a^2 with a = pi x; near 0, where that has no digits, by its series."""
    angle = self * math.pi
    is_near = ops.abs(angle) < 1
    near, far = ops.masked_fill(angle, ops.logical_not(is_near), 0), ops.masked_fill(angle, is_near, 1)
    square, series = near * near, 0.0
    for factor in _SINC_SLOPE:
        series = series * square + factor
    slope = (far * far.cos() - far.sin()) / (far * far)
    slope = ops.where(is_near, near * series, slope)
    return grad * (slope * math.pi).conj()


# (a cos(a) - sin(a)) / a^3 = the sum of (-1)^k 2k / (2k + 1)! a^(2k - 2) over k > 0, the last term first; for |a| < 1,
# what is left out is below a float64's rounding, in derivatives as well.
_SINC_SLOPE = [(-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(12, 0, -1)]


def logit_slope(grad, self, eps):
    """d logit(x)/dx = 1 / (x (1 - x)); where eps clamps x, 0. The operator, which has no derivative, has the sign of 0
    at -0, too."""
    if not is_differentiated(grad, self):
        return ops.logit_backward(grad, self, eps)
    if eps is None:
        return ops.where(ops.logical_or(self < 0, self > 1), math.nan, grad / (self * (1 - self)))
    outside = ops.logical_or(self < eps, self > 1 - eps)
    inside = ops.where(outside, 0.5, self)
    return ops.where(outside, 0.0, grad / (inside * (1 - inside)))


def mvlgamma_backward(grad, self, p):
    """Return the sum of digamma(x - j / 2) over j = 0 ... p - 1."""
    total = (self + 0.0).digamma()  # of -0 as of 0
    for j in range(1, p):
        total = total + (self - j / 2).digamma()
    return grad * total


def fmax_keeps_first(self, other):
    """Return where fmax returns its first input: it is not less than the other, or the other is NaN."""
    return ops.logical_or(self >= other, other.isnan())


def fmin_keeps_first(self, other):
    """Return where fmin returns its first input: it is not greater than the other, or the other is NaN."""
    return ops.logical_or(self <= other, other.isnan())


def atan2_backward(grad, self, other, grad_input_mask):
    """d atan2(y, x) = (x dy - y dx) / (x^2 + y^2); 0 at the origin."""
    of_self, of_other = _atan2_slopes(self, other)
    return grad * of_self if grad_input_mask[0] else None, grad * of_other if grad_input_mask[1] else None


def atan2_jvp(self, self_t, other, other_t):
    """Return the tangent of `atan2`, 0 at the origin."""
    of_self, of_other = _atan2_slopes(self, other)
    return of_self * self_t + of_other * other_t


def _atan2_slopes(self, other):
    """Return x / r^2 and -y / r^2, where r^2 may be out of range."""
    at_origin = ops.logical_and(self == 0, other == 0)
    y, x = ops.masked_fill(self, at_origin, 0), ops.masked_fill(other, at_origin, 0)
    r = ops.hypot(y, ops.masked_fill(x, at_origin, 1))
    return x / r / r, -y / r / r


def xlogy_self_backward(grad, self, other):
    """d(x log(y))/dx = log(y); 0 where x = 0 and y <= 0, where the function is defined to be 0."""
    if not isinstance(other, ops.Tensor):
        return ops.masked_fill(ops.xlogy(grad, other), self == 0, 0) if other <= 0 else ops.xlogy(grad, other)
    zero = ops.logical_and(self == 0, other <= 0)
    if is_differentiated(grad, other):
        other = ops.masked_fill(other, zero, 1)
    return ops.masked_fill(ops.xlogy(grad, other), zero, 0)


def xlogy_other_backward(grad, self, other):
    """d(x log(y))/dy = x / y; 0 where both are 0."""
    if not isinstance(self, ops.Tensor):
        if self != 0:
            return grad * self / other
        self = ops.zeros_like(other)
    return quotient_or_zero(grad * self, other, ops.logical_and(self == 0, other == 0))


def clamp_backward(grad, self, min, max):
    """Return g where the value lies between its bounds (numbers or None), end points excluded."""
    if min is None:
        return grad if max is None else ops.where(self < max, grad, 0)
    above = self > min
    return ops.where(above if max is None else ops.logical_and(above, self < max), grad, 0)


def clamp_self_backward(grad, self, min, max):
    """Return the gradient of the value between bounds that are tensors or None: g between them, and g / 2 at one."""
    if min is None or max is None:
        bound = max if min is None else min
        outside = self > bound if min is None else self < bound
        return ops.masked_fill(ops.where(self == bound, grad / 2, grad), outside, 0)
    outside = ops.logical_or(self < min, self > max)
    return ops.masked_fill(ops.where(_at_one_of(self, min, max), grad / 2, grad), outside, 0)


def clamp_min_backward(grad, self, min, max):
    """Return the gradient of a lower bound: g where it took effect, g / 2 where the value equals it; an upper bound
    that is less has precedence."""
    if max is None:
        return ops.masked_fill(ops.where(self == min, grad / 2, grad), self > min, 0)
    took_effect = ops.logical_and(self < min, min <= max)
    return ops.where(ops.logical_and(self == min, min < max), grad / 2, ops.where(took_effect, grad, 0))


def clamp_max_backward(grad, self, min, max):
    """Return the gradient of an upper bound: g where it took effect, g / 2 where the value equals it."""
    if min is None:
        return ops.masked_fill(ops.where(self == max, grad / 2, grad), self < max, 0)
    took_effect = ops.logical_or(ops.logical_and(self > max, min <= max), max < min)
    return ops.where(ops.logical_and(self == max, min < max), grad / 2, ops.where(took_effect, grad, 0))


def _at_one_of(self, min, max):
    """Return where the value equals one of two bounds that leave room between them."""
    return ops.logical_and(ops.logical_or(self == min, self == max), min < max)


def clamp_jvp(self, self_t, min, min_t, max, max_t):
    """Return the tangent of whichever of input and bounds the result equals: half of the sum where the input equals a
    bound, the input's where it equals both, and the upper bound's where the lower one is greater."""
    if max is None:
        min_t = _tangent(min_t, min)
        return ops.where(self == min, (self_t + min_t) / 2, ops.where(self > min, self_t, min_t))
    max_t = _tangent(max_t, max)
    if min is None:
        return ops.where(self == max, (self_t + max_t) / 2, ops.where(self < max, self_t, max_t))
    min_t = _tangent(min_t, min)
    inside = ops.where(self < min, min_t, ops.where(self > max, max_t, self_t))
    bound_t = ops.where(self == min, min_t, max_t)
    inside = ops.where(_at_one_of(self, min, max), (self_t + bound_t) / 2, inside)
    return ops.where(min > max, max_t, inside)


def _tangent(tangent, primal):
    return ops.zeros_like(primal) if tangent is None else tangent
