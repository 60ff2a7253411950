"""Which dotted names lead to a function of PyTorch, so that another library can be asked for it."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch

#: Where public functions live, in the order in which a name is preferred.
_NAMESPACES = (
    "",
    "nn.functional",
    "linalg",
    "fft",
    "special",
    "signal.windows",
    "masked",
    "sparse",
    "nn.init",
    "autograd.functional",
    "Tensor",
)


class FunctionNames:
    """Maps a torch function, method or operator overload to its dotted names without the leading "torch."."""

    def __init__(self) -> None:
        self._names: dict[Any, list[str]] = {}
        for space in _NAMESPACES:
            owner: Any = torch
            for part in filter(None, space.split(".")):
                owner = getattr(owner, part)
            for name, value in _functions(owner):
                self._names.setdefault(value, []).append(f"{space}.{name}" if space else name)

    def of(self, function: Any) -> list[str]:
        """All names of a function, the preferred one first; none for what is not public PyTorch."""
        try:
            found = self._names.get(function)
        except TypeError:  # not hashable, so not one of ours
            return []
        if found:
            return found
        return self._property(function) or self._overload(function) or self._other(function)

    def _property(self, function: Any) -> list[str]:
        """`Tensor.T.__get__`, which is what a duck-typed argument is handed when PyTorch reads a property."""
        if getattr(function, "__name__", "") not in ("__get__", "__set__"):
            return []
        owner = getattr(function, "__self__", None)
        name = getattr(owner, "__name__", None) or getattr(getattr(owner, "fget", None), "__name__", None)
        return [f"Tensor.{name}"] if name else []

    def _overload(self, function: Any) -> list[str]:
        """torch.ops.aten.relu and its overload `default` are asked for as ops.aten.relu, then as relu."""
        if isinstance(function, torch._ops.OpOverload):
            function = function.overloadpacket
        if not isinstance(function, torch._ops.OpOverloadPacket):
            return []
        space, _, name = str(function).partition(".")
        return [f"ops.{space}.{name}", name]

    def _other(self, function: Any) -> list[str]:
        """Functions and classes of PyTorch by the module that defines them; test helpers have no name."""
        module, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")
        if not module.startswith("torch.") or module.startswith("torch.testing.") or not name or "<" in name:
            return []
        if module.startswith("torch.nn.modules"):
            return [f"nn.{name}"]
        if module.startswith("torch.optim"):
            return [f"optim.{name}"]
        return [f"{module.removeprefix('torch.')}.{name}"] if isinstance(function, types.FunctionType) else []


def _functions(owner: Any) -> Iterator[tuple[str, Any]]:
    for name in dir(owner):
        if name in ("__class__", "__getattribute__", "__setattr__", "__delattr__"):
            continue
        try:
            value = getattr(owner, name)
            hash(value)
        except Exception:  # lazily imported or removed names raise on access
            continue
        if callable(value) and not isinstance(value, type):
            yield name, value


NAMES = FunctionNames()
