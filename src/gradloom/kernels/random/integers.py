"""Random integers and permutations, equal to PyTorch's for a seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod

import numpy as np

from ...types.dtype import c_name
from ...types.silence import warn_user
from .._common.errors import refuse_float8, type_name
from .streams import BLOCK, DIGITS, LARGEST, Stream, fill, name_of, narrowed, require

_INT64 = np.dtype(np.int64)
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_WIDE = 1 << 28  # range, from which on a number takes 64 bits, so that the remainder stays close to uniform
_LARGE_PERMUTATION = ((1 << 32) - 1) // 20  # size, from which on each step of a permutation takes 64 bits


_FEW_WORDS = 256


def _remainders(words: np.ndarray, span: int) -> np.ndarray:
    """Return words % span. NumPy's division by a scalar uses vector instructions, its remainder does not."""
    divisor = np.array(span, words.dtype)
    if words.size <= _FEW_WORDS:
        return np.remainder(words, divisor, words)
    whole = words // divisor
    words -= np.multiply(whole, divisor, whole)
    return words


def fill_integers(stream: Stream, out: np.ndarray, low: int | None = None, high: int | None = None) -> np.ndarray:
    """Fill with random integers: PyTorch's `random_`.

    Without bounds, values range over all values >= 0 of an integer dtype, or over the integers 0 ... 2**digits of a
    floating dtype (digits of its significand: 24 for float32). With `low` only, they range from `low` to the largest of
    these, and for low = -2**63 over all 64-bit integers. With both, low <= value < high. PyTorch's `random_(to)` is low
    = 0. `out` is integer, bool or floating. Raises RuntimeError for an empty range or bounds outside the dtype,
    NotImplementedError for another dtype.
    """
    if low is None:
        require(out, "random_kernel_cpu", "fib")
        if not out.size:
            return out
        if out.dtype.name in ("uint16", "uint32", "uint64"):
            raise NotImplementedError(f"\"random_kernel_cpu\" not implemented for '{type_name(out.dtype)}'")
        draw = _over_dtype(stream, out.dtype)
    elif high is None and low == _LOWEST:
        _require_full_range(out)
        draw = _over_range(stream, 1 << 64, 0)
    else:
        low, last = _checked_bounds(out.dtype, low, high)
        draw = _over_range(stream, last - low + 1, low)
    with stream.lock:
        return fill(out, draw)


def _require_full_range(out: np.ndarray) -> None:
    name = out.dtype.name
    if out.size == 0 or name in ("int64", "float64", "float32", "bfloat16"):
        return
    if name in ("int8", "int16", "int32", "uint8"):
        raise RuntimeError("random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16")
    raise NotImplementedError(f"\"random_full_64_bits_range_kernel_cpu\" not implemented for '{type_name(out.dtype)}'")


def _over_dtype(stream: Stream, dtype: np.dtype) -> Callable[[int], np.ndarray]:
    """Return the function that draws for `fill_integers` without bounds."""
    name = dtype.name
    if name == "bool":
        span = 2
    elif name in DIGITS:
        span = (1 << DIGITS[name]) + 1
    else:
        span = int(np.iinfo(dtype).max) + 1
    words = stream.words64 if name in ("float64", "int64") else stream.words32
    return lambda n: _remainders(words(n), span).astype(np.int64)


def _narrow(stream: Stream, n: int, span: int, base: int) -> np.ndarray:
    values = _remainders(stream.words(n), span)
    values = values.view(_INT64) if values.itemsize == 8 else values.astype(_INT64)
    if base:
        values += base
    return values


def _over_range(stream: Stream, span: int, base: int) -> Callable[[int], np.ndarray]:
    """Return the function that draws base + word % span, int64; with 64-bit words for wide spans."""
    if span < _WIDE:
        return lambda n: _narrow(stream, n, span, base)

    def wide(n):
        values = stream.words64(n)
        if span < 1 << 64:
            values = _remainders(values, span)
        values += np.uint64(base & ((1 << 64) - 1))  # wraps around to negative numbers
        return values.view(np.int64)

    return wide


def _checked_bounds(dtype: np.dtype, low: int, high: int | None) -> tuple[int, int]:
    """Return the first and last value of a range, moved inwards to numbers that a floating dtype can represent."""
    refuse_float8("random_update_from_to", dtype)
    if dtype.char == "l" and high is not None and _LOWEST <= low < high <= _HIGHEST:
        return low, high - 1
    if dtype.kind == "c":
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    name = name_of(dtype)
    floating = name in DIGITS
    if high is None:
        if floating:
            last = min(1 << DIGITS[name], _HIGHEST)
        else:
            last = _limits(dtype)[1]
            if last > _HIGHEST:  # uint64: PyTorch's signed bound overflows, and the range is refused below
                last = -1
        if floating:
            low = _raised(dtype, low)
            if low >= last:
                raise RuntimeError(
                    "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted "
                    f"to dtype, but got from={low} > to_inc={last}"
                )
    else:
        if low >= high:
            raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
        if floating:
            low, high = _raised(dtype, low), _lowered(dtype, high)
            if low >= high:
                raise RuntimeError(
                    "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but "
                    f"got from={low} >= to={high}"
                )
        last = high - 1
    for bound, text in ((low, "from"), (last, "to - 1")):
        _check_representable(dtype, bound, text)
    return low, last


@cache  # there are nine such dtypes, and asking NumPy takes longer than drawing a few numbers
def _limits(dtype: np.dtype) -> tuple[int, int]:
    """Return the least and the greatest value of an integer dtype or bool."""
    if dtype == np.bool_:
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _check_representable(dtype: np.dtype, bound: int, text: str) -> None:
    name = name_of(dtype)
    if name in DIGITS:
        digits = DIGITS[name]
        least, most = -LARGEST[name], LARGEST[name]
        if abs(bound) > 1 << digits and least <= bound <= most:
            warn_user(
                f"{text} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations "
                f"{c_name(dtype)} can support discrete uniform distribution only within this range."
            )
    else:
        least, most = _limits(dtype)
    if not least <= bound <= most:
        raise RuntimeError(f"{text} is out of bounds for {c_name(dtype)}")


def _as_held(dtype: np.dtype, value: int) -> int:
    """Round an integer to a floating dtype; return -2**63 if the result does not fit 64 bits (the x86 conversion)."""
    with np.errstate(over="ignore"):
        held = float(narrowed(np.array(value, np.int64), dtype).astype(dtype).astype(np.float64))
    return int(held) if _LOWEST <= held < 1 << 63 else _LOWEST


def _raised(dtype: np.dtype, low: int) -> int:
    """Return `low`, or the next number of the dtype above it if low + 1 rounds to less than low."""
    held = _as_held(dtype, low + 1)
    if held >= low:
        return low
    return held + (1 << (abs(low + 1).bit_length() - DIGITS[dtype.name]))


def _lowered(dtype: np.dtype, high: int) -> int:
    """Return `high`, or the next number of the dtype below it if high - 1 rounds to high or more."""
    held = _as_held(dtype, high - 1)
    if held < high:
        return high
    return held - (1 << (abs(high - 1).bit_length() - DIGITS[dtype.name]))


def is_narrow(low: int, high: int) -> bool:
    """Return whether the integers low ... high - 1 are in the range of int64, and each is drawn from one word."""
    return _LOWEST <= low < high <= _HIGHEST and high - low < _WIDE


def draw_integers(stream: Stream, low: int, high: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Draw a new array of integers low <= value < high: `torch.randint`. Raises as `fill_integers`."""
    if dtype.char == "l" and is_narrow(low, high) and 0 < (count := prod(shape)) <= BLOCK:
        with stream.lock:
            found = _narrow(stream, count, high - low, low)
        return found if len(shape) == 1 else found.reshape(shape)
    return fill_integers(stream, np.empty(shape, dtype), low, high)


def draw_permutation(stream: Stream, n: int, dtype: np.dtype) -> np.ndarray:
    """Return a random permutation of 0, 1, ..., n - 1 by Fisher and Yates, one draw per element: `torch.randperm`.
    Gives (n,) of `dtype`.

    Args:
        dtype: integer or floating, and able to represent n exactly. (PyTorch does not check this for bfloat16, which
            rounds large numbers.)
    """
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    name = dtype.name
    if name in DIGITS:
        if name != "bfloat16" and n > (1 << DIGITS[name]) + 1:
            limit = "2049" if name == "float16" else f"2^{DIGITS[name]}+1"
            raise RuntimeError(f"n cannot be greater than {limit} for {type_name(dtype)} type.")
    elif dtype.kind not in "iu" or name in ("uint16", "uint32", "uint64"):
        raise NotImplementedError(f"\"randperm\" not implemented for '{type_name(dtype)}'")
    elif n > np.iinfo(dtype).max:
        raise RuntimeError(f"value cannot be converted to type {name}_t without overflow")
    if n < 2:
        return np.zeros(n, dtype)
    with stream.lock:
        words = stream.words32(n - 1) if n < _LARGE_PERMUTATION else stream.words64(n - 1)
    words %= np.arange(n, 1, -1, dtype=words.dtype)
    targets = words.astype(np.int64)
    targets += np.arange(n - 1)
    return narrowed(shuffle(targets), dtype).astype(dtype, copy=False)


_FEW = 200  # size, up to which swapping elements of a list is faster


def shuffle(targets: np.ndarray) -> np.ndarray:
    """Swap elements i and targets[i] of 0, 1, ..., n - 1 for i = 0, 1, ..., n - 2 in turn.

    Args:
        targets: int64 (n - 1,), with i <= targets[i] < n.

    Returns:
        int64 (n,).

    Note [Shuffling all at once]
    Let held(i) be the content of place i when step i begins. Step i writes held(i) to its target, and the previous
    content of the target is final for place i. A place that was not a target before still holds its own number; any
    other holds held(s) for the latest step s that targeted it. So all contents follow from the last step that targeted
    each place, which sorting the steps by target finds; the chains held(i) = held(s), s < i, are then resolved by
    pointer doubling, in about log(log n) rounds.
    """
    n = targets.size + 1
    if n <= _FEW:
        numbers = list(range(n))
        for i, j in enumerate(targets.tolist()):
            numbers[i], numbers[j] = numbers[j], numbers[i]
        return np.array(numbers, np.int64)

    step = _stable_order(targets, n)
    place = targets[step]
    repeated = place[1:] == place[:-1]

    held = np.arange(n)
    before = step != place  # a step that targets its own place follows all others that target it
    latest = np.flatnonzero(before & np.append(~(repeated & before[1:]), True))
    held[place[latest]] = step[latest]
    _follow(held)

    result = np.empty(n, np.int64)
    result[step[0]] = place[0]
    result[step[1:]] = np.where(repeated, held[step[:-1]], place[1:])
    result[n - 1] = held[n - 1]
    return result


def _stable_order(values: np.ndarray, limit: int) -> np.ndarray:
    """Return the stable order that sorts values < limit: 16 bits at a time, for which NumPy has a radix sort."""
    order = np.argsort(values.astype(np.uint16), kind="stable")
    for shift in range(16, (limit - 1).bit_length(), 16):
        digits = values >> shift
        digits = digits.astype(np.uint8 if limit >> shift < 256 else np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def _follow(parent: np.ndarray) -> None:
    """Replace every entry of `parent`, a forest in which a root points to itself, by its root."""
    moving = np.flatnonzero(parent != np.arange(parent.size))
    while moving.size:
        ahead = parent[parent[moving]]
        changed = ahead != parent[moving]
        parent[moving] = ahead
        moving = moving[changed]
