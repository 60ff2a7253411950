"""Symbolic numbers: sizes that a tracer leaves open. Nothing is traced here, so every size is a Python number.

Programs ask `isinstance(size, torch.SymInt)`, which is never so, and compute sizes by functions that take both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..types.public import found_in as _found_in

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
    "sym_float",
    "sym_fresh_size",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]


class _Symbolic:
    def __init__(self, node: Any) -> None:
        raise TypeError(f"gradloom traces nothing, so there is no {type(self).__name__}: use a Python number")


class SymInt(_Symbolic):
    """An integer that a tracer leaves open; none exists."""


class SymFloat(_Symbolic):
    """A float that a tracer leaves open; none exists."""


class SymBool(_Symbolic):
    """A bool that a tracer leaves open; none exists."""


def sym_int(a: Any) -> int:
    """Return a number without its fraction."""
    return int(a)


def sym_float(a: Any) -> float:
    """Return a number as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Return `not a`."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """Return the greater number; a float if one of them is."""
    return _common(max(a, b), a, b)


def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller number; a float if one of them is."""
    return _common(min(a, b), a, b)


def _common(found, a, b):
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """Return `t` if `b`, otherwise `f`.

    Raises AssertionError for another condition than a bool, or values of different classes.
    """
    if not (isinstance(b, bool) and type(t) is type(f)):
        raise AssertionError(f"expected a bool and two values of one class, got {b!r}, {t!r} and {f!r}")
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """Return the square root of a number."""
    return math.sqrt(a)


def sym_sum(*args: Any) -> Any:
    """Return the sum of numbers, or of a list of them."""
    return sum(args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args)


def sym_fresh_size(expr: Any) -> Any:
    """Return a size as it is; a tracer would leave it open.

    Args:
        expr: the size.
    """
    return expr


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Check that a size lies in a range.

    Raises RuntimeError otherwise.
    """
    lowest, highest = -(2**63) if min is None else min, 2**63 - 1 if max is None else max
    if not lowest <= size <= highest:
        raise RuntimeError(f"Invalid value range for {size} between [{lowest}, {highest}].")


def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Check that a size lies in a range; the lower bound is not negative, the upper one above 2.

    Raises RuntimeError otherwise.
    """
    if max is not None and max <= 2:
        raise RuntimeError(f"Max value to constrain_range_for_size must be greater than 2. got: {max}")
    sym_constrain_range(size, min=0 if min is None else min, max=max)


_found_in(
    "gradloom",
    SymBool,
    SymFloat,
    SymInt,
    sym_int,
    sym_float,
    sym_not,
    sym_max,
    sym_min,
    sym_ite,
    sym_sqrt,
    sym_sum,
    sym_fresh_size,
    sym_constrain_range,
    sym_constrain_range_for_size,
)
