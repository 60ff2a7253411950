"""Sliding blocks: Fold and Unfold."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules._fields import fields
from gradloom.nn.modules.module import Module
from gradloom.types import IntList

__all__ = ["Fold", "Unfold"]


@fields(F.fold)
class Fold(Module):
    output_size: int | IntList
    kernel_size: int | IntList
    dilation: int | IntList = 1
    padding: int | IntList = 0
    stride: int | IntList = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


@fields(F.unfold)
class Unfold(Module):
    kernel_size: int | IntList
    dilation: int | IntList = 1
    padding: int | IntList = 0
    stride: int | IntList = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
