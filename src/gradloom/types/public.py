"""The modules in which users find functions and classes: their `__module__`, which is PyTorch's, not their code's.

Pickles, `repr` of classes and programs that compare module names read `__module__`. What needs the module that holds a
function's code calls `home_of`.
"""

from __future__ import annotations

from typing import Any


def found_in(module: str, *things: Any) -> None:
    """Make functions and classes answer `module` as their module. It must have them under their names."""
    for thing in things:
        thing.__module__ = module


def home_of(function: Any) -> str:
    """Return the name of the module that holds a function's code; of another callable, its `__module__` or ""."""
    names = getattr(function, "__globals__", None)
    return str(getattr(function, "__module__", None) or "") if names is None else str(names["__name__"])
