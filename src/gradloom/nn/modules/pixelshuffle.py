"""Modules that move elements between channels and space."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules.utils import _Constants

__all__ = ["PixelShuffle", "PixelUnshuffle"]


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
