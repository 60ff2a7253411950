"""Upsampling and downsampling by all modes, and the adjoints.

An input is (N, C, *spatial). The kernels of a mode take the sizes of the output, whether corners are aligned (linear
and cubic modes) and the scale of each dimension, None where the sizes give it. Halves are computed in float32 and
rounded once. uint8 images are computed with weights of 16 bits, and rounded after each dimension, as in PyTorch.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .._common import threads
from .._common.blas import gemm
from .._common.errors import not_implemented
from .._common.layout import in_format, suggested_format
from .._common.numbers import is_half, widen
from .tables import Table, adjoint, forward, table

_CHUNK_BYTES = 1 << 20


def _kernels(mode: str, dims: int, name: str):
    """Return the kernel of a mode over `dims` dimensions, and its adjoint. `name` is the operator's."""
    aligns = not mode.startswith("nearest")
    antialiased = mode.endswith("_aa")
    # PyTorch's adjoint for rows and volumes ignores scales as images do; this one is that of the forward pass.
    taps = "nearest_scaled" if mode == "nearest" and dims != 2 else mode

    def settings(options):
        return (options[0], options[1:]) if aligns else (False, options)

    @np.errstate(all="ignore")
    def kernel(self, output_size, *options):
        align, scales = settings(options)
        output_size = tuple(output_size)
        _check_sizes(dims, output_size, self.shape)
        if not self.size and 0 in self.shape[1:]:
            raise RuntimeError(
                f"Non-empty {dims + 2}D data tensor expected but got a tensor with sizes {list(self.shape)}"
            )
        _check_dtype(self, mode, dims)
        memory_format = suggested_format(self)
        if self.dtype.kind == "u" and aligns:
            out = _bytes(self, mode, output_size, align, scales)
            return in_format(out, memory_format)
        x = self if not aligns else widen(self)
        tables = _tables(taps, self.shape[2:], output_size, align, scales, x.dtype)
        if antialiased:  # a dimension whose size stays is not smoothed
            tables = [None if n == count else t for n, count, t in zip(x.shape[2:], output_size, tables, strict=True)]
        return _apply(x, tables, forward, output_size, memory_format, self.dtype)

    @np.errstate(all="ignore")
    def backward(grad_output, output_size, input_size, *options):
        align, scales = settings(options)
        output_size, input_size = tuple(output_size), tuple(input_size)
        _check_sizes(dims, output_size, input_size)
        _check_gradient(grad_output, (*input_size[:2], *output_size))
        if (
            grad_output.dtype.kind != "f"
            and not is_half(grad_output.dtype)
            or antialiased
            and is_half(grad_output.dtype)
        ):
            raise not_implemented(f"{name[1:]}_backward_cpu" if antialiased else f"{name}_backward", grad_output)
        keeps_format = dims == 2 and mode.startswith(("nearest", "linear")) or dims == 3 and mode == "linear"
        memory_format = suggested_format(grad_output) if keeps_format else None
        grad = widen(grad_output)
        tables = _tables(taps, input_size[2:], output_size, align, scales, grad.dtype)
        if mode == "cubic" and output_size == input_size[2:]:
            tables = [None, None]
        return _apply(grad, tables, adjoint, input_size[2:], memory_format, grad_output.dtype)

    return kernel, backward


def _tables(mode, size, output_size, align, scales, dtype) -> list[Table]:
    real = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    return [
        table(mode, n, count, bool(align), scale, real)
        for n, count, scale in zip(size, output_size, scales, strict=True)
    ]


def _apply(x: np.ndarray, tables: list[Table | None], along, size, memory_format, dtype: np.dtype) -> np.ndarray:
    """Apply one table after the other, the one that shrinks most first; None leaves a dimension as it is.
    Channels-last arrays are computed as such."""
    last = memory_format is not None
    lead = x.shape[:2]
    x = np.ascontiguousarray(np.moveaxis(x, 1, -1) if last else x)
    if not last:
        x = x.reshape(lead[0] * lead[1], *x.shape[2:])
    out = np.empty((len(x), *size, *x.shape[1 + len(size) :]), dtype)
    steps = [(axis, t) for axis, t in enumerate(tables, 1) if t is not None and not t.identity]
    steps.sort(key=lambda step: out.shape[step[0]] / x.shape[step[0]] if x.shape[step[0]] else 0)

    def work(part: slice) -> None:
        y = x[part]
        finite = y.dtype.kind == "f" and bool(np.isfinite(np.add.reduce(y, None)))
        for axis, axis_table in steps:
            y = along(y, axis, axis_table, finite)
        out[part] = y

    if out.size:
        row = max(out.nbytes, x.nbytes) // len(out)
        threads.share(work, threads.chunks(len(out), max(1, _CHUNK_BYTES // max(1, row))))
    return np.moveaxis(out, -1, 1) if last else out.reshape(*lead, *size)


@lru_cache(64)
def _integer_matrix(mode: str, size: int, count: int, align: bool, scale: float | None) -> tuple[np.ndarray, int]:
    """Return weights (inputs, outputs) as integers, in float64, and the number of bits of their fraction: as many as
    keep the largest in 16 bits."""
    taps = table(mode, size, count, align, scale, np.dtype(np.float64))
    matrix = np.zeros((size, count))
    for index, weight in zip(taps.index, taps.weight, strict=True):
        matrix[index, np.arange(count)] += weight
    most, bits = matrix.max(), 0
    while bits < 22 and 0.5 + most * (1 << bits + 1) < 1 << 15:
        bits += 1
    scaled = matrix * (1 << bits)
    return np.trunc(scaled + np.where(scaled < 0, -0.5, 0.5)), bits


def _bytes(x: np.ndarray, mode: str, output_size, align, scales) -> np.ndarray:
    """Resample uint8 images, the width first."""
    y = np.ascontiguousarray(x)
    for axis in range(y.ndim - 1, 1, -1):
        count = output_size[axis - 2]
        if count == y.shape[axis]:
            continue
        matrix, bits = _integer_matrix(mode, y.shape[axis], count, bool(align), scales[axis - 2])
        total = np.moveaxis(gemm(np.moveaxis(y, axis, -1).astype(np.float64), matrix), -1, axis)
        y = np.clip(np.floor((total + (1 << bits >> 1)) / (1 << bits)), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(y)


def _check_sizes(dims: int, output_size, input_size) -> None:
    if len(output_size) != dims:
        raise RuntimeError(f"It is expected output_size equals to {dims}, but got size {len(output_size)}")
    if len(input_size) != dims + 2:
        raise RuntimeError(f"It is expected input_size equals to {dims + 2}, but got size {len(input_size)}")
    if min(*input_size[2:], *output_size) > 0:
        return
    before, after = (
        ", ".join(f"{letter}: {n}" for letter, n in zip("DHW"[3 - dims :], sizes, strict=True))
        for sizes in (input_size[2:], output_size)
    )
    joined = f"({before}) and output ({after})" if dims == 1 else f"({before}) output ({after})"
    raise RuntimeError(f"Input and output sizes should be greater than 0, but got input {joined}")


def _check_gradient(grad: np.ndarray, shape: tuple[int, ...]) -> None:
    rank = len(shape)
    if rank == 3:
        for d, n in enumerate(shape):
            if grad.ndim != rank or grad.shape[d] != n:
                raise RuntimeError(
                    f"Expected a tensor of dimension 3 and tensor.size[{d}] == {n} but got: dimension {grad.ndim} and "
                    f"tensor.size[{d}] = {grad.shape[d]}"
                )
    if grad.ndim != rank:
        raise RuntimeError(f"Expected grad_output to be a tensor of dimension {rank} but got: dimension {grad.ndim}")
    for d, (n, found) in enumerate(zip(shape, grad.shape, strict=True)):
        if n != found:
            raise RuntimeError(
                f"Expected grad_output to have the same shape as output; output.size({d}) = {n} but got "
                f"grad_output.size({d}) = {found}"
            )


def _check_dtype(x: np.ndarray, mode: str, dims: int) -> None:
    """Raise NotImplementedError unless the mode is defined for the dtype: floating, halves except with antialiasing,
    and uint8 for images and the nearest modes."""
    half = is_half(x.dtype)
    antialiased, nearest = mode.endswith("_aa"), mode.startswith("nearest")
    if half and not antialiased or not half and x.dtype.kind == "f":
        return
    if x.dtype == np.uint8 and (nearest or dims == 2):
        return
    if antialiased:
        name = "compute_index_ranges_weights"
    elif dims == 2 and mode != "cubic":
        name = "upsample_nearest2d_channels_last" if nearest else "upsample_bilinear2d_channels_last"
    else:
        name = f"compute_indices_weights_{'nearest' if nearest else mode}"
    raise not_implemented(name, x)


upsample_nearest1d, upsample_nearest1d_backward = _kernels("nearest", 1, "upsample_nearest1d")
upsample_nearest2d, upsample_nearest2d_backward = _kernels("nearest", 2, "upsample_nearest2d")
upsample_nearest3d, upsample_nearest3d_backward = _kernels("nearest", 3, "upsample_nearest3d")
upsample_nearest_exact1d, upsample_nearest_exact1d_backward = _kernels("nearest_exact", 1, "_upsample_nearest_exact1d")
upsample_nearest_exact2d, upsample_nearest_exact2d_backward = _kernels("nearest_exact", 2, "_upsample_nearest_exact2d")
upsample_nearest_exact3d, upsample_nearest_exact3d_backward = _kernels("nearest_exact", 3, "_upsample_nearest_exact3d")
upsample_linear1d, upsample_linear1d_backward = _kernels("linear", 1, "upsample_linear1d")
upsample_bilinear2d, upsample_bilinear2d_backward = _kernels("linear", 2, "upsample_bilinear2d")
upsample_trilinear3d, upsample_trilinear3d_backward = _kernels("linear", 3, "upsample_trilinear3d")
upsample_bicubic2d, upsample_bicubic2d_backward = _kernels("cubic", 2, "upsample_bicubic2d")
upsample_bilinear2d_aa, upsample_bilinear2d_aa_backward = _kernels("linear_aa", 2, "_upsample_bilinear2d_aa")
upsample_bicubic2d_aa, upsample_bicubic2d_aa_backward = _kernels("cubic_aa", 2, "_upsample_bicubic2d_aa")
upsample_lanczos2d_aa, upsample_lanczos2d_aa_backward = _kernels("lanczos_aa", 2, "_upsample_lanczos2d_aa")
