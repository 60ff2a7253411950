"""Estimates of floating point operations, of the operators for which PyTorch's profiler has one.

A multiplication and an addition count as two operations; what elementwise operators do counts as one per element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..dispatch import _operators


def _shape(value: Any) -> tuple[int, ...]:
    return value._array.shape if isinstance(value, _operators.Tensor) else ()


def _matrix_product(first: int) -> Callable[[Sequence[Any]], int]:
    def count(args: Sequence[Any]) -> int:
        return 2 * prod(_shape(args[first])) * _shape(args[first + 1])[-1]

    return count


def _elementwise(args: Sequence[Any]) -> int:
    return prod(_shape(args[0]))


def _conv2d(args: Sequence[Any]) -> int:
    """Twice the elements of a filter, for each element of the result."""
    batch, _, *size = _shape(args[0])
    outputs, *of_filter = _shape(args[1])
    stride, padding, dilation = (_pair(args, place) for place in (3, 4, 5))
    for i in range(2):
        size[i] = (size[i] + 2 * padding[i] - dilation[i] * (of_filter[i + 1] - 1) - 1) // stride[i] + 1
    return 2 * batch * outputs * prod(size) * prod(of_filter)


def _pair(args: Sequence[Any], place: int) -> Sequence[int]:
    value = args[place]
    return (value, value) if isinstance(value, int) else tuple(value) * (2 if len(value) == 1 else 1)


_FORMULAS: dict[str, Callable[[Sequence[Any]], int]] = {
    "aten::mm": _matrix_product(0),
    "aten::bmm": _matrix_product(0),
    "aten::addmm": _matrix_product(1),
    "aten::baddbmm": _matrix_product(1),
    "aten::conv2d": _conv2d,
    "aten::mul": _elementwise,
    "aten::add": _elementwise,
}


def estimate(name: str, args: Sequence[Any]) -> int:
    """The floating point operations of a call; 0 where there is no estimate.

    Args:
        name: the operator, such as `aten::mm`.
        args: its arguments in the order of the schema.
    """
    formula = _FORMULAS.get(name)
    if formula is None or not all(isinstance(a, _operators.Tensor) for a in args[:2]):
        return 0
    try:
        return formula(args)
    except (IndexError, TypeError, ValueError):  # arguments that the formula is not for, such as padding="same"
        return 0
