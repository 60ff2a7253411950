"""Pooling on blocks (planes, *spatial): maxima with their positions, sums, and the distribution of gradients. A window
is a product of intervals, so maxima and sums are taken along one dimension after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .._common import threads
from .._common.blas import dot
from .._common.tables import ones
from .._common.windows import Windows, volume

_BLOCK_BYTES = 1 << 21

# Note [Few windows]
# Of a small input, the windows are copied side by side into a matrix with a row for each of their elements: then a few
# calls suffice, where blocks take some for each element and dimension. The position of the maximum follows from the
# elements that equal it: their bits, read as a number, are looked up in a table of the position of the lowest bit.
_FEW = 1 << 13  # elements of the input
_MOST = 9  # elements of a window


class _Few(NamedTuple):
    """The layout of such a matrix, in elements: its shape without the planes, its strides, the tables of positions."""

    kernel: tuple[int, ...]
    output: tuple[int, ...]
    strides: tuple[int, ...]
    bits: dict[str, np.ndarray]  # by the dtype's letter
    lowest: np.ndarray
    first: np.ndarray
    tiles: bool  # whether the windows cover the input, each element once


@lru_cache(256)
def _few(windows: Windows) -> _Few | None:
    """Return the layout for windows that are small and lie inside of the input, else None."""
    size, kernel, stride, _, dilation, output = windows
    reach = [(o - 1) * s + d * (k - 1) for o, s, d, k in zip(output, stride, dilation, kernel, strict=True)]
    if volume(kernel) > _MOST or any(windows.padding) or any(r >= n for r, n in zip(reach, size, strict=True)):
        return None
    steps = [volume(size[axis + 1 :]) for axis in range(len(size))]
    inside = [step * d for step, d in zip(steps, dilation, strict=True)]
    between = [step * s for step, s in zip(steps, stride, strict=True)]
    offsets = [sum(a * b for a, b in zip(k, inside, strict=True)) for k in windows.offsets()]
    lowest = np.zeros(1 << len(offsets), np.int64)
    for k, offset in enumerate(offsets):
        lowest[1 << k :: 1 << k] = offset
    tiles = stride == kernel and all(k * o == n for k, o, n in zip(kernel, output, size, strict=True))
    return _Few(
        kernel,
        output,
        (*inside, volume(size), *between),
        {char: (2.0 ** np.arange(len(offsets))).astype(char) for char in "fd"},
        lowest,
        _first_positions(windows, steps),
        tiles and max(dilation) == 1,
    )


def _side_by_side(x: np.ndarray, few: _Few) -> np.ndarray:
    """Return the matrix of Note [Few windows]: (elements of a window, planes * windows)."""
    strides = tuple([s * x.itemsize for s in few.strides])
    view = np.ndarray((*few.kernel, len(x), *few.output), x.dtype, x, 0, strides)
    return view.reshape(volume(few.kernel), -1)


def _few_maxima(x: np.ndarray, few: _Few) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what `maximum` does, but None if some maximum is not finite."""
    rows = _side_by_side(x, few)
    out = np.maximum.reduce(rows[::-1], 0)  # the first of two zeros, as in `_largest`
    total = out.dot(ones[x.dtype.char, out.size])
    if total - total != 0:
        return None
    equal = np.equal(rows, out).astype(x.dtype)
    indices = few.lowest.take(dot(few.bits[x.dtype.char], equal).astype(np.int64))
    shape = (len(x), *few.output)
    indices = indices.reshape(shape)
    indices += few.first
    return out.reshape(shape), indices


def maximum(x: np.ndarray, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest element of every window of x (planes, *size) and its position in the flattened size (int64),
    both (planes, *output). Of equal elements the first is chosen; if there are NaNs, the last of them."""
    if 0 < x.size <= _FEW and x.dtype.char in "fd" and (few := _few(windows)) is not None:
        found = _few_maxima(x, few)
        if found is not None:
            return found
    out = np.empty((len(x), *windows.output), x.dtype)
    indices = np.empty(out.shape, np.int64)

    def work(planes: slice) -> None:
        _largest(x[planes], windows, out[planes])
        _positions(x[planes], windows, out[planes], indices[planes])

    _shared(work, _planes(x))
    return out, indices


def _largest(x: np.ndarray, windows: Windows, out: np.ndarray) -> None:
    for axis in range(len(windows.size)):
        shape = (*x.shape[: axis + 1], windows.output[axis], *x.shape[axis + 2 :])
        narrow = out if axis == len(windows.size) - 1 else np.empty(shape, x.dtype)
        offsets = range(windows.kernel[axis])
        pairs = [pair for k in offsets if (pair := windows.along(axis, k)) is not None]
        whole = slice(0, windows.output[axis])
        if len(pairs) > 1 and pairs[0][0] == pairs[1][0] == whole:
            # np.maximum returns its second argument where both are zeros: the first zero of a window counts.
            np.maximum(x[select(axis + 1, pairs[1][1])], x[select(axis + 1, pairs[0][1])], out=narrow)
            pairs = pairs[2:]
        elif pairs and pairs[0][0] == whole:
            np.copyto(narrow, x[select(axis + 1, pairs[0][1])])
            pairs = pairs[1:]
        else:
            narrow.fill(-np.inf if x.dtype.kind not in "iu" else np.iinfo(x.dtype).min)
        for outer, inner in pairs:
            part = narrow[select(axis + 1, outer)]
            np.maximum(x[select(axis + 1, inner)], part, out=part)
        x = narrow


def _positions(x: np.ndarray, windows: Windows, out: np.ndarray, indices: np.ndarray) -> None:
    """Fill indices with the position of the first element in each window that equals `out`. A position is that of the
    window's first element plus the offset within the kernel. Offsets fit into one or two bytes, so finding them moves
    little memory; masks of all ones or zeros select without branching."""
    steps = [volume(windows.size[axis + 1 :]) for axis in range(len(windows.size))]
    inside = [step * d for step, d in zip(steps, windows.dilation, strict=True)]
    elements = [(sum(a * b for a, b in zip(k, inside, strict=True)), windows.at(k)) for k in windows.offsets()]
    dtype = np.min_scalar_type(elements[-1][0])
    found = np.full(out.shape, elements[-1][0], dtype)
    if not any(windows.padding) and elements[-1][1] is not None and elements[-1][1][0] == _everywhere(windows):
        candidates = elements[-2::-1]  # the last element is the default
    else:
        candidates = elements[::-1]
    for offset, pair in candidates:
        if pair is None:
            continue
        outer, inner = ((slice(None), *slices) for slices in pair)
        equal = np.equal(x[inner], out[outer])
        mask = equal.view(np.uint8).astype(dtype, copy=False)
        np.negative(mask, out=mask)
        part = found[outer]
        mask &= dtype.type(offset) - part
        part += mask
    if x.dtype.kind not in "iu":
        lost = out != out
        if lost.any():
            for offset, pair in elements:
                if pair is not None:
                    outer, inner = ((slice(None), *slices) for slices in pair)
                    np.copyto(found[outer], dtype.type(offset), where=x[inner] != x[inner])
    np.copyto(indices, found)
    indices += _first_positions(windows, steps)
    if any(windows.padding) and max(windows.dilation) > 1:
        # A dilated window may lie entirely in the padding; its position must still be inside the input.
        np.clip(indices, 0, volume(windows.size) - 1, out=indices)


def _everywhere(windows: Windows) -> tuple[slice, ...]:
    return tuple(slice(0, count) for count in windows.output)


def _first_positions(windows: Windows, steps: list[int]) -> np.ndarray:
    """Return the position of each window's first element, (*output); negative if it lies in the padding."""
    total = np.zeros((), np.int64)
    for count, s, p, step in zip(windows.output, windows.stride, windows.padding, steps, strict=True):
        total = total[..., None] + (np.arange(count) * s - p) * step
    return total


def adaptive_maximum(x: np.ndarray, output: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return what `maximum` does, for windows that cover the input evenly."""
    size = x.shape[1:]
    out = np.empty((len(x), *output), x.dtype)
    indices = np.empty(out.shape, np.int64)
    positions = np.arange(volume(size)).reshape(size)
    divided = [shares(n, o) for n, o in zip(size, output, strict=True)]

    def work(planes: slice) -> None:
        rows = np.arange(planes.stop - planes.start)
        for place in np.ndindex(*output):
            part = tuple(parts[i] for parts, i in zip(divided, place, strict=True))
            window = x[(planes, *part)].reshape(len(rows), volume(positions[part].shape))
            best = window.argmax(axis=1)
            value = window[rows, best]
            lost = value != value
            if lost.any():  # argmax gives the first NaN
                best[lost] = window.shape[1] - 1 - np.isnan(window[lost, ::-1]).argmax(axis=1)
            out[(planes, *place)] = value
            indices[(planes, *place)] = positions[part].reshape(-1)[best]

    if len(x):
        _shared(work, _planes(x))
    return out, indices


def adaptive_mean(x: np.ndarray, axis: int, count: int) -> np.ndarray:
    """Return the means of the `count` windows that cover one axis (a negative number) of x evenly."""
    out = np.empty((*x.shape[:axis], count, *x.shape[axis:][1:]), x.dtype)
    for i, part in enumerate(shares(x.shape[axis], count)):
        target, length = out[select(axis, i)], part.stop - part.start
        if length > 8:
            np.add.reduce(x[select(axis, part)], axis, out=target)
        else:  # NumPy's sum over a short axis is slower than one addition per element of the window
            np.copyto(target, x[select(axis, part.start)])
            for k in range(part.start + 1, part.stop):
                target += x[select(axis, k)]
        target /= length
    return out


def shares(size: int, count: int) -> list[slice]:
    """Return the `count` intervals that cover range(size) evenly; neighbours overlap where they must."""
    return [slice(i * size // count, -((-(i + 1) * size) // count)) for i in range(count)]


def add(x: np.ndarray, windows: Windows, dtype: np.dtype) -> np.ndarray:
    """Return the sum of every window of x (planes, *size), added up in `dtype`: (planes, *output)."""
    if (
        0 < x.size <= _FEW
        and type(x) is np.ndarray
        and x.dtype is dtype
        and dtype.char in "fd"
        and x.flags.c_contiguous
    ):
        few = _few(windows)
        if few is not None:
            return dot(ones[dtype.char, volume(few.kernel)], _side_by_side(x, few)).reshape(len(x), *windows.output)
    out = np.empty((len(x), *windows.output), dtype)

    def work(planes: slice) -> None:
        total = x[planes].astype(dtype, copy=False)
        for axis in range(len(windows.size)):
            shape = (*total.shape[: axis + 1], windows.output[axis], *total.shape[axis + 2 :])
            narrow = np.zeros(shape, dtype)
            for k in range(windows.kernel[axis]):
                pair = windows.along(axis, k)
                if pair is not None:
                    narrow[select(axis + 1, pair[0])] += total[select(axis + 1, pair[1])]
            total = narrow
        out[planes] = total

    _shared(work, _planes(x))
    return out


def spread(g: np.ndarray, windows: Windows) -> np.ndarray:
    """Return the adjoint of `add`: each element of g (planes, *output) added to all elements of its window."""
    out = np.empty((len(g), *windows.size), g.dtype)
    if 0 < out.size <= _FEW and (few := _few(windows)) is not None and few.tiles:
        pairs = [n for pair in zip(few.output, few.kernel, strict=True) for n in pair]
        one_each = [n for count in few.output for n in (count, 1)]
        out.reshape(len(g), *pairs)[...] = g.reshape(len(g), *one_each)
        return out

    def work(planes: slice) -> None:
        total = g[planes]
        for axis in range(len(windows.size)):
            shape = (*total.shape[: axis + 1], windows.size[axis], *total.shape[axis + 2 :])
            wide = np.zeros(shape, g.dtype)
            for k in range(windows.kernel[axis]):
                pair = windows.along(axis, k)
                if pair is not None:
                    wide[select(axis + 1, pair[1])] += total[select(axis + 1, pair[0])]
            total = wide
        out[planes] = total

    _shared(work, _planes(out))
    return out


def scatter_add(values: np.ndarray, indices: np.ndarray, size: int) -> np.ndarray:
    """Return (planes, size): in each plane the values (planes, count) added at their indices (planes, count)."""
    out = np.zeros((len(values), size), values.dtype)

    def work(planes: slice) -> None:
        target = out[planes]
        offsets = np.arange(0, target.size, size)[:, None] if target.size else np.zeros((len(target), 1), np.int64)
        np.add.at(target.reshape(-1), (indices[planes] + offsets).reshape(-1), values[planes].reshape(-1))

    _shared(work, _planes(out))
    return out


def select(axis: int, what: slice | int) -> tuple:
    """Return the index that selects `what` along one axis; a negative one is counted from the end."""
    if axis >= 0:
        return (slice(None),) * axis + (what,)
    return (Ellipsis, what, *(slice(None),) * (-axis - 1))


def _shared(work: Callable[[slice], None], parts: list[slice]) -> None:
    if len(parts) == 1:
        work(parts[0])
    else:
        threads.share(work, parts)


def _planes(x: np.ndarray) -> list[slice]:
    """Return blocks of planes to share among threads, or one block if sharing does not pay."""
    if x.nbytes < 1 << 22:
        return [slice(0, len(x))]
    return threads.chunks(len(x), _BLOCK_BYTES * len(x) // x.nbytes)
