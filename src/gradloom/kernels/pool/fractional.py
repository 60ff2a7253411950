"""Fractional max pooling (Graham 2014): the maxima of windows whose positions random numbers decide."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .._common.errors import not_implemented
from .._common.numbers import is_half, widen
from .._common.windows import volume
from . import blocks


def fractional_max_pool2d(self, kernel_size, output_size, random_samples) -> tuple[np.ndarray, np.ndarray]:
    return _pool(2, self, kernel_size, output_size, random_samples)


def fractional_max_pool3d(self, kernel_size, output_size, random_samples) -> tuple[np.ndarray, np.ndarray]:
    return _pool(3, self, kernel_size, output_size, random_samples)


def fractional_max_pool2d_backward(grad_output, self, kernel_size, output_size, indices):
    return _backward(2, grad_output, self, output_size, indices)


def fractional_max_pool3d_backward(grad_output, self, kernel_size, output_size, indices):
    return _backward(3, grad_output, self, output_size, indices)


@np.errstate(all="ignore")
def _pool(dims, self, kernel_size, output_size, random_samples):
    """Return the largest element of every window, and its index in the flattened spatial dimensions. Of equal elements
    the first is chosen; of NaNs the last. The samples are (N, C, dims) numbers in [0, 1); for images the width's come
    first."""
    kernel, output = tuple(kernel_size), tuple(output_size)
    _check(dims, self, kernel, output, random_samples)
    size = self.shape[-dims:]
    planes = volume(self.shape[:-dims])
    x = np.ascontiguousarray(self).reshape(planes, *size)
    samples = random_samples[: self.shape[0] if self.ndim == dims + 2 else 1].reshape(planes, dims)
    order = range(dims) if dims == 3 else (1, 0)
    starts = [_starts(samples[:, s], size[d], kernel[d], output[d]) for d, s in enumerate(order)]
    view = sliding_window_view(x, kernel, tuple(range(1, dims + 1)))
    along = [
        start.reshape(planes, *(output[d] if e == d else 1 for e in range(dims))) for d, start in enumerate(starts)
    ]
    windows = view[(np.arange(planes).reshape(-1, *(1,) * dims), *along)].reshape(planes, *output, volume(kernel))
    best = windows.argmax(-1)
    missing = np.isnan(windows)
    if missing.any():
        last = windows.shape[-1] - 1 - missing[..., ::-1].argmax(-1)
        best = np.where(missing.any(-1), last, best)
    values = np.take_along_axis(windows, best[..., None], -1)[..., 0]
    index = 0
    for n, start, offset in zip(size, along, np.unravel_index(best, kernel), strict=True):
        index = index * n + start + offset
    shape = (*self.shape[:-dims], *output)
    return values.reshape(shape), np.ascontiguousarray(index, np.int64).reshape(shape)


def _starts(sample, size, kernel, count):
    """Return the first element of each window, (planes, count): steps of equal length, rounded down after a random
    shift, and the last window at the end."""
    found = np.full((len(sample), count), size - kernel, np.intp)
    if count > 1:
        real = sample.dtype.type
        step = real(size - kernel) / real(count - 1)
        shift = sample[:, None]
        steps = np.arange(count - 1).astype(sample.dtype)  # all in the dtype of the samples, as PyTorch's
        found[:, :-1] = ((steps + shift) * step).astype(np.intp) - (shift * step).astype(np.intp)
    return found


def _check(dims, x, kernel, output, samples) -> None:
    name = f"fractional_max_pool{dims}d"
    each = "tuple of Ints" if dims == 2 else "tuple of three Ints"
    for argument, values in (("kernel_size", kernel), ("output_size", output)):
        if len(values) != dims:
            raise RuntimeError(f"{name}: {argument} must either be a single Int or {each}")
    name += "()" if dims == 2 else "_out()"
    if x.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}: Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(x.shape)}")
    for d in range(1, x.ndim):
        if not x.shape[d]:
            raise RuntimeError(
                f"{name}: Expected input to have non-zero size for non-batch dimensions, but got{list(x.shape)} with "
                f"dimension {d} being empty."
            )
    for word, n, k, count in zip(("time", "height", "width")[3 - dims :], x.shape[-dims:], kernel, output, strict=True):
        if k < 1 or count < 0 or count + k - 1 > n - (dims == 3):
            raise RuntimeError(f"{name}: pool {word} {k} too large relative to input {word} {n}")
    if x.dtype.kind != "f" and not is_half(x.dtype):
        raise not_implemented(f"fractional_max_pool{dims}d_out_frame", x)
    if samples.dtype != x.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    if samples.shape[0] < (x.shape[0] if x.ndim == dims + 2 else 1):
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples.shape[1] != x.shape[-dims - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples.shape[2] != dims:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {dims}; got {samples.shape[2]}.")


def _backward(dims, grad_output, self, output_size, indices):
    """Return the gradient of `self`: each element of grad_output added at its index."""
    shape = (*self.shape[:-dims], *output_size)
    if grad_output.shape != shape:
        words = "gradOutput sizes unexpected" if dims == 2 else "gradOutput width unexpected"
        raise RuntimeError(f"fractional_max_pool{dims}d_backward{'' if dims == 2 else '_out'}(): {words}")
    if indices.shape != shape:
        raise RuntimeError(f"fractional_max_pool{dims}d_backward(): indices sizes unexpected")
    planes = volume(self.shape[:-dims])
    values = np.ascontiguousarray(widen(grad_output)).reshape(planes, volume(output_size))
    grad = blocks.scatter_add(values, indices.reshape(values.shape), volume(self.shape[-dims:]))
    return grad.reshape(self.shape).astype(grad_output.dtype, copy=False)
