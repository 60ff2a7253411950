"""Calls in compiled functions that change objects from outside: backward passes, steps of optimizers and schedulers.

Note [Effects]
A training step may be one graph, although it changes gradients, parameters and state: the graph computes the tensors,
and the calls that change something are made again in each call, in their order, with the tensors of that call. Calls
that clear gradients before anything else changed come before the graph, which sees no gradients; the others come after
it. After these the function may return, and compute nothing that would belong to the graph, nor read numbers or
containers, which hooks and schedulers may have changed. The calls themselves run as in eager mode, but for optimizers'
updates (Note [Optimizer updates]).
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from ..core.tensor import Tensor
from ..dispatch.state import GRAD_OFF, state
from ._known import NUMBERS, is_a, is_module

_NAMES = frozenset("backward step zero_grad".split())


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


class Effect:
    """A call that is made again in each call of a compiled function.

    Attributes:
        name: as in `SGD.step`.
        values: the object and the arguments; of tensors, those of the recorded call.
        keywords: names of the last arguments.
        is_first: whether it comes before the graph.
        updates: the Updates of the last call, for `explain`; None if nothing was fused.
    """

    def __init__(self, function: MethodType, args: Any, kwargs: Any, is_first: bool, machine_code: bool) -> None:
        self.function = function.__func__
        self.name = f"{type(function.__self__).__name__}.{self.function.__name__}"
        self.values = [function.__self__, *args, *kwargs.values()]
        self.keywords, self.is_first = tuple(kwargs), is_first
        self.flags = state.flags & GRAD_OFF
        self.fuses = machine_code and is_step(function)
        self.updates: Any = None
        self.templates: list[Callable[[Any], Any]] = []

    def bind(self, template: Callable[[Any], Any]) -> None:
        """Forget the recorded call's tensors; `template` makes a function of a call's tensors of each value."""
        self.templates = [template(value) for value in self.values]
        self.values = []

    def run(self, found: Any) -> None:
        """Make the call, with the tensors of a call of the compiled function."""
        self.call([each(found) for each in self.templates])

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


def called(r: Any, function: MethodType, args: Any, kwargs: Any) -> Any:
    """Make a call that has effects, and note it in a recording.

    Args:
        r: the Recorder.
        function: for which `is_effect`.
    """
    clears = function.__func__.__name__ == "zero_grad"
    keeps_memory = clears and [*args, *kwargs.values()] in ([], [True])
    owner = function.__self__
    if isinstance(owner, Tensor) and id(owner) not in r.tensors:
        r.taint("it calls backward of a tensor that came from outside")
    elif not isinstance(owner, Tensor) and not r.is_outer(owner):
        r.taint(f"it calls {function.__qualname__} of an object that it made")
    for value in (*args, *kwargs.values()):
        if not isinstance(value, NUMBERS) and not (isinstance(value, Tensor) and id(value) in r.tensors):
            r.taint(f"it passes a {type(value).__name__} to {function.__qualname__}")
    if clears and not keeps_memory and r.recording.steps and r.sealed is None:
        r.taint("it sets gradients to zero after it computed something")
    effect = Effect(function, args, kwargs, clears and r.sealed is None, r.machine_code)
    if not clears:
        r.sealed = function.__qualname__
    result = effect.call(effect.values)
    if result is not None:
        r.taint(f"{function.__qualname__} returned something")
    r.effects.append(effect)
    return result
