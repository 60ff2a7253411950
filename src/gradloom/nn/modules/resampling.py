"""Modules that move elements between channels and space, or resample: folds, shuffles, upsampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradloom.nn import functional as F
from gradloom.nn.modules.module import Module

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
    """Prints its `__constants__` as keyword arguments."""

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.__constants__)


class Fold(_Constants):
    """The sum of the columns (N, C * window, windows) at their places in (N, C, *output_size).

    Args:
        kernel_size: extent of the blocks: int, or (height, width).
        dilation: distance between the elements of a block.
        padding: what is added to both ends of the image.
        stride: distance between blocks.
    """

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


class Unfold(_Constants):
    """Sliding windows of (N, C, H, W) as columns: (N, C * window, number of windows).

    Args:
        kernel_size: extent of the blocks: int, or (height, width).
        dilation: distance between the elements of a block.
        padding: what is added to both ends of the image.
        stride: distance between blocks.
    """

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
    """(N, C * r ** 2, H, W) to (N, C, H * r, W * r) for r = `upscale_factor` (Shi et al. 2016)."""

    __constants__: list[str] = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(_Constants):
    """The inverse of `PixelShuffle` for r = `downscale_factor`."""

    __constants__: list[str] = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(_Constants):
    """Interleave the channels of `groups` groups (Zhang et al. 2018)."""

    __constants__: list[str] = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)


class Upsample(Module):
    """Resample (N, C, *spatial) to `size` or by `scale_factor`; see `functional.interpolate`.

    Args:
        mode: as for `functional.interpolate`.
        align_corners: whether the centres of the corner elements keep their places.
        recompute_scale_factor: compute the factor anew from the rounded size.
    """

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
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        to = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{to}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of pictures by nearest neighbours.

    Args:
        size: of the result: int, or one per dimension; this or `scale_factor`.
        scale_factor: size of the result over that of the input.
    """

    def __init__(self, size: int | IntList | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of pictures by bilinear interpolation with aligned corners.

    Args:
        size: of the result: int, or one per dimension; this or `scale_factor`.
        scale_factor: size of the result over that of the input.
    """

    def __init__(self, size: int | IntList | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
