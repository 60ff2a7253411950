"""Sliding blocks: Fold and Unfold."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules.utils import _Constants
from gradloom.types import IntList
from gradloom.utils._documentation import like

__all__ = ["Fold", "Unfold"]


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
