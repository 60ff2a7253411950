"""Pooling modules; each keeps its arguments as given and calls the function of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradloom.nn import functional as F
from gradloom.nn.modules.module import Module
from gradloom.nn.modules.utils import _pair, _single, _triple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from gradloom import Tensor
    from gradloom.types import IntList

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _MaxPoolNd(Module):
    """Maxima over windows.

    Args:
        kernel_size, stride, padding, dilation: a number or one per dimension; stride defaults to kernel_size.
        return_indices: give the indices of the maxima too, for `MaxUnpool`.
        ceil_mode: round the output's sizes up instead of down.
    """

    stride: IntList | int

    __constants__: list[str] = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]

    def __init__(
        self,
        kernel_size: int | IntList,
        stride: int | IntList | None = None,
        padding: int | IntList = 0,
        dilation: int | IntList = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _arguments(self):
        return self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Maxima over windows of (N, C, L); arguments: kernel_size, stride, padding, dilation, ..."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, *self._arguments())


class MaxPool2d(_MaxPoolNd):
    """Maxima over windows of (N, C, H, W); arguments: kernel_size, stride, padding, dilation, ..."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, *self._arguments())


class MaxPool3d(_MaxPoolNd):
    """Maxima over windows of (N, C, D, H, W); arguments: kernel_size, stride, padding, dilation, ..."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(input, *self._arguments())


class _MaxUnpoolNd(Module):
    kernel_size: tuple[Any, ...]
    stride: tuple[Any, ...]
    padding: tuple[Any, ...]

    _sizes: Callable[..., tuple[Any, ...]]  # one per dimension, of one number or several

    def __init__(
        self, kernel_size: int | IntList, stride: int | IntList | None = None, padding: int | IntList = 0
    ) -> None:
        super().__init__()
        self.kernel_size = self._sizes(kernel_size)
        self.stride = self._sizes(stride if stride is not None else kernel_size)
        self.padding = self._sizes(padding)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """The inverse of `MaxPool1d` at the maxima, zero elsewhere.

    Args:
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
    """

    _sizes = staticmethod(_single)

    def forward(self, input: Tensor, indices: Tensor, output_size: IntList | None = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """The inverse of `MaxPool2d` at the maxima, zero elsewhere.

    Args:
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
    """

    _sizes = staticmethod(_pair)

    def forward(self, input: Tensor, indices: Tensor, output_size: IntList | None = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """The inverse of `MaxPool3d` at the maxima, zero elsewhere.

    Args:
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
    """

    _sizes = staticmethod(_triple)

    def forward(self, input: Tensor, indices: Tensor, output_size: IntList | None = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AvgPoolNd(Module):
    __constants__: list[str] = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Means over windows of (N, C, L).

    Args:
        kernel_size, stride, padding: numbers; stride defaults to kernel_size.
        ceil_mode: round the output's size up instead of down.
        count_include_pad: count padding zeros in the mean.
    """

    kernel_size: Any
    stride: Any
    padding: Any

    def __init__(
        self,
        kernel_size: int | IntList,
        stride: int | IntList | None = None,
        padding: int | IntList = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWithDivisor(_AvgPoolNd):
    stride: IntList | int

    __constants__: list[str] = [*_AvgPoolNd.__constants__, "divisor_override"]

    def __init__(
        self,
        kernel_size: int | IntList,
        stride: int | IntList | None = None,
        padding: int | IntList = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _arguments(self):
        return (
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolWithDivisor):
    """Means over windows of (N, C, H, W); as `AvgPool1d`, and `divisor_override` divides the sums instead."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, *self._arguments())


class AvgPool3d(_AvgPoolWithDivisor):
    """Means over windows of (N, C, D, H, W).

    As `AvgPool1d`, and `divisor_override` divides the sums instead.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, *self._arguments())


class _FractionalMaxPoolNd(Module):
    kernel_size: Any
    output_size: Any | None
    output_ratio: Any | None

    def __init__(
        self,
        kernel_size: int | IntList,
        output_size: int | IntList | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        each = self._each
        self.kernel_size = each(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = each(output_size) if output_size is not None else None
        self.output_ratio = each(output_ratio) if output_ratio is not None else None
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def _arguments(self):
        return (self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Fractional max pooling (Graham 2014) of (N, C, H, W) to `output_size` or by `output_ratio`."""

    _each = staticmethod(_pair)

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool2d(input, *self._arguments())


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Fractional max pooling (Graham 2014) of (N, C, D, H, W) to `output_size`, or by `output_ratio` in (0,
    1)."""

    _each = staticmethod(_triple)

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool3d(input, *self._arguments())


class _LPPoolNd(Module):
    """(sum of x ** norm_type over each window) ** (1 / norm_type).

    Args:
        norm_type: the power.
        kernel_size, stride: a number or one per dimension; stride defaults to kernel_size.
        ceil_mode: round the output's sizes up instead of down.
    """

    __constants__: list[str] = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(
        self, norm_type: float, kernel_size: int | IntList, stride: int | IntList | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """Power-average pooling of (N, C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """Power-average pooling of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """Power-average pooling of (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _AdaptivePoolNd(Module):
    __constants__: list[str] = ["output_size"]

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveMaxPoolNd(_AdaptivePoolNd):
    __constants__: list[str] = ["output_size", "return_indices"]

    def __init__(self, output_size: int | None | Sequence[int | None], return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima over windows chosen so that (N, C, L) becomes (N, C, output_size)."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima over windows chosen so that the spatial sizes become `output_size`; None keeps a size."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima over windows chosen so that the spatial sizes become `output_size`; None keeps a size."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(_AdaptivePoolNd):
    def __init__(self, output_size: int | None | Sequence[int | None]) -> None:
        super().__init__()
        self.output_size = output_size


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means over windows chosen so that (N, C, L) becomes (N, C, output_size)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means over windows chosen so that the spatial sizes become `output_size`; None keeps a size."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means over windows chosen so that the spatial sizes become `output_size`; None keeps a size."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)
