"""Replaces the derivatives of gradloom's own operators, and gives them back.

Note [Overrides]
A wrapper is held in many places: on Tensor, in modules, in plans of the argument parser, in the variables of people
who imported it. So it stays, and gets the code of a new wrapper, which was generated from the operator's own entry in
native_functions.yaml and the new one in derivatives.yaml. That code runs in the module of the old one, where
everything but the derivative is what it was; node classes and helpers it finds under one global name, that of the
`overrides` module. Whoever overrides last is in force; removing one leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from ..python_dispatch.torch_function.asking import own_code, renew, set_own_code
from ..tensors.binding import getters
from ..tensors.python_operators import bind_python_operators

# Overload of gradloom's -> its own code, and those that replace it, in the order of their coming; no entry without one.
_replaced: dict[str, _Replaced] = {}


class _Replaced:
    """A wrapper of gradloom's whose derivative is replaced."""

    def __init__(self, wrapper: FunctionType) -> None:
        self.wrapper, self.own = wrapper, own_code(wrapper)
        self.stack: list[tuple[str, CodeType]] = []

    def install(self) -> None:
        code = self.stack[-1][1] if self.stack else self.own
        for function in (self.wrapper, getters.get(self.wrapper)):
            if function is not None:
                set_own_code(function, code)


def apply(overrides: Any, owner: str) -> Callable[[], None]:
    """Put an `overrides` module into force; returns what takes it back."""
    from ..generated import namespaces

    for name, function in overrides.REPLACES.items():
        wrapper = namespaces.OVERLOADS[name]
        found = _replaced.setdefault(name, _Replaced(wrapper))
        # under the old name, which errors and profiles show
        code = function.__code__.replace(co_name=found.own.co_name, co_qualname=found.own.co_qualname)
        found.stack.append((owner, code))
        wrapper.__globals__[overrides.NAME] = overrides
        found.install()
    bind_python_operators(namespaces.GUARDS)
    renew()

    def undo() -> None:
        for name in overrides.REPLACES:
            found = _replaced[name]
            found.stack = [entry for entry in found.stack if entry[0] != owner]
            found.install()
            if found.wrapper.__globals__.get(overrides.NAME) is overrides:
                del found.wrapper.__globals__[overrides.NAME]
            if not found.stack:
                del _replaced[name]
        bind_python_operators(namespaces.GUARDS)
        renew()

    return undo


def owners(name: str) -> tuple[str, ...]:
    """Who replaces the derivative of an overload (`mul_Tensor`); the last is in force."""
    return tuple(owner for owner, *_ in _replaced[name].stack) if name in _replaced else ()
