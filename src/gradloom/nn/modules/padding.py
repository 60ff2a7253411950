"""Padding modules: constant, zero, reflection, replication and circular."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules.module import Module
from gradloom.nn.modules.utils import _ntuple
from gradloom.types import IntList
from gradloom.utils._documentation import spatial

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


class _PadNd(Module):
    _mode: str
    _spatial: int

    __constants__: list[str] = ["padding"]

    def __init__(self, padding: int | IntList) -> None:
        super().__init__()
        self.padding: tuple[int, ...] = _ntuple(2 * self._spatial)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    """Pad the last {dimensions} with `value`.

    Args:
        padding: an int for all sides, or a pair for each spatial dimension, the last dimension's first; negative
            numbers crop.
        value: number to pad with.

    Shape:
        input: (*, {in}).
        output: (*, {out}); a size of the input grows by its two paddings.
    """

    __constants__: list[str] = ["padding", "value"]

    def __init__(self, padding: int | IntList, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


@spatial(1)
class ConstantPad1d(_ConstantPadNd): ...


@spatial(2)
class ConstantPad2d(_ConstantPadNd): ...


@spatial(3)
class ConstantPad3d(_ConstantPadNd): ...


class _ZeroPad(_ConstantPadNd):
    """Pad the last {dimensions} with zeros.

    Args:
        padding: an int for all sides, or a pair for each spatial dimension, the last dimension's first; negative
            numbers crop.

    Shape:
        input: (*, {in}).
        output: (*, {out}); a size of the input grows by its two paddings.
    """

    def __init__(self, padding: int | IntList) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


@spatial(1)
class ZeroPad1d(_ZeroPad, ConstantPad1d): ...


@spatial(2)
class ZeroPad2d(_ZeroPad, ConstantPad2d): ...


@spatial(3)
class ZeroPad3d(_ZeroPad, ConstantPad3d): ...


class _ReflectionPadNd(_PadNd):
    """Pad the last {dimensions} by reflection at the end elements, which are not repeated.

    Args:
        padding: an int for all sides, or a pair for each spatial dimension, the last dimension's first.

    Shape:
        input: (N, C, {in}) or (C, {in}).
        output: (N, C, {out}) or (C, {out}); a size of the input grows by its two paddings.
    """

    _mode = "reflect"


@spatial(1)
class ReflectionPad1d(_ReflectionPadNd): ...


@spatial(2)
class ReflectionPad2d(_ReflectionPadNd): ...


@spatial(3)
class ReflectionPad3d(_ReflectionPadNd): ...


class _ReplicationPadNd(_PadNd):
    """Pad the last {dimensions} by repeating the end elements.

    Args:
        padding: an int for all sides, or a pair for each spatial dimension, the last dimension's first.

    Shape:
        input: (N, C, {in}) or (C, {in}).
        output: (N, C, {out}) or (C, {out}); a size of the input grows by its two paddings.
    """

    _mode = "replicate"


@spatial(1)
class ReplicationPad1d(_ReplicationPadNd): ...


@spatial(2)
class ReplicationPad2d(_ReplicationPadNd): ...


@spatial(3)
class ReplicationPad3d(_ReplicationPadNd): ...


class _CircularPadNd(_PadNd):
    """Pad the last {dimensions} with the elements of the opposite end.

    Args:
        padding: an int for all sides, or a pair for each spatial dimension, the last dimension's first.

    Shape:
        input: (N, C, {in}) or (C, {in}).
        output: (N, C, {out}) or (C, {out}); a size of the input grows by its two paddings.

    Raises:
        ValueError: from `forward`, for an input with another number of dimensions.
    """

    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self._spatial + 1, self._spatial + 2):
            raise ValueError(f"expected {self._spatial + 1}D or {self._spatial + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


@spatial(1)
class CircularPad1d(_CircularPadNd): ...


@spatial(2)
class CircularPad2d(_CircularPadNd): ...


@spatial(3)
class CircularPad3d(_CircularPadNd): ...
