"""The arithmetic of windows that slide over the spatial dimensions, shared by convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from . import threads
from .numbers import is_half


class Windows(NamedTuple):
    """Windows over an input: output position o holds the input positions o * stride - padding + k * dilation
    for 0 <= k < kernel, in every spatial dimension; positions outside the input are padding."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    output: tuple[int, ...]

    @lru_cache(1024)  # noqa: B019  (windows are small tuples; a network asks for the same ones at every step)
    def at(self, offsets: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
        """Return the output positions whose kernel element `offsets` lies inside the input, and the input positions it
        meets: two tuples of slices of equal extent; None if there are none."""
        outer, inner = [], []
        for axis, offset in enumerate(offsets):
            pair = self.along(axis, offset)
            if pair is None:
                return None
            outer.append(pair[0])
            inner.append(pair[1])
        return tuple(outer), tuple(inner)

    def along(self, axis: int, offset: int) -> tuple[slice, slice] | None:
        """Return what `at` does, for one spatial dimension."""
        stride = self.stride[axis]
        start = offset * self.dilation[axis] - self.padding[axis]
        low = max(0, -(start // stride))
        high = min(self.output[axis], (self.size[axis] - 1 - start) // stride + 1)
        if low >= high:
            return None
        first = low * stride + start
        return slice(low, high), slice(first, first + (high - low - 1) * stride + 1, stride)

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """Yield every kernel element, in row-major order."""
        return product(*map(range, self.kernel))


def as_tuple(value: int | Sequence[int], dims: int, name: str) -> tuple[int, ...]:
    """Return an int[N] argument, one number for all `dims` dimensions or one for each, as a tuple."""
    values = (value,) if isinstance(value, (int, np.integer)) else tuple(value)
    if len(values) == 1:
        return values * dims
    if len(values) != dims:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {dims} values to match the "
            f"convolution dimensions, but got {name}={list(values)}"
        )
    return values


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype to compute in: float32 for the 16-bit floats, otherwise the dtype itself."""
    return np.dtype(np.float32) if is_half(dtype) else dtype


def padded(x: np.ndarray, windows: Windows, rows: slice, channels_last: bool) -> np.ndarray:
    """Return the part of x (N, C, *size) that the windows in `rows` of the first spatial dimension cover, padded with
    zeros: (N, C, *spatial), or (N, *spatial, C) if `channels_last`. Returns x itself if nothing needs copying.
    """
    extent, source, target = _covered(windows, rows.start, rows.stop)
    inside = x[(slice(None), slice(None), *source)]
    if channels_last:
        inside = np.moveaxis(inside, 1, -1)
        shape = (len(x), *extent, x.shape[1])
        target = (slice(None), *target)
    else:
        shape = (*x.shape[:2], *extent)
        target = (slice(None), slice(None), *target)
    if inside.shape == shape:
        return np.ascontiguousarray(inside) if channels_last else inside
    result = np.zeros(shape, x.dtype)
    result[target] = inside
    return result


@lru_cache(1024)
def _covered(windows: Windows, start: int, stop: int) -> tuple:
    """Return the sizes of `padded` for the rows `start` to `stop`, and the slices of x and of the result in which the
    same numbers lie."""
    extent, source, target = [], [], []
    for axis, size in enumerate(windows.size):
        first, last = (start, stop - 1) if axis == 0 else (0, windows.output[axis] - 1)
        begin = first * windows.stride[axis] - windows.padding[axis]
        end = last * windows.stride[axis] - windows.padding[axis]
        end += windows.dilation[axis] * (windows.kernel[axis] - 1) + 1
        low, high = min(max(begin, 0), size), max(min(end, size), 0)
        extent.append(end - begin)
        source.append(slice(low, max(low, high)))
        target.append(slice(low - begin, max(low, high) - begin))
    return tuple(extent), tuple(source), tuple(target)


def window_view(block: np.ndarray, windows: Windows, rows: int, channels_last: bool, groups: int = 1) -> np.ndarray:
    """Return a view of the result of `padded` as the windows of its first `rows` output positions: (N, groups, C /
    groups, *kernel, *output), or (groups, N, *output, *kernel, C / groups) if `channels_last`."""
    output = (rows, *windows.output[1:])
    if channels_last:
        batch, *spatial, channel = block.strides
    else:
        batch, channel, *spatial = block.strides
    # a single window takes no step, however large
    steps = tuple(a * b if n > 1 else a for a, b, n in zip(spatial, windows.stride, output, strict=True))
    inner = tuple(a * b if n > 1 else a for a, b, n in zip(spatial, windows.dilation, windows.kernel, strict=True))
    channels = block.shape[-1 if channels_last else 1]
    each = channels // groups
    if channels_last:
        shape = (groups, len(block), *output, *windows.kernel, each)
        strides = (each * channel, batch, *steps, *inner, channel)
    else:
        shape = (len(block), groups, each, *windows.kernel, *output)
        strides = (batch, each * channel, channel, *inner, *steps)
    return as_strided(block, shape, strides, writeable=False)


def blocks(n: int, rows: int, row_bytes: int, block_bytes: int = 1 << 21) -> list[tuple[slice, slice]]:
    """Cut n images of `rows` rows into pairs (images, rows), to be worked on one at a time or by several threads. Each
    takes about `block_bytes` of scratch at most; images are cut only if one is too large, or there are fewer images
    than threads."""
    return _cut(n, rows, row_bytes, block_bytes, threads.get_num_threads())


@lru_cache(256)
def _cut(n: int, rows: int, row_bytes: int, block_bytes: int, count: int) -> list[tuple[slice, slice]]:
    """Return `blocks` for `count` threads."""
    everything = slice(0, rows)
    if n * rows * row_bytes <= 1 << 17:  # too little for a second thread
        return [(slice(0, n), everything)]
    if rows * row_bytes <= block_bytes and n >= count:
        return [(images, everything) for images in threads.chunks(n, block_bytes // max(1, rows * row_bytes))]
    parts = threads.chunks(rows, block_bytes // max(1, row_bytes))
    return [(slice(i, i + 1), part) for i in range(n) for part in parts]


def volume(shape: Sequence[int]) -> int:
    """Return the number of elements of an array of that shape."""
    return math.prod(shape)
