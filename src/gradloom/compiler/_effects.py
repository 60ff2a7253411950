"""Calls in compiled functions that change objects from outside: backward passes, steps of optimizers and schedulers,
limits of gradients.

Note [Effects]
A training step may be one graph, although it changes gradients, parameters and state: the graph computes the tensors,
and the calls that change something are made again in each call, in their order, with the tensors of that call. Calls
that clear gradients before anything else changed come before the graph, which sees no gradients; the others come after
it. After these the function may return, and compute nothing that would belong to the graph, nor read numbers or
containers, which hooks and schedulers may have changed. The calls themselves run as in eager mode, but for optimizers'
updates (Note [Optimizer updates]). `clip_grad_norm_(module.parameters(), ...)` asks for the parameters in each call
again; the norm that it returns may be returned, or passed to another such call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from ..core.tensor import Tensor
from ..dispatch.state import GRAD_OFF, state
from ._known import NUMBERS, is_a, is_module
from ._numbers import plain, replaced

_NAMES = frozenset("backward step zero_grad".split())
_LIMITS = frozenset("clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_".split())  # of nn.utils


def is_limit(function: FunctionType) -> bool:
    """Return whether a function is the library's, and limits gradients."""
    name = function.__name__
    return name in _LIMITS and getattr(sys.modules.get("gradloom.nn.utils.clip_grad"), name, None) is function


def is_effect(function: Any) -> bool:
    """Return whether a bound method is one of those calls."""
    if function.__func__.__name__ not in _NAMES:
        return False
    name, owner = function.__func__.__name__, function.__self__
    if name == "backward":
        return isinstance(owner, Tensor) and function.__func__ is Tensor.backward
    if is_module(owner):
        from ..nn import Module

        return name == "zero_grad" and function.__func__ is Module.zero_grad
    return is_step(function) or name == "zero_grad" and is_a(owner, "gradloom.optim.optimizer", "Optimizer")


def is_step(function: Any) -> bool:
    """Return whether a bound method is the `step` of an optimizer or of a scheduler."""
    if function.__func__.__name__ != "step":
        return False
    owner = function.__self__
    optimizer = is_a(owner, "gradloom.optim.optimizer", "Optimizer")
    return optimizer or is_a(owner, "gradloom.optim.lr_scheduler.base", "LRScheduler")


class Parameters:
    """The parameters of a module after a call with effects: an iterator, which effects make anew in each call.

    Args:
        method: `Module.parameters` of a module from outside.
    """

    def __init__(self, method: MethodType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.method, self.args, self.kwargs = method, args, kwargs
        self.found = self.template(())

    def template(self, found: Any) -> Iterator[Any]:
        """Return the parameters now, whatever the tensors of a call are."""
        return self.method(*self.args, **self.kwargs)  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return self.found

    def __next__(self) -> Any:
        return next(self.found)


def parameters_after(r: Any, function: MethodType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parameters | None:
    """Return the Parameters that a call of `Module.parameters` gives; None if it is something else."""
    owner = function.__self__
    if r.sealed is None or function.__func__.__name__ != "parameters" or not is_module(owner) or not r.is_outer(owner):
        return None
    from ..nn import Module

    numbers = all(v.__class__ in NUMBERS for v in (*args, *kwargs.values()))
    return Parameters(function, args, kwargs) if numbers and function.__func__ is Module.parameters else None


class Found(list[Any]):
    """The tensors of a call of a compiled function, and what calls with effects returned.

    Attributes:
        results: of each call after the graph.
        numbers: those that are arguments of the graph, if there are some.
    """

    __slots__ = ("results", "numbers")
    numbers: tuple[Any, ...]

    def __init__(self, tensors: list[Any]) -> None:
        super().__init__(tensors)
        self.results: list[Any] = []


class Effect:
    """A call that is made again in each call of a compiled function.

    Attributes:
        name: as in `SGD.step`.
        values: the object, if it is a method, and the arguments; of tensors, those of the recorded call.
        keywords: names of the last arguments.
        is_first: whether it comes before the graph.
        updates: the Updates of the last call, for `explain`; None if nothing was fused.
    """

    def __init__(self, function: Any, args: Any, kwargs: Any, is_first: bool, machine_code: bool) -> None:
        self.values = [*args, *kwargs.values()]
        self.function, self.name = function, function.__name__
        if isinstance(function, MethodType):
            self.function = function.__func__
            self.name = f"{type(function.__self__).__name__}.{self.function.__name__}"
            self.values.insert(0, function.__self__)
        self.keywords, self.is_first = tuple(kwargs), is_first
        self.flags = state.flags & GRAD_OFF
        self.fuses = machine_code and isinstance(function, MethodType) and is_step(function)
        self.updates: Any = None
        self.templates: list[Callable[[Any], Any]] = []

    def bind(self, template: Callable[[Any], Any]) -> None:
        """Forget the recorded call's tensors; `template` makes a function of a call's tensors of each value."""
        self.templates = [v.template if v.__class__ is Parameters else template(v) for v in self.values]
        self.values = []

    def run(self, found: Any) -> Any:
        """Make the call, with the tensors of a call of the compiled function; return its result."""
        return self.call([each(found) for each in self.templates])

    def call(self, values: list[Any]) -> Any:
        count = len(values) - len(self.keywords)
        keywords = dict(zip(self.keywords, values[count:], strict=True))
        outside = state.flags
        state.flags = outside & ~GRAD_OFF | self.flags
        try:
            if not self.fuses:
                return self.function(*values[:count], **keywords)
            self.updates, result = stepped(self.function, values[:count], keywords)
            return result
        finally:
            state.flags = outside


def stepped(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Call an optimizer's step with its updates as loops; return the Updates, and its result."""
    from ._updates import Updates

    before = state.updates
    updates = state.updates = Updates()
    try:
        return updates, function(*args, **kwargs)
    finally:
        state.updates = before


def called(r: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """Make a call that has effects, and note it in a recording.

    Args:
        r: the Recorder.
        function: for which `is_effect` or `is_limit`.
    """
    clears = function.__name__ == "zero_grad"
    keeps_memory = clears and [*args, *kwargs.values()] in ([], [True])
    is_method = isinstance(function, MethodType)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Tensor) and id(owner) not in r.tensors:
        r.taint("it calls backward of a tensor that came from outside")
    elif is_method and not isinstance(owner, Tensor) and not r.is_outer(owner):
        r.taint(f"it calls {function.__qualname__} of an object that it made")
    for value in (*args, *kwargs.values()):
        if not _is_known(r, value, limits=not is_method):
            r.taint(f"it passes a {type(value).__name__} to {function.__qualname__}")
    if clears and not keeps_memory and r.recording.steps and r.sealed is None:
        r.taint("it sets gradients to zero after it computed something")
    if clears:
        args, kwargs = r.taken(args), r.taken(kwargs)
    effect = Effect(function, args, kwargs, clears and r.sealed is None, r.machine_code)
    r.kept.append((function, args, kwargs))  # of their tensors, some are results of the graph
    if not clears:
        r.sealed = function.__qualname__
    result = effect.call(replaced(effect.values, plain))
    if result is not None:
        if is_method or r.reason is not None:
            r.taint(f"{function.__qualname__} returned something")
        else:
            r.results[id(result)] = sum(not e.is_first for e in r.effects)
            r.kept.append(result)
    r.effects.append(effect)
    return result


def _is_known(r: Any, value: Any, limits: bool) -> bool:
    """Return whether a call with effects may get a value; `limits`: one that limits gradients."""
    if isinstance(value, NUMBERS):
        return True
    if isinstance(value, Tensor):
        return id(value) in r.tensors or limits and (id(value) in r.found or id(value) in r.results)
    if not limits:
        return False
    if value.__class__ in (list, tuple):
        return r.is_outer(value) or all(isinstance(v, Tensor) and _is_known(r, v, True) for v in value)
    return value.__class__ is Parameters
