"""Replaces the derivatives of gradloom's own operators, and restores them.

Note [Overrides]
The wrapper of an operator stays, because programs and tables refer to it. It runs the code of a new wrapper (Note
[Function code]), generated from the operator's own entry in native_functions.yaml and the new one in derivatives.yaml.
The code runs in the module of the old wrapper and finds its node classes and helpers under one global name, that of the
`overrides` module. The last override is in force; removing one leaves the others.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..dispatch.function_code import lend_code
from ..python_dispatch.torch_function.checks import refresh

# Overload of gradloom's -> the functions that replace it with their owners; the last one is in force.
_replaced: dict[str, list[tuple[str, FunctionType]]] = {}


def apply(overrides: Any, owner: str) -> Callable[[], None]:
    """Put an `overrides` module into force; return a function that undoes it."""
    from ..generated import namespaces

    for name, function in overrides.REPLACES.items():
        wrapper = namespaces.OVERLOADS[name]
        _replaced.setdefault(name, []).append((owner, function))
        wrapper.__globals__[overrides.NAME] = overrides
        lend_code(wrapper, function)
    refresh()

    def undo() -> None:
        for name in overrides.REPLACES:
            wrapper = namespaces.OVERLOADS[name]
            rest = [entry for entry in _replaced[name] if entry[0] != owner]
            lend_code(wrapper, rest[-1][1] if rest else None)
            if wrapper.__globals__.get(overrides.NAME) is overrides:
                del wrapper.__globals__[overrides.NAME]
            _replaced[name] = rest
            if not rest:
                del _replaced[name]
        refresh()

    return undo


def owners(name: str) -> tuple[str, ...]:
    """Return the owners of replaced derivatives of an overload (`mul_Tensor`); the last is in force."""
    return tuple(owner for owner, _ in _replaced.get(name, ()))
