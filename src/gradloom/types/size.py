"""Size: the shape of a tensor, a tuple of ints that prints as `torch.Size([2, 3])`."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any, SupportsIndex, overload

# `new_size(Size, shape)` makes the shape of a tuple of ints without looking at them: every `x.shape` calls it.
new_size: Any = tuple.__new__


class Size(tuple[int, ...]):
    """A shape. Slices, sums and products of shapes are shapes.

    Args:
        sizes: ints, or what counts as one, such as a tensor with one integer; none by default.

    Raises:
        TypeError: for other elements.
    """

    __slots__ = ()
    __module__ = "gradloom"

    def __new__(cls, sizes: Iterable[SupportsIndex] = (), /) -> Size:
        elements = tuple(sizes)
        for element in elements:
            if element.__class__ is not int:
                return tuple.__new__(cls, map(_checked, range(len(elements)), elements))
        return tuple.__new__(cls, elements)  # type: ignore[arg-type]

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
        return new_size(Size, found) if isinstance(found, tuple) else found

    def __add__(self, other: Iterable[int]) -> Size:  # type: ignore[override]
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Iterable[int]) -> Size:
        return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> Size:
        return new_size(Size, tuple.__mul__(self, times))

    def __rmul__(self, times: SupportsIndex) -> Size:
        return self * times

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


def _checked(position: int, element: Any) -> int:
    if isinstance(element, int) and not isinstance(element, bool):
        return element  # a subclass of int keeps what else it knows
    try:
        return index(element)
    except (TypeError, RuntimeError, ValueError):
        raise TypeError(
            f"torch.Size() takes an iterable of 'int' (item {position} is '{type(element).__name__}')"
        ) from None
