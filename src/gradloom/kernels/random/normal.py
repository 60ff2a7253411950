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

from .._common.threads import chunks, share
from .streams import Stream

_PAIRS = 32768  # pairs worked on at a time: the scratch arrays then stay in a core's own cache


def _single(value: float) -> float:
    return float(np.float32(value))


# log(1 + x) ~ x - x^2/2 + x^3 P(x), highest power first; ln 2 in two parts, the first of few bits.
_LOG = [
    _single(c)
    for c in (
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
]
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_SQRT_HALF_BITS = np.int32(0x3F3504F3)

# sin x ~ x + x^3 S(x^2), cos x ~ 1 - x^2/2 + x^4 C(x^2) for |x| <= pi/4; pi/4 in three parts.
_SIN = [_single(c) for c in (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)]
_COS = [_single(c) for c in (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)]
_QUARTER_PI = [_single(c) for c in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)]
_FOUR_OVER_PI, _TWO_PI = np.float32(4 / math.pi), np.float32(2 * math.pi)


class _Scratch:
    """Work arrays for `pairs` pairs: lists `single` of float32, `double` of float64, `words` of int32."""

    def __init__(self, pairs: int):
        self.single = [np.empty(pairs, np.float32) for _ in range(6)]
        self.double = [np.empty(pairs, np.float64) for _ in range(3)]
        self.words = [np.empty(pairs, np.int32) for _ in range(2)]


def _fused(out, value, factor, addend, single):
    """Compute out = round32(value * factor + addend), all float64; `single` also receives the float32 result."""
    np.multiply(value, factor, out=out)
    np.add(out, addend, out=out)
    single[...] = out
    out[...] = single


def _fused_on_grid(out, value, factor, addend, spacing):
    """Compute `_fused` for results within one power of two, where float32 numbers are `spacing` apart. Near 1.5 * 2**52
    spacings a double has no finer bits, so that the addition itself rounds."""
    shift = 1.5 * 2.0**52 * spacing
    np.multiply(value, factor, out=out)
    np.add(out, addend + shift, out=out)
    np.subtract(out, shift, out=out)


def _log(u, work):
    """Compute the natural logarithm of `u` (float32, 0 < u <= 1), in place."""
    y, z, power = work.single[1:4]
    wide, x, other = work.double
    exponent, mantissa = work.words
    bits = u.view(np.int32)
    np.subtract(bits, _SQRT_HALF_BITS, out=exponent)
    np.right_shift(exponent, 23, out=exponent)
    power[...] = exponent
    np.left_shift(exponent, 23, out=mantissa)
    np.subtract(bits, mantissa, out=mantissa)  # read as float32: in [sqrt(1/2), sqrt(2))
    np.subtract(mantissa.view(np.float32), np.float32(1), out=u)
    np.multiply(u, u, out=z)

    x[...] = u
    _fused(wide, x, _LOG[0], _LOG[1], y)
    for coefficient in _LOG[2:-1]:
        _fused(wide, wide, x, coefficient, y)
    np.multiply(wide, x, out=wide)
    np.add(wide, _LOG[-1], out=wide)
    y[...] = wide
    np.multiply(y, u, out=y)

    wide[...] = y
    other[...] = z
    np.multiply(wide, other, out=wide)
    np.multiply(power, _LN2_LOW, out=y)
    other[...] = y
    np.add(wide, other, out=wide)
    y[...] = wide

    np.multiply(z, np.float32(0.5), out=z)
    np.subtract(y, z, out=y)
    np.add(u, y, out=u)
    np.multiply(power, _LN2_HIGH, out=power)
    np.add(u, power, out=u)


def _sin_cos(angle, work):
    """Compute (sin, cos) of `angle` (float32, 0 <= angle <= 2 pi) in two scratch arrays; overwrite `angle`."""
    y, sine, cosine, z = work.single[2:6]
    wide, x, square = work.double
    octant, flip = work.words
    np.multiply(angle, _FOUR_OVER_PI, out=y)
    np.copyto(octant, y, casting="unsafe")
    np.add(octant, 1, out=octant)
    np.bitwise_and(octant, ~1, out=octant)  # the nearest even multiple of pi/4
    y[...] = octant
    for part in _QUARTER_PI[:2]:  # parts with few bits: the products are exact
        np.multiply(y, part, out=z)
        np.add(angle, z, out=angle)
    wide[...] = y
    x[...] = angle
    np.multiply(wide, _QUARTER_PI[2], out=wide)
    np.add(x, wide, out=x)
    angle[...] = x
    x[...] = angle
    np.multiply(angle, angle, out=z)
    square[...] = z

    _fused_on_grid(wide, square, _SIN[0], _SIN[1], 2.0**-30)
    _fused_on_grid(wide, wide, square, _SIN[2], 2.0**-26)
    sine[...] = wide
    np.multiply(sine, z, out=sine)
    wide[...] = sine
    np.multiply(wide, x, out=wide)
    np.add(wide, x, out=wide)
    sine[...] = wide

    _fused_on_grid(wide, square, _COS[0], _COS[1], 2.0**-33)
    _fused_on_grid(wide, wide, square, _COS[2], 2.0**-28)
    cosine[...] = wide
    np.multiply(cosine, z, out=cosine)
    wide[...] = cosine
    np.subtract(wide, 0.5, out=wide)  # c z - z/2, rounded once: c - 1/2 and its product fit a double
    np.multiply(wide, square, out=wide)
    cosine[...] = wide
    np.add(cosine, np.float32(1), out=cosine)
    _to_octant(sine, cosine, octant, flip)
    return sine, cosine


def _to_octant(sine, cosine, octant, flip):
    """Turn sin and cos of the reduced angle into those of the whole one: swap bits and change signs."""
    s, c = sine.view(np.int32), cosine.view(np.int32)
    np.left_shift(octant, 30, out=flip)
    np.right_shift(flip, 31, out=flip)  # all ones in quadrants that swap sine and cosine
    difference = s ^ c
    np.bitwise_and(difference, flip, out=difference)
    np.bitwise_xor(s, difference, out=s)
    np.bitwise_xor(c, difference, out=c)
    np.bitwise_and(octant, 4, out=flip)
    np.left_shift(flip, 29, out=flip)
    np.bitwise_xor(s, flip, out=s)
    np.add(octant, 2, out=octant)
    np.bitwise_and(octant, 4, out=octant)
    np.left_shift(octant, 29, out=octant)
    np.bitwise_xor(c, octant, out=c)


def _transform64(groups, mean, std):
    """`box_muller` of a cache-sized share in float64, with the C library's functions: (g, 2, 8) in place."""
    radius = np.sqrt(-2 * by_libm(math.log, np.log, 1 - groups[:, 0], True))
    angle = 2 * math.pi * groups[:, 1]
    groups[:, 0] = fused64(radius * np.cos(angle), std, mean)
    groups[:, 1] = fused64(radius * np.sin(angle), std, mean)


def _transform32(groups, mean, std):
    """`box_muller` of a cache-sized share in float32: (g, 2, 8) in place."""
    work = _Scratch(8 * groups.shape[0])
    radius, angle = work.single[:2]
    np.subtract(np.float32(1), groups[:, 0], out=radius.reshape(-1, 8))
    _log(radius, work)
    np.multiply(radius, np.float32(-2), out=radius)
    np.sqrt(radius, out=radius)
    np.multiply(groups[:, 1], _TWO_PI, out=angle.reshape(-1, 8))
    sine, cosine = _sin_cos(angle, work)
    for half, part in ((0, cosine), (1, sine)):
        np.multiply(part, radius, out=part)
        if mean == 0 and std == 1:
            np.add(part.reshape(-1, 8), np.float32(0), out=groups[:, half])  # -0 becomes 0
        else:
            wide = work.double[0]
            wide[...] = part
            np.multiply(wide, std, out=wide)
            np.add(wide, mean, out=wide)
            groups[:, half] = wide.reshape(-1, 8)


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


def fused64(x: np.ndarray, factor: float, addend: float) -> np.ndarray:
    """x * factor + addend with one rounding, like a fused multiply-add; float64 in and out. The rounding errors of the
    product (Dekker 1971) and of the sum (Knuth's two-sum) are added at the end."""
    if factor == 1:
        return x + addend
    product = x * factor
    if addend == 0:
        return product
    split = x * 134217729.0  # 2**27 + 1: halves of 26 bits, whose products are exact
    high = split - (split - x)
    low = x - high
    factor_split = factor * 134217729.0
    factor_high = factor_split - (factor_split - factor)
    factor_low = factor - factor_high
    error = ((high * factor_high - product) + high * factor_low + low * factor_high) + low * factor_low
    total = product + addend
    kept = total - product
    error += (product - (total - kept)) + (addend - kept)
    return total + error


def fused32(x: np.ndarray, factor: float, addend: float) -> np.ndarray:
    """x * factor + addend, rounded once to float32: computed in double, where the product of two float32 numbers is
    exact.

    Args:
        x: float32 or float64 holding float32 numbers.
        factor, addend: rounded to float32 first.
    """
    factor, addend = float(np.float32(factor)), float(np.float32(addend))
    if factor == 1 and addend == 0:
        return x.astype(np.float32, copy=False)
    wide = x.astype(np.float64)
    wide *= factor
    wide += addend
    return wide.astype(np.float32)
