"""Normal numbers from uniform ones in groups of 16 (Box and Muller 1958), rounded as PyTorch's on x86.

Of every 16 uniforms the first 8 give radii sqrt(-2 log(1 - u)) and the last 8 angles 2 pi u; the group becomes 8 times
radius * cos(angle) and then 8 times radius * sin(angle).

For float32 PyTorch evaluates log, sin and cos by the single-precision polynomials of Cephes (Moshier 1992) with fused
multiply-adds. NumPy has no fused multiply-add, so each one is taken here in float64, where the product of two float32
numbers is exact, and rounded to float32 once. Steps in which nothing is lost (multiplying by a power of two, a product
of few bits) stay in float32. The result is the same, bit by bit, for every uniform that a 24-bit draw can give.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .._common.fused import fused64
from .._common.threads import chunks, share
from .streams import Stream

add, multiply, subtract = np.add, np.multiply, np.subtract
_PAIRS = 32768  # pairs worked on at a time: the scratch arrays then stay in a core's own cache


def _single(value: float) -> float:
    return float(np.float32(value))


# Constants are 0-dim arrays, or columns of one number for each row: NumPy takes them faster than Python's numbers.


def _f32(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def _f64(*values: float) -> list[np.ndarray]:
    return [np.array(_single(v)) for v in values]


_SQRT_HALF_BITS, _MANTISSA, _FOUR = (np.array(n, np.int32) for n in (0x3F3504F3, 23, 4))
_ZERO, _ONE, _HALF, _MINUS_TWO = (_f32(v) for v in (0, 1, 0.5, -2))

# log(1 + x) ~ x - x^2/2 + x^3 P(x), highest power first; ln 2 in two parts, the first of few bits.
_LOG = _f64(
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
(_WIDE_HALF,) = _f64(0.5)
_LN2_HIGH, _LN2_LOW = _f32(0.693359375), _f32(-2.12194440e-4)

# sin x ~ x + x^3 S(x^2), cos x ~ 1 - x^2/2 + x^4 C(x^2) for |x| <= pi/4; pi/4 in three parts, two of few bits.
_SIN = _f64(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = _f64(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_QUARTER_PI_HIGH = [_f32(c) for c in (-0.78515625, -2.4187564849853515625e-4)]
(_QUARTER_PI_LOW,) = _f64(-3.77489497744594108e-8)
_FOUR_OVER_PI, _TWO_PI = _f32(4 / math.pi), _f32(2 * math.pi)
_EVEN = np.array(~1, np.int32)
_WORD_ONE, _TO_SIGN, _SWAP_UP, _SWAP_DOWN = (np.array(n, np.int32) for n in (1, 29, 30, 31))

# The last two steps of the three polynomials are taken together, in rows for cosine, sine and logarithm.
_FIRST = np.array([_COS[:1], _SIN[:1]])
_STEPS = [np.array([[_COS[i]], [_SIN[i]], [_LOG[6 + i]]]) for i in (1, 2)]
_QUADRANT = np.array([[2], [0]], np.int32)  # cos x = sin(x + pi/2): two octants further


class _Scratch:
    """Work arrays for `pairs` pairs of numbers, and the views of them that the steps below use.

    Attributes:
        poly: float64 (3, pairs), the polynomials of cosine, sine and logarithm.
        factor: float64 (3, pairs), what they are multiplied by in each step.
        single: float32 (3, pairs), the polynomials rounded.
        u, z, power, angle, square: float32 (pairs,).
        exponent, mantissa, octant: int32 (pairs,).
    """

    def __init__(self, pairs: int):
        self.pairs = pairs
        self.poly, self.factor = np.empty((2, 3, pairs))
        self.single = single = np.empty((3, pairs), np.float32)
        self.u, self.z, self.power, self.angle, self.square = np.empty((5, pairs), np.float32)
        words = np.empty((3, pairs), np.int32)
        self.exponent, self.mantissa, self.octant = words
        self.signs = words[:2]
        self.poly_cos, self.poly_sin, self.poly_log = self.poly
        self.factor_cos, self.factor_sin, self.factor_log = self.factor
        self.single_cos, self.single_sin, self.single_log = single
        self.poly_both, self.factor_both, self.both = self.poly[:2], self.factor[:2], single[:2]
        self.bits_of_both = self.both.view(np.int32)
        self.bits_of_cos, self.bits_of_sin = self.bits_of_both
        self.bits_of_u, self.singles_of_mantissa = self.u.view(np.int32), self.mantissa.view(np.float32)
        self.u_by_8, self.angle_by_8 = self.u.reshape(-1, 8), self.angle.reshape(-1, 8)
        self.halves, self.wide_halves = self.both.reshape(2, -1, 8), self.poly_both.reshape(2, -1, 8)


_KEPT = 2048  # pairs whose work arrays are kept for the next call
_spare: list[_Scratch] = []  # at most one, which a call takes out while it uses it


def _scratch(pairs: int) -> _Scratch:
    """Return work arrays, those of the last call if they fit."""
    try:
        work = _spare.pop()
    except IndexError:
        return _Scratch(pairs)
    return work if work.pairs == pairs else _Scratch(pairs)


def _begin_log(work):
    """Compute all steps but the last two of the logarithm's polynomial. `u` (0 < u <= 1) becomes x, the mantissa in
    [sqrt(1/2), sqrt(2)) less 1; `z` becomes x^2 and `power` the exponent of 2."""
    u, exponent, mantissa = work.u, work.exponent, work.mantissa
    bits = work.bits_of_u
    subtract(bits, _SQRT_HALF_BITS, exponent)
    np.right_shift(exponent, _MANTISSA, exponent)
    work.power[...] = exponent
    np.left_shift(exponent, _MANTISSA, mantissa)
    subtract(bits, mantissa, mantissa)
    subtract(work.singles_of_mantissa, _ONE, u)
    multiply(u, u, work.z)
    p, x, single = work.poly_log, work.factor_log, work.single_log
    x[...] = u
    multiply(x, _LOG[0], p)
    for coefficient in _LOG[1:7]:
        add(p, coefficient, p)
        single[...] = p  # rounded to float32
        p[...] = single
        multiply(p, x, p)


def _begin_sin_cos(work):
    """Reduce `angle` (0 <= angle <= 2 pi) to |angle| <= pi/4, write the octant and the square of the reduced angle, and
    multiply the first coefficients of sine and cosine."""
    angle, square, octant = work.angle, work.square, work.octant
    y, x, wide = work.single_cos, work.factor_cos, work.poly_cos
    multiply(angle, _FOUR_OVER_PI, y)
    octant[...] = y
    add(octant, _WORD_ONE, octant)
    np.bitwise_and(octant, _EVEN, octant)  # the nearest even multiple of pi/4
    y[...] = octant
    for part in _QUARTER_PI_HIGH:  # parts with few bits: the products are exact
        multiply(y, part, square)
        add(angle, square, angle)
    wide[...] = y
    x[...] = angle
    multiply(wide, _QUARTER_PI_LOW, wide)
    add(x, wide, x)
    angle[...] = x
    multiply(angle, angle, square)
    work.factor_both[...] = square
    multiply(work.factor_both, _FIRST, work.poly_both)


def _end_log(work):
    """Compute the logarithm in `u` from the rounded polynomial."""
    x, z, power = work.u, work.z, work.power
    y, wide, other = work.single_log, work.poly_log, work.factor_log
    multiply(y, x, y)
    wide[...] = y
    other[...] = z
    multiply(wide, other, wide)
    multiply(power, _LN2_LOW, y)
    other[...] = y
    add(wide, other, wide)
    y[...] = wide
    multiply(z, _HALF, z)
    subtract(y, z, y)
    add(x, y, x)
    multiply(power, _LN2_HIGH, power)
    add(x, power, x)


def _end_sin_cos(work):
    """Write cosine and sine to `both`, float32 (2, pairs), from the rounded polynomials."""
    found, poly, x = work.both, work.poly_both, work.factor_sin
    multiply(found, work.square, found)
    poly[...] = found
    wide = work.poly_cos
    subtract(wide, _WIDE_HALF, wide)  # c z - z/2, rounded once: c - 1/2 and its product fit a double
    x[...] = work.angle
    multiply(poly, work.factor_both, poly)
    wide = work.poly_sin
    add(wide, x, wide)
    found[...] = poly
    add(work.single_cos, _ONE, work.single_cos)
    _to_octant(work)


def _to_octant(work):
    """Turn cosine and sine of the reduced angle into those of the whole one: swap bits and change signs."""
    octant, bits, flip, signs = work.octant, work.bits_of_both, work.exponent, work.signs
    np.left_shift(octant, _SWAP_UP, flip)
    np.right_shift(flip, _SWAP_DOWN, flip)  # all ones in quadrants that swap sine and cosine
    np.bitwise_and(flip, work.bits_of_cos ^ work.bits_of_sin, flip)
    np.bitwise_xor(bits, flip, bits)
    add(octant, _QUADRANT, signs)
    np.bitwise_and(signs, _FOUR, signs)
    np.left_shift(signs, _TO_SIGN, signs)
    np.bitwise_xor(bits, signs, bits)


def _transform64(groups, mean, std):
    """`box_muller` of a cache-sized share in float64, with the C library's functions: (g, 2, 8) in place."""
    radius = np.sqrt(-2 * by_libm(math.log, np.log, 1 - groups[:, 0], True))
    angle = 2 * math.pi * groups[:, 1]
    groups[:, 0] = fused64(radius * np.cos(angle), std, mean)
    groups[:, 1] = fused64(radius * np.sin(angle), std, mean)


def _transform32(groups, mean, std):
    """`box_muller` of a cache-sized share in float32: (g, 2, 8) in place."""
    count = groups.shape[0]
    work = _scratch(8 * count)
    u, poly, single, both = work.u, work.poly, work.single, work.both
    subtract(_ONE, groups[:, 0], work.u_by_8)
    multiply(groups[:, 1], _TWO_PI, work.angle_by_8)
    _begin_log(work)
    _begin_sin_cos(work)
    add(poly, _STEPS[0], poly)
    single[...] = poly
    poly[...] = single
    multiply(poly, work.factor, poly)
    add(poly, _STEPS[1], poly)
    single[...] = poly
    _end_log(work)
    multiply(u, _MINUS_TWO, u)
    np.sqrt(u, u)
    _end_sin_cos(work)
    multiply(both, u, both)
    target = groups.transpose(1, 0, 2)
    if mean == 0 and std == 1:
        add(work.halves, _ZERO, target)  # -0 becomes 0
    else:
        wide = work.poly_both
        wide[...] = both
        multiply(wide, std, wide)
        add(wide, mean, wide)
        target[...] = work.wide_halves
    if work.pairs <= _KEPT:
        _spare[:] = (work,)


def box_muller(uniforms: np.ndarray, mean: float, std: float) -> None:
    """Overwrite `uniforms` in [0, 1) by normal numbers of the given mean and standard deviation.

    Args:
        uniforms: float32 or float64, contiguous, its size a multiple of 16.
        mean, std: rounded to float32 for a float32 array, as PyTorch does.
    """
    groups = uniforms.reshape(-1, 2, 8)
    count, step = groups.shape[0], _PAIRS // 8
    if uniforms.dtype == np.float64:
        for start in range(0, count, step):  # mostly holds the GIL: threads would not help
            _transform64(groups[start : start + step], mean, std)
    elif count <= step:
        _transform32(groups, _single(mean), _single(std))
    else:
        share(lambda part: _transform32(groups[part], _single(mean), _single(std)), chunks(count, step))


def box_muller_pairs(uniforms: np.ndarray, exact: bool) -> np.ndarray:
    """Return standard normal numbers from consecutive pairs of uniforms (angle first), one pair of normals for each.
    Gives float64 (n,).

    Args:
        uniforms: float64 in [0, 1), of even size n.
        exact: see `by_libm`.
    """
    pairs = uniforms.reshape(-1, 2)
    radius = np.sqrt(-2 * by_libm(math.log1p, np.log1p, -pairs[:, 1], exact))
    angle = 2 * math.pi * pairs[:, 0]
    return np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1).ravel()


def serial_normals(stream: Stream, n: int, exact: bool) -> np.ndarray:
    """Draw `n` standard normal numbers one after the other: float64 (n,). Numbers are made in pairs; a cached one comes
    first, and the second of the last pair is cached if `n` does not need it."""
    values = np.empty(n)
    filled = 0
    if n and stream.cached_normal is not None:
        values[0] = stream.cached_normal
        stream.cached_normal = None
        filled = 1
    missing = n - filled
    if missing:
        fresh = box_muller_pairs(stream.uniform53(missing + missing % 2), exact)
        values[filled:] = fresh[:missing]
        if missing % 2:
            stream.cached_normal = float(fresh[-1])
    return values


_FEW = 512  # count, below which calling the C library for each number costs little


def by_libm(scalar: Callable, vector: np.ufunc, x: np.ndarray, exact: bool) -> np.ndarray:
    """Apply `scalar` (a function of the math module, so the C library's) to every element of `x`.

    NumPy's own `vector` is several times faster, but on some processors its log, log1p, exp and tan differ from the C
    library in the last bit. It is used where that cannot matter (`exact` is false: the caller rounds to fewer bits),
    and where the scalar function refuses an argument for which C returns an infinity. Gives float64, the shape of `x`.

    Args:
        x: float64, any shape.
    """
    if exact or x.size <= _FEW:
        try:
            return np.fromiter(map(scalar, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)
        except (ValueError, OverflowError):
            pass
    with np.errstate(all="ignore"):
        return vector(x)
