"""Size: the shape of a tensor, a tuple of ints that prints as `torch.Size([2, 3])`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, overload


class Size(tuple[int, ...]):
    """A shape. Slices, sums and products of shapes are shapes."""

    __slots__ = ()
    __module__ = "gradloom"

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        n = 1
        for d in self:
            n *= d
        return n

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    __str__ = __repr__

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Size: ...

    def __getitem__(self, index: SupportsIndex | slice) -> int | Size:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(found, tuple) else found

    def __add__(self, other: Iterable[int]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Iterable[int]) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, times))

    def __rmul__(self, times: SupportsIndex) -> Size:
        return self * times

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)
