"""Convolutions and transposed convolutions."""

from __future__ import annotations

import math
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.nn import functional as F, init
from gradloom.nn.modules.lazy import LazyModuleMixin, _unshaped
from gradloom.nn.modules.module import Module
from gradloom.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from gradloom.nn.parameter import Parameter
from gradloom.types import Device, DType, IntList
from gradloom.utils._documentation import spatial

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Base of all convolutions: checked sizes, parameters and printing."""

    weight: Parameter
    bias: Parameter
    _spatial: int

    __constants__: list[str] = (
        "stride padding dilation groups padding_mode output_padding in_channels out_channels kernel_size".split()
    )

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
        # The padding as F.pad takes it: both sides, last dimension first.
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
        """Draw the parameters uniformly from +-1 / sqrt(C_in / groups * product of kernel_size)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            # The operator pads with zeros only.
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0
        return self._convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        ones, zeros = (1,) * len(self.dilation), (0,) * len(self.output_padding)
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
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
    """Return (left, right) for every dimension, last first; "same" puts the odd element on the right."""
    pairs = []
    for size, spread in zip(reversed(kernel_size), reversed(dilation), strict=True):
        total = spread * (size - 1) if padding == "same" else 0
        pairs += [total // 2, total - total // 2]
    return pairs


class _Convolution(_ConvNd):
    """{n}d convolution: cross-correlate the channels of the input with learned kernels.

    output[n, k] = bias[k] + the sum over the channels c of k's group of weight[k, c] * input[n, c], where * is the
    cross-correlation.

    Args:
        in_channels: number of channels of the input, C_in.
        out_channels: number of channels of the output, C_out.
        kernel_size: size of the kernels, an int or one per spatial dimension.
        stride: step of the kernels, likewise.
        padding: elements added at both ends of each spatial dimension, likewise; or "valid" for none, or "same" for
            an output of the input's size.
        dilation: spacing of the kernels' elements, likewise.
        groups: number of groups of channels; each output group sees only its input group.
        bias: add a learned bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device, dtype: device and dtype of the parameters.

    Shape:
        input: (N, C_in, {in}) or (C_in, {in}).
        output: (N, C_out, {out}) or (C_out, {out}); a size S of the input becomes
            floor((S + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.
        weight: (C_out, C_in / groups, *kernel_size).
        bias: (C_out,).

    Raises:
        ValueError: if groups does not divide the numbers of channels; for padding "same" with a stride; for an unknown
            padding or padding_mode.
    """

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
        sizes = _ntuple(self._spatial)
        padding = padding if isinstance(padding, str) else sizes(padding)
        window = sizes(kernel_size), sizes(stride), padding, sizes(dilation)
        super().__init__(in_channels, out_channels, *window, False, sizes(0), groups, bias, padding_mode, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


@spatial(1)
class Conv1d(_Convolution):
    def _convolve(self, *args):
        return F.conv1d(*args)


@spatial(2)
class Conv2d(_Convolution):
    def _convolve(self, *args):
        return F.conv2d(*args)


@spatial(3)
class Conv3d(_Convolution):
    def _convolve(self, *args):
        return F.conv3d(*args)


class _ConvTransposeNd(_ConvNd):
    """{n}d transposed convolution: the gradient of a `Conv{n}d` with respect to its input.

    `forward(input, output_size=None)` takes the output's spatial sizes, in place of `output_padding`.

    Args:
        in_channels: number of channels of the input, C_in.
        out_channels: number of channels of the output, C_out.
        kernel_size: size of the kernels, an int or one per spatial dimension.
        stride: step of the kernels in the output, likewise.
        padding: elements removed from both ends of each spatial dimension of the output, likewise.
        output_padding: elements added at one end of each spatial dimension of the output, likewise.
        groups: number of groups of channels; each output group sees only its input group.
        bias: add a learned bias.
        dilation: spacing of the kernels' elements, likewise.
        padding_mode: "zeros".
        device, dtype: device and dtype of the parameters.

    Shape:
        input: (N, C_in, {in}) or (C_in, {in}).
        output: (N, C_out, {out}) or (C_out, {out}); a size S of the input becomes
            (S - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1.
        weight: (C_in, C_out / groups, *kernel_size).
        bias: (C_out,).

    Raises:
        ValueError: if groups does not divide the numbers of channels; for another padding_mode; from `forward`, for an
            output_size that no output_padding below stride gives.
    """

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
        sizes = _ntuple(self._spatial)
        window = sizes(kernel_size), sizes(stride), sizes(padding), sizes(dilation)
        super().__init__(
            in_channels, out_channels, *window, True, sizes(output_padding), groups, bias, padding_mode, device, dtype
        )

    def _output_padding(self, input, output_size):
        """Return the difference between the requested spatial sizes and the smallest possible ones."""
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


@spatial(1)
class ConvTranspose1d(_ConvTransposeNd):
    def _convolve(self, *args):
        return F.conv_transpose1d(*args)


@spatial(2)
class ConvTranspose2d(_ConvTransposeNd):
    def _convolve(self, *args):
        return F.conv_transpose2d(*args)


@spatial(3)
class ConvTranspose3d(_ConvTransposeNd):
    def _convolve(self, *args):
        return F.conv_transpose3d(*args)


class _LazyConv(LazyModuleMixin):
    """`{name}` whose `in_channels` is taken from the first input.

    Args:
        out_channels: number of channels of the output, C_out.
        kernel_size: size of the kernels, an int or one per spatial dimension.
        args, kwargs: further arguments of `{name}`.
        bias: add a learned bias.
        device, dtype: device and dtype of the parameters.

    Shape:
        input: (N, C_in, {in}) or (C_in, {in}).
        output: (N, C_out, {out}) or (C_out, {out}), with the sizes of `{name}`.

    Raises:
        RuntimeError: from the first `forward`, for an input with another number of dimensions.
        ValueError: from the first `forward`, if groups does not divide the number of channels.
    """

    in_channels: int
    out_channels: int
    groups: int
    kernel_size: tuple[int, ...]
    transposed: bool
    weight: Any
    bias: Any

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | IntList,
        *args: Any,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
        **kwargs: Any,
    ) -> None:
        before_bias = 5 if issubclass(type(self), _ConvTransposeNd) else 4
        if len(args) > before_bias:  # bias was given by position
            args, bias = (*args[:before_bias], False, *args[before_bias + 1 :]), args[before_bias]
        else:
            kwargs["bias"] = False
        super().__init__(0, 0, kernel_size, *args, device=device, dtype=dtype, **kwargs)
        self.out_channels = out_channels
        self.weight = _unshaped(device, dtype)
        if bias:
            self.bias = _unshaped(device, dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters if they have shapes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Give the parameters their shapes.

        Args:
            input: first input.
            args, kwargs: further arguments of `forward`.

        Raises:
            RuntimeError: for an input with another number of dimensions.
            ValueError: if groups does not divide the number of channels.
        """
        if not self.has_uninitialized_params():
            if self.in_channels == 0:
                self.in_channels = self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups
            return
        count = len(self.kernel_size)
        if input.dim() not in (count + 1, count + 2):
            raise RuntimeError(
                f"Expected {count + 1}D (unbatched) or {count + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        self.in_channels = input.shape[-count - 1]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        rows, columns = (
            (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        )
        with gl.no_grad():
            self.weight.materialize((rows, columns // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


@spatial(1)
class LazyConv1d(_LazyConv, Conv1d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = Conv1d


@spatial(2)
class LazyConv2d(_LazyConv, Conv2d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = Conv2d


@spatial(3)
class LazyConv3d(_LazyConv, Conv3d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = Conv3d


@spatial(1)
class LazyConvTranspose1d(_LazyConv, ConvTranspose1d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = ConvTranspose1d


@spatial(2)
class LazyConvTranspose2d(_LazyConv, ConvTranspose2d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = ConvTranspose2d


@spatial(3)
class LazyConvTranspose3d(_LazyConv, ConvTranspose3d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = ConvTranspose3d
