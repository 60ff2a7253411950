"""Convolution and its gradients, and the rearrangement of sliding windows (nn.functional.unfold and fold).

An input is (N, C, *spatial) with one to three spatial dimensions; an argument with one value per spatial dimension
(stride, padding, ...) is a sequence of that many integers, or one integer for all. float16 and bfloat16 are computed in
float32 and rounded once. products.py computes the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ...types.device import memory_format
from .._common.blas import gemm
from .._common.dims import require_dim
from .._common.layout import in_format, suggested_format, suggested_format_of_row
from .._common.windows import Windows, as_tuple, compute_dtype, padded, volume, window_view
from . import products

Ints = int | Sequence[int]


def convolution(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> np.ndarray:
    """aten::convolution. input (N, C, *spatial), weight (Co, C / groups, *kernel) or, if `transposed`, (C, Co / groups,
    *kernel), and bias (Co,) or None, all of one dtype, give (N, Co, *output). Integers wrap around. Raises RuntimeError
    for shapes, dtypes and settings that do not fit together, NotImplementedError for bool."""
    windows = geometry(input, weight, stride, padding, dilation, transposed, output_padding, groups)
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    _check_bias(bias, weight, channels, input.dtype)
    x, w = _computable(input, weight)
    b = None if bias is None else bias.astype(x.dtype, copy=False)
    if transposed:
        out = products.input_gradient(x, w, windows, groups)
        if b is not None:
            out += b.reshape(-1, *(1 for _ in windows.size))
        shape = windows.size
    else:
        out = products.forward(x, w, b, windows, groups)
        shape = windows.output
    out = out.reshape(len(input), channels, *shape[-(input.ndim - 2) :]).astype(input.dtype, copy=False)
    return in_format(out, _format(input, weight))


def convolution_backward(
    grad_output: np.ndarray,
    input: np.ndarray,
    weight: np.ndarray,
    bias_sizes: Sequence[int] | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """aten::convolution_backward: the gradients of input, weight and bias; None where `output_mask` is False.
    grad_output has the shape of the result of `convolution`. The gradients of complex arrays are the adjoint, as in
    PyTorch: the weight and the input enter conjugated. `bias_sizes` is accepted for compatibility and not used. Raises
    the errors of `convolution`.

    grad_output is of the shape that `convolution` gives for the other arguments. For complex numbers these are
    PyTorch's gradients, that is to say the adjoint: the weight and the input enter conjugated. `bias_sizes` is accepted
    as in PyTorch and not needed. Raises as `convolution` does.
    """
    windows = geometry(input, weight, stride, padding, dilation, transposed, output_padding, groups)
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    spatial = (windows.size if transposed else windows.output)[-(input.ndim - 2) :]
    if grad_output.shape != (len(input), channels, *spatial):
        raise RuntimeError(
            f"expected grad_output of shape {[len(input), channels, *spatial]}, but got {list(grad_output.shape)}"
        )
    g, x, w = _computable(grad_output, input, weight)
    order = _format(input, weight)
    if g.dtype.kind == "c":
        x, w, order = x.conj(), w.conj(), None
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        if transposed:
            grad_input = products.forward(g, w, None, windows, groups)
        else:
            grad_input = products.input_gradient(g, w, windows, groups)
        grad_input = grad_input.reshape(input.shape).astype(input.dtype, copy=False)
        grad_input = in_format(grad_input, order)
    if output_mask[1]:
        small, large = (x, g) if transposed else (g, x)
        grad_weight = products.weight_gradient(small, large, w.shape[2:], windows, groups)
        grad_weight = grad_weight.reshape(weight.shape).astype(weight.dtype, copy=False)
        grad_weight = in_format(grad_weight, order)
    if output_mask[2]:
        grad_bias = _sum_over_images(g).astype(grad_output.dtype, copy=False)
    return grad_input, grad_weight, grad_bias


def result_layout(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> tuple[tuple[int, ...], memory_format | None]:
    """Return the shape and memory format of `convolution`'s result, from shapes and strides only. Raises the errors of
    `convolution` for shapes and settings."""
    windows = geometry(input, weight, stride, padding, dilation, transposed, output_padding, groups)
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    _check_bias(bias, weight, channels, input.dtype)
    shape = windows.size if transposed else windows.output
    return (len(input), channels, *shape[-(input.ndim - 2) :]), _format(input, weight)


def im2col(input: np.ndarray, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> np.ndarray:
    """aten::im2col: (N, C, H, W) gives (N, C * KH * KW, L), L the number of window positions; the batch dimension may
    be absent. Raises RuntimeError for another rank, settings out of range, and where no window fits."""
    settings = _settings(kernel_size, dilation, padding, stride, ("kernel size", "dilation", "padding", "stride"))
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        require_dim(1, input.ndim)
        if input.shape[1]:
            require_dim(2, input.ndim)
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(input.shape)}"
        )
    x, lead = _batched(input, 3)
    windows = _blocks_of(x.shape[2:], *settings)
    if min(windows.output) < 1:
        raise RuntimeError(
            f"Given input with spatial size {windows.size}, kernel_size={windows.kernel}, dilation={windows.dilation}, "
            f"padding={windows.padding}, calculated shape of the array of sliding blocks as {windows.output}, "
            "but its components must be at least one."
        )
    view = window_view(padded(x, windows, slice(0, windows.output[0]), False), windows, windows.output[0], False)
    columns = x.shape[1] * volume(windows.kernel)
    return np.array(view, order="C").reshape(*lead, columns, volume(windows.output))


def col2im(
    input: np.ndarray, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> np.ndarray:
    """aten::col2im, the adjoint of im2col: (N, C * KH * KW, L) gives (N, C, *output_size), with overlapping windows
    added; the batch dimension is optional. Raises RuntimeError if shapes and settings do not fit together."""
    size = as_tuple(output_size, 2, "output_size")
    settings = _settings(kernel_size, dilation, padding, stride, ("kernel size", "stride", "dilation", "padding"))
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    x, lead = _batched(input, 2)
    windows = _blocks_of(size, *settings)
    if x.shape[1] % volume(windows.kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={x.shape[1]} and kernel_size={windows.kernel}."
        )
    high, wide = windows.output
    given = (
        f"Given output_size={windows.size}, kernel_size={windows.kernel}, dilation={windows.dilation}, "
        f"padding={windows.padding}, stride={windows.stride}"
    )
    if x.shape[2] != high * wide:
        raise RuntimeError(
            f"{given}, expected size of input's dimension 2 "
            f"to match the calculated number of sliding blocks {high} * {wide} = {high * wide}, "
            f"but got input.size(2)={x.shape[2]}."
        )
    if min(high, wide) < 1:
        raise RuntimeError(
            f"{given}, calculated shape of the array of sliding blocks as {windows.output}, which is too small "
            "(non-positive)"
        )
    channels = x.shape[1] // volume(windows.kernel)
    terms = x.reshape(len(x), channels, *windows.kernel, *windows.output)
    out = np.zeros((len(x), channels, *windows.size), compute_dtype(x.dtype))
    for offsets in windows.offsets():
        pair = windows.at(offsets)
        if pair is not None:
            part = out[(slice(None), slice(None)) + pair[1]]
            part += terms[(slice(None), slice(None)) + offsets + pair[0]]
    return out.reshape(*lead, channels, *windows.size).astype(input.dtype, copy=False)


def geometry(
    input: np.ndarray,
    weight: np.ndarray,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Windows:
    """Check the arguments and return the windows, with at least two spatial dimensions (mirrored if transposed)."""
    settings = [v if v.__class__ is tuple else as_setting(v) for v in (stride, padding, dilation, output_padding)]
    return _of_shapes(input.shape, weight.shape, *settings, transposed, groups, (input.dtype, weight.dtype))


def as_setting(value: Ints) -> Ints:
    """Return an int or a tuple of ints, which a cache can keep."""
    return tuple(value) if isinstance(value, Sequence) else value


@lru_cache(256)  # a network calls each convolution with the same shapes again and again
def _of_shapes(
    input: tuple[int, ...],
    weight: tuple[int, ...],
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    output_padding: Ints,
    transposed: bool,
    groups: int,
    types: tuple[np.dtype, np.dtype],
) -> Windows:
    """Return what `geometry` does, for the shapes and types of input and weight."""
    dims = len(weight) - 2
    if dims < 1 or len(input) != len(weight):
        raise RuntimeError(
            f"Expected {len(weight)}-dimensional input for {len(weight)}-dimensional weight "
            f"{list(weight)}, but got {len(input)}-dimensional input of size {list(input)}"
        )
    stride = as_tuple(stride, dims, "stride")
    padding = as_tuple(padding, dims, "padding")
    dilation = as_tuple(dilation, dims, "dilation")
    extra = as_tuple(output_padding, dims, "output_padding")
    _check_settings(weight, stride, padding, dilation, extra, groups)
    _check_channels(input, weight, transposed, groups)
    _check_types(*types)
    kernel, spatial = weight[2:], input[2:]
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    if transposed:
        small = spatial
        large = tuple(
            (n - 1) * s - 2 * p + r + e for n, s, p, r, e in zip(spatial, stride, padding, reach, extra, strict=True)
        )
        if min(large) < 0:
            raise RuntimeError(
                f"Given input size per channel: ({_by(spatial)}). Calculated output size per channel: "
                f"({_by(large)}). Output size is too small"
            )
        if any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation, strict=True)):
            raise RuntimeError(
                "output padding must be smaller than either stride or dilation, but got "
                + " ".join(
                    [_by_axis("output_padding", extra, 0), _by_axis("stride", stride), _by_axis("dilation", dilation)]
                )
            )
    else:
        large = spatial
        small = tuple((n + 2 * p - r) // s + 1 for n, s, p, r in zip(spatial, stride, padding, reach, strict=True))
        if min(small) < 1:
            reached = tuple(n + 2 * p for n, p in zip(spatial, padding, strict=True))
            raise RuntimeError(
                f"Calculated padded input size per channel: ({_by(reached)}). Kernel size: ({_by(reach)}). "
                "Kernel size can't be greater than actual input size"
            )
    if dims == 1:
        return Windows((1, *large), (1, *kernel), (1, *stride), (0, *padding), (1, *dilation), (1, *small))
    return Windows(large, kernel, stride, padding, dilation, small)


def _check_settings(
    weight: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    output_padding: tuple[int, ...],
    groups: int,
) -> None:
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(output_padding) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(stride) < 1:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) < 1:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if groups < 1:
        raise RuntimeError("non-positive groups is not supported")
    if min(weight[2:]) < 1:
        raise RuntimeError(f"kernel size should be greater than zero, but got {list(weight[2:])}")


def _check_channels(input: tuple[int, ...], weight: tuple[int, ...], transposed: bool, groups: int) -> None:
    shape = list(weight)
    if shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, "
            f"but got weight of size {shape} instead"
        )
    if shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size {shape} instead"
        )
    expected = shape[0] if transposed else shape[1] * groups
    if input[1] != expected:
        setting = f"transposed={int(transposed)}" if transposed else f"groups={groups}"
        raise RuntimeError(
            f"Given {setting}, weight of size {shape}, expected input{list(input)} to have "
            f"{expected} channels, but got {input[1]} channels instead"
        )


def _check_types(input: np.dtype, weight: np.dtype) -> None:
    if input != weight:
        raise RuntimeError(f"Input type ({input}) and weight type ({weight}) should be the same")
    if input.kind == "b":
        raise NotImplementedError("\"convolution\" not implemented for 'Bool'")


def _check_bias(bias: np.ndarray | None, weight: np.ndarray, channels: int, dtype: np.dtype) -> None:
    if bias is None:
        return
    if bias.shape != (channels,):
        raise RuntimeError(
            f"Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with "
            f"{channels} elements, but got bias of size {list(bias.shape)} instead"
        )
    if bias.dtype != dtype:
        raise RuntimeError(f"Input type ({dtype}) and bias type ({bias.dtype}) should be the same")


def _format(input: np.ndarray, weight: np.ndarray) -> memory_format | None:
    """Return the channels-last format if PyTorch computes in it: if the input or the weight has it. A 1-d convolution
    counts as 2-d with a first spatial size of 1, and only its weight is considered. 3-d ones in double precision never
    qualify."""
    if weight.ndim == 3:
        return suggested_format_of_row(weight)
    if weight.ndim == 5 and input.dtype.char in "dD":
        return None
    return suggested_format(input) or suggested_format(weight)


def _computable(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the arrays contiguous, in the compute dtype, and with at least two spatial dimensions."""
    dtype = compute_dtype(arrays[0].dtype)
    arrays = tuple(np.ascontiguousarray(array, dtype) for array in arrays)
    return tuple(array[:, :, None] for array in arrays) if arrays[0].ndim == 3 else arrays


def _sum_over_images(g: np.ndarray) -> np.ndarray:
    """Sum (N, Co, *spatial) to (Co,), as a product with ones, which is several times as fast as NumPy's sum."""
    flat = g.reshape(*g.shape[:2], volume(g.shape[2:]))
    return np.add.reduce(gemm(flat, np.ones(flat.shape[2], g.dtype)), 0, g.dtype)


def _by_axis(word: str, sizes: tuple, added: int = 1) -> str:
    """Return `stride_height: 1 stride_width: 2`; one size is that of a row, `added` is what the height has."""
    sizes = (added, *sizes) if len(sizes) == 1 else sizes
    return " ".join(
        [f"{word}_{a}: {n}" for a, n in zip(("depth", "height", "width")[-len(sizes) :], sizes, strict=True)]
    )


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def _batched(input: np.ndarray, dims: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the input with a batch dimension, and the result's batch dimension."""
    return (input[None], ()) if input.ndim == dims else (input, input.shape[:1])


def _settings(
    kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints, order: tuple[str, ...]
) -> tuple[tuple[int, ...], ...]:
    """Return the settings as pairs; raise RuntimeError for one out of its range, in the given order of checks."""
    kernel, dilation = as_tuple(kernel_size, 2, "kernel_size"), as_tuple(dilation, 2, "dilation")
    padding, stride = as_tuple(padding, 2, "padding"), as_tuple(stride, 2, "stride")
    pairs = {
        "kernel size": ("kernel", kernel),
        "dilation": ("dilation", dilation),
        "padding": ("pad", padding),
        "stride": ("stride", stride),
    }
    for what in order:
        name, (high, wide) = pairs[what]
        if min(high, wide) < (0 if what == "padding" else 1):
            limit = "non-negative" if what == "padding" else "greater than zero"
            raise RuntimeError(f"{what} should be {limit}, but got {name}_height: {high} {name}_width: {wide}")
    return kernel, dilation, padding, stride


def _blocks_of(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: tuple[int, ...],
    stride: tuple[int, ...],
) -> Windows:
    output = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(size, padding, dilation, kernel, stride, strict=True)
    )
    return Windows(tuple(size), kernel, stride, padding, dilation, output)


def conv_tbc(self, weight, bias, pad):
    """Convolve time steps (T, N, C) with a weight (K, C, Co), and add a bias (Co,); `pad` zeros stand at both ends."""
    for x, rank, words in (
        (self, 3, "Input must have 3 dims: time, batch, in_channel"),
        (weight, 3, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."),
        (bias, 1, "Bias must be 1-D"),
    ):
        if x.ndim != rank:
            raise RuntimeError(words)
    if self.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != len(bias):
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    steps = len(self) + 2 * pad - len(weight) + 1
    if steps < 0:
        shape = [steps, self.shape[1], len(bias)]
        raise RuntimeError(f"Trying to create tensor with negative dimension {steps}: {shape}")
    if not steps:
        return np.zeros((0, self.shape[1], len(bias)), self.dtype)
    x, w = self.transpose(1, 2, 0), weight.transpose(2, 1, 0)
    return np.ascontiguousarray(convolution(x, w, bias, (1,), (pad,), (1,), False, (0,), 1).transpose(2, 0, 1))
