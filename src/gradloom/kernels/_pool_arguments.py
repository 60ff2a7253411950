"""The arguments of pooling, checked with PyTorch's conditions and put into one form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradloom.kernels._windows import Windows, as_tuple

Ints = int | Sequence[int]


def leading(name: str, x: np.ndarray, dims: int) -> tuple[int, ...]:
    """The dimensions before the spatial ones; only a batch may have no elements."""
    if x.ndim not in (dims + 1, dims + 2) or 0 in x.shape[-dims - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with optional 0 dim batch size "
            f"for input, but got: {list(x.shape)}"
        )
    return x.shape[:-dims]


def refuse(name: str, dtype: np.dtype, kinds: str) -> None:
    if dtype.kind in kinds:
        raise NotImplementedError(f'"{name}" not implemented for {dtype.name!r}')


def describe(
    name: str, x: np.ndarray, dims: int, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Windows:
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
    size = x.shape[-dims:]
    output = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= n + p:  # the last window may not begin in the padding behind the input
            count -= 1
        output.append(count)
    if min(output) < 1:
        before, after = ("x".join(map(str, x.shape[-dims - 1 :])), "x".join(map(str, (x.shape[-dims - 1], *output))))
        raise RuntimeError(f"Given input size: ({before}). Calculated output size: ({after}). Output size is too small")
    return Windows(size, kernel, stride, padding, dilation, tuple(output))


def _ints(name: str, value: Ints, dims: int, argument: str) -> tuple[int, ...]:
    if isinstance(value, Sequence) and len(value) not in (1, dims):
        raise RuntimeError(f"{name}: {argument} must either be a single int, or a tuple of {dims} ints")
    return as_tuple(value, dims, argument)


def divisor(windows: Windows, count_include_pad: bool, divisor_override: int | None) -> int | np.ndarray:
    """What the sums of `windows` are divided by: a number, or an array of the output's shape."""
    if divisor_override is not None:
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        return divisor_override
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
    """The leading and the output's spatial dimensions, checked."""
    if not isinstance(output_size, int) and len(output_size) not in (1, dims):
        raise RuntimeError(f"{name}: output_size must be {dims}")
    output = as_tuple(output_size, dims, "output_size")
    if x.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got {list(x.shape)}")
    if min(output) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {list(output)}"
        )
    for axis in range(-dims - 1, 0):
        if x.shape[axis] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has "
                f"sizes {list(x.shape)} with dimension {x.ndim + axis} being empty"
            )
    return x.shape[:-dims], output
