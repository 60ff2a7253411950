"""Separable resampling: tables of indices and weights, one per dimension, and their application along an axis.

Every mode is linear and acts on one dimension after the other. Output o of a dimension is the sum over its taps t of
weight[t, o] * input[index[t, o]]. `forward` computes that, `adjoint` its transpose; both are products with a banded
matrix, cut into dense blocks so that the cost per element does not grow with the size. A matrix multiplies every
element of its block, where 0 * inf would be NaN: inputs with infinities and NaNs are gathered tap by tap.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np

from .._common.blas import gemm

_SPAN = 64  # inputs that a block of outputs covers at least


class Table:
    """The taps of one dimension.

    Attributes:
        size: number of inputs.
        index: (taps, outputs); the indices of one tap do not decrease.
        weight: (taps, outputs), in the dtype of the computation.
        copies: every output is one input, with weight 1.
    """

    def __init__(self, size: int, index: np.ndarray, weight: np.ndarray, copies: bool = False) -> None:
        self.size, self.index, self.weight = size, index.astype(np.intp), weight
        self.copies = copies

    @property
    def count(self) -> int:
        """The number of outputs."""
        return self.index.shape[1]

    @cached_property
    def identity(self) -> bool:
        """Every output is the input at its place."""
        return self.copies and self.size == self.count and bool((self.index[0] == np.arange(self.size)).all())

    @cached_property
    def bands(self) -> list[tuple[slice, slice, np.ndarray]]:
        """The matrix as (inputs, outputs, block of weights) whose union is all weights other than zero."""
        parts = max(1, min(self.count, -(-self.size // _SPAN)))
        edges = [self.count * i // parts for i in range(parts + 1)]
        found = []
        for low, high in zip(edges, edges[1:], strict=False):
            index = self.index[:, low:high]
            first, last = int(index.min()), int(index.max()) + 1
            block = np.zeros((last - first, high - low), self.weight.dtype)
            for row, weight in zip(index - first, self.weight[:, low:high], strict=True):
                block[row, np.arange(high - low)] += weight
            found.append((slice(first, last), slice(low, high), block))
        return found


def forward(x: np.ndarray, axis: int, table: Table, finite: bool) -> np.ndarray:
    """Resample along `axis`. `finite` says that no element is infinite or NaN."""
    if table.copies:
        return x.take(table.index[0], axis)
    if finite:
        return _product(x, axis, table, False)
    column = (-1,) + (1,) * (x.ndim - 1 - axis)
    total = x.take(table.index[0], axis) * table.weight[0].reshape(column)
    for index, weight in zip(table.index[1:], table.weight[1:], strict=True):
        total += x.take(index, axis) * weight.reshape(column)
    return total


def adjoint(grad: np.ndarray, axis: int, table: Table, finite: bool) -> np.ndarray:
    """Apply the transpose of `forward` along `axis`."""
    if finite:
        return _product(grad, axis, table, True)
    column = (-1,) + (1,) * (grad.ndim - 1 - axis)
    total = np.zeros((*grad.shape[:axis], table.size, *grad.shape[axis + 1 :]), grad.dtype)
    for index, weight in zip(table.index, table.weight, strict=True):
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        place = (slice(None),) * axis + (index[starts],)
        total[place] += np.add.reduceat(grad * weight.reshape(column), starts, axis)
    return total


def _product(x: np.ndarray, axis: int, table: Table, transposed: bool) -> np.ndarray:
    """Multiply along `axis` of a row-major array by the matrix of weights, (inputs, outputs), or its transpose."""
    length = table.size if transposed else table.count
    lead, trail = x.shape[:axis], x.shape[axis + 1 :]
    bands = [(o, i, w.T) if transposed else (i, o, w) for i, o, w in table.bands]
    each = int(np.prod(trail))
    if each == 1:
        rows = x.reshape(-1, x.shape[axis])
        out = np.empty((len(rows), length), x.dtype)
        pairs = [(rows[:, i], w, out[:, o]) for i, o, w in bands]
    else:
        planes = x.reshape(-1, x.shape[axis], each)
        out = np.empty((len(planes), length, each), x.dtype)
        pairs = [(w.T, planes[:, i], out[:, o]) for i, o, w in bands]
    if transposed and (len(pairs) > 1 or bands[0][1] != slice(0, length)):
        out.fill(0)  # two blocks of outputs may share inputs, and inputs may be in none
        for a, b, target in pairs:
            target += gemm(a, b)
    else:
        for a, b, target in pairs:
            gemm(a, b, target)
    return out.reshape(*lead, length, *trail)


@lru_cache(256)
def table(mode: str, size: int, count: int, align: bool, scale: float | None, dtype: np.dtype) -> Table:
    """Return the table for `count` outputs from `size` inputs.

    Args:
        mode: a key of MODES.
        align: the centres of the first and last elements stay in place; otherwise the outer edges do.
        scale: outputs per input, where the caller gave it; None or a number that is not positive stands for
            count / size.
        dtype: float32 or float64, in which positions and weights are computed, as PyTorch does.
    """
    real = dtype.type
    if align:
        ratio = real(size - 1) / real(count - 1) if count > 1 else real(0)
    else:
        ratio = real(1.0 / scale) if scale is not None and scale > 0 else real(size) / real(count)
    index, weight = MODES[mode](size, count, align, ratio)
    return Table(size, index, weight.astype(dtype), len(index) == 1 and bool((weight == 1).all()))


def _nearest(size, count, align, ratio):
    """PyTorch's images ignore a given scale if the size stays or doubles, and have positions in float32."""
    outputs = np.arange(count)
    if count in (size, 2 * size):
        index = outputs // (count // size)
    else:
        index = np.minimum(np.floor(outputs.astype(np.float32) * np.float32(ratio)), size - 1)
    return index[None], np.ones((1, count), ratio.dtype)


def _nearest_scaled(size, count, align, ratio):
    positions = (np.arange(count, dtype=ratio.dtype) * ratio).astype(np.float32)  # PyTorch rounds before the floor
    return np.minimum(np.floor(positions), size - 1)[None], np.ones((1, count), ratio.dtype)


def _nearest_exact(size, count, align, ratio):
    half = ratio.dtype.type(0.5)
    index = np.minimum(np.floor((np.arange(count, dtype=ratio.dtype) + half) * ratio), size - 1)
    return index[None], np.ones((1, count), ratio.dtype)


def _positions(count, align, ratio):
    """Return the position of each output among the inputs."""
    outputs, half = np.arange(count, dtype=ratio.dtype), ratio.dtype.type(0.5)
    return outputs * ratio if align else (outputs + half) * ratio - half


def _linear(size, count, align, ratio):
    if size == count:
        return np.arange(count)[None], np.ones((1, count), ratio.dtype)
    position = np.maximum(_positions(count, align, ratio), 0)
    low = np.minimum(np.floor(position), size - 1)
    part = np.clip(position - low, 0, 1)
    return np.stack([low, np.minimum(low + 1, size - 1)]), np.stack([1 - part, part])


def _cubic(size, count, align, ratio):
    position = _positions(count, align, ratio)
    low = np.minimum(np.floor(position), size - 1)
    part = np.clip(position - low, 0, 1)
    index = np.stack([np.clip(low + k, 0, size - 1) for k in (-1, 0, 1, 2)])
    return index, np.stack(cubic_weights(part, -0.75))


def cubic_weights(part, slope):
    """Return the weights of the inputs at -1, 0, 1, 2 for a position between inputs 0 and 1 (Keys 1981): the cubic
    convolution kernel with the derivative `slope` at distance 1."""
    rest = 1 - part

    def near(x):
        return ((slope + 2) * x - (slope + 3)) * x * x + 1

    def far(x):
        return ((slope * x - 5 * slope) * x + 8 * slope) * x - 4 * slope

    return far(part + 1), near(part), near(rest), far(rest + 1)


def _triangle(x):
    return np.maximum(1 - np.abs(x), 0)


def _keys(x):
    x, slope = np.abs(x), x.dtype.type(-0.5)
    near = ((slope + 2) * x - (slope + 3)) * x * x + 1
    far = ((slope * x - 5 * slope) * x + 8 * slope) * x - 4 * slope
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(x):
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0).astype(x.dtype)


def _antialiased(kernel: Callable, radius: int) -> Callable:
    """Return a mode whose kernel covers `radius` inputs on both sides, or as many outputs when there are fewer."""

    def taps(size, count, align, ratio):
        real = ratio.dtype.type
        stretch = max(ratio, real(1))
        reach, inverse = real(radius) * stretch, real(1) / stretch
        center = (np.arange(count, dtype=real) + real(0.5)) * ratio
        first = np.maximum(np.trunc(center - reach + real(0.5)), 0)
        number = np.minimum(np.trunc(center + reach + real(0.5)), size) - first
        steps = np.arange(max(1, int(np.maximum.reduce(number, initial=1))), dtype=real)[:, None]
        weight = np.where(steps < number, kernel((steps + first - center + real(0.5)) * inverse), real(0))
        total = np.add.reduce(weight)
        return np.minimum(first + steps, size - 1), weight / np.where(total == 0, real(1), total)

    return taps


#: mode -> function of (inputs, outputs, align, inputs per output) that returns the indices and the weights of the taps
MODES: dict[str, Callable] = {
    "nearest": _nearest,
    "nearest_scaled": _nearest_scaled,
    "nearest_exact": _nearest_exact,
    "linear": _linear,
    "cubic": _cubic,
    "linear_aa": _antialiased(_triangle, 1),
    "cubic_aa": _antialiased(_keys, 2),
    "lanczos_aa": _antialiased(_lanczos, 3),
}
