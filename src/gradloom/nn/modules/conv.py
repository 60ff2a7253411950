"""Convolutions and transposed convolutions in one, two and three dimensions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.nn import functional as F, init
from gradloom.nn.modules.module import Module
from gradloom.nn.modules.utils import _pair, _reverse_repeat_tuple, _single, _triple
from gradloom.nn.parameter import Parameter

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gradloom import Tensor
    from gradloom.types import Device, DType, IntList

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share: their sizes, checked; their parameters; how they are printed."""

    weight: Parameter
    bias: Parameter

    __constants__: list[str] = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | IntList,
        stride: int | IntList,
        padding: str | int | IntList,
        dilation: int | IntList,
        transposed: bool,
        output_padding: int | IntList,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        _check(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        # The padding as F.pad takes it: last dimension first, both sides.
        if isinstance(padding, str):
            self._reversed_padding_repeated_twice = _string_padding(padding, kernel_size, dilation)
        else:
            self._reversed_padding_repeated_twice = _reverse_repeat_tuple(padding, 2)
        rows, columns = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(gl.empty((rows, columns // groups, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(gl.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters: uniformly from +-1 / sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            # Done beforehand: the operator itself knows zeros only.
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0
        return self._convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        ones, zeros = (1,) * len(self.dilation), (0,) * len(self.output_padding)
        parts = [
            f"{self.in_channels}",
            f"{self.out_channels}",
            f"kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        if self.padding != (0,) * len(self.kernel_size):
            parts.append(f"padding={self.padding}")
        if self.dilation != ones:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != zeros:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


def _check(in_channels, out_channels, stride, padding, groups, padding_mode):
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
        if padding == "same" and any(step != 1 for step in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode='{padding_mode}'")


def _string_padding(padding, kernel_size, dilation):
    """(left, right) for every dimension, the last one first; "same" puts the odd element to the right."""
    pairs = []
    for size, spread in zip(reversed(kernel_size), reversed(dilation), strict=True):
        total = spread * (size - 1) if padding == "same" else 0
        pairs += [total // 2, total - total // 2]
    return pairs


class _Convolution(_ConvNd):
    """What the plain convolutions share. They differ in the number of dimensions, which `_sizes` knows."""

    _sizes: Callable[..., tuple[Any, ...]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | IntList,
        stride: int | IntList = 1,
        padding: str | int | IntList = 0,
        dilation: int | IntList = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        sizes = self._sizes
        padding = padding if isinstance(padding, str) else sizes(padding)
        super().__init__(
            in_channels,
            out_channels,
            sizes(kernel_size),
            sizes(stride),
            padding,
            sizes(dilation),
            False,
            sizes(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Convolution):
    """Cross-correlation of (N, in_channels, L) with `out_channels` kernels.

    Args:
        kernel_size, stride, dilation: a number or one per dimension.
        padding: likewise, or "valid" (none) or "same" (the output is as long as the input; stride 1).
        groups: input and output channels are split into as many groups, each seeing its own inputs only.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        bias: whether a vector (out_channels,) is added.
    """

    _sizes = staticmethod(_single)

    def _convolve(self, *args):
        return F.conv1d(*args)


class Conv2d(_Convolution):
    """Cross-correlation of (N, in_channels, H, W) with `out_channels` kernels; arguments as for `Conv1d`.

    Args:
        kernel_size: extent of the kernel: int, or one per dimension.
        stride: distance between the places where the kernel is applied.
        padding: what is added to both ends: int, one per dimension, or (unless transposed) "same" or "valid".
        dilation: distance between the elements of the kernel.
        groups: into how many parts channels are divided that do not see each other.
        bias: whether a vector (out_channels,) is added.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
    """

    _sizes = staticmethod(_pair)

    def _convolve(self, *args):
        return F.conv2d(*args)


class Conv3d(_Convolution):
    """Cross-correlation of (N, in_channels, D, H, W) with `out_channels` kernels.

    Arguments as for `Conv1d`.

    Args:
        kernel_size: extent of the kernel: int, or one per dimension.
        stride: distance between the places where the kernel is applied.
        padding: what is added to both ends: int, one per dimension, or (unless transposed) "same" or "valid".
        dilation: distance between the elements of the kernel.
        groups: into how many parts channels are divided that do not see each other.
        bias: whether a vector (out_channels,) is added.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
    """

    _sizes = staticmethod(_triple)

    def _convolve(self, *args):
        return F.conv3d(*args)


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions share: zeros as only padding, an output size that may be asked for."""

    _sizes: Callable[..., tuple[Any, ...]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | IntList,
        stride: int | IntList = 1,
        padding: str | int | IntList = 0,
        output_padding: int | IntList = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | IntList = 1,
        padding_mode: str = "zeros",
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        sizes = self._sizes
        super().__init__(
            in_channels,
            out_channels,
            sizes(kernel_size),
            sizes(stride),
            sizes(padding),
            sizes(dilation),
            True,
            sizes(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input, output_size):
        """What to add to the smallest possible output so that it has the spatial sizes asked for."""
        if output_size is None:
            return self.output_padding
        spatial = len(self.kernel_size)
        batched = input.dim() == spatial + 2
        if len(output_size) == spatial + (2 if batched else 1):
            output_size = output_size[-spatial:]
        if len(output_size) != spatial:
            raise ValueError(
                f"ConvTranspose{spatial}D: for {input.dim()}D input, output_size must have {spatial} or "
                f"{spatial + (2 if batched else 1)} elements (got {len(output_size)})"
            )
        smallest = [
            (extent - 1) * step - 2 * pad + spread * (size - 1) + 1
            for extent, step, pad, spread, size in zip(
                input.shape[-spatial:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        largest = [low + step - 1 for low, step in zip(smallest, self.stride, strict=True)]
        if not all(low <= size <= high for low, size, high in zip(smallest, output_size, largest, strict=True)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {smallest} to "
                f"{largest} (for an input of {input.shape[-spatial:]})"
            )
        return tuple(size - low for size, low in zip(output_size, smallest, strict=True))

    def forward(self, input: Tensor, output_size: IntList | None = None) -> Tensor:
        output_padding = self._output_padding(input, output_size)
        return self._convolve(
            input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose (gradient) of `Conv1d` as a map: (N, in_channels, L) to (N, out_channels, longer).

    Arguments as for `Conv1d`, and `output_padding`: added to one side of the output's size.

    Args:
        kernel_size: extent of the kernel: int, or one per dimension.
        stride: distance between the places where the kernel is applied.
        padding: what is added to both ends: int, one per dimension, or (unless transposed) "same" or "valid".
        groups: into how many parts channels are divided that do not see each other.
        bias: whether a vector (out_channels,) is added.
        dilation: distance between the elements of the kernel.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
    """

    _sizes = staticmethod(_single)

    def _convolve(self, *args):
        return F.conv_transpose1d(*args)


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of `Conv2d` as a map; arguments as for `ConvTranspose1d`.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: extent of the kernel: int, or one per dimension.
        stride: distance between the places where the kernel is applied.
        padding: what is added to both ends: int, one per dimension, or (unless transposed) "same" or "valid".
        output_padding: what is added to one end of the output, which its size alone does not determine.
        groups: into how many parts channels are divided that do not see each other.
        bias: whether a vector (out_channels,) is added.
        dilation: distance between the elements of the kernel.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
    """

    _sizes = staticmethod(_pair)

    def _convolve(self, *args):
        return F.conv_transpose2d(*args)


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of `Conv3d` as a map; arguments as for `ConvTranspose1d`.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: extent of the kernel: int, or one per dimension.
        stride: distance between the places where the kernel is applied.
        padding: what is added to both ends: int, one per dimension, or (unless transposed) "same" or "valid".
        output_padding: what is added to one end of the output, which its size alone does not determine.
        groups: into how many parts channels are divided that do not see each other.
        bias: whether a vector (out_channels,) is added.
        dilation: distance between the elements of the kernel.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
    """

    _sizes = staticmethod(_triple)

    def _convolve(self, *args):
        return F.conv_transpose3d(*args)
