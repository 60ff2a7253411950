"""Gamma and Dirichlet numbers, equal to PyTorch's for a seed, and their derivatives with respect to the parameters.

The derivatives are implicit: a draw x of the cumulative distribution F(x; a) keeps its probability, so that
dx/da = -(dF/da) / (dF/dx). Neither has a closed form; series, saddle point expansions and fitted rational functions
approximate them. Regions, orders and coefficients are PyTorch's (Jankowiak and Obermeyer 2018), so that values agree.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._common.errors import size_mismatch, type_name
from .sampling import Uniforms
from .streams import Stream

_THIRD, _SQUEEZE = float(np.float32(1) / np.float32(3)), float(np.float32(0.0331))


def _require(array: np.ndarray, operation: str) -> None:
    if array.dtype not in (np.float32, np.float64):
        raise NotImplementedError(f"\"{operation}\" not implemented for '{type_name(array.dtype)}'")


def draw_gamma(stream: Stream, concentrations: np.ndarray) -> np.ndarray:
    """Return a gamma number of rate 1 for every concentration, in the order of the elements, none below the smallest
    normal number of the dtype.

    Note [Gamma numbers in runs]. A Python loop, at a few microseconds per element, if some concentrations are below 1
    and others are not.

    Args:
        concentrations: float32 or float64; raises NotImplementedError for another dtype.
    """
    _require(concentrations, "gamma_cpu")
    values = _gammas(stream, concentrations)
    with np.errstate(over="ignore", under="ignore"):
        # fmax, since a concentration that is negative or NaN gives the smallest number, too.
        return np.fmax(values.astype(concentrations.dtype), np.finfo(concentrations.dtype).tiny)


def draw_dirichlet(stream: Stream, concentrations: np.ndarray) -> np.ndarray:
    """Return points of the simplex: gamma numbers divided by their sum over the last axis, kept inside of (0, 1).

    Args:
        concentrations: float32 or float64 (..., K); raises NotImplementedError for another dtype.
    """
    _require(concentrations, "dirichlet")
    wide = _gammas(stream, concentrations.astype(np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        values = (wide / np.add.reduce(wide, -1, keepdims=True)).astype(concentrations.dtype)
    one = concentrations.dtype.type(1)
    return np.fmin(np.nextafter(one, 0 * one), np.fmax(np.finfo(concentrations.dtype).tiny, values))


class _Shapes(NamedTuple):
    """What a draw needs to know of concentrations, none of them 0: all are flat, in float64.

    Note [Gamma numbers in runs]
    A draw takes two uniforms for a pair of normal numbers every other time, and one more to accept or reject; and one
    before that if the concentration is below 1 (it is boosted by 1, and the draw multiplied by a power of a uniform).
    As long as nothing is rejected, two elements take four uniforms, or six if both are boosted, and each at a known
    place. So where all elements are boosted, or none is, the pairs that start at each place of a batch of uniforms are
    judged at once, and runs of accepted ones are computed at once. The elements between runs are drawn one by one.
    """

    boosted: np.ndarray
    powers: np.ndarray  # of the uniform
    offsets: np.ndarray  # concentration - 1/3, boosted

    @property
    def are_alike(self) -> bool:
        return bool(self.boosted.all() or not self.boosted.any())


_BATCH = 1 << 14  # uniforms whose pairs are judged at once
_MANY = 64  # elements that are worth it
_MARGIN = np.float32(1e-3)  # more than the error of a judgment in float32


def _gammas(stream: Stream, concentrations: np.ndarray) -> np.ndarray:
    """Draw gamma numbers in float64, in the shape of the concentrations."""
    number = concentrations.dtype.type
    values = np.zeros(concentrations.size)
    drawn = concentrations.reshape(-1) != 0
    given = concentrations.reshape(-1)[drawn]
    boosted = given < 1
    # In the dtype of the concentrations, as PyTorch computes them.
    with np.errstate(all="ignore"):
        powers = np.where(boosted, number(1) / given, number(1)).astype(np.float64)
        offsets = (np.where(boosted, given + number(1), given) - number(_THIRD)).astype(np.float64)
    shapes = _Shapes(boosted, powers, offsets)
    found = np.empty(given.size)
    with stream.lock:
        uniforms = Uniforms(stream)
        try:
            if given.size >= _MANY and shapes.are_alike:
                done = 0
                while done < given.size:
                    done = _draw_batch(stream, uniforms, shapes, found, done)
            else:
                for i, shape in enumerate(zip(*[x.tolist() for x in shapes], strict=True)):
                    found[i] = _draw_one(stream, uniforms, *shape)
        finally:
            uniforms.give_back()
    values[drawn] = found
    return values.reshape(concentrations.shape)


def _draw_one(stream, uniforms, boost, power, d):
    scale = (1 - uniforms.next()) ** power if boost else 1.0
    return _accepted(stream, uniforms, d, scale)


def _draw_batch(stream, uniforms, shapes, found, start):
    """Draw elements from `start` on with one batch of uniforms, and return how many are done."""
    size, extra = len(found), int(shapes.boosted[0])
    period = 4 + 2 * extra
    count = min(_BATCH, period * (size - start) // 2 + 8 * period)
    numbers = uniforms.batch(count)
    runs = memoryview(_accepted_runs(numbers, shapes, period))
    powers, offsets = memoryview(shapes.powers), memoryview(shapes.offsets)
    in_runs, places = np.zeros(size, np.bool_), np.zeros(count, np.bool_)
    done, at = start, 0
    while done < size and at + 2 * period <= count:
        if stream.cached_normal is None and (run := min(runs[at], (size - done) // 2)):
            uniforms.used = after = at + run * period
            places[at + extra : after : period] = True
            in_runs[done : done + 2 * run] = True
            done += 2 * run
        else:
            found[done] = _draw_one(stream, uniforms, extra, powers[done], offsets[done])
            done += 1
            if uniforms.used <= at:
                break  # another batch has been drawn
        at = uniforms.used
    _compute(numbers, np.flatnonzero(places), np.flatnonzero(in_runs), shapes, found)
    return done


@np.errstate(all="ignore")
def _accepted_runs(numbers, shapes, period):
    """Return for each place of a batch how many pairs of elements that start there are accepted one after the other,
    int64. Computed in float32: what is within `_MARGIN` of a bound counts as rejected."""
    extra, d = int(shapes.boosted[0]), shapes.offsets
    largest = np.float32(np.fmax.reduce(np.where(d > 0, 1 / np.sqrt(9 * d), np.nan)))
    alike = np.float32(d[0]) if (d == d[0]).all() else None
    last = len(numbers) - period + 1  # starts of whole pairs
    rest = (1 - numbers).astype(np.float32)
    angles = np.float32(2 * math.pi) * rest[extra : extra + last]  # of 1 - u
    radii = np.sqrt(-2 * np.log(rest[extra + 1 : extra + 1 + last]))
    runs = np.zeros((len(numbers) // period + 2, period), np.bool_)
    accepted = runs.reshape(-1)[:last]
    accepted[...] = True
    for x, judge in ((np.cos(angles), extra + 2), (-np.sin(angles), 2 * extra + 3)):
        x *= radii
        u, xx = rest[judge : judge + last], x * x
        y = 1 + largest * x
        enough = u < 1 - _MARGIN - _SQUEEZE * xx * xx
        if alike is not None:
            v = y * y * y
            enough |= np.log(u) < 0.5 * xx + alike * (1 - v + np.log(v)) - _MARGIN * (1 + alike)
        accepted &= enough & ~(y <= _MARGIN)
    rows = np.arange(len(runs))[:, None]
    stops = np.minimum.accumulate(np.where(runs, len(runs), rows)[::-1], 0)[::-1]
    return np.ascontiguousarray(stops - rows).reshape(-1)


def _compute(numbers, places, elements, shapes, found):
    """Compute the elements of runs, pairs whose angles are at `places`, by libm, which rounds as PyTorch's numbers."""
    extra = int(shapes.boosted[0])
    angles = 2 * math.pi * numbers[places]
    normals = np.stack([_by_libm(math.cos, angles), _by_libm(math.sin, angles)], 1)
    normals *= np.sqrt(-2 * _by_libm(math.log1p, -numbers[places + 1]))[:, None]
    d = shapes.offsets[elements]
    with np.errstate(all="ignore"):
        y = 1 + np.where(d > 0, 1 / np.sqrt(9 * d), np.nan) * normals.reshape(-1)
        if extra:
            bases = 1 - numbers[np.stack([places - 1, places + 3], 1).reshape(-1)]
            d = d * _by_libm(math.pow, bases, shapes.powers[elements])
        found[elements] = d * (y * y * y)


def _by_libm(function, *arrays):
    return np.fromiter(map(function, *map(memoryview, arrays)), np.float64, len(arrays[0]))


def _accepted(stream: Stream, uniforms: Uniforms, d: float, scale: float) -> float:
    """Return `scale` times a gamma number of concentration d + 1/3 >= 1 by the method of Marsaglia and Tsang (2000).

    A `d` that is not positive gives NaN.
    """
    c = 1 / math.sqrt(9 * d) if d > 0 else math.nan
    while True:
        x = _next_normal(stream, uniforms)
        y = 1 + c * x
        if y <= 0:
            continue
        v = y * y * y
        u = 1 - uniforms.next()
        xx = x * x
        # Comparisons with NaN are false, and only the first accepts it.
        if u < 1 - _SQUEEZE * xx * xx or math.log(u) < 0.5 * xx + d * (1 - v + math.log(v)):
            return scale * d * v


def _next_normal(stream: Stream, uniforms: Uniforms) -> float:
    """Draw one standard normal number: the cached one, or the first of a new pair, the second of which is cached."""
    cached = stream.cached_normal
    if cached is not None:
        stream.cached_normal = None
        return cached
    angle = 2 * math.pi * uniforms.next()
    radius = math.sqrt(-2 * math.log1p(-uniforms.next()))
    stream.cached_normal = radius * math.sin(angle)
    return radius * math.cos(angle)


def _same_type(operation: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return arrays broadcast to one shape, in float64. Raises an error if their dtypes or shapes do not fit."""
    _require(arrays[0], operation)
    for array in arrays[1:]:
        if array.dtype != arrays[0].dtype:
            raise RuntimeError(f"Found dtype {type_name(array.dtype)} but expected {type_name(arrays[0].dtype)}")
    if text := size_mismatch([array.shape for array in arrays]):
        raise RuntimeError(text)
    return [np.array(array, np.float64) for array in np.broadcast_arrays(*arrays)]


def _by_region(regions, *arrays: np.ndarray) -> np.ndarray:
    """Apply to each element the function of the first region that has it; regions are pairs (mask, function)."""
    result = np.zeros(arrays[0].shape)
    left = np.ones(arrays[0].shape, np.bool_)
    with np.errstate(all="ignore"):
        for mask, function in regions:
            here = left & mask
            if here.any():
                result[here] = function(*[array[here] for array in arrays])
            left &= ~here
    return result


def gamma_gradient(concentration: np.ndarray, draw: np.ndarray) -> np.ndarray:
    """Return the derivative of gamma draws of rate 1 with respect to their concentration.

    Args:
        concentration, draw: float32 or float64, both the same, of shapes that broadcast.
    """
    alpha, x = _same_type("_standard_gamma_grad_cpu", concentration, draw)
    with np.errstate(invalid="ignore"):
        large = alpha > 8
        regions = (
            (x < np.float32(0.8), _gamma_series),
            (large & (np.float32(0.9) * alpha <= x) & (x <= np.float32(1.1) * alpha), _gamma_at_mean),
            (large, _gamma_saddle),
            (True, _gamma_rational),
        )
    return _by_region(regions, alpha, x).astype(concentration.dtype)


def _gamma_series(alpha, x):
    """The power series of the incomplete gamma function about x = 0, up to x^5."""
    from scipy.special import psi

    term, first, second = np.ones_like(x), 1 / alpha, 1 / (alpha * alpha)
    for i in range(1, 6):
        term *= -x / i
        first += term / (alpha + i)
        second += term / (alpha + i) ** 2
    result = x * np.exp(x) * (second - (np.log(x) - psi(alpha)) * first)
    # Where the density is 0 or overflows, so does the quotient.
    density = np.power(x, alpha - 1) * np.exp(-x)
    return np.where((density == 0) | ~np.isfinite(density) | np.isnan(result), 0.0, result)


def _gamma_at_mean(alpha, x):
    """The saddle point expansion next to the mean, where its terms cancel: a polynomial."""
    first = 1 + 24 * alpha * (1 + 12 * alpha)
    second = 1440 * alpha**2 + 6 * x * (53 - 120 * x) - 65 * x**2 / alpha + alpha * (107 + 3600 * x)
    return first * second / (1244160 * alpha**4)


def _gamma_saddle(alpha, x):
    """The saddle point expansion for a large concentration."""
    away, ratio, root = x - alpha, np.log(x / alpha), np.sqrt(8 * alpha)
    tail = np.sign(away) * np.power(away - alpha * ratio, -1.5)
    inner = ratio * (tail - root / away) - np.sqrt(2 / alpha) * (alpha + x) / away**2
    stirling = 1 + (1 + 1 / (24 * alpha)) / (12 * alpha)
    return -stirling * x * inner / root


# Numerator and denominator: coefficients by the powers of log(x / alpha) and of log(alpha).
_GAMMA = np.array(
    [
        [
            [0.16009398, -0.094634809, 0.025146376, -0.0030648343],
            [0.53487893, 0.1298071, 0.065735949, -0.0015649758],
            [0.040121004, -0.0065914022, -0.0026286047, -0.0013441777],
        ],
        [
            [1.0, 0.32668115, 0.10406089, 0.0014179084],
            [0.16639465, 0.020070113, -0.0035938915, -0.00058392623],
            [0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-07],
        ],
    ]
)


def _gamma_rational(alpha, x):
    """The exponential of a fitted rational function."""
    from numpy.polynomial.polynomial import polyval2d

    above, below = [polyval2d(np.log(x / alpha), np.log(alpha), one) for one in _GAMMA]
    return np.exp(above / below)


def beta_gradient(draw: np.ndarray, concentration: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return the derivative of beta draws x with respect to the concentration on the side of 1, over 1 - x, for a given
    other concentration: what the derivative of a Dirichlet draw is made of.

    Args:
        draw, concentration, total: x, the concentration, and the sum of both; float32 or float64, all the same, of
            shapes that broadcast.
    """
    x, alpha, total = _same_type("_dirichlet_grad_cpu", draw, concentration, total)
    beta = total - alpha
    with np.errstate(invalid="ignore"):
        edge = total * x * (1 - x)
        regions = (
            ((x <= 0.5) & (edge < 2.5), _beta_near_zero),
            ((x >= 0.5) & (edge < 0.75), _beta_near_one),
            ((alpha > 6) & (beta > 6), _beta_saddle),
            (True, _beta_rational),
        )
    return _by_region(regions, x, alpha, beta).astype(draw.dtype)


def _beta_near_zero(x, alpha, beta):
    """The series of the incomplete beta function about x = 0, up to x^10."""
    from scipy.special import psi

    slope = psi(alpha) - psi(alpha + beta) - np.log(x)
    term, series = np.ones_like(x), (slope + 1 / alpha) / alpha
    for i in range(1, 11):
        term *= (i - beta) * x / i
        series += term * (slope + 1 / (alpha + i)) / (alpha + i)
    return np.nan_to_num(x * np.power(1 - x, -beta) * series, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _beta_near_one(x, alpha, beta):
    """The same about x = 1, up to (1 - x)^8: the roles of x and 1 - x, and of the concentrations, are exchanged."""
    from scipy.special import psi

    y = 1 - x
    slope = psi(alpha + beta) - psi(alpha)
    # product is (alpha - 1) ... (alpha - i), which the binomial series has; d_product its derivative
    term, product, d_product = np.ones_like(x), np.ones_like(x), np.zeros_like(x)
    series = slope / beta
    for i in range(1, 9):
        term *= -y / i
        d_product = d_product * (alpha - i) + product
        product = product * (alpha - i)
        series += term / (beta + i) * (d_product + slope * product)
    return np.nan_to_num(np.power(1 - y, 1 - alpha) * series, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _stirling(a):
    return 1 + 1 / (12 * a) + 1 / (288 * a * a)


def _beta_saddle(x, alpha, beta):
    """The saddle point expansion for two large concentrations, and next to the mean a polynomial in its place."""
    total = alpha + beta
    mean, deviation = alpha / total, np.sqrt(alpha * beta / (total + 1)) / total
    central = (mean - 0.1 * deviation <= x) & (x <= mean + 0.1 * deviation)
    return np.where(central, _beta_at_mean(x, alpha, beta, total), _beta_away(x, alpha, beta, total, mean))


def _beta_at_mean(x, alpha, beta, total):
    orders = (
        47 * x * beta**4,
        (43 + 20 * (16 + 27 * beta) * x) * beta**3,
        3 * (59 + 180 * beta - 90 * x) * beta**2,
        (453 + 1620 * beta * (1 - x) - 455 * x) * beta,
        8 * (1 - x) * (135 * beta - 11),
    )
    polynomial = sum(order * alpha**power for power, order in enumerate(orders))
    scale = (1 + 12 * alpha) * (1 + 12 * beta) / (12960 * total**2 * alpha**3 * beta**2 * (1 + 12 * total))
    return scale * polynomial / (1 - x)


def _beta_away(x, alpha, beta, total, mean):
    away = beta * x - alpha * (1 - x)
    log_side, log_other = np.log(alpha / (total * x)), np.log(beta / (total * (1 - x)))
    inner = -2 * alpha**2 * (1 - x) - alpha * beta * (1 - x) - x * beta**2
    inner = inner / (np.sqrt(2 * alpha / beta) * total**1.5 * away**2)
    tail = np.where(x < mean, 1, -1) * np.power(beta * log_other + alpha * log_side, -1.5)
    inner = inner + 0.5 * log_side * (np.sqrt(8 * alpha * beta / total) / away + tail)
    correction = _stirling(alpha) * _stirling(beta) / _stirling(total)
    return -correction * x / np.sqrt(2 * alpha * beta / total) * inner


# Numerator and denominator: coefficients by the powers of log x, of log(alpha / x) and of log(total x / alpha).
_BETA = np.array(
    [
        [
            [
                [1.003668233, -0.01061107488, -0.0657888334, 0.01201642863],
                [0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033],
                [-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013],
            ],
            [
                [0.221950385, -0.3187676331, 0.01799915743, 0.01074823814],
                [-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057],
                [0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05],
            ],
            [
                [-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565],
                [0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181],
                [0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05],
            ],
        ],
        [
            [
                [1.0, -0.02924021934, -0.04438342661, 0.007285809825],
                [0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521],
                [-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149],
            ],
            [
                [0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273],
                [0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956],
                [-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05],
            ],
            [
                [0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05],
                [0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05],
                [-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06],
            ],
        ],
    ]
)


def _beta_rational(x, alpha, beta):
    """A fitted rational function times a first approximation."""
    from numpy.polynomial.polynomial import polyval3d
    from scipy.special import psi

    u, total = np.log(x), alpha + beta
    a = np.log(alpha) - u
    b = np.log(total) - a
    above, below = [polyval3d(u, a, b, one) for one in _BETA]
    return above / below * x * (psi(total) - psi(alpha)) / beta
