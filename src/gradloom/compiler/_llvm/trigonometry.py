"""sin, cos, tan, their inverses, erf and erfc on vectors.

The error is at most 2 ulp, that of erfc of doubles at most 2.5 where it is far from zero. Angles are reduced by
multiples of pi / 2, subtracted as a sum of numbers whose multiples are exact (W. J. Cody and W. Waite, "Software Manual
for the Elementary Functions", 1980). Beyond that method's range, a lane is computed by the C library, which reduces by
Payne and Hanek's method.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from . import coefficients as c
from .exponentials import by_double, exp_parts, nearest, power_of_two, scale, two_product, two_sum
from .ir import DOUBLE, FLOAT, I64, PTR, V, copysign, fabs, fma, horner, loop, polynomial, sqrt, when

# Where the exact multiples end.
LARGEST = {FLOAT: 10000.0, DOUBLE: 1.0e6}
LIBRARY = ("sin", "cos", "tan")  # functions of the C library on doubles, in the order of the table of addresses


class Angle(NamedTuple):
    """x = quadrant * pi / 2 + r + low."""

    quadrant: V
    r: V
    low: V


def reduce_angle(x: V) -> Angle:
    n, quadrant = nearest(x, 2 / math.pi)
    *exact, last, rest = c.HALF_PI_SINGLE if x.elem == FLOAT else c.HALF_PI_DOUBLE
    first = x
    for part in exact:
        first = fma(n, -part, first)
    middle = n * last
    r = first - middle
    low = fma(n, -rest, (first - r) - middle)
    total = r + low
    return Angle(quadrant, total, (r - total) + low)


def sine_parts(a: Angle) -> tuple[V, V]:
    z = a.r * a.r
    if z.elem == FLOAT:
        return a.r, fma(a.r * z, polynomial(z, c.SIN_SINGLE), a.low)
    return a.r, fma(a.r * z, polynomial(z, c.SIN_DOUBLE), a.low * fma(z, -0.5, 1.0))


def cosine_parts(a: Angle) -> tuple[V, V]:
    z = a.r * a.r
    half = z * 0.5
    high = 1.0 - half
    low = (1.0 - high) - half
    coefficients = c.COS_SINGLE if z.elem == FLOAT else c.COS_DOUBLE
    return high, low + fma(z * z, polynomial(z, coefficients), -(a.r * a.low))


def _normalized(high: V, low: V) -> tuple[V, V]:
    total = high + low
    return total, (high - total) + low


def _sine_of(x: V, shift: int) -> V:
    a = reduce_angle(x)
    s, t = sine_parts(a), cosine_parts(a)
    quadrant = a.quadrant + shift
    odd = (quadrant & 1).differs(0)
    result = odd.where(t[0], s[0]) + odd.where(t[1], s[1])
    sign = (quadrant & 2) << (30 if x.elem == FLOAT else 62)
    return (result.bits() ^ sign).as_float()


def sin(x: V) -> V:
    result = _with_library(x, _sine_of(x, 0), "sin")
    return x.equals(0.0).where(x, result)  # -0.0 for -0.0


def cos(x: V) -> V:
    return _with_library(x, _sine_of(x, 1), "cos")


def tan(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(tan, x)
    a = reduce_angle(x)
    s, t = _normalized(*sine_parts(a)), _normalized(*cosine_parts(a))
    odd = (a.quadrant & 1).differs(0)
    numerator = [odd.where(-b, d) for b, d in zip(t, s, strict=True)]
    denominator = [odd.where(d, b) for b, d in zip(t, s, strict=True)]
    quotient = numerator[0] / denominator[0]
    product, error = two_product(quotient, denominator[0])
    rest = ((numerator[0] - product) - error) + (numerator[1] - quotient * denominator[1])
    result = _with_library(x, quotient + rest / denominator[0], "tan")
    return x.equals(0.0).where(x, result)


def _with_library(x: V, result: V, name: str) -> V:
    """Replace lanes whose argument is too large by what the C library computes; infinity and NaN give NaN."""
    f, large = x.f, ~(fabs(x) < LARGEST[x.elem])
    kept = f.alloca(x.type, 64)
    f.store(result, kept, 64)

    def replace() -> None:
        function = f.load(f.offset("%library", 8 * LIBRARY.index(name)), PTR)
        arguments = f.alloca(x.type, 64)
        f.store(x, arguments, 64)
        size = 4 if x.elem == FLOAT else 8

        def one(i: V) -> None:
            place = i * size
            value = f.load(f.offset(arguments, place), x.elem)

            def call() -> None:
                wide = value.convert("fpext", DOUBLE) if x.elem == FLOAT else value
                found = f.emit(f"call double {function.name}(double {wide.name})", DOUBLE)
                f.store(found.convert("fptrunc", FLOAT) if x.elem == FLOAT else found, f.offset(kept, place))

            when(f, ~(fabs(value) < LARGEST[x.elem]), call)

        loop(f, f.const(0, I64), f.const(x.width or 1, I64), 1, one)

    when(f, large.any(), replace)
    return f.load(kept, x.elem, x.width, 64)


def _odd(u: V, coefficients: tuple[float, ...]) -> V:
    """Return u^3 P(u^2)."""
    z = u * u
    return u * z * polynomial(z, coefficients)


def arctan(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(arctan, x)
    a = fabs(x)
    middle, far = a > 0.5, a > 2.0
    one = x.like(1.0)
    numerator = far.where(-one, middle.where(a - 1.0, a))
    denominator = far.where(a, middle.where(a + 1.0, one))
    u = numerator / denominator
    half, rest = c.HALF_PI_PAIR
    high = far.where(x.like(half), middle.where(x.like(half / 2), 0.0))
    low = far.where(x.like(rest), middle.where(x.like(rest / 2), 0.0))
    return copysign(high + (u + (_odd(u, c.ATAN_DOUBLE) + low)), x)


def arctan2(y: V, x: V) -> V:
    if x.elem == FLOAT:
        return by_double(arctan2, y, x)
    one = x.like(1.0)
    a, b = fabs(y), fabs(x)
    largest = (a > b).where(a, b)
    factor = (largest > 2.0**900).where(2.0**-200, (largest < 2.0**-800).where(2.0**200, one))
    both = a.equals(b) & (a.equals(0.0) | a.equals(math.inf))
    infinite = both & (a > 1.0)
    a, b = infinite.where(one, a * factor), infinite.where(one, b * factor)
    middle, far = a > b * 0.5, a > b * 2.0
    numerator = far.where(-b, middle.where(a - b, a))
    denominator = far.where(a, middle.where(a + b, b))
    u = numerator / denominator.equals(0.0).where(one, denominator)
    half, rest = c.HALF_PI_PAIR
    back = x.bits() < 0
    u = back.where(-u, u)

    def base(quarter: float, straight: float, three: float) -> V:
        """Return a multiple of pi / 4, by the ratio and the sign of x."""
        near = back.where(x.like(straight), 0.0)
        return far.where(x.like(quarter * 2), middle.where(back.where(x.like(three), quarter), near))

    high = base(half / 2, 2 * half, 2.356194490192345)
    low = base(rest / 2, 2 * rest, 9.184850993605148e-17)
    result = copysign(high + (u + (_odd(u, c.ATAN_DOUBLE) + low)), y)
    return (x.is_nan() | y.is_nan()).where(x + y, result)


def _arcsine_parts(x: V) -> tuple[V, V, V, V, V]:
    """Return |x| > 1/2, the square, its root, the root's error, and the tail of the polynomial."""
    a = fabs(x)
    large = a > 0.5
    z = large.where((1.0 - a) * 0.5, x * x)
    s = large.where(sqrt(z), a)
    product, error = two_product(s, s)
    lost = (large & (z > 0.0)).where(((z - product) - error) / (s + s), 0.0)
    return large, z, s, lost, s * z * polynomial(z, c.ASIN_DOUBLE)


def arcsin(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(arcsin, x)
    large, _, s, lost, tail = _arcsine_parts(x)
    half, rest = c.HALF_PI_PAIR
    far = (half - s * 2.0) - (tail * 2.0 + (lost * 2.0 - rest))
    return copysign(large.where(far, s + tail), x)


def arccos(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(arccos, x)
    large, _, s, lost, tail = _arcsine_parts(x)
    half, rest = c.HALF_PI_PAIR
    signed, signed_tail = copysign(s, x), copysign(tail, x)
    near = half - (signed - (rest - signed_tail))
    right = (s + (tail + lost)) * 2.0
    left = (half - (s + ((tail + lost) - rest))) * 2.0
    return large.where((x < 0.0).where(left, right), near)


def _erf_small(x: V) -> V:
    z = x * x
    return fma(x, polynomial(z, c.ERF_SINGLE if x.elem == FLOAT else c.ERF_DOUBLE), x)


def _last_steps(x: V, x_low: V, coefficients: tuple[float, ...]) -> tuple[V, V]:
    """Return a polynomial of x + x_low as a sum of two: Horner's last three steps keep what they round off."""
    rest, low = horner(x, coefficients[3:]), x.like(0.0)
    for k in (2, 1, 0):
        product, error = two_product(x, rest)
        carried = fma(x, low, x_low * rest)
        rest, lost = two_sum(x.like(coefficients[k]), product)
        low = carried + (error + lost)
    return rest, low


def _erfc_parts(a: V) -> tuple[V, V]:
    """Return m and n with erfc(a) = m 2^n, for doubles of at least 0.45."""
    a = (a < 28.0).where(a, 28.0)
    # exp(a^2) erfc(a) as high + low: a polynomial in a - 3/2, or one in (a - 4) / (a + 4) = 1 - 8 / (a + 4)
    u = a - 1.5
    near, near_low = _last_steps(u, u.like(0.0), c.ERFC_NEAR_DOUBLE)
    denominator, lost = two_sum(a, a.like(c.ERFC_CENTRE))
    inverse = 1.0 / denominator
    product, missing = two_product(inverse, denominator)
    inverse_low = inverse * ((1.0 - product) - missing - inverse * lost)
    t, t_low = two_sum(a.like(1.0), inverse * (-2 * c.ERFC_CENTRE))
    value, value_low = _last_steps(t, fma(inverse_low, -2 * c.ERFC_CENTRE, t_low), c.ERFC_FAR_DOUBLE)
    value_low = value_low + c.ERFC_FAR_DOUBLE_LOW
    far, far_low = two_product(inverse, value)
    high = (a < 2.5).where(near, far)
    low = (a < 2.5).where(near_low, fma(inverse_low, value, fma(inverse, value_low, far_low)))
    square, square_low = two_product(a, a)
    above_one, n = exp_parts(-square, -square_low, minus_one=True)
    return high + fma(high, above_one, low), n


def erf(x: V) -> V:
    a = fabs(x)
    if x.elem == FLOAT:
        end = (a < 4.0).where(a, 4.0)
        m, n = exp_parts(polynomial(end, c.ERF_TAIL_SINGLE))
        large = 1.0 - m * power_of_two(n)
    else:
        bounded = (a < 6.5).where(a, 6.5)
        m, n = _erfc_parts(bounded)
        large = 1.0 - m * power_of_two(n)
    result = (a < 1.0).where(_erf_small(x), copysign(large, x))
    return x.is_nan().where(x, result)


def erfc(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(erfc, x)
    a = fabs(x)
    tail = scale(*_erfc_parts(a))
    result = (x < 0.0).where(2.0 - tail, tail)
    result = (a < 0.5).where(1.0 - _erf_small(x), result)
    return x.is_nan().where(x, result)
