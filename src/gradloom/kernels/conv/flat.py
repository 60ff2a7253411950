"""The sums of products.py for two spatial dimensions and a stride of 1, on rows as they lie in memory.

Note [Flat windows]
In a padded image of width W, kernel element (i, j) of the window at (r, s) lies at (r + i d) W + s + j d: of all
windows, one row after the other, it is one contiguous run that begins at i d W + j d. So the windows are copied run by
run, and a product of the weights with them gives whole padded rows; the few positions between the rows that are no
windows are computed, too, and left out when the result is copied. The gradient of the input is such a convolution of
the gradient, padded, with the kernel turned around.

Padding and the positions between rows are multiplied as zeros, where other kernels multiply nothing: an infinity or NaN
in the other factor would turn up in results that do not depend on it. Both gradients are therefore left to the other
kernels then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._common import threads
from .._common.blas import dot
from .._common.windows import Windows, blocks, padded, volume

_SMALL = 1 << 18  # bytes of windows, up to which the number of NumPy calls decides
_BLOCK = 1 << 20  # bytes of windows copied at a time
_WIDTH, _CHANNELS = 28, 64  # from which on it pays for larger images


def pays(images: int, w_shape: tuple[int, ...], windows: Windows, itemsize: int) -> bool:
    """Return whether the sums are faster here, for a weight (Co, C, *kernel) of one group."""
    if len(windows.size) != 2 or windows.stride != (1, 1) or windows.kernel == (1, 1):
        return False
    if windows.output[1] >= _WIDTH and w_shape[1] >= _CHANNELS and w_shape[0] >= _CHANNELS:
        return True
    return images * volume(w_shape[1:]) * volume(windows.output) * itemsize <= _SMALL


def forward(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, windows: Windows) -> np.ndarray:
    """y (N, Co, *output) from x (N, C, *size), w (Co, C, *kernel) and bias (Co,)."""
    out = np.empty((len(x), len(w), *windows.output), x.dtype)
    depth = volume(w.shape[1:])
    matrix = w.reshape(len(w), depth)
    shift = None if bias is None else bias.reshape(-1, 1, 1)

    def work(block: tuple[slice, slice]) -> None:
        images, rows = block
        columns, width = _columns(x[images], windows, rows)
        product = dot(matrix, columns.reshape(depth, -1))
        found = _rows_of(product, columns.shape[3], rows.stop - rows.start, width, windows.output[1])
        if shift is None:
            out[images, :, rows] = found
        else:
            np.add(found, shift, out[images, :, rows])

    _shared(work, _blocks(x, depth, windows))
    return out


def input_gradient(g: np.ndarray, w: np.ndarray, windows: Windows) -> np.ndarray | None:
    """g_x (N, C, *size) from g (N, Co, *output) and w (Co, C, *kernel).

    None if the padding exceeds the kernel, or w is not finite.
    """
    if not is_finite(w):
        return None
    margin = [d * (k - 1) - p for d, k, p in zip(windows.dilation, windows.kernel, windows.padding, strict=True)]
    if min(margin) < 0:
        return None
    turned = np.ascontiguousarray(w[:, :, ::-1, ::-1].swapaxes(0, 1))
    return forward(g, turned, None, windows._replace(size=windows.output, padding=tuple(margin), output=windows.size))


def weight_gradient(g: np.ndarray, x: np.ndarray, windows: Windows) -> np.ndarray | None:
    """g_w (Co, C, *kernel) from g (N, Co, *output) and x (N, C, *size); None if x is not finite."""
    if not is_finite(x):
        return None
    depth = x.shape[1] * volume(windows.kernel)

    def work(part: list[tuple[slice, slice]]) -> Any:
        total: Any = None
        for images, rows in part:
            columns, width = _columns(x[images], windows, rows)
            gradient = np.zeros((g.shape[1], columns.shape[3] * columns.shape[4]), g.dtype)
            places = _rows_of(gradient, columns.shape[3], rows.stop - rows.start, width, windows.output[1])
            places[...] = g[images, :, rows]
            term = dot(gradient, columns.reshape(depth, -1).T)
            total = term if total is None else np.add(total, term, out=total)
        return total

    pieces = _blocks(x, depth, windows)
    if len(pieces) == 1:
        total = work(pieces)
    else:  # one partial sum per thread over fixed blocks, so that every run gives the same result
        total, *others = threads.share(work, [pieces[part] for part in threads.chunks(len(pieces))])
        for term in others:
            total += term
    return total.reshape(g.shape[1], x.shape[1], *windows.kernel)


def is_finite(array: np.ndarray) -> bool:
    """Return whether all numbers are finite; also False if their sum overflows."""
    return bool(np.isfinite(np.add.reduce(array, None)))


def _columns(x: np.ndarray, windows: Windows, rows: slice) -> tuple[np.ndarray, int]:
    """Return a view (C, *kernel, N, run) of the runs of each kernel element over some rows, and the padded width."""
    image = padded(x, windows, rows, False)
    if not image.flags.c_contiguous:
        image = np.ascontiguousarray(image)
    count, channels, _, width = image.shape
    per_image, per_channel, per_row, item = image.strides
    run = (rows.stop - rows.start - 1) * width + windows.output[1]
    shape = (channels, *windows.kernel, count, run)
    down, right = windows.dilation
    return np.ndarray(shape, x.dtype, image, 0, (per_channel, down * per_row, right * item, per_image, item)), width


def _rows_of(product: np.ndarray, images: int, rows: int, width: int, kept: int) -> np.ndarray:
    """View (Co, N * run) as (N, Co, rows, kept): the windows, without the positions between rows."""
    per_channel, item = product.strides
    run = (rows - 1) * width + kept
    shape = (images, len(product), rows, kept)
    return np.ndarray(shape, product.dtype, product, 0, (run * item, per_channel, width * item, item))


def _blocks(x: np.ndarray, depth: int, windows: Windows) -> list[tuple[slice, slice]]:
    return blocks(len(x), windows.output[0], depth * windows.output[1] * x.itemsize, _BLOCK)


def _shared(work: Any, items: list[tuple[slice, slice]]) -> None:
    if len(items) == 1:
        work(items[0])
    else:
        threads.share(work, items)
