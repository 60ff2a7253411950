"""Modules that move elements between channels and space, or resample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradloom.nn import functional as F
from gradloom.nn.modules.module import Module
from gradloom.utils._documentation import like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradloom import Tensor
    from gradloom.types import IntList

__all__ = [
    "ChannelShuffle",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class _Constants(Module):
    """Base that prints its `__constants__` as keyword arguments."""

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.__constants__)


@like(F.fold)
class Fold(_Constants):
    __constants__: list[str] = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self,
        output_size: int | IntList,
        kernel_size: int | IntList,
        dilation: int | IntList = 1,
        padding: int | IntList = 0,
        stride: int | IntList = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


@like(F.unfold)
class Unfold(_Constants):
    __constants__: list[str] = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self,
        kernel_size: int | IntList,
        dilation: int | IntList = 1,
        padding: int | IntList = 0,
        stride: int | IntList = 1,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class PixelShuffle(_Constants):
    """Move channels into space by the factor r = `upscale_factor` (Shi et al. 2016).

    Args:
        upscale_factor: factor of height and width.

    Shape:
        input: (*, C * r ** 2, H, W).
        output: (*, C, H * r, W * r).
    """

    __constants__: list[str] = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(_Constants):
    """Move space into channels by the factor r = `downscale_factor`; the inverse of `PixelShuffle`.

    Args:
        downscale_factor: divisor of height and width.

    Shape:
        input: (*, C, H * r, W * r).
        output: (*, C * r ** 2, H, W).
    """

    __constants__: list[str] = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(_Constants):
    """Interleave the channels of groups (Zhang et al. 2018).

    Args:
        groups: number of groups of channels.

    Shape:
        input: (N, C, *).
        output: as the input.
    """

    __constants__: list[str] = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)


@like(F.interpolate)
class Upsample(Module):
    scale_factor: tuple[float, ...]

    __constants__: list[str] = ["size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor"]

    def __init__(
        self,
        size: int | IntList | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name: str = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        options = self.size, self.scale_factor, self.mode, self.align_corners
        return F.interpolate(input, *options, recompute_scale_factor=self.recompute_scale_factor)

    def extra_repr(self) -> str:
        to = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{to}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images with mode "nearest".

    Args:
        size: (H_out, W_out) or an int; this or `scale_factor`.
        scale_factor: factor of height and width, a number or a pair.

    Shape:
        input: (N, C, H, W).
        output: (N, C, H_out, W_out).
    """

    def __init__(self, size: int | IntList | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images with mode "bilinear" and aligned corners.

    Args:
        size: (H_out, W_out) or an int; this or `scale_factor`.
        scale_factor: factor of height and width, a number or a pair.

    Shape:
        input: (N, C, H, W).
        output: (N, C, H_out, W_out).
    """

    def __init__(self, size: int | IntList | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
