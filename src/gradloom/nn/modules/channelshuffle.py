"""Channels of groups, interleaved."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules.utils import _Constants

__all__ = ["ChannelShuffle"]


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
