"""The three sums that every convolution is made of, as matrix products over blocks of images.

With x the input, w the weight, y the output, s the stride, d the dilation and p the padding,

    forward          y[n, o, i] = sum over c, k of  x[n, c, i s + k d - p] w[o, c, k]
    input_gradient   g_x[n, c, j] = sum over o, k of  g[n, o, i] w[o, c, k]   where i s + k d - p = j
    weight_gradient  g_w[o, c, k] = sum over n, i of  g[n, o, i] x[n, c, i s + k d - p]

and a transposed convolution is `input_gradient` used forward. All are linear in both arguments; nothing is conjugated
here. There are at least two spatial dimensions; a 1-d convolution has a leading one of size 1.

Note [Layout of the products]
A product needs the windows as the rows or columns of a matrix. Copying them element by element would cost as much as
the product, so they are copied in contiguous runs: with many channels from a channels-last block, where kernel_width *
channels numbers lie together; with few from the input as it is, where output_width numbers do. About 2 MB of windows
are copied at a time.

`input_gradient` does not build all windows. For one row j of the input, the kernel rows that reach it meet consecutive
rows of g; with g laid out as (..., row, channel), the sum over kernel rows is one product with a slice of a matrix. The
other kernel dimensions are then added with shifts.

Note [Phases of a strided gradient]
With a stride s, the input positions j of one phase, (j + p) mod s = r, meet the kernel elements r, r + s, r + 2 s ...
at consecutive positions of g. So each phase of the input's gradient is a convolution of g with a part of the kernel,
turned around, and without a stride; phases without kernel elements are zero. Zeros of the padding are multiplied, as in
flat.py.

Where flat.py is faster, it computes the sums.

With one input channel per group (`depthwise_*`) each product would be one of single numbers. Instead each kernel
element in turn multiplies a whole shifted block of channels-last images.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from .._common import threads
from .._common.blas import gemm
from .._common.windows import Windows, blocks, padded, volume, window_view
from . import flat


def forward(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, windows: Windows, groups: int) -> np.ndarray:
    """y (N, Co, *output) from x (N, C, *size), w (Co, C / groups, *kernel) and bias (Co,)."""
    out = np.empty((len(x), len(w), *windows.output), x.dtype)
    if out.size == 0:
        return out
    if is_depthwise(w, groups):
        return depthwise_forward(x, w, bias, windows, out)
    x, windows = _without_gaps(x, windows)
    if groups == 1 and flat.pays(len(x), w.shape, windows, x.itemsize):
        return flat.forward(x, w, bias, windows)
    if windows.output[-1] >= _LONG or _channels_first(x, w, windows):
        return _forward_channels_first(x, w, bias, windows, groups, out)
    each = len(w) // groups
    depth = volume(w.shape[1:])
    matrix = w.reshape(groups, each, w.shape[1], -1).transpose(0, 3, 2, 1).reshape(groups, depth, each)
    grouped = out.reshape(len(x), groups, each, *windows.output)
    shift = None if bias is None else bias.reshape(groups, each, *(1 for _ in windows.output))

    def work(block: tuple[slice, slice]) -> None:
        images, rows = block
        columns = _columns_last(x[images], windows, rows, groups)
        product = (columns @ matrix).reshape(groups, -1, rows.stop - rows.start, *windows.output[1:], each)
        product = np.moveaxis(product, (0, -1), (1, 2))
        target = grouped[images, :, :, rows]
        if shift is None:
            np.copyto(target, product)
        else:
            np.add(product, shift, out=target)

    threads.share(work, blocks(len(x), windows.output[0], _row_bytes(x, w, windows, groups)))
    return out


def weight_gradient(g: np.ndarray, x: np.ndarray, kernel: tuple[int, ...], windows: Windows, groups: int) -> np.ndarray:
    """g_w (Co, C / groups, *kernel) from g (N, Co, *output) and x (N, C, *size)."""
    each, inner = g.shape[1] // groups, x.shape[1] // groups
    out = np.zeros((g.shape[1], inner, *kernel), g.dtype)
    if g.size == 0 or x.size == 0:
        return out
    if is_depthwise(out, groups):
        return depthwise_weight_gradient(g, x, windows, out)
    x, windows = _without_gaps(x, windows)
    if groups == 1 and flat.pays(len(x), out.shape, windows, x.itemsize):
        found = flat.weight_gradient(g, x, windows)
        if found is not None:
            return found
    channels_first = _channels_first(x, out, windows)
    grouped = g.reshape(len(g), groups, each, *windows.output)

    def work(part: list[tuple[slice, slice]]) -> np.ndarray:
        total: Any = None
        for images, rows in part:
            gradient = grouped[images, :, :, rows]
            if channels_first:
                columns = _columns_first(x[images], windows, rows, groups)
                gradient = gradient.reshape(*gradient.shape[:3], -1)
                term = np.add.reduce(np.matmul(gradient, columns.swapaxes(2, 3)))
            else:
                columns = _columns_last(x[images], windows, rows, groups)
                gradient = np.moveaxis(gradient, 0, 2).reshape(groups, each, -1)
                term = gradient @ columns
            total = term if total is None else np.add(total, term, out=total)
        return total

    # One partial sum per thread over fixed blocks, so that every run gives the same result.
    pieces = blocks(len(x), windows.output[0], _row_bytes(x, out, windows, groups))
    totals = threads.share(work, [pieces[part] for part in threads.chunks(len(pieces))])
    total = totals[0]
    for term in totals[1:]:
        total += term
    if channels_first:
        return total.reshape(out.shape)
    out[...] = np.moveaxis(total.reshape(len(out), *kernel, inner), -1, 1)
    return out


def input_gradient(g: np.ndarray, w: np.ndarray, windows: Windows, groups: int) -> np.ndarray:
    """g_x (N, C, *size) from g (N, Co, *output) and w (Co, C / groups, *kernel)."""
    inner, each = w.shape[1], len(w) // groups
    if groups == 1 and g.size and inner and flat.pays(len(g), w.swapaxes(0, 1).shape, windows, g.itemsize):
        found = flat.input_gradient(g, w, windows)
        if found is not None:
            return found
    out = np.zeros((len(g), inner * groups, *windows.size), g.dtype)
    if out.size == 0 or g.size == 0:
        return out
    if is_depthwise(w, groups):
        return depthwise_input_gradient(g, w, windows, out)
    if _pointwise(windows):
        turned = w.reshape(groups, each, inner).swapaxes(1, 2)
        gemm(turned, g.reshape(len(g), groups, each, -1), out.reshape(len(g), groups, inner, -1))
        return out
    if _phases_pay(len(g), inner, windows) and flat.is_finite(w):
        return _gradient_by_phases(g, w, windows, groups, out)
    rest = Windows(*(field[1:] for field in windows))
    # Kernel rows in descending order, as they meet ascending rows of g: (groups, width, kernel row, each).
    matrix = np.moveaxis(w.reshape(groups, each, inner, *windows.kernel)[:, :, :, ::-1], (2, 3, 1), (-3, -2, -1))
    matrix = np.ascontiguousarray(matrix).reshape(groups, -1, windows.kernel[0], each)
    taps = _row_taps(windows)
    target = out.reshape(len(g), groups, inner, *windows.size)

    def work(block: tuple[slice, slice]) -> None:
        images, rows = block
        count = images.stop - images.start
        products = _row_products(g[images], matrix, windows, taps, rows)
        terms = products.reshape(len(products), groups, *rest.kernel, inner, *rest.output, count)
        total = np.zeros((len(products), groups, inner, *rest.size, count), g.dtype)
        for offsets in rest.offsets():
            pair = rest.at(offsets)
            if pair is not None:
                part = total[_all(3) + pair[1]]
                np.add(part, terms[_all(2) + offsets + _all(1) + pair[0]], out=part)
        np.copyto(target[images, :, :, rows], np.moveaxis(total, (-1, 0), (0, 3)))

    row_bytes = volume(rest.output) * matrix.shape[1] * groups * g.itemsize
    threads.share(work, blocks(len(g), windows.size[0], row_bytes))
    return out


def _phases_pay(images: int, channels: int, windows: Windows) -> bool:
    """Return whether copying all windows of g costs less than adding up the terms of each kernel element."""
    if max(windows.stride) == 1 or max(windows.dilation) > 1:
        return False
    return channels >= _MANY_CHANNELS and images * volume(windows.output) >= _MANY_PLACES


def _gradient_by_phases(g: np.ndarray, w: np.ndarray, windows: Windows, groups: int, out: np.ndarray) -> np.ndarray:
    """Fill out (N, C, *size), which holds zeros; see Note [Phases of a strided gradient]."""
    inner, each = w.shape[1], len(w) // groups
    turned = w.reshape(groups, each, inner, *windows.kernel).swapaxes(1, 2)
    for axes in itertools.product(*(_phases(windows, axis) for axis in range(len(windows.size)))):
        places, taps, margins = zip(*axes, strict=True)
        part = turned[(..., *taps)][_all(3) + (slice(None, None, -1),) * len(taps)]
        kernel, target = part.shape[3:], out[_all(2) + places]
        one = (1,) * len(kernel)
        shifted = Windows(windows.output, kernel, one, margins, one, target.shape[2:])
        target[...] = forward(g, part.reshape(groups * inner, each, *kernel), None, shifted, groups)
    return out


def _phases(windows: Windows, axis: int) -> list[tuple[slice, slice, int]]:
    """Return the phases of one dimension that meet kernel elements: positions of the input, those elements, and the
    padding of g before its first number."""
    step, padding, found = windows.stride[axis], windows.padding[axis], []
    for r in range(min(step, windows.kernel[axis])):
        first = (r - padding) % step
        if first < windows.size[axis]:
            count = len(range(r, windows.kernel[axis], step))
            margin = count - 1 - (first + padding - r) // step
            found.append((slice(first, None, step), slice(r, None, step), margin))
    return found


def _without_gaps(x: np.ndarray, windows: Windows) -> tuple[np.ndarray, Windows]:
    """Return x and windows; if those are single numbers some steps apart, a copy of the numbers as the new x."""
    one = (1,) * len(windows.kernel)
    if windows.kernel != one or windows.stride == one or any(windows.padding):
        return x, windows
    places = tuple(slice(0, (n - 1) * s + 1, s) for n, s in zip(windows.output, windows.stride, strict=True))
    return np.ascontiguousarray(x[_all(2) + places]), windows._replace(size=windows.output, stride=one)


def _all(count: int) -> tuple[slice, ...]:
    return (slice(None),) * count


def _row_taps(windows: Windows) -> list[tuple[slice, slice]]:
    """Return for each input row the rows of g and the kernel rows (in descending order) that contribute to it, as
    slices whose elements correspond."""
    stride, padding, dilation = windows.stride[0], windows.padding[0], windows.dilation[0]
    kernel, output = windows.kernel[0], windows.output[0]
    common = math.gcd(stride, dilation)
    kernel_step, row_step = stride // common, dilation // common
    taps = []
    for row in range(windows.size[0]):
        hits = [k for k in range(min(kernel_step, kernel)) if (row + padding - k * dilation) % stride == 0]
        if not hits:
            taps.append((slice(0, 0), slice(0, 0)))
            continue
        k = hits[0]
        i = (row + padding - k * dilation) // stride
        # The pairs are (i - m row_step, k + m kernel_step) for m in [low, high).
        low = max(0, -((output - 1 - i) // row_step))
        high = min((kernel - 1 - k) // kernel_step, i // row_step) + 1
        if low >= high:
            taps.append((slice(0, 0), slice(0, 0)))
            continue
        first, last = i - (high - 1) * row_step, i - low * row_step
        descending = kernel - 1 - (k + (high - 1) * kernel_step)
        stop = descending + (high - low - 1) * kernel_step + 1
        taps.append((slice(first, last + 1, row_step), slice(descending, stop, kernel_step)))
    return taps


def _row_products(
    g: np.ndarray, matrix: np.ndarray, windows: Windows, taps: list[tuple[slice, slice]], rows: slice
) -> np.ndarray:
    """Sum over output channels and kernel rows, for g (N, Co, *output) and matrix (groups, rest of kernel * channels,
    kernel row, Co / groups): (rows, groups, rest of kernel * channels, rest of output * N)."""
    groups, width, _, each = matrix.shape
    used = [source for source, _ in taps[rows] if source.stop > source.start]
    low = min((source.start for source in used), default=0)
    high = max((source.stop for source in used), default=0)
    # (groups, row, channel, rest of output, N): rows and channels are adjacent for the product; the images are
    # innermost, so that the shifted sums that follow run over long contiguous runs.
    laid_out = g.reshape(len(g), groups, each, *windows.output)[:, :, :, low:high]
    count = len(g) * volume(windows.output[1:])
    laid_out = np.ascontiguousarray(np.moveaxis(laid_out, (3, 0), (1, -1)))
    laid_out = laid_out.reshape(groups, -1, each, count)
    products = np.empty((rows.stop - rows.start, groups, width, count), g.dtype)
    lefts: dict[tuple[int, int, int], np.ndarray] = {}
    for target, (source, kernel_rows) in zip(products, taps[rows], strict=True):
        if source.stop <= source.start:
            target.fill(0)
            continue
        key = kernel_rows.start, kernel_rows.stop, kernel_rows.step
        if key not in lefts:
            lefts[key] = matrix[:, :, kernel_rows].reshape(groups, width, -1)
        right = laid_out[:, source.start - low : source.stop - low : source.step].reshape(groups, -1, count)
        for i in range(groups):
            np.matmul(lefts[key][i], right[i], out=target[i])
    return products


_LONG = 14  # output width, from which on rows of windows are copied as fast as any run
_MANY_CHANNELS, _MANY_PLACES = 16, 512  # of an input and of windows, from which on its gradient is taken by phases
_SHORT = 32  # numbers side by side in memory, below which copying them one run after another is slow


def _channels_first(x: np.ndarray, w: np.ndarray, windows: Windows) -> bool:
    """Return whether copying windows from the input as it is gives the longer runs; see the Note on layout."""
    if _pointwise(windows):
        return volume(windows.output) >= 64
    run_last = w.shape[1] * (windows.kernel[-1] if windows.dilation[-1] == 1 else 1)
    return run_last < _SHORT and run_last < windows.output[-1]


def _pointwise(windows: Windows) -> bool:
    ones = (1,) * len(windows.kernel)
    return windows.kernel == windows.stride == ones and windows.size == windows.output and not any(windows.padding)


def _row_bytes(x: np.ndarray, w: np.ndarray, windows: Windows, groups: int) -> int:
    return volume(w.shape[1:]) * groups * volume(windows.output[1:]) * x.itemsize


def _columns_last(x: np.ndarray, windows: Windows, rows: slice, groups: int) -> np.ndarray:
    """Copy the windows of a channels-last block to (groups, N * output, kernel * C / groups)."""
    view = window_view(padded(x, windows, rows, True), windows, rows.stop - rows.start, True, groups)
    return view.reshape(groups, len(x) * (rows.stop - rows.start) * volume(windows.output[1:]), -1)


def _columns_first(x: np.ndarray, windows: Windows, rows: slice, groups: int, extra: int = 0) -> np.ndarray:
    """Copy the windows to (N, groups, C / groups * kernel + extra, output), the `extra` rows uninitialised."""
    view = window_view(padded(x, windows, rows, False), windows, rows.stop - rows.start, False, groups)
    depth = volume(view.shape[2 : 3 + len(windows.kernel)])
    if not extra:
        return view.reshape(len(x), groups, depth, -1)
    buffer = np.empty((len(x), groups, depth + extra, volume(view.shape[3 + len(windows.kernel) :])), x.dtype)
    np.copyto(buffer[:, :, :depth].reshape(view.shape), view)
    return buffer


def _forward_channels_first(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, windows: Windows, groups: int, out: np.ndarray
) -> np.ndarray:
    each, depth = len(w) // groups, volume(w.shape[1:])
    matrix = w.reshape(groups, each, depth)
    # A row of ones in the windows adds the bias within the product; with a 1x1 kernel there is no copy.
    extra = int(bias is not None and not _pointwise(windows))
    if extra and bias is not None:
        matrix = np.concatenate((matrix, bias.reshape(groups, each, 1)), axis=2)
    target_of = out.reshape(len(x), groups, each, -1)
    row = volume(windows.output[1:])

    def work(block: tuple[slice, slice]) -> None:
        images, rows = block
        columns = _columns_first(x[images], windows, rows, groups, extra)
        if extra:
            columns[:, :, depth] = 1
        target = target_of[images, :, :, rows.start * row : rows.stop * row]
        np.matmul(matrix, columns, out=target)
        if bias is not None and not extra:
            target += bias.reshape(groups, each, 1)

    threads.share(work, blocks(len(x), windows.output[0], _row_bytes(x, w, windows, groups)))
    return out


def is_depthwise(w: np.ndarray, groups: int) -> bool:
    """Return whether a weight (Co, C / groups, *kernel) makes a depthwise convolution of more than one group."""
    return groups > 1 and w.shape[1] == 1


def depthwise_forward(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, windows: Windows, out: np.ndarray
) -> np.ndarray:
    """Fill out (N, Co, *output); see `forward`."""
    groups, each = x.shape[1], len(w) // x.shape[1]
    grouped = out.reshape(len(x), groups, each, *windows.output)
    weights = np.ascontiguousarray(np.moveaxis(w.reshape(groups, each, *windows.kernel), (0, 1), (-1, -2)))

    def work(block: tuple[slice, slice]) -> None:
        images, rows = block
        view = _shifted(x[images], windows, rows)
        for multiple in range(each):
            total = np.zeros(view.shape[len(windows.kernel) :], x.dtype)
            term = np.empty_like(total)
            if bias is not None:
                total += bias.reshape(groups, each)[:, multiple]
            for offsets in windows.offsets():
                np.multiply(view[offsets], weights[offsets][multiple], out=term)
                total += term
            np.copyto(grouped[images, :, multiple, rows], np.moveaxis(total, -1, 1))

    threads.share(work, _depthwise_blocks(x, windows))
    return out


def depthwise_weight_gradient(g: np.ndarray, x: np.ndarray, windows: Windows, out: np.ndarray) -> np.ndarray:
    """Fill out (Co, 1, *kernel); see `weight_gradient`."""
    groups, each = x.shape[1], len(out) // x.shape[1]
    grouped = g.reshape(len(x), groups, each, *windows.output)
    result = out.reshape(groups, each, *windows.kernel)

    def work(part: list[tuple[slice, slice]]) -> np.ndarray:
        total = np.zeros((*windows.kernel, each, groups), g.dtype)
        for images, rows in part:
            view = _shifted(x[images], windows, rows)
            for multiple in range(each):
                gradient = np.ascontiguousarray(np.moveaxis(grouped[images, :, multiple, rows], 1, -1))
                term = np.empty_like(gradient)
                ones = np.ones(volume(gradient.shape[:-1]), g.dtype)
                for offsets in windows.offsets():
                    np.multiply(view[offsets], gradient, out=term)
                    total[offsets][multiple] += ones @ term.reshape(-1, groups)
        return total

    pieces = _depthwise_blocks(x, windows)
    totals = threads.share(work, [pieces[part] for part in threads.chunks(len(pieces))])
    result[...] = np.moveaxis(sum(totals[1:], totals[0]), (-1, -2), (0, 1))
    return out


def depthwise_input_gradient(g: np.ndarray, w: np.ndarray, windows: Windows, out: np.ndarray) -> np.ndarray:
    """Fill out (N, C, *size), which holds zeros; see `input_gradient`."""
    groups, each = out.shape[1], len(w) // out.shape[1]
    grouped = g.reshape(len(g), groups, each, *windows.output)
    weights = np.ascontiguousarray(np.moveaxis(w.reshape(groups, each, *windows.kernel), (0, 1), (-1, -2)))

    def work(images: slice) -> None:
        total = np.zeros((images.stop - images.start, *windows.size, groups), g.dtype)
        for multiple in range(each):
            gradient = np.ascontiguousarray(np.moveaxis(grouped[images, :, multiple], 1, -1))
            for offsets in windows.offsets():
                pair = windows.at(offsets)
                if pair is not None:
                    part = total[(slice(None), *pair[1])]
                    part += gradient[(slice(None), *pair[0])] * weights[offsets][multiple]
        np.copyto(out[images], np.moveaxis(total, -1, 1))

    image_bytes = volume(out.shape[1:]) * out.itemsize
    threads.share(work, threads.chunks(len(out), (1 << 18) // image_bytes))
    return out


def _shifted(x: np.ndarray, windows: Windows, rows: slice) -> np.ndarray:
    """Return the shifted blocks, a view (*kernel, N, *output, C)."""
    view = window_view(padded(x, windows, rows, True), windows, rows.stop - rows.start, True)[0]
    dims = len(windows.kernel)
    return np.moveaxis(view, range(1 + dims, 1 + 2 * dims), range(dims))


def _depthwise_blocks(x: np.ndarray, windows: Windows) -> list[tuple[slice, slice]]:
    row_bytes = x.shape[1] * volume(windows.output[1:]) * x.itemsize
    return blocks(len(x), windows.output[0], row_bytes, 1 << 18)
