"""Draws from given weights and rates, equal to PyTorch's for a seed."""

from __future__ import annotations

import math

import numpy as np

from .._common.errors import type_name
from .._common.layout import new_like
from .distributions import fill_exponential
from .streams import DIGITS, Stream


def draw_multinomial(stream: Stream, weights: np.ndarray, count: int, replacement: bool = False) -> np.ndarray:
    """Draw `count` indices from each row of weights.

    Without replacement, and for a single draw, the weights are divided by exponential numbers and the largest quotients
    win (Efraimidis and Spirakis 2006), of equal ones the lower index (in float16 and bfloat16, PyTorch's choice depends
    on its partial sort). With replacement a uniform number is looked up in the cumulative distribution. Returns int64
    (count,) or (rows, count). Raises RuntimeError for another dtype or rank, count < 1, more draws than categories
    without replacement, a negative or non-finite weight, a row whose sum is not positive.

    Args:
        weights: floating, (categories,) or (rows, categories), each row of positive sum.
    """
    _check_multinomial(weights, count, replacement)
    rows = weights.reshape(-1, weights.shape[-1])
    if rows.size == 0 and rows.shape[0] == 0:
        indices = np.empty((0, count), np.int64)
    elif not replacement or count == 1:
        indices = _race(stream, rows, count)
    else:
        indices = _look_up(stream, rows, count)
    return indices.reshape(*weights.shape[:-1], count)


def _check_multinomial(weights, count, replacement):
    if weights.dtype.name not in DIGITS:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {type_name(weights.dtype)}"
        )
    if weights.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if count <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if weights.shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    if not replacement and count > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")


def _race(stream, rows, count):
    """Return the indices of the `count` largest weight / exponential quotients of each row, the largest first."""
    if not ((rows >= 0) & (rows < np.inf)).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if rows.shape[1] == 0 or (rows.sum(axis=1) == 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = rows / fill_exponential(stream, new_like(rows))
    if count == 1:
        return quotients.argmax(axis=1).reshape(-1, 1)
    return np.argsort(-quotients, axis=1, kind="stable")[:, :count].copy()


def _look_up(stream, rows, count):
    """Return, for each row, the first positions whose cumulated probability reaches `count` uniform numbers."""
    if not (rows >= 0).all():
        raise RuntimeError("invalid multinomial distribution (encountering probability entry < 0)")
    if not np.isfinite(rows).all():
        raise RuntimeError("invalid multinomial distribution (encountering probability entry = infinity or NaN)")
    wide = rows.astype(np.float32 if rows.dtype != np.float64 else np.float64, copy=False)
    total = np.cumsum(wide, axis=1)
    if rows.shape[1] == 0 or not (total[:, -1] > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    total /= total[:, -1:].copy()
    total[:, -1] = 1
    with stream.lock:
        uniforms = stream.uniform53(rows.shape[0] * count).reshape(-1, count)
    return np.stack([np.searchsorted(steps, row) for steps, row in zip(total, uniforms, strict=True)])


def draw_poisson(stream: Stream, rates: np.ndarray) -> np.ndarray:
    """Return a Poisson number for every rate, in the order of the elements: `torch.poisson`.

    Rates below 10 multiply uniforms until the product is below exp(-rate) (Knuth 1969); larger ones use transformed
    rejection with squeeze, PTRS (Hoermann 1993). The number of draws varies between elements, so this is a Python loop,
    at about a microsecond per draw. Returns a new array of the shape and dtype of `rates`. Raises RuntimeError for a
    negative or NaN rate, NotImplementedError for another dtype.

    Args:
        rates: floating, >= 0.
    """
    if rates.dtype.name not in DIGITS:
        raise NotImplementedError(f"\"poisson_cpu\" not implemented for '{type_name(rates.dtype)}'")
    values = []
    with stream.lock:
        uniforms = Uniforms(stream)
        try:
            for rate in rates.astype(np.float64).ravel().tolist():
                if not rate >= 0:
                    raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
                values.append(_rejected(uniforms, rate) if rate >= 10 else _multiplied(uniforms, rate))
        finally:
            uniforms.give_back()
    return np.array(values, np.float64).reshape(rates.shape).astype(rates.dtype)


class Uniforms:
    """Uniform doubles in [0, 1), drawn from the stream in growing batches and handed out one at a time.

    Attributes:
        used: how many numbers of the current batch have been handed out.
    """

    __slots__ = ("_stream", "_mark", "_batch", "used")

    def __init__(self, stream: Stream):
        self._stream = stream
        self._mark = None
        self._batch: list[float] | memoryview = []
        self.used = 0

    def next(self) -> float:
        used = self.used
        if used == len(self._batch):
            self._mark = self._stream.mark()
            self._batch = self._stream.uniform53(min(4096, 4 * used + 16)).tolist()
            used = 0
        self.used = used + 1
        return self._batch[used]

    def batch(self, count: int) -> np.ndarray:
        """Return the next `count` numbers, a batch of which none has been handed out."""
        self.give_back()
        self._mark, self.used = self._stream.mark(), 0
        numbers = self._stream.uniform53(count)
        self._batch = numbers.data
        return numbers

    def give_back(self) -> None:
        """Rewind the stream to the state in which only the numbers handed out have been drawn."""
        if self._mark is not None:
            self._stream.rewind(self._mark)
            self._stream.words64(self.used)


def _multiplied(uniforms: Uniforms, rate: float) -> int:
    """Return a Poisson number of a small rate: how many uniforms are multiplied until the product is exp(-rate)."""
    if rate == 0:
        return 0
    limit, product, number = math.exp(-rate), uniforms.next(), 0
    while product > limit:
        product *= uniforms.next()
        number += 1
    return number


def _rejected(uniforms: Uniforms, rate: float) -> float:
    """Return a Poisson number of a large rate by PTRS, with the paper's constants."""
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    log_inverse_alpha = math.log(1.1239 + 1.1328 / (b - 3.4))
    squeeze = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = uniforms.next() - 0.5
        v = uniforms.next()
        margin = 0.5 - abs(u)
        if margin == 0:
            continue  # k would be minus infinity
        k = math.floor((2 * a / margin + b) * u + rate + 0.43)
        if margin >= 0.07 and v <= squeeze:
            return k
        if k < 0 or (margin < 0.013 and v > margin):
            continue
        log_v = math.log(v) if v else -math.inf
        if log_v + log_inverse_alpha - math.log(a / (margin * margin) + b) <= k * log_rate - rate - math.lgamma(k + 1):
            return k


def draw_binomial(stream: Stream, counts: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return the number of successes for every pair of elements, in their order: `torch.binomial`.

    A mean of less than 10 adds geometric numbers, the trials up to each success; a larger one uses transformed
    rejection with squeeze, BTRS (Hoermann 1993). Above a probability of 1/2, failures are counted.

    Args:
        counts: floating, numbers of trials.
        probabilities: of the same dtype, in [0, 1]; broadcasts with `counts`.

    Raises:
        ValueError: for a dtype that is not floating.
        NotImplementedError: for float16 and bfloat16.
        RuntimeError: if the dtypes differ.
    """
    for array, name in ((counts, "count"), (probabilities, "prob")):
        if array.dtype.name not in DIGITS:
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {type_name(array.dtype)}")
    if counts.dtype.itemsize == 2:
        raise NotImplementedError(f"\"binomial_cpu\" not implemented for '{type_name(counts.dtype)}'")
    if counts.dtype != probabilities.dtype:
        raise RuntimeError(f"Found dtype {type_name(probabilities.dtype)} but expected {type_name(counts.dtype)}")
    pairs = np.broadcast_arrays(counts.astype(np.float64), probabilities.astype(np.float64))
    values = []
    with stream.lock:
        uniforms = Uniforms(stream)
        try:
            for count, probability in zip(pairs[0].ravel().tolist(), pairs[1].ravel().tolist(), strict=True):
                values.append(_successes(uniforms, count, probability))
        finally:
            uniforms.give_back()
    return np.array(values, np.float64).reshape(pairs[0].shape).astype(counts.dtype)


def _successes(uniforms, count, probability):
    if count <= 0 or probability <= 0:
        return 0.0
    if probability >= 1:
        return count
    if probability > 0.5:
        return count - _successes(uniforms, count, 1 - probability)
    if probability != probability:
        return math.nan
    if count * probability < 10:
        return _counted(uniforms, count, probability)
    return _transformed(uniforms, count, probability)


def _counted(uniforms, count, probability):
    """Return a binomial number of a small mean: how many geometric numbers fit into `count`."""
    scale, trials, successes = math.log1p(-probability), 0.0, 0
    while True:
        u = uniforms.next()
        trials += math.ceil(math.log(u) / scale) if u else math.inf
        if trials > count:
            return successes
        successes += 1


def _transformed(uniforms, count, probability):
    """Return a binomial number of a large mean by BTRS, with the paper's constants."""
    deviation = math.sqrt(count * probability * (1 - probability))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * probability
    center = count * probability + 0.5
    squeeze = 0.92 - 4.2 / b
    odds = probability / (1 - probability)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = math.floor((count + 1) * probability)
    while True:
        u = uniforms.next() - 0.5
        v = uniforms.next()
        margin = 0.5 - abs(u)
        if margin == 0:
            continue  # k would be infinite
        k = math.floor((2 * a / margin + b) * u + center)
        if margin >= 0.07 and v <= squeeze:
            return k
        if k < 0 or k > count:
            continue
        log_v = math.log(v * alpha / (a / (margin * margin) + b)) if v else -math.inf
        bound = (
            (mode + 0.5) * math.log((mode + 1) / (odds * (count - mode + 1)))
            + (count + 1) * math.log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
            + (_stirling_error(mode) + _stirling_error(count - mode))
            - (_stirling_error(k) + _stirling_error(count - k))
        )
        if log_v <= bound:
            return k


def _stirling_error(k):
    """Return log(k!) minus Stirling's approximation of it: (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2."""
    return math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))
