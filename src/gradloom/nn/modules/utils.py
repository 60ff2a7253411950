"""Sizes given as one number or one per dimension, and a base of modules that print their constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradloom.nn.modules.module import Module

if TYPE_CHECKING:
    from typing import Any


def ntuple(count: int, name: str = "parse") -> Any:
    """Return a function that repeats a number `count` times and turns any iterable into a tuple.

    Args:
        count: length of the tuple for a number.
        name: name of the function.
    """

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
    """Turn (a, b) into (b, b, a, a) for times=2: equal padding on both sides, as `pad` takes it."""
    return tuple(value for value in reversed(values) for _ in range(times))


class _Constants(Module):
    """Base that prints its `__constants__` as keyword arguments."""

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.__constants__)
