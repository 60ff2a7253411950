"""Padding modules: constant, zero, reflection, replication and circular, in one to three dimensions.

`padding` is one number for all sides, or (left, right), (left, right, top, bottom), (..., front, back).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradloom.nn import functional as F
from gradloom.nn.modules.module import Module
from gradloom.nn.modules.utils import _pair, _quadruple, ntuple

if TYPE_CHECKING:
    from gradloom import Tensor
    from gradloom.types import IntList

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

_sextuple = ntuple(6, "_sextuple")
_SIDES = {1: _pair, 2: _quadruple, 3: _sextuple}


class _ConstantPadNd(Module):
    __constants__: list[str] = ["padding", "value"]

    def __init__(self, padding: int | IntList, value: float) -> None:
        super().__init__()
        self.value = value
        self.padding: tuple[int, ...] = _SIDES[self._spatial](padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pad the last dimension with `value`."""

    _spatial = 1


class ConstantPad2d(_ConstantPadNd):
    """Pad the last two dimensions with `value`."""

    _spatial = 2


class ConstantPad3d(_ConstantPadNd):
    """Pad the last three dimensions with `value`."""

    _spatial = 3


class _ZeroPad(_ConstantPadNd):
    """A constant padding whose value is 0."""

    def __init__(self, padding: int | IntList) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pad the last dimension with zeros."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pad the last two dimensions with zeros."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pad the last three dimensions with zeros."""


class _ModePadNd(Module):
    """Padding taken from the input itself, in the way `_mode` names."""

    __constants__: list[str] = ["padding"]

    def __init__(self, padding: int | IntList) -> None:
        super().__init__()
        self.padding: tuple[int, ...] = _SIDES[self._spatial](padding)

    def forward(self, input: Tensor) -> Tensor:
        if self._mode == "circular" and input.dim() not in (self._spatial + 1, self._spatial + 2):
            raise ValueError(f"expected {self._spatial + 1}D or {self._spatial + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_ModePadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Mirror the last dimension at its ends, without repeating the end elements."""

    _spatial = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Mirror the last two dimensions at their ends."""

    _spatial = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Mirror the last three dimensions at their ends."""

    _spatial = 3


class _ReplicationPadNd(_ModePadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Repeat the end elements of the last dimension."""

    _spatial = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Repeat the border of the last two dimensions."""

    _spatial = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Repeat the border of the last three dimensions."""

    _spatial = 3


class _CircularPadNd(_ModePadNd):
    _mode = "circular"


class CircularPad1d(_CircularPadNd):
    """Continue the last dimension from its other end."""

    _spatial = 1


class CircularPad2d(_CircularPadNd):
    """Continue the last two dimensions from their other ends."""

    _spatial = 2


class CircularPad3d(_CircularPadNd):
    """Continue the last three dimensions from their other ends."""

    _spatial = 3
