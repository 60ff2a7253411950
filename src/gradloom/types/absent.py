"""The error for a public name of PyTorch that gradloom does not have, as opposed to one that nobody has.

`absent_names` has the names; `python -m tests.conformance.absent` writes it. A module's `__getattr__` calls `absent`. A
class has no `__getattr__`, which would slow down every attribute, so Tensor has an `AbsentMember` under each name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from .silence import module_name

_MACHINERY = ("importlib", "_frozen_importlib", "gradloom", "torch")


def absent(module: str, name: str) -> AttributeError:
    """Return the error for an attribute that a module of gradloom does not have.

    It says so if PyTorch has the name.
    """
    public = f"{module.replace('gradloom', 'torch', 1)}.{name}"
    if is_absent(public):
        return AttributeError(refusal(public))
    return AttributeError(f"module '{module}' has no attribute '{name}'")


def is_absent(public: str) -> bool:
    """Return whether a full name, such as "torch.nn.attention", is one of PyTorch's that gradloom lacks."""
    from .absent_names import NAMES

    module, _, name = public.rpartition(".")
    return name in NAMES.get(module, "").split()


def refusal(public: str) -> str:
    """Return the words for a name of PyTorch that gradloom lacks, after the place that asks for it."""
    return f"{asked_at()}gradloom has no {public} yet; docs/absent.md lists what is missing"


def asked_at() -> str:
    """Return "file:line: " of the innermost frame outside gradloom and the import system, or ""."""
    frame = sys._getframe(1)
    while frame is not None:
        if module_name(frame.f_globals).partition(".")[0] not in _MACHINERY:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}: "
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def getattr_of(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that binds all its names when it is imported."""

    def __getattr__(name: str) -> Any:
        raise absent(module, name)

    return __getattr__


class AbsentMember:
    """A member of torch.Tensor that gradloom lacks: reading it raises the AttributeError that says so."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: object, owner: type | None = None) -> NoReturn:
        raise AttributeError(
            refusal(f"torch.Tensor.{self.name}"), name=self.name, obj=owner if tensor is None else tensor
        )


def add_absent_members(cls: type) -> None:
    """Give the class of tensors an AbsentMember for each member of torch.Tensor that it lacks."""
    from .absent_names import NAMES

    for name in NAMES.get("torch.Tensor", "").split():
        setattr(cls, name, AbsentMember(name))
