"""Uniform, normal and Bernoulli numbers, and distributions derived from them, equal to PyTorch's for a seed.

Functions take a `Stream` and hold its lock while they draw. `fill_*` fill an array `out` of any strides in memory order
and return it; `draw_*` return a new C-contiguous one.

Note [Precision]
Uniform numbers come from the low bits of a draw: 24 of a 32-bit word for float32, float16 and bfloat16, 53 of a 64-bit
draw for float64. All other continuous distributions are evaluated in double from a 53-bit uniform and then rounded to
the array's dtype, except normal numbers in contiguous arrays of 16 elements and more, which are Box-Muller transforms
in float32 (float64 for float64) of groups of 16: see normal.py. Results equal those of PyTorch 2.13 for x86 with AVX2
bit by bit where both use the same C library (glibc); elsewhere the last bit of float64 results may differ.
"""

from __future__ import annotations

import math

import numpy as np

from ...types.dtype import c_name
from .._common.errors import size_mismatch, type_name
from .._common.fused import fused32, fused64
from .._common.layout import new_like
from .normal import box_muller, by_libm, serial_normals
from .streams import BLOCK, DIGITS, HALF, LARGEST, Stream, fill, memory_axes, name_of, narrowed, real_parts, require

_MASK53 = np.array((1 << 53) - 1, np.uint64)


def fill_uniform(stream: Stream, out: np.ndarray, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Fill with numbers uniform in [low, high). See Note [Precision]. `out` is floating, or complex: real and imaginary
    parts are then drawn in turn. Raises NotImplementedError for an integer or bool array; RuntimeError if low > high, a
    bound is not finite in the dtype, or their difference overflows it."""
    if type(out) is not np.ndarray:
        return out.filled_by(lambda values: fill_uniform(stream, values, low, high))
    target = real_parts(out)
    require(target, "check_uniform_bounds", "f", even_if_empty=True)
    name = name_of(target.dtype)
    if low != 0 or high != 1:
        _check_uniform(target.dtype, low, high)
    if name == "float64":

        def draw(n):
            return fused64(stream.uniform53(n), high - low, low)
    elif low == 0 and high == 1:
        draw = stream.uniform24
    else:
        single_low, span = np.float32(low), np.float32(high) - np.float32(low)

        def draw(n):
            return fused32(stream.uniform24(n), span, single_low)

    if low != 0 or high != 1 or name in HALF:
        draw = _below(draw, target.dtype, low, high)
    with stream.lock:
        fill(target, draw)
    return out


def _below(draw, dtype, low, high):
    """Replace numbers that rounding to `dtype` would raise to `high` by `low`."""
    low, high = np.array([low, high]).astype(dtype)
    half = dtype.char in "eE"
    if half:
        low, high = np.float32(low), _first_rounded_to(high)

    def bounded(n):
        values = draw(n)
        at_limit = values >= high if half else values == high
        if at_limit.any():
            values[at_limit] = low
        return values

    return bounded


def _first_rounded_to(value) -> np.float32:
    """Return the smallest float32 that the half type of `value` rounds to `value`."""
    below = np.nextafter(value, value.dtype.type(-np.inf))
    middle = np.float32((float(below) + float(value)) / 2)
    return middle if middle.astype(value.dtype) == value else np.nextafter(middle, np.float32(np.inf))


def _check_uniform(dtype: np.dtype, low: float, high: float) -> None:
    largest = LARGEST[name_of(dtype)]
    for bound, text in ((low, "from"), (high, "to")):
        if not -largest <= bound <= largest:
            raise RuntimeError(f"{text} is out of bounds for {c_name(dtype)}")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    if high - low > largest:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{type_name(dtype)}>::max(), but found "
            f"to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )


def draw_uniform(
    stream: Stream, shape: tuple[int, ...], dtype: np.dtype, low: float = 0.0, high: float = 1.0
) -> np.ndarray:
    """Draw a new array of numbers uniform in [low, high): `torch.rand`. See `fill_uniform`."""
    if dtype.char == "f" and low == 0 and high == 1:
        out = np.empty(shape, dtype)
        if 0 < out.size <= BLOCK:
            with stream.lock:
                return stream.uniform24(out.size, out)
    return fill_uniform(stream, np.empty(shape, dtype), low, high)


def _fill_groups(stream: Stream, flat: np.ndarray, mean: float, std: float) -> None:
    """Fill a contiguous array of 16 elements or more by transforms of groups of 16. If an incomplete group remains, the
    last 16 elements are drawn again; except for half dtypes, the words of the incomplete group are skipped."""
    name = name_of(flat.dtype)
    uniforms = stream.uniform53 if name == "float64" else stream.uniform24
    rest = flat.size % 16
    whole = flat[: flat.size - rest]

    def normals(n):
        values = uniforms(n)
        box_muller(values, mean, std)
        return values

    if rest and flat.size <= BLOCK and name not in HALF:  # all groups in one transform
        values = uniforms(whole.size + rest + 16)
        groups = np.concatenate((values[: whole.size], values[-16:]))
        box_muller(groups, mean, std)
        whole[...], flat[-16:] = groups[: whole.size], groups[-16:]
        return
    if name in HALF:
        fill(whole, normals)
    else:
        fill(whole, uniforms)
        box_muller(whole, mean, std)
    if rest:
        if name not in HALF:
            uniforms(rest)
        fill(flat[-16:], normals)


def fill_normal(stream: Stream, out: np.ndarray, mean: float = 0.0, std: float = 1.0) -> np.ndarray:
    """Fill with normal numbers. See Note [Precision]. `out` is floating, or complex: real and imaginary parts then each
    get half of the variance."""
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if type(out) is not np.ndarray:
        return out.filled_by(lambda values: fill_normal(stream, values, mean, std))
    target = real_parts(out)
    if target is not out:
        std = std / math.sqrt(2.0)
    require(target, "normal_kernel_cpu", "f")
    with stream.lock:
        if target.size >= 16 and target.flags.c_contiguous:
            _fill_groups(stream, target.reshape(-1), mean, std)
        else:
            exact = target.dtype == np.float64
            fill(target, lambda n: fused64(serial_normals(stream, n, exact), std, mean))
    return out


def draw_normal(
    stream: Stream, shape: tuple[int, ...], dtype: np.dtype, mean: float = 0.0, std: float = 1.0
) -> np.ndarray:
    """Draw a new array of normal numbers: `torch.randn`, and `torch.normal(mean, std, size)`. See `fill_normal`."""
    return fill_normal(stream, np.empty(shape, dtype), mean, std)


def draw_normal_each(stream: Stream, mean: np.ndarray | float, std: np.ndarray | float) -> np.ndarray:
    """Draw normal numbers with a mean or a standard deviation (or both) per element: `torch.normal`.

    Args:
        mean, std: arrays that broadcast against each other, or one of them a number.

    Returns:
        A new array of the broadcast shape and the dtype of `mean` where that is an array, else of `std`.
    """
    if isinstance(std, np.ndarray):
        if std.dtype.kind == "c":
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if std.size and not (std >= 0).all():
            raise RuntimeError("normal expects all elements of std >= 0.0")
    if not isinstance(std, np.ndarray):
        values = draw_normal(stream, mean.shape, mean.dtype, 0.0, std)
        values += mean
        return values
    leading = mean if isinstance(mean, np.ndarray) else std
    shapes = np.shape(mean), std.shape
    if text := size_mismatch(shapes):
        raise RuntimeError(text)
    values = draw_normal(stream, np.broadcast_shapes(*shapes), leading.dtype)
    wider = std if name_of(std.dtype) in DIGITS else std.astype(values.dtype)
    values = narrowed(values * wider, values.dtype).astype(values.dtype, copy=False)
    values += np.asarray(mean, values.dtype)
    return values


def fill_bernoulli(stream: Stream, out: np.ndarray, p: float | np.ndarray = 0.5) -> np.ndarray:
    """Fill with 1 where a uniform number is below `p` and 0 elsewhere.

    Args:
        out: any real dtype, or bool.
        p: a number, which is compared with 53-bit uniforms; or a floating array that broadcasts to `out`, whose
            elements are compared with 24-bit uniforms, with 53-bit ones if it is float64.
    """
    if isinstance(p, np.ndarray):
        return _bernoulli_each(stream, out, p)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    require(out, "bernoulli_scalar_cpu_", "fib")
    limit = np.array(math.ceil(p * 2.0**53), np.uint64)  # u < p, with both sides times 2**53

    def draw(n):
        draws = stream.words64(n)
        np.bitwise_and(draws, _MASK53, draws)
        return np.less(draws, limit)

    with stream.lock:
        return fill(out, draw)


def _bernoulli_each(stream: Stream, out: np.ndarray, p: np.ndarray) -> np.ndarray:
    require(out, "bernoulli_tensor_cpu_self_", "fib")
    if out.size:
        require(p, "bernoulli_tensor_cpu_p_", "f")
    if not ((p >= 0) & (p <= 1)).all():
        raise RuntimeError("bernoulli_ expects every element of p to be in [0, 1]")
    axes = memory_axes(out)
    view = out.transpose(axes)
    limits = np.broadcast_to(p, out.shape).transpose(axes)
    with stream.lock:
        if p.dtype == np.float64:
            view[...] = stream.uniform53(out.size).reshape(view.shape) < limits
        else:
            view[...] = stream.uniform24(out.size).reshape(view.shape) < limits.astype(np.float32)
    return out


def draw_bernoulli(stream: Stream, p: np.ndarray) -> np.ndarray:
    """Draw a new array of 0 and 1 of the shape and dtype of the probabilities. See `fill_bernoulli`."""
    return fill_bernoulli(stream, np.empty(p.shape, p.dtype), p)


def draw_dropout(stream: Stream, array: np.ndarray, p: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (array * mask / (1 - p), mask): dropout in training. The mask is bool, True for kept elements. For p = 1
    both are zero and nothing is drawn."""
    if p == 1:
        return new_like(array, make=np.zeros_like), new_like(array, np.bool_, make=np.zeros_like)
    mask = fill_bernoulli(stream, new_like(array, np.bool_), 1 - p)
    result = array * mask
    result *= result.dtype.type(1 / (1 - p))
    return result, mask


def rrelu_noise(stream: Stream, array: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """Draw the slopes of a randomised leaky ReLU in training (Xu et al. 2015): 1 where `array` > 0, else uniform in
    [lower, upper), drawn for these elements only, in C order. Returns a new C-contiguous array with the shape and dtype
    of `array`.

    Args:
        array: float32, float64 or bfloat16; the bounds are rounded to the compute dtype.
    """
    if name_of(array.dtype) not in ("float32", "float64", "bfloat16"):
        raise NotImplementedError(f"\"rrelu_with_noise_out_cpu\" not implemented for '{type_name(array.dtype)}'")
    bound = np.float64 if array.dtype == np.float64 else np.float32
    lower, upper = float(bound(lower)), float(bound(upper))
    leaking = array <= 0
    noise = np.ones(array.shape, array.dtype)
    with stream.lock:
        draws = stream.uniform53(int(np.count_nonzero(leaking)))
    noise[leaking] = draws * (upper - lower) + lower
    return noise


def fill_exponential(stream: Stream, out: np.ndarray, lambd: float = 1.0) -> np.ndarray:
    """Fill a floating array with exponential numbers of rate `lambd`: -log(1 - u) / lambd."""
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    name = name_of(out.dtype)
    if name not in DIGITS and out.size:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {type_name(out.dtype)}"
        )
    scale, exact = -1.0 / lambd, name == "float64"
    with stream.lock:
        return fill(out, lambda n: scale * by_libm(math.log1p, np.log1p, -stream.uniform53(n), exact))


def fill_cauchy(stream: Stream, out: np.ndarray, median: float = 0.0, sigma: float = 1.0) -> np.ndarray:
    """Fill a floating array with Cauchy numbers: median + sigma tan(pi (u - 1/2))."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    name = name_of(out.dtype)
    if name not in DIGITS:
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be a floating "
            f"point but you specified {c_name(out.dtype)}"
        )
    exact = name == "float64"

    def draw(n):
        tangents = by_libm(math.tan, np.tan, math.pi * (stream.uniform53(n) - 0.5), exact)
        return fused64(tangents, sigma, median)

    with stream.lock:
        return fill(out, draw)


def fill_geometric(stream: Stream, out: np.ndarray, p: float) -> np.ndarray:
    """Fill a floating or integer array with the number of trials up to the first success: ceil(log u / log(1 - p))."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    require(out, "geometric_cpu", "fi")
    scale = math.log1p(-p)

    def draw(n):
        uniforms = stream.uniform53(n)
        with np.errstate(divide="ignore"):
            trials = np.log(uniforms) / scale
        # The last bit of the logarithm matters only next to an integer; the C library decides there.
        near = np.flatnonzero(np.abs(trials - np.rint(trials)) < 1e-9)
        trials[near] = by_libm(math.log, np.log, uniforms[near], True) / scale
        return np.ceil(trials)

    with stream.lock:
        return fill(out, draw)


def fill_log_normal(stream: Stream, out: np.ndarray, mean: float = 1.0, std: float = 2.0) -> np.ndarray:
    """Fill a floating array with exp of normal numbers with the given mean and standard deviation."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    require(out, "log_normal_cpu", "f")
    exact = out.dtype == np.float64

    def draw(n):
        return by_libm(math.exp, np.exp, fused64(serial_normals(stream, n, exact), std, mean), exact)

    with stream.lock:
        return fill(out, draw)
