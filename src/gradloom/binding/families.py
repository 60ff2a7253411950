"""Binds the operators of a family, wherever programs find them, when one of them is first used; see Note [Families]."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..core.tensor import Tensor
from ..dispatch import _operators
from ..dispatch.function_code import copy_of
from ..memory.locks import new_lock
from ..types.public import found_in, found_in_tensors

# Methods that core/tensor.py implements itself, for speed.
BY_HAND = frozenset(("conj",))
# Attribute of tensors -> the operator that computes it, and what sets it.
PROPERTIES = {"T": "numpy_T", "H": "matrix_H", "mT": "mT", "mH": "mH", "real": "real", "imag": "imag"}
_SETTERS = {
    "real": lambda self, value: self.real.__setitem__(..., value),
    "imag": lambda self, value: self.imag.__setitem__(..., value),
}
_ROOT = __name__.partition(".")[0]

_lock = new_lock()  # held while a family is bound
_namespaces: Any = None  # gradloom.generated.namespaces
# The operators of the main namespace, and those that are methods of Tensor.
_functions: frozenset[str] = frozenset()
_methods: frozenset[str] = frozenset()


def provide(namespaces: ModuleType) -> None:
    """Let the operators of these namespaces be found on first use."""
    global _namespaces, _functions, _methods
    _namespaces, _functions, _methods = namespaces, frozenset(namespaces.FUNCTIONS), frozenset(namespaces.METHODS)
    space = vars(_operators)
    space["__getattr__"], space["__dir__"], space["exact"] = _operator, _operator_names, _Exact()
    for name, family in namespaces.METHODS.families.items():
        if name not in BY_HAND:
            setattr(Tensor, name, _Method(name, family))
    for name, operator in PROPERTIES.items():
        if operator in namespaces.OPERATORS:
            setattr(Tensor, name, _Property(name, namespaces.OPERATORS.families[operator]))


def function(name: str) -> Any:
    """Return an operator of the main namespace, and bind its family; None if it has no such operator."""
    if name not in _functions:
        return None
    load(_namespaces.OPERATORS.families[name])
    return vars(sys.modules[_ROOT])[name]


def function_names() -> frozenset[str]:
    """Return the names of the operators of the main namespace."""
    return _functions


def method_names() -> frozenset[str]:
    """Return the names of the operators that are methods of Tensor."""
    return _methods


def load(family: str) -> None:
    """Import a family and bind its operators.

    A name that is bound already stays, because a program may have put something else there. Idempotent; several threads
    may call it at a time.

    Raises:
        ImportError: if generated/ is stale or half-edited.
    """
    try:
        found = _namespaces.family(family)
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        raise ImportError(
            f"gradloom's generated {family} operators cannot be imported; run `gradloom generate`"
        ) from error
    with _lock:
        _bind_functions(family, found)
        for name, method in found.METHODS.items():
            if name not in PROPERTIES and is_placeholder(name):
                setattr(Tensor, name, method)
        for name, operator in PROPERTIES.items():
            if operator in found.OPERATORS and is_placeholder(name):
                setattr(Tensor, name, property(copy_of(found.OPERATORS[operator], operator), _SETTERS.get(name)))


def _bind_functions(family: str, found: Any) -> None:
    """Bind the operators of a family below `_operators` and in the main namespace."""
    space, root = vars(_operators), sys.modules[_ROOT]
    home = _namespaces.OPERATORS.families
    for function in (*found.OPERATORS.values(), *found.METHODS.values()):
        if function.__module__ == _ROOT:
            function.__module__ = root.__name__  # another one in `gradloom.as_torch`
    for name, method in found.METHODS.items():
        if name not in _functions:
            found_in_tensors(name, method)
    for module, members in _namespaces.MODULES.items():
        for name in members.values():
            if name in found.OPERATORS:
                function = found.OPERATORS[name]
                function.__qualname__ = name  # some are methods, too
                found_in(f"{root.__name__}._C._{module}", function)
    functions = {name: function for name, function in found.OPERATORS.items() if name in _functions}
    found_in(root.__name__, *functions.values())
    for name, wrapper in {**found.OVERLOADS, **found.OPERATORS}.items():
        if home.get(name, family) == family:
            space.setdefault(name, wrapper)
    for name, function in functions.items():
        vars(root).setdefault(name, function)


def is_placeholder(name: str) -> bool:
    """Return whether a member of Tensor belongs to a family that is not bound yet."""
    return isinstance(vars(Tensor).get(name), _Method)


class _Method:
    """The placeholder of a method, until its family is bound. `hasattr` and `Tensor.name` bind the family, too."""

    __slots__ = ("name", "family")

    def __init__(self, name: str, family: str) -> None:
        self.name, self.family = name, family

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        return self._found().__get__(tensor, owner)

    def _found(self) -> Any:
        load(self.family)
        return vars(Tensor)[self.name]


class _Property(_Method):
    """The placeholder of a property."""

    __slots__ = ()

    def __set__(self, tensor: Any, value: Any) -> None:
        self._found().__set__(tensor, value)


class _Exact:
    """The overloads by their unambiguous names, found on first use."""

    def __getattr__(self, name: str) -> Any:
        if name not in _namespaces.OVERLOADS:
            raise AttributeError(f"there is no overload {name}")
        found = self.__dict__[name] = _namespaces.OVERLOADS[name]
        return found


def _operator(name: str) -> Any:
    """Find what `gradloom.dispatch._operators` does not have yet."""
    family = _namespaces.OPERATORS.families.get(name) or _namespaces.OVERLOADS.families.get(name)
    if family is None:
        raise AttributeError(f"module '{_operators.__name__}' has no attribute '{name}'")
    load(family)
    return vars(_operators)[name]


def _operator_names() -> list[str]:
    return sorted({*vars(_operators), *_namespaces.OVERLOADS, *_namespaces.OPERATORS})
