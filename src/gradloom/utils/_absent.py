"""The error for a public name of PyTorch that gradloom does not have, as opposed to one that nobody has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def absent(module: str, name: str) -> AttributeError:
    """Return the error for an attribute that a module of gradloom does not have.

    It says so if PyTorch has the name: `_absent_names.py` lists these, which `python -m tests.conformance.absent`
    writes. The file is read when a name is missing.
    """
    from ._absent_names import NAMES

    public = module.replace("gradloom", "torch", 1)
    if name in NAMES.get(public, "").split():
        return AttributeError(f"gradloom has no {public}.{name} yet; docs/absent.md lists what is missing")
    return AttributeError(f"module '{module}' has no attribute '{name}'")


def getattr_of(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that binds all its names when it is imported."""

    def __getattr__(name: str) -> Any:
        raise absent(module, name)

    return __getattr__
