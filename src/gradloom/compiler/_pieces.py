"""Functions that are not one graph: they run as Python, and what they call is compiled by itself.

Note [Pieces]
A function that breaks twice is not recorded again. It runs as Python, rewritten so that its calls go through
`Pieces.call`: modules, and functions that get tensors, become compiled functions of their own, with graphs, guards and,
if they break, pieces of their own. What has nothing to fuse is called as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from ..core.tensor import Tensor
from . import _known as known
from ._effects import is_step, stepped
from ._hooks import Hooks, rewritten, warned
from ._recorder import CannotRewriteError, active

MOST_PIECES = 256  # of one function


class Pieces:
    """What a function calls, compiled.

    Args:
        target: the function, method or module.
        compiled: makes a compiled function.
        machine_code: whether optimizers' updates are loops.

    Attributes:
        steps: name -> the Updates of an optimizer's last step, of those that it called.
        found: identity -> (what is called, its compiled function), in the order of the first calls.
    """

    def __init__(self, target: Any, compiled: Callable[[Any], Any], machine_code: bool = False) -> None:
        self.target, self.compiled, self.machine_code = target, compiled, machine_code
        self.steps: dict[str, Any] = {}
        self.found: dict[tuple[int, ...], tuple[Any, Any]] = {}
        self.has_run = False

    def run(self, args: Any, kwargs: Any) -> Any:
        """Call the function as Python, and compile what it calls."""
        if self.has_run and not self.found and not self.steps:
            return self.target(*args, **kwargs)
        self.has_run = True
        target = self.target
        if isinstance(target, MethodType) and known.is_module(target.__self__) and _is_python_call(target):
            target = target.__self__
        if known.is_module(target):
            return self._module_followed(target, args, kwargs)
        return self._followed(target)(*args, **kwargs)

    def _module_followed(self, module: Any, args: Any, kwargs: Any) -> Any:
        from ..nn.modules._calling import Calling, call_with_hooks, has_hooks

        if type(module).__call__ is not Calling.__call__:
            return self.target(*args, **kwargs)
        forward = self._followed(module.forward)
        if has_hooks(module):
            return call_with_hooks(module, args, kwargs, forward)
        return forward(*args, **kwargs)

    def _followed(self, function: Any) -> Any:
        """Return a function whose calls go through `call`, with the meaning of the given one."""
        own = function.__func__ if isinstance(function, MethodType) else function
        if not isinstance(own, FunctionType) or not known.is_followed(own):
            return function
        try:
            made = rewritten(own, _PieceHooks(own, self))
        except CannotRewriteError:
            return function
        return MethodType(made, function.__self__) if isinstance(function, MethodType) else made

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a function by its compiled form, if it has one; an optimizer's step with its updates as loops."""
        if self.machine_code and function.__class__ is MethodType and is_step(function):
            name = f"{type(function.__self__).__name__}.step"
            self.steps[name], result = stepped(function, args, kwargs)
            return result
        key = _key_of(function, args, kwargs)
        if key is None:
            return function(*args, **kwargs)
        piece = self.found.get(key)
        if piece is None:
            if len(self.found) >= MOST_PIECES:
                return function(*args, **kwargs)
            piece = self.found[key] = function, self.compiled(function)
        compiled = piece[1]
        if not compiled.is_worth_it:
            return function(*args, **kwargs)
        before, active.recorder = active.recorder, None
        try:
            return compiled(*args, **kwargs)
        finally:
            active.recorder = before

    def all(self) -> Iterator[Any]:
        """Yield the compiled functions, each followed by its own pieces."""
        for _, compiled in self.found.values():
            yield compiled
            yield from compiled.pieces.all()


class _PieceHooks(Hooks):
    """Hooks of a function that runs as Python."""

    def __init__(self, function: Any, pieces: Pieces) -> None:
        super().__init__(function)
        self.pieces = pieces

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if function is warnings.warn:
            return warned(*args, **kwargs)
        return self.pieces.call(function, args, kwargs)


def _is_python_call(method: MethodType) -> bool:
    """Return whether a module's method is the one that calls it as Python, also if the module was compiled."""
    from ..nn.modules._calling import Calling

    return method.__func__ is Calling._call_impl


def _key_of(function: Any, args: Any, kwargs: Any) -> tuple[int, ...] | None:
    """Return the identity of a module or function that is compiled by itself; None for what is called as it is."""
    if known.is_module(function):
        members = function.__dict__
        if "_optimized" in members or members.get("_compiled_call_impl") is not None:
            return None
        return (id(function),)
    own = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(own, FunctionType) or known.is_operator(own) or not known.is_followed(own):
        return None
    # A nested function is another one in each call.
    if own.__closure__ is not None and "<locals>" in own.__qualname__ or own.__name__ == "<lambda>":
        return None
    if not own.__dict__.keys().isdisjoint(("_compiled_original", "_compile_disabled", "_compile_allowed")):
        return None
    if isinstance(function, MethodType) and known.is_module(function.__self__) and own.__name__ == "_call_impl":
        return None
    if not any(isinstance(a, Tensor) for a in (*args, *kwargs.values())):
        return None
    return (id(own), id(function.__self__)) if isinstance(function, MethodType) else (id(own),)
