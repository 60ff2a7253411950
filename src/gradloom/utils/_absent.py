"""The error for a public name of PyTorch that gradloom does not have, as opposed to one that nobody has."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_MACHINERY = ("importlib", "_frozen_importlib", "gradloom", "torch")


def absent(module: str, name: str) -> AttributeError:
    """Return the error for an attribute that a module of gradloom does not have.

    It says so if PyTorch has the name: `_absent_names.py` lists these, which `python -m tests.conformance.absent`
    writes. The file is read when a name is missing.
    """
    public = f"{module.replace('gradloom', 'torch', 1)}.{name}"
    if is_absent(public):
        return AttributeError(refusal(public))
    return AttributeError(f"module '{module}' has no attribute '{name}'")


def is_absent(public: str) -> bool:
    """Return whether a full name, such as "torch.nn.attention", is one of PyTorch's that gradloom lacks."""
    from ._absent_names import NAMES

    module, _, name = public.rpartition(".")
    return name in NAMES.get(module, "").split()


def refusal(public: str) -> str:
    """Return the words for a name of PyTorch that gradloom lacks, after the place that asks for it."""
    return f"{asked_at()}gradloom has no {public} yet; docs/absent.md lists what is missing"


def asked_at() -> str:
    """Return "file:line: " of the innermost frame outside gradloom and the import system, or ""."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _MACHINERY:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}: "
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def getattr_of(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that binds all its names when it is imported."""

    def __getattr__(name: str) -> Any:
        raise absent(module, name)

    return __getattr__
