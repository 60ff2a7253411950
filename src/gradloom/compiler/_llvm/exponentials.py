"""exp, log and their relatives on vectors: argument reduction, a polynomial, and the exponent put back.

Every function takes and returns values of one type, float or double; the error is at most 2 ulp (tests/compiler/
test_llvm_functions.py measures it). Formulas: J.-M. Muller, "Elementary Functions", 3rd edition, chapters 9 to 11.
Double-double products: T. J. Dekker, "A floating-point technique for extending the available precision", 1971.

Note [Rounding by addition]
Adding 1.5 * 2^(p-1), where p is the precision, pushes the fraction out of a number: what is left in the low bits is the
nearest integer. Conversions to integers are undefined in LLVM for NaN and numbers out of range; this never is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from . import coefficients as c
from .ir import BITS, DOUBLE, FLOAT, I32, V, copysign, fabs, fma, horner, polynomial, scaled, sqrt

INFINITY, NAN = math.inf, math.nan


class Format(NamedTuple):
    """What the functions need to know about a floating-point type."""

    mantissa: int
    bias: int
    magic: float  # Note [Rounding by addition]
    ln2: tuple[float, ...]
    exp: tuple[float, ...]
    expm1: tuple[float, ...]
    log: tuple[float, ...]
    overflow: float  # exp of more is infinite
    underflow: float  # exp of less is zero
    smallest: float  # the smallest normal number
    epsilon: float


SINGLE = Format(
    23, 127, 1.5 * 2**23, c.LN2_SINGLE, c.EXP_SINGLE, c.EXPM1_SINGLE, c.LOG_SINGLE, 89.0, -104.0, 2.0**-126, 2.0**-23
)
WIDE = Format(
    52, 1023, 1.5 * 2**52, c.LN2_DOUBLE, c.EXP_DOUBLE, c.EXPM1_DOUBLE, c.LOG_DOUBLE, 710.0, -746.0, 2.0**-1022, 2.0**-52
)


def format_of(x: V) -> Format:
    return SINGLE if x.elem == FLOAT else WIDE


def nearest(x: V, factor: float = 1.0) -> tuple[V, V]:
    """Return the integer nearest to x * factor, as a float and as bits whose low part is the integer."""
    magic = format_of(x).magic
    shifted = fma(x, factor, magic) if factor != 1.0 else x + magic
    return shifted - magic, shifted.bits() - shifted.f.const(magic, x.elem, x.width).bits()


def power_of_two(n: V) -> V:
    """Return 2^n for an integer n within the exponents of normal numbers."""
    f = SINGLE if n.elem == I32 else WIDE
    return ((n + f.bias) << f.mantissa).as_float()


def scale(x: V, n: V) -> V:
    """Return x * 2^n for an integer n; 2^n may be out of range."""
    if x.f.module.scales and x.width * BITS[x.elem] % 512 == 0 and x.width:
        return scaled(x, n.convert("sitofp", x.elem))
    half = n.shift_right(1, signed=True)
    return x * power_of_two(half) * power_of_two(n - half)


def clamp(x: V, low: float, high: float) -> V:
    """Return x between two numbers; NaN stays."""
    x = (x.like(high) < x).where(high, x)
    return (x.like(low) > x).where(low, x)


def two_product(a: V, b: V) -> tuple[V, V]:
    """Return a * b as a rounded product and its error."""
    product = a * b
    if a.f.module.fma:
        return product, fma(a, b, -product)
    factor = 2.0 ** ((format_of(a).mantissa + 2) // 2) + 1

    def halves(x: V) -> tuple[V, V]:
        t = x * factor
        high = t - (t - x)
        return high, x - high

    (a1, a2), (b1, b2) = halves(a), halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def two_sum(a: V, b: V) -> tuple[V, V]:
    """Return a + b as a rounded sum and its error."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def exp_parts(x: V, low: V | None = None, minus_one: bool = False) -> tuple[V, V]:
    """Return m and n with exp(x + low) = m 2^n, m between 0.7 and 1.42; or m - 1, with more digits, and n."""
    f = format_of(x)
    n, bits = nearest(x, 1 / math.log(2))
    r = fma(n, -f.ln2[0], x)
    rest = n * -f.ln2[1] if low is None else fma(n, -f.ln2[1], low)
    r = r + rest
    above_one = fma(r * r, polynomial(r, f.exp), r)
    return above_one if minus_one else above_one + 1.0, bits


def exp(x: V) -> V:
    f = format_of(x)
    # Zero is chosen, not computed: processors take long for results that underflow, such as those of masked scores.
    zero = x.like(f.underflow) > x
    bounded = zero.where(0.0, (x.like(f.overflow) < x).where(f.overflow, x))
    return zero.where(0.0, scale(*exp_parts(bounded)))


def half_exp(x: V) -> V:
    """Return exp(x) / 2, which is finite a little longer."""
    f = format_of(x)
    m, n = exp_parts(clamp(x, f.underflow, f.overflow + 1))
    return scale(m, n - 1)


def exp2_parts(x: V, low: V | None = None) -> tuple[V, V]:
    """Return m and n with 2^(x + low) = m 2^n."""
    f = format_of(x)
    n, bits = nearest(x)
    fraction = x - n
    if low is not None:
        fraction = fraction + low
    r, error = two_product(fraction, fraction.like(c.LN2_PAIR[0]))
    if x.elem == DOUBLE:
        error = fma(fraction, c.LN2_PAIR[1], error)
    return (r + fma(r * r, polynomial(r, f.exp), error)) + 1.0, bits


def exp2(x: V) -> V:
    f = format_of(x)
    return scale(*exp2_parts(clamp(x, -f.bias - f.mantissa - 2.0, f.bias + 2.0)))


def expm1(x: V) -> V:
    f = format_of(x)
    y = clamp(x, -(f.mantissa + 3) * math.log(2), f.overflow)
    n, bits = nearest(y, 1 / math.log(2))
    r = fma(n, -f.ln2[1], fma(n, -f.ln2[0], y))
    p = fma(r * r, polynomial(r, f.expm1), r)
    half = power_of_two(bits - 1)
    result = fma(half, p, half - 0.5) * 2.0
    return (fabs(x) < f.epsilon).where(x, result)


class LogParts(NamedTuple):
    """log(x) = k ln 2 + f - (h - s (h + r)), f = m - 1, h = f^2 / 2, s = f / (2 + f), m near 1."""

    k: V
    f: V
    h: V
    s: V
    r: V


def log_parts(x: V) -> LogParts:
    k, m = split_exponent(x)
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    return LogParts(k, f, f * f * 0.5, s, z * polynomial(z, format_of(x).log))


def split_exponent(x: V) -> tuple[V, V]:
    """Return k and m with x = m 2^k and m between sqrt(1/2) and sqrt(2), for positive x."""
    f = format_of(x)
    tiny = x < f.smallest
    x = tiny.where(x * 2.0**f.mantissa, x)
    bits = x.bits()
    root = bits.f.const(math.sqrt(0.5), x.elem, x.width).bits()
    k = (bits - root).shift_right(f.mantissa, signed=True)
    m = (bits - (k << f.mantissa)).as_float()
    k = tiny.where(k - f.mantissa, k)
    return k.convert("sitofp", x.elem), m


def finish_log(x: V, result: V) -> V:
    """Put in the logarithms of zero, negative numbers, infinity and NaN."""
    result = (x < INFINITY).where(result, x)
    result = x.equals(0.0).where(-INFINITY, result)
    return (x < 0.0).where(NAN, result)


def log(x: V) -> V:
    p, (high, low) = log_parts(x), format_of(x).ln2
    return finish_log(x, p.k * high - ((p.h - fma(p.s, p.h + p.r, p.k * low)) - p.f))


def log1p(x: V) -> V:
    f = format_of(x)
    u = x + 1.0
    p, (high, low) = log_parts(u), f.ln2
    lost = (x >= 1.0).where(1.0 - (u - x), x - (u - 1.0)) / u
    result = p.k * high - ((p.h - fma(p.s, p.h + p.r, fma(p.k, low, lost))) - p.f)
    result = finish_log(u, result)
    return (fabs(x) < f.epsilon / 2).where(x, result)


def _high_and_low(p: LogParts) -> tuple[V, V]:
    """Return log(m) as a number of 21 bits and the rest."""
    high = (p.f - p.h).bits() & -(1 << 32)
    top = high.as_float()
    return top, fma(p.s, p.h + p.r, (p.f - top) - p.h)


def log2(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(log2, x)
    p, (first, second) = log_parts(x), c.LOG2E_PARTS
    high, low = _high_and_low(p)
    exact = high * first
    rest = fma(low + high, second, low * first)
    total = p.k + exact
    return finish_log(x, total + (rest + ((p.k - total) + exact)))


def log10(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(log10, x)
    p, (first, second) = log_parts(x), c.LOG10E_PARTS
    high, low = _high_and_low(p)
    exact, whole = high * first, p.k * c.LOG10_2[0]
    rest = fma(p.k, c.LOG10_2[1], fma(low + high, second, low * first))
    total = whole + exact
    return finish_log(x, total + (rest + ((whole - total) + exact)))


def by_double(function, *arguments: V) -> V:
    return function(*(x.convert("fpext", DOUBLE) for x in arguments)).convert("fptrunc", FLOAT)


def tanh(x: V) -> V:
    f = format_of(x)
    a = fabs(x)
    if x.elem == FLOAT:  # -(e - 1) / (e + 1) with e = exp(-2a) = 2^n (1 + p): neither sum cancels
        y = clamp(a * -2.0, -(f.mantissa + 3) * math.log(2), 0.0)
        n, bits = nearest(y, 1 / math.log(2))
        r = fma(n, -f.ln2[1], fma(n, -f.ln2[0], y))
        p = fma(r * r, polynomial(r, f.expm1), r)
        power = power_of_two(bits)
        return copysign(fma(power, p, power - 1.0) / fma(power, p, power + 1.0), x)
    z = x * x
    small = fma(x * z, polynomial(z, c.TANH_DOUBLE), x)
    m, n = exp_parts(clamp(a * 2.0, 0.0, 40.0))
    large = 1.0 - x.like(2.0) / (m * power_of_two(n) + 1.0)
    return copysign((a < 0.6).where(small, large), x)


def sinh(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(sinh, x)
    a = fabs(x)
    z = x * x
    small = fma(x * z, polynomial(z, c.SINH_DOUBLE), x)
    h = half_exp(a)
    return (a < 1.0).where(small, copysign(h - x.like(0.25) / h, x))


def cosh(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(cosh, x)
    h = half_exp(fabs(x))
    return h + x.like(0.25) / h


def arcsinh(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(arcsinh, x)
    a = fabs(x)
    large = a > 2.0**60
    b = large.where(1.0, a)
    square = b * b
    # log1p of a for large ones, plus ln 2; one logarithm serves both.
    argument = large.where(a, b + square / (sqrt(square + 1.0) + 1.0))
    result = log1p(argument)
    result = large.where(result + math.log(2), result)
    return copysign((a < 2.0**-28).where(a, result), x)


def arccosh(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(arccosh, x)
    large = x > 2.0**60
    t = large.where(1.0, x - 1.0)
    result = log1p(large.where(x, t + sqrt(fma(t, t, t + t))))
    result = large.where(result + math.log(2), result)
    return (x < 1.0).where(NAN, result)


def arctanh(x: V) -> V:
    if x.elem == FLOAT:
        return by_double(arctanh, x)
    a = fabs(x)
    result = log1p((a + a) / (1.0 - a)) * 0.5
    return copysign((a < 2.0**-28).where(a, result), x)


def logaddexp(x: V, y: V) -> V:
    if x.elem == FLOAT:
        return by_double(logaddexp, x, y)
    greater, less = (x > y).where(x, y), (x > y).where(y, x)
    equal = x.equals(y)  # infinities of one sign, whose difference is NaN
    result = greater + log1p(exp(less - greater))
    result = equal.where(x + math.log(2), result)
    return (x.is_nan() | y.is_nan()).where(x + y, result)


def logaddexp2(x: V, y: V) -> V:
    if x.elem == FLOAT:
        return by_double(logaddexp2, x, y)
    greater, less = (x > y).where(x, y), (x > y).where(y, x)
    equal = x.equals(y)
    result = greater + log1p(exp2(less - greater)) * (1 / math.log(2))
    result = equal.where(x + 1.0, result)
    return (x.is_nan() | y.is_nan()).where(x + y, result)


def hypot(x: V, y: V) -> V:
    if x.elem == FLOAT:
        return by_double(hypot, x, y)
    a, b = fabs(x), fabs(y)
    greater, less = (a > b).where(a, b), (a > b).where(b, a)
    big, small = greater > 2.0**500, greater < 2.0**-500
    factor = big.where(2.0**-600, small.where(2.0**600, x.like(1.0)))
    back = big.where(2.0**600, small.where(2.0**-600, x.like(1.0)))
    greater, less = greater * factor, less * factor
    square, error = two_product(greater, greater)
    result = sqrt(square + fma(less, less, error)) * back
    infinite = a.equals(INFINITY) | b.equals(INFINITY)
    result = (x.is_nan() | y.is_nan()).where(x + y, result)
    return infinite.where(INFINITY, result)


def power(x: V, y: V) -> V:
    """Return x ** y with the special cases of C's pow."""
    if x.elem == FLOAT:
        return by_double(lambda a, b: _power(a, b, exact=False), x, y)
    return _power(x, y, exact=True)


def _power(x: V, y: V, exact: bool) -> V:
    a = fabs(x)
    t = clamp(y, -(2.0**70), 2.0**70)
    if exact:
        high, low = _log2_pair(a)
        product, error = two_product(t, high)
        low = fma(t, low, error)
    else:
        product, low = t * log2(a), None
    bounded = clamp(product, -1100.0, 1100.0)
    if low is not None:
        low = product.equals(bounded).where(low, 0.0)
    result = scale(*exp2_parts(bounded, low))
    zero, infinite = a.equals(0.0), a.equals(INFINITY)
    grows = (y > 0.0).where(infinite, zero)
    result = (zero | infinite).where(grows.where(x.like(INFINITY), 0.0), result)
    whole = y.f.intrinsic("rint", y)
    half = y * 0.5
    integer = whole.equals(y) | fabs(y).equals(INFINITY)
    odd = integer & y.f.intrinsic("rint", half).differs(half) & (fabs(y) < 2.0**53)
    result = (odd & (x.bits() < 0)).where(-result, result)
    result = ((x < 0.0) & (x > -INFINITY) & ~integer).where(NAN, result)
    result = (x.is_nan() | y.is_nan()).where(x + y, result)
    result = (a.equals(1.0) & fabs(y).equals(INFINITY)).where(1.0, result)
    return (y.equals(0.0) | x.equals(1.0)).where(1.0, result)


def _times(a: tuple[V, V], b: tuple[V, V]) -> tuple[V, V]:
    high, low = two_product(a[0], b[0])
    return high, low + fma(a[0], b[1], a[1] * b[0])


def _log2_pair(x: V) -> tuple[V, V]:
    """Return log2 of a positive number as a sum of two, with about 64 bits: 2 atanh(s) / ln 2, first terms exact."""
    k, m = split_exponent(x)
    f = m - 1.0
    denominator, lost = two_sum(m, m.like(1.0))
    s = f / denominator
    product, error = two_product(s, denominator)
    pair = (s, ((f - product) - error - s * lost) / denominator)
    z = _times(pair, pair)
    inner = fma(z[0], horner(z[0], c.LOG_REST_DOUBLE), 2 / 5)
    high, low = two_product(z[0], inner)
    low = fma(z[1], inner, low)
    third = x.like(2 / 3)
    total, rest = two_sum(third, high)
    b = (total, rest + low + 3.700743415417188e-17)  # what 2 / 3 loses as a double
    cubic = _times(pair, _times(z, b))
    total, rest = two_sum(pair[0] * 2.0, cubic[0])
    logarithm = two_sum(total, rest + fma(pair[1], 2.0, cubic[1]))
    scaled = _times(logarithm, (x.like(c.LOG2E_PAIR[0]), x.like(c.LOG2E_PAIR[1])))
    total, rest = two_sum(k, scaled[0])
    return two_sum(total, rest + scaled[1])
