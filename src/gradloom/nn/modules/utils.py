"""Sizes that may be given as one number or one per dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def ntuple(count: int, name: str = "parse") -> Any:
    """A function that turns a number into `count` equal ones, and any iterable into a tuple."""

    def parse(value):
        if isinstance(value, (tuple, list)) or hasattr(value, "__iter__"):
            return tuple(value)
        return (value,) * count

    parse.__name__ = name
    return parse


_single = ntuple(1, "_single")
_pair = ntuple(2, "_pair")
_triple = ntuple(3, "_triple")
_quadruple = ntuple(4, "_quadruple")


def _reverse_repeat_tuple(values, times):
    """(a, b) with times=2 becomes (b, b, a, a): what `pad` takes for a padding equal on both sides."""
    return tuple(value for value in reversed(values) for _ in range(times))
