"""Channels of groups, interleaved."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules._fields import fields
from gradloom.nn.modules.module import Module

__all__ = ["ChannelShuffle"]


@fields()
class ChannelShuffle(Module):
    """Interleave the channels of groups (Zhang et al. 2018).

    Args:
        groups: number of groups of channels.

    Shape:
        input: (N, C, *).
        output: as the input.
    """

    groups: int

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)
