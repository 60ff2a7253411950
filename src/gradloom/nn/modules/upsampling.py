"""Modules that resample."""

from __future__ import annotations

from collections.abc import Sequence

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules.module import Module
from gradloom.types import IntList
from gradloom.utils._documentation import like

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


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
        self.size: int | IntList | None = size
        self.mode: str = mode
        self.align_corners: bool | None = align_corners
        self.recompute_scale_factor = recompute_scale_factor
        self.scale_factor: tuple[float, ...] | float | None = None
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(map(float, scale_factor))
        elif scale_factor:
            self.scale_factor = float(scale_factor)  # type: ignore[arg-type]

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
