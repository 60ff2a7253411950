"""The modules in which users find functions and classes: their `__module__`, which is PyTorch's, not their code's.

Pickles, `repr` of classes and programs that compare module names read `__module__`. What needs the module that holds a
function's code calls `home_of`. `origin` says whether a name is taken, and by what.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, ForwardRef

from .silence import module_name


def found_in(module: str, *things: Any) -> None:
    """Make functions and classes, with their methods, answer `module` as their module. It must have them under their
    names.

    `typing.get_type_hints` looks up what a class's annotations name in the class's module: they keep the module of the
    code.
    """
    for thing in things:
        if isinstance(thing, type):
            home, members = thing.__module__, vars(thing)
            annotations = members.get("__annotations__", {})
            for name, text in annotations.items():
                if isinstance(text, str):
                    annotations[name] = ForwardRef(text, is_argument=False, module=home, is_class=True)
            for member in members.values():
                function = getattr(member, "__func__", member)  # of a static or class method
                if isinstance(function, FunctionType) and function.__module__ == home:
                    function.__module__ = module
        thing.__module__ = module


def found_in_tensors(name: str, function: Any) -> Any:
    """Name a function that only tensors have as PyTorch does, `torch._C.TensorBase.<name>`: pickles find it there.
    Return the function."""
    function.__name__, function.__qualname__ = name, f"TensorBase.{name}"
    function.__module__ = f"{sys.modules['gradloom'].__name__}._C"  # torch._C in `gradloom.as_torch`
    return function


def home_of(function: Any) -> str:
    """Return the name of the module that holds a function's code; of another callable, its `__module__` or ""."""
    names = getattr(function, "__globals__", None)
    return str(getattr(function, "__module__", None) or "") if names is None else module_name(names)


def _unknown_origin(place: str, name: str) -> str | None:
    return None


_origin: Callable[[str, str], str | None] = _unknown_origin


def provide_origin(function: Callable[[str, str], str | None]) -> None:
    """Register the library's answer to `origin`, which the generator asks without importing the library."""
    global _origin
    _origin = function


def origin(place: str, name: str) -> str | None:
    """Return where an attribute of tensors (place "method") or of gradloom ("function") comes from: "operator",
    "library" for what is not an operator, or None if the name is free."""
    return _origin(place, name)
