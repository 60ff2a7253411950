"""Tracking of the modules that are being called, or that backward runs through."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..autograd.graph import register_multi_grad_hook
from ..autograd.variable import Variable
from ..core.tensor import Tensor
from ._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..nn import Module

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Context manager whose `parents` names the modules that are being called or that backward runs through.

    `parents` is a set that always has "Global". The outermost module is named by its class, those within it
    `Class.attribute`.
    """

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self._names: WeakKeyDictionary[Module, str] = WeakKeyDictionary()
        self._handles: list[Any] = []
        self._callback_is_set = False
        self.is_bw: bool = False

    def __enter__(self) -> ModuleTracker:
        modules = import_module("gradloom.nn.modules.module")
        self._handles = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _name(self, module: Module) -> str:
        if module not in self._names:
            self._names[module] = type(module).__name__
        name = self._names[module]
        for child_name, child in module.named_children():
            self._names.setdefault(child, f"{name}.{child_name}")
        return name

    def _enter(self, module: Module, inputs: Any) -> None:
        name = self._name(module)
        self.parents.add(name)
        given = _recorded(inputs)
        if given:
            register_multi_grad_hook(given, self._backward(lambda: self.parents.discard(name)))

    def _leave(self, module: Module, inputs: Any, output: Any) -> None:
        name = self._name(module)
        self.parents.discard(name)
        made = _recorded(output)
        if made:
            register_multi_grad_hook(made, self._backward(lambda: self.parents.add(name)))

    def _backward(self, change: Callable[[], Any]) -> Callable[[Any], None]:
        """Return a backward hook; all modules are left at the end of the pass."""

        def hook(grads: Any) -> None:
            if not self._callback_is_set:
                Variable._execution_engine.queue_callback(self._end)
                self._callback_is_set, self.is_bw = True, True
            change()

        return hook

    def _end(self) -> None:
        self.parents = {"Global"}
        self._callback_is_set = self.is_bw = False


def _recorded(values: Any) -> list[Tensor]:
    return [t for t in tree_leaves(values) if isinstance(t, Tensor) and t.requires_grad]
