"""Max, average and adaptive pooling over one to three spatial dimensions, and their gradients.

An input is (N, C, *spatial) or, without a batch, (C, *spatial). Every kernel takes the number of spatial dimensions;
for two and three it also exists under PyTorch's name, with the parameters of PyTorch's schema. An argument with one
value per dimension (kernel_size, stride, ...) is a sequence of integers or one integer for all; an empty stride stands
for the kernel size. An index is a position in an input's flattened spatial dimensions, int64. Averages of float16 and
bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod

import numpy as np

from ...types.device import memory_format
from .._common.dims import require_dim
from .._common.errors import refuse
from .._common.layout import in_format, suggested_format
from .._common.windows import Windows, as_tuple, compute_dtype, volume
from . import blocks

Ints = int | Sequence[int]


def max_pool_with_indices(
    dims: int,
    self: np.ndarray,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest element of every window and its index. Of equal elements the first is chosen; if there are
    NaNs, the last of them. Raises RuntimeError for a rank, sizes or settings that give no windows, NotImplementedError
    for bool and complex."""
    name = f"max_pool{dims}d"
    lead = leading(name, self, dims)
    refuse(name, self, "bc")
    windows = describe(name, self, dims, kernel_size, stride, padding, dilation, ceil_mode)
    x = np.ascontiguousarray(self).reshape(-1, *windows.size)
    out, indices = blocks.maximum(x, windows)
    order = _order(dims, self, True)
    out, indices = out.reshape(*lead, *windows.output), indices.reshape(*lead, *windows.output)
    return in_format(out, order), in_format(indices, order)


def max_pool_with_indices_backward(
    dims: int,
    grad_output: np.ndarray,
    self: np.ndarray,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: np.ndarray,
) -> np.ndarray:
    """Return the gradient of `self`: each element of grad_output added at its index. The window settings are accepted
    as in PyTorch and not used. Raises RuntimeError if grad_output and indices differ in shape."""
    return _scatter(f"max_pool{dims}d_backward", dims, grad_output, self, indices)


def avg_pool(
    dims: int,
    self: np.ndarray,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> np.ndarray:
    """Return the mean of every window: its sum divided by `divisor_override`, or by the number of its elements, those
    in the padding included if `count_include_pad`. Integers are divided as in C, towards zero."""
    name = f"avg_pool{dims}d"
    lead = leading(name, self, dims)
    refuse(name, self, "bc")
    windows = describe(name, self, dims, kernel_size, stride, padding, 1, ceil_mode)
    if dims == 3 and any(k > n for k, n in zip(windows.kernel, windows.size, strict=True)):
        # As in PyTorch, the padding does not count for volumes, unlike for images and rows.
        raise RuntimeError(f"input image {windows.size} smaller than kernel size {windows.kernel}")
    divisor = window_divisor(windows, count_include_pad, divisor_override)
    total = blocks.add(self.reshape(-1, *windows.size), windows, compute_dtype(self.dtype))
    if total.dtype.kind in "iu":
        quotient = np.abs(total) // np.abs(divisor) * np.sign(total) * np.sign(divisor)
    else:
        quotient = np.divide(total, np.asarray(divisor, total.dtype), total)
    quotient = quotient.astype(self.dtype, copy=False).reshape(*lead, *windows.output)
    return in_format(quotient, _order(dims, self))


def avg_pool_backward(
    dims: int,
    grad_output: np.ndarray,
    self: np.ndarray,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> np.ndarray:
    """Return the gradient of `self`."""
    refuse(f"avg_pool{dims}d_backward", grad_output, "c")
    windows = describe(f"avg_pool{dims}d", self, dims, kernel_size, stride, padding, 1, ceil_mode)
    if grad_output.shape != (*self.shape[:-dims], *windows.output):
        expected = [*self.shape[:-dims], *windows.output]
        raise RuntimeError(f"expected grad_output of shape {expected}, but got {list(grad_output.shape)}")
    divisor = window_divisor(windows, count_include_pad, divisor_override)
    dtype = compute_dtype(grad_output.dtype)
    each = grad_output.astype(dtype, copy=False) / np.asarray(divisor, dtype)
    grad = blocks.spread(each.reshape(-1, *windows.output), windows)
    return in_format(grad.reshape(self.shape).astype(grad_output.dtype, copy=False), _order(dims, self))


def adaptive_avg_pool(dims: int, self: np.ndarray, output_size: Ints) -> np.ndarray:
    """Return the means of output_size windows that cover the input: of O windows over S elements, window i begins at
    floor(i S / O) and ends before ceil((i + 1) S / O). Floating point only, otherwise NotImplementedError; RuntimeError
    for a rank or an output_size that does not fit, and for an input without elements in a dimension other than the
    batch."""
    name = f"adaptive_avg_pool{dims}d"
    lead, output = shared_out(name, self, dims, output_size)
    refuse(name, self, "bciu")
    total = self.astype(compute_dtype(self.dtype), copy=False)
    for axis, size in enumerate(output, -dims):
        total = blocks.adaptive_mean(total, axis, size)
    total = total + 0.0  # as sums that begin with 0: none is -0
    return in_format(total.astype(self.dtype, copy=False).reshape(*lead, *output), _order(dims, self))


def adaptive_avg_pool_backward(dims: int, grad_output: np.ndarray, self: np.ndarray) -> np.ndarray:
    """Return the gradient of `self`; raise RuntimeError if grad_output and self differ in rank or leading sizes."""
    if grad_output.shape[:-dims] != self.shape[:-dims]:
        raise RuntimeError(
            f"expected grad_output with leading sizes {list(self.shape[:-dims])}, but got {list(grad_output.shape)}"
        )
    if 0 in self.shape[-dims:]:
        raise RuntimeError(f"adaptive_avg_pool{dims}d_backward(): the input is empty: {list(self.shape)}")
    refuse(f"adaptive_avg_pool{dims}d_backward", grad_output, "c")
    grad = grad_output.astype(compute_dtype(grad_output.dtype), copy=False)
    for axis in range(-dims, 0):
        wide = np.zeros((*grad.shape[:axis], self.shape[axis], *grad.shape[axis:][1:]), grad.dtype)
        for i, part in enumerate(blocks.shares(self.shape[axis], grad_output.shape[axis])):
            wide[blocks.select(axis, part)] += grad[blocks.select(axis, slice(i, i + 1))] / (part.stop - part.start)
        grad = wide
    return in_format(grad.astype(grad_output.dtype, copy=False), _order(dims, self))


def adaptive_max_pool(dims: int, self: np.ndarray, output_size: Ints) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest elements, and their indices, of the windows described in adaptive_avg_pool. Ties, NaN and
    errors are as in max_pool_with_indices."""
    name = f"adaptive_max_pool{dims}d"
    lead, output = shared_out(name, self, dims, output_size)
    refuse(name, self, "bciu")
    size = self.shape[-dims:]
    x = np.ascontiguousarray(self).reshape(volume(lead), *size)
    kernel = tuple(n // max(1, o) for n, o in zip(size, output, strict=True))
    even = all(k * o == n for k, o, n in zip(kernel, output, size, strict=True))
    if even and volume(kernel) <= 16:  # many small windows: all at once instead of one after the other
        windows = Windows(size, kernel, kernel, (0,) * dims, (1,) * dims, output)
        out, indices = blocks.maximum(x, windows)
    else:
        out, indices = blocks.adaptive_maximum(x, output)
    order = _order(dims, self)
    return in_format(out.reshape(*lead, *output), order), in_format(indices.reshape(*lead, *output), order)


def adaptive_max_pool_backward(dims: int, grad_output: np.ndarray, self: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return the gradient of `self`; see max_pool_with_indices_backward."""
    return _scatter(f"adaptive_max_pool{dims}d_backward", dims, grad_output, self, indices)


def max_unpool(
    dims: int, self: np.ndarray, indices: np.ndarray, output_size: Ints, stride: Ints = (), padding: Ints = ()
) -> np.ndarray:
    """Return zeros of shape (N, C, *output_size) with the elements of `self` written at their indices; at repeated
    indices the last one counts. `stride` and `padding` are accepted as in PyTorch's max_unpool3d; positive strides are
    not used."""
    output = as_tuple(output_size, dims, "output_size")
    if indices.dtype != np.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
    if indices.shape != self.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(self.shape)}) "
            f"but got indices tensor with shape: {list(indices.shape)}"
        )
    lead = leading(f"max_unpool{dims}d", self, dims)
    steps = as_tuple(stride, dims, "stride") if stride else (1,) * dims
    if min(steps) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(steps)}")
    indices = indices.copy()  # Note [Private indices]
    wrong = indices[(indices < 0) | (indices >= volume(output))]
    if wrong.size:
        raise RuntimeError(
            f"Found an invalid max index: {wrong[0]} (output volumes are of size {'x'.join(map(str, output))})"
        )
    out = np.zeros((volume(lead), volume(output)), self.dtype)
    rows = np.arange(len(out))[:, None]
    out[rows, indices.reshape(len(out), volume(self.shape[-dims:]))] = self.reshape(len(out), -1) if self.size else 0
    return in_format(out.reshape(*lead, *output), suggested_format(self) if dims == 2 else None)


def _scatter(name: str, dims: int, grad_output: np.ndarray, self: np.ndarray, indices: np.ndarray) -> np.ndarray:
    if grad_output.shape != indices.shape or grad_output.shape[:-dims] != self.shape[:-dims]:
        raise RuntimeError(
            f"{name}: grad_output {list(grad_output.shape)}, indices {list(indices.shape)} and input "
            f"{list(self.shape)} do not belong together"
        )
    planes = volume(self.shape[:-dims])
    values = grad_output.astype(compute_dtype(grad_output.dtype), copy=False).reshape(planes, -1 if planes else 0)
    grad = blocks.scatter_add(values, indices.reshape(values.shape), volume(self.shape[-dims:]))
    order = _order(dims, self, name.startswith("max"))
    return in_format(grad.reshape(self.shape).astype(grad_output.dtype, copy=False), order)


def _order(dims: int, like: np.ndarray, maxima: bool = False) -> memory_format | None:
    """Return the memory format of results: channels-last if the input has it; for volumes in max pooling only."""
    return suggested_format(like) if like.ndim == dims + 2 and (dims < 3 or maxima) else None


def _for_2d_and_3d(kernel: Callable) -> tuple[partial, partial]:
    return partial(kernel, 2), partial(kernel, 3)


max_pool2d_with_indices, max_pool3d_with_indices = _for_2d_and_3d(max_pool_with_indices)
max_pool2d_with_indices_backward, max_pool3d_with_indices_backward = _for_2d_and_3d(max_pool_with_indices_backward)
avg_pool2d, avg_pool3d = _for_2d_and_3d(avg_pool)
avg_pool2d_backward, avg_pool3d_backward = _for_2d_and_3d(avg_pool_backward)
adaptive_avg_pool2d, adaptive_avg_pool3d = _for_2d_and_3d(adaptive_avg_pool)
adaptive_avg_pool2d_backward, adaptive_avg_pool3d_backward = _for_2d_and_3d(adaptive_avg_pool_backward)
adaptive_max_pool2d, adaptive_max_pool3d = _for_2d_and_3d(adaptive_max_pool)
adaptive_max_pool2d_backward, adaptive_max_pool3d_backward = _for_2d_and_3d(adaptive_max_pool_backward)
max_unpool2d, max_unpool3d = _for_2d_and_3d(max_unpool)


def leading(name: str, x: np.ndarray, dims: int) -> tuple[int, ...]:
    """Return the dimensions before the spatial ones; only a batch may have no elements."""
    if x.ndim in (dims + 1, dims + 2) and 0 not in x.shape[-dims - 1 :]:
        return x.shape[:-dims]
    if name == "avg_pool2d":
        require_dim(-3, x.ndim)
    ranks = f"{dims + 1}D or {dims + 2}D (batch mode) tensor"
    if x.ndim not in (dims + 1, dims + 2) and name != "avg_pool2d":
        raise RuntimeError(f"non-empty {ranks} expected for input")
    if dims == 3:
        function = name if name == "avg_pool3d" else f"{name}_with_indices_out_cpu_template"
        empty = next(axis for axis in range(x.ndim - 4, x.ndim) if not x.shape[axis])
        raise RuntimeError(
            f"{function}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{list(x.shape)} with dimension {empty} being empty"
        )
    raise RuntimeError(f"Expected {ranks} with optional 0 dim batch size for input, but got:{list(x.shape)}")


def describe(
    name: str, x: np.ndarray, dims: int, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Windows:
    """Return the windows of a pooling; raise RuntimeError in PyTorch's words for settings that make no sense."""
    settings = [
        v if v.__class__ is tuple or v.__class__ is int else tuple(v) if isinstance(v, Sequence) else v
        for v in (kernel, stride, padding, dilation)
    ]
    return _described(name, x.shape, dims, *settings, ceil_mode)


@lru_cache(256)  # a network calls each pooling with the same shape again and again
def _described(name, shape, dims, kernel, stride, padding, dilation, ceil_mode) -> Windows:
    kernel = _ints(name, kernel, dims, "kernel_size")
    stride = _ints(name, stride, dims, "stride") if not isinstance(stride, Sequence) or len(stride) else kernel
    padding = _ints(name, padding, dims, "padding")
    dilation = _ints(name, dilation, dims, "dilation")
    if min(kernel) < 1:
        raise RuntimeError(f"{name}: kernel size should be greater than zero, but got {list(kernel)}")
    if min(stride) < 1:
        raise RuntimeError("stride should not be zero" if min(stride) == 0 else "stride should be greater than zero")
    if min(dilation) < 1:
        raise RuntimeError(f"dilation should be greater than zero, but got dilation={list(dilation)}")
    if min(padding) < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {min(padding)}")
    for p, k, d in zip(padding, kernel, dilation, strict=True):
        if p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                "pad should be at most half of effective kernel size, "
                f"but got pad={p}, kernel_size={k} and dilation={d}"
            )
    size = shape[-dims:]
    output = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= n + p:  # the last window may not begin in the padding after the input
            count -= 1
        output.append(count)
    if min(output) < 1:
        before, after = ("x".join(map(str, shape[-dims - 1 :])), "x".join(map(str, (shape[-dims - 1], *output))))
        raise RuntimeError(f"Given input size: ({before}). Calculated output size: ({after}). Output size is too small")
    return Windows(size, kernel, stride, padding, dilation, tuple(output))


def _ints(name: str, value: Ints, dims: int, argument: str) -> tuple[int, ...]:
    if isinstance(value, Sequence) and len(value) not in (1, dims):
        raise RuntimeError(f"{name}: {argument} must either be a single int, or a tuple of {dims} ints")
    found = as_tuple(value, dims, argument)
    if max(found) >= 1 << 31 or min(found) < -1 << 31:
        raise RuntimeError("value cannot be converted to type int without overflow")
    return found


@lru_cache(256)
def window_divisor(windows: Windows, count_include_pad: bool, divisor_override: int | None) -> int | np.ndarray:
    """Return the divisor of the sums of `windows`: a number, or an array of the output's shape."""
    if divisor_override is not None:
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        return divisor_override
    if not any(windows.padding) and all(
        (o - 1) * s + k <= n
        for n, k, s, o in zip(windows.size, windows.kernel, windows.stride, windows.output, strict=True)
    ):
        return prod(windows.kernel)
    total: np.ndarray = np.ones((), np.int64)
    for n, k, s, p, o in zip(
        windows.size, windows.kernel, windows.stride, windows.padding, windows.output, strict=True
    ):
        start = np.arange(o) * s - p
        stop = np.minimum(start + k, n + p)
        if not count_include_pad:
            start, stop = np.maximum(start, 0), np.minimum(stop, n)
        total = total[..., None] * (stop - start)
    return int(total.flat[0]) if total.min() == total.max() else total


def shared_out(name: str, x: np.ndarray, dims: int, output_size: Ints) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the leading dimensions and the output's spatial dimensions, after checking them."""
    if not isinstance(output_size, int) and len(output_size) not in (1, dims):
        raise RuntimeError(f"{name}: output_size must be {dims}")
    output = as_tuple(output_size, dims, "output_size")
    if x.ndim not in (dims + 1, dims + 2):
        colon = ":" * name.startswith("adaptive_max")
        raise RuntimeError(f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got{colon} {list(x.shape)}")
    if min(output) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{', '.join(map(str, output))}}}"
        )
    for axis in range(-dims, 0) if name == "adaptive_avg_pool2d" else range(1 - x.ndim, 0):  # not the first
        if x.shape[axis] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has "
                f"sizes {list(x.shape)} with dimension {x.ndim + axis} being empty"
            )
    return x.shape[:-dims], output
