"""Compiled modules. Only this file of the compiler imports `gradloom.nn`: functions are compiled without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..nn import Module
from ..nn.modules._calling import call_with_hooks, has_hooks
from . import compile


class OptimizedModule(Module):
    """A compiled module: calls run its graphs and, around them, hooks that were registered on it, and global hooks;
    everything else is the original's.

    Attributes:
        _orig_mod: the original module.
        _optimized: the `Optimized` of its call.
    """

    __module__ = "gradloom._dynamo.eval_frame"
    _orig_mod: Module

    def __init__(self, mod: Module, optimized: Any) -> None:
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["_optimized"] = optimized

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        optimized = self.__dict__["_optimized"]
        if has_hooks(self):
            return call_with_hooks(self, args, kwargs, optimized)
        return optimized(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the graphs, without the hooks of this module."""
        return self.__dict__["_optimized"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__["_modules"]["_orig_mod"]
        return original if name == "_orig_mod" else getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_orig_mod":
            self._modules["_orig_mod"] = value
        elif name in type(self).__dict__ or name in self.__dict__:
            object.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    @property
    def dynamo_ctx(self) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator that compiles a function with the options of this module."""
        return self.__dict__["_optimized"].function_for  # type: ignore[no-any-return]

    @property
    def training(self) -> bool:
        """The original's training mode."""
        return bool(self._orig_mod.training)

    @training.setter
    def training(self, value: bool) -> None:
        if "_modules" in self.__dict__ and "_orig_mod" in self.__dict__["_modules"]:
            self._orig_mod.training = value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __reduce__(self) -> Any:
        optimized = self.__dict__["_optimized"]
        return _compiled_as, (self._orig_mod, optimized.backend.asked, optimized.fullgraph, optimized.dynamic)


def _compiled_as(module: Module, backend: Any, fullgraph: bool, dynamic: bool | None) -> Any:
    """Compile a module again for a copy or pickle of its compiled form."""
    return compile(module, backend=backend, fullgraph=fullgraph, dynamic=dynamic)
