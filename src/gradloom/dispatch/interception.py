"""Interception: how a profiler, vmap, autocast or `__torch_dispatch__` gets to see a call before the kernel runs.

Note [Interception]
A call that nobody wants to see pays nothing for those who might. A wrapper finds out that somebody does where it looks
anyway:

    x._operand     where wrappers read the arrays of their arguments: a second name of the slot `_array`. A subclass of
                   Tensor that answers calls itself has a property there that raises AttributeError. All that is not
                   a wrapper reads `_array`
    state.flags    the bit INTERCEPT: a mode or a profiler of this thread; AUTOCAST, in wrappers of operators with an
                   autocast policy

and hands the call, one overload with its arguments as the parser made them, to `intercept`. Whoever may answer it is
asked in the order of the keys below, which is PyTorch's; ZEROS are tangents that are known to be zero. One that does
not care returns NotImplemented. An answer may pass the call on with `call.below(KEY)`. Autograd stands above PYTHON and
below the others: a profiler, vmap and autocast call operators that record their history as ever, and for
`__torch_dispatch__` there is a second set of wrappers (`generated/redispatch`), which record the history of a result
that somebody else computes. (`__torch_function__` comes before all of them; see Note [Torch functions].)

Who answers is registered when the feature is first used (`register`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

from . import _operators
from .state import AUTOCAST, INTERCEPT, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Who is asked, in this order.
PROFILER, VMAP, CASTS, PYTHON, ZEROS = range(5)
_answers: list[Any] = [None] * 5


def register(key: int, answer: Callable[[Call], Any]) -> None:
    """From now on `answer(call)` is asked about intercepted calls, in the place that `key` has in the order."""
    _answers[key] = answer


class Call:
    """An intercepted call of one overload.

    Attributes:
        wrapper: the generated function of the overload.
        args: all arguments in the order of the schema; those of a factory are followed by its requires_grad.
        out: what `out=` was given, or None.
        composite: the function that a composite operator is made of; None for others.
    """

    __slots__ = ("wrapper", "args", "out", "composite")

    def __init__(self, wrapper: Any, args: tuple[Any, ...], out: Any = None, composite: Any = None) -> None:
        self.wrapper, self.args, self.out, self.composite = wrapper, args, out, composite

    def tensors(self) -> Iterator[Any]:
        """The tensors among the arguments, also those in lists, and `out`."""
        for value in (*self.args, self.out):
            if isinstance(value, _operators.Tensor):
                yield value
            elif value.__class__ in (tuple, list):
                yield from (t for t in value if isinstance(t, _operators.Tensor))

    def with_args(self, args: tuple[Any, ...], out: Any = None) -> Call:
        """The same call with other arguments."""
        return Call(self.wrapper, args, out, self.composite)

    def below(self, key: int) -> Any:
        """Pass the call on to those that come after `key`, and in the end to the operator itself."""
        for answer in _answers[key + 1 :]:
            if answer is not None:
                found = answer(self)
                if found is not NotImplemented:
                    return found
        return self.run()

    def run(self) -> Any:
        """The operator itself; a composite one calls others, which are intercepted in their turn.

        Raises:
            TypeError: if there are tensors whose values only somebody else can compute with.
        """
        if self.composite is not None and self.out is None:
            return self.composite(*self.args)
        for t in self.tensors():
            if not has_operand(t):
                name = self.wrapper.__doc__.partition("(")[0]  # the docstring of a wrapper begins with its schema
                raise TypeError(
                    f"no implementation of {name} was found for arguments of class {type(t).__name__}, "
                    "which has no values of its own"
                )
        flags = state.flags
        state.flags = flags & ~(INTERCEPT | AUTOCAST)
        try:
            return self.plain()
        finally:
            state.flags = flags

    def plain(self) -> Any:
        """Call the wrapper, with the flags as they are."""
        code = self.wrapper.__dict__.get("_own", self.wrapper).__code__  # whatever it runs to ask who answers
        count = code.co_argcount
        named = dict(zip(code.co_varnames[count:], self.args[count:], strict=False))
        if self.out is not None:
            named["out"] = self.out
        return self.wrapper(*self.args[:count], **named)


def intercept(wrapper: Any, args: tuple[Any, ...], out: Any = None, composite: Any = None) -> Any:
    """Answer a call that a generated wrapper hands over; see Note [Interception]."""
    return Call(wrapper, args, out, composite).below(-1)


def attend(thread: dict[str, Any] | None = None) -> None:
    """Set the bit INTERCEPT as long as somebody wants to see the calls of a thread: call it when one comes or goes.

    Args:
        thread: the state of the thread, as a dictionary; the running one by default.
    """
    if thread is None:
        thread = state.__dict__
    wanted = thread.get("profiler") is not None or thread.get("dispatch_modes") or thread.get("batching")
    flags = thread.get("flags", state.__class__.flags)
    thread["flags"] = flags | INTERCEPT if wanted else flags & ~INTERCEPT


def has_operand(tensor: Any) -> bool:
    """Whether kernels may read the tensor's array."""
    return hasattr(tensor, "_operand")


# Wrapper whose derivative is replaced -> what records the new one; its code runs in the module of the old one.
recorders: dict[Any, FunctionType] = {}


def recording(wrapper: Any) -> Any:
    """The function that calls somebody else's kernel and records the history of an operator.

    Args:
        wrapper: a generated function.

    Returns:
        `record(kernel, *args)`; `kernel(*args)` returns what the operator returns, and is called with the arguments.
    """
    package, _, family = wrapper.__module__.rpartition(".variable_type.")
    module = import_module(f"{package}.redispatch.{family}")
    other = recorders.get(wrapper)
    if other is None:
        return getattr(module, wrapper.__name__)
    overrides = other.__globals__
    module.__dict__[overrides["NAME"]] = sys.modules[overrides["__name__"]]
    return FunctionType(other.__code__, module.__dict__, wrapper.__name__)
