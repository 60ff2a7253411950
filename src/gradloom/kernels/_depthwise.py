"""Convolutions with one input channel in each group: products of single numbers, so the kernel's elements are
taken one after the other and each multiplies a whole shifted block of channels-last images."""

from __future__ import annotations

import numpy as np

from gradloom.kernels import _threads
from gradloom.kernels._windows import Windows, blocks, padded, volume, window_view


def applies(w: np.ndarray, groups: int) -> bool:
    """Whether a weight (Co, C / groups, *kernel) makes a depthwise convolution of more than one group."""
    return groups > 1 and w.shape[1] == 1


def forward(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, windows: Windows, out: np.ndarray) -> np.ndarray:
    """Fills out (N, Co, *output); see _convolve.forward."""
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

    _threads.share(work, _blocks(x, windows))
    return out


def weight_gradient(g: np.ndarray, x: np.ndarray, windows: Windows, out: np.ndarray) -> np.ndarray:
    """Fills out (Co, 1, *kernel); see _convolve.weight_gradient."""
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

    pieces = _blocks(x, windows)
    totals = _threads.share(work, [pieces[part] for part in _threads.chunks(len(pieces))])
    result[...] = np.moveaxis(sum(totals[1:], totals[0]), (-1, -2), (0, 1))
    return out


def input_gradient(g: np.ndarray, w: np.ndarray, windows: Windows, out: np.ndarray) -> np.ndarray:
    """Fills out (N, C, *size), which holds zeros; see _convolve.input_gradient."""
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
    _threads.share(work, _threads.chunks(len(out), (1 << 18) // image_bytes))
    return out


def _shifted(x: np.ndarray, windows: Windows, rows: slice) -> np.ndarray:
    """(*kernel, N, *output, C) without a copy of the windows"""
    view = window_view(padded(x, windows, rows, True), windows, rows.stop - rows.start, True)[0]
    dims = len(windows.kernel)
    return np.moveaxis(view, range(1 + dims, 1 + 2 * dims), range(dims))


def _blocks(x: np.ndarray, windows: Windows) -> list[tuple[slice, slice]]:
    row_bytes = x.shape[1] * volume(windows.output[1:]) * x.itemsize
    return blocks(len(x), windows.output[0], row_bytes, 1 << 18)
