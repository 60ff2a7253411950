"""Modules that move elements between channels and space."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules._fields import fields
from gradloom.nn.modules.module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


@fields()
class PixelShuffle(Module):
    """Move channels into space by the factor r = `upscale_factor` (Shi et al. 2016).

    Args:
        upscale_factor: factor of height and width.

    Shape:
        input: (*, C * r ** 2, H, W).
        output: (*, C, H * r, W * r).
    """

    upscale_factor: int

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


@fields()
class PixelUnshuffle(Module):
    """Move space into channels by the factor r = `downscale_factor`; the inverse of `PixelShuffle`.

    Args:
        downscale_factor: divisor of height and width.

    Shape:
        input: (*, C, H * r, W * r).
        output: (*, C * r ** 2, H, W).
    """

    downscale_factor: int

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)
