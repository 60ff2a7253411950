"""How functions written in Python are called for an overload: a kernel of a library, or `__torch_dispatch__`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._schema import FunctionSchema


def python_arguments(schema: FunctionSchema, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments from all values in the schema's order.

    As in PyTorch, lists are lists, and what stands at its default is left out: of the positional arguments, at the
    end.
    """
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    needed = 0
    for argument, value in zip(schema.arguments, values, strict=False):
        if value.__class__ is tuple:
            value = list(value)
        default = argument.has_default_value() and is_default(argument, value)
        if not argument.kwarg_only:
            positional.append(value)
            needed = needed if default else len(positional)
        elif not default:
            keywords[argument.name] = value
    return tuple(positional[:needed]), keywords


def is_default(argument: Any, value: Any) -> bool:
    """Whether a value is the default of an argument."""
    default = argument.default_value
    if value is None or default is None or isinstance(value, bool) or isinstance(default, bool):
        return value is default
    return type(value) in (int, float, complex, str, list) and value == default
