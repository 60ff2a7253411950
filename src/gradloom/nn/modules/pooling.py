"""Pooling and unpooling modules; each keeps its arguments and calls the function of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules._fields import calls, fields
from gradloom.nn.modules.module import Module
from gradloom.nn.modules.utils import _ntuple, _single
from gradloom.types import IntList
from gradloom.utils._documentation import like, spatial

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

    def forward(self, input: Tensor) -> Any:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


@calls(F.max_pool1d)
class MaxPool1d(_MaxPoolNd): ...


@calls(F.max_pool2d)
class MaxPool2d(_MaxPoolNd): ...


@calls(F.max_pool3d)
class MaxPool3d(_MaxPoolNd): ...


class _MaxUnpoolNd(Module):
    kernel_size: tuple[Any, ...]
    stride: tuple[Any, ...]
    padding: tuple[Any, ...]
    _spatial: int

    def __init__(
        self, kernel_size: int | IntList, stride: int | IntList | None = None, padding: int | IntList = 0
    ) -> None:
        super().__init__()
        sizes = _ntuple(self._spatial)
        self.kernel_size = sizes(kernel_size)
        self.stride = sizes(stride if stride is not None else kernel_size)
        self.padding = sizes(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: IntList | None = None) -> Tensor:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@calls(F.max_unpool1d)
class MaxUnpool1d(_MaxUnpoolNd):
    _spatial = 1


@calls(F.max_unpool2d)
class MaxUnpool2d(_MaxUnpoolNd):
    _spatial = 2


@calls(F.max_unpool3d)
class MaxUnpool3d(_MaxUnpoolNd):
    _spatial = 3


class _AvgPoolNd(Module):
    """Base of average pooling."""

    kernel_size: Any
    stride: Any
    padding: Any

    __constants__: list[str] = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def __init__(self, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@calls("avg_pool1d")
class AvgPool1d(_AvgPoolNd):
    """1d average pooling: the mean of each window.

    Args:
        kernel_size: size of the windows.
        stride: step of the windows; by default kernel_size.
        padding: zeros added at both ends; at most half of kernel_size.
        ceil_mode: use ceil instead of floor for the output's size.
        count_include_pad: count the padding's zeros as elements of the mean.

    Shape:
        input: (N, C, L) or (C, L).
        output: (N, C, L_out) or (C, L_out), with L_out = floor((L + 2 * padding - kernel_size) / stride) + 1.
    """

    def __init__(
        self,
        kernel_size: int | IntList,
        stride: int | IntList | None = None,
        padding: int | IntList = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        stride = _single(stride if stride is not None else kernel_size)
        super().__init__(_single(kernel_size), stride, _single(padding), ceil_mode, count_include_pad)


class _AvgPoolWithDivisor(_AvgPoolNd):
    """{n}d average pooling: the mean of each window.

    Args:
        kernel_size: size of the windows, an int or one per spatial dimension.
        stride: step of the windows, likewise; by default kernel_size.
        padding: zeros added at both ends of each spatial dimension, likewise; at most half of kernel_size.
        ceil_mode: use ceil instead of floor for the output's sizes.
        count_include_pad: count the padding's zeros as elements of the mean.
        divisor_override: divide each window's sum by this number instead.

    Shape:
        input: (N, C, {in}) or (C, {in}).
        output: (N, C, {out}) or (C, {out}); a size S of the input becomes
            floor((S + 2 * padding - kernel_size) / stride) + 1.
    """

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
        stride = stride if stride is not None else kernel_size
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override


@calls("avg_pool2d")
@spatial(2)
class AvgPool2d(_AvgPoolWithDivisor): ...


@calls("avg_pool3d")
@spatial(3)
class AvgPool3d(_AvgPoolWithDivisor): ...


class _FractionalMaxPoolNd(Module):
    kernel_size: Any
    output_size: Any | None
    output_ratio: Any | None
    _spatial: int

    def __init__(
        self,
        kernel_size: int | IntList,
        output_size: int | IntList | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        each = _ntuple(self._spatial)
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

    def forward(self, input: Tensor) -> Any:
        raise NotImplementedError


@calls(F.fractional_max_pool2d)
class FractionalMaxPool2d(_FractionalMaxPoolNd):
    _spatial = 2


@calls(F.fractional_max_pool3d)
class FractionalMaxPool3d(_FractionalMaxPoolNd):
    _spatial = 3


@fields()
class _LPPoolNd(Module):
    norm_type: float
    kernel_size: int | IntList
    stride: int | IntList | None = None
    ceil_mode: bool = False


@like(F.lp_pool1d)
class LPPool1d(_LPPoolNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


@like(F.lp_pool2d)
class LPPool2d(_LPPoolNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


@like(F.lp_pool3d)
class LPPool3d(_LPPoolNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


@fields()
class _AdaptiveMaxPoolNd(Module):
    output_size: int | None | Sequence[int | None]
    return_indices: bool = False

    def forward(self, input: Tensor) -> Any:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


@calls(F.adaptive_max_pool1d)
class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd): ...


@calls(F.adaptive_max_pool2d)
class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd): ...


@calls(F.adaptive_max_pool3d)
class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd): ...


@fields()
class _AdaptiveAvgPoolNd(Module):
    """{n}d adaptive average pooling: the means of windows that divide the input evenly into `output_size` parts.

    Args:
        output_size: spatial sizes of the output, an int or one per spatial dimension; None keeps the input's size.

    Shape:
        input: (N, C, {in}) or (C, {in}).
        output: (N, C, *output_size) or (C, *output_size).
    """

    output_size: int | None | Sequence[int | None]

    def forward(self, input: Tensor) -> Tensor:
        raise NotImplementedError


@calls("adaptive_avg_pool1d")
@spatial(1)
class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd): ...


@calls(F.adaptive_avg_pool2d)
@spatial(2)
class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd): ...


@calls(F.adaptive_avg_pool3d)
@spatial(3)
class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd): ...
