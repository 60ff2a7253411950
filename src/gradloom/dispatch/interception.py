"""Interception: how a profiler, vmap, autocast and `__torch_dispatch__` handle a call before the kernel runs.

Note [Interception]
A call that is not intercepted must not pay for interception. A wrapper recognises an intercepted call by two values
that it reads anyway:

    x._operand     the array of an argument: a second name of the slot `_array`. In a subclass of Tensor that overrides
                   operators it is a property that raises AttributeError. Code outside wrappers reads `_array`
    state.flags    the bit INTERCEPT: a mode or a profiler of this thread; AUTOCAST, in wrappers of operators with an
                   autocast policy

It then passes the call, one overload with normalised arguments, to `intercept`. The handlers of the dispatch keys below
are called in PyTorch's order; REPLAY records how views were made, TRACE records the graphs that the compiler makes,
NODES reports the nodes that join a graph (gradloom.autograd.node_hooks),
ZEROS stands for tangents that are known to be zero, SPARSE for tensors in the COO format; META computes shapes of
tensors without data; FLOAT8 refuses arithmetic (Note [Float8 tensors]).
A handler returns NotImplemented to fall through to the next, and redispatches with `call.below(KEY)`. Autograd stands
above PYTHON and below the others: operators called by a profiler, vmap or autocast record their history as usual, while
`__torch_dispatch__` replaces the kernel. `record` gives a wrapper that kernel (REDISPATCH): the wrapper calls it
instead of its own, and records the history of its result. Meanwhile `_operand` gives the metadata of tensors that have
no values. (`__torch_function__` comes before all of them; see Note [Torch functions].)

A feature registers its handler when it is first used (`register`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..types.device import names_meta
from . import _operators
from .records import name_of
from .state import AUTOCAST, GIVEN_RESULT, INTERCEPT, REDISPATCH, state

# Dispatch keys, in the order of their handlers.
PROFILER, VMAP, CASTS, REPLAY, TRACE, NODES, PYTHON, ZEROS, SPARSE, META, FLOAT8 = range(11)
_handlers: list[Any] = [None] * 11


def register(key: int, handler: Callable[[Call], Any]) -> None:
    """Let `handler(call)` handle intercepted calls at a dispatch key."""
    _handlers[key] = handler


_loaders: dict[int, Callable[[], None]] = {}


def provide(key: int, load: Callable[[], None]) -> None:
    """Let `load()` register the handler of a dispatch key when it is first needed."""
    _loaders[key] = load


def prepare(key: int) -> None:
    """Register the handler of a dispatch key that was announced by `provide`, unless it is there."""
    if _handlers[key] is None:
        _loaders[key]()


class Call:
    """An intercepted call of one overload.

    Attributes:
        wrapper: the generated function of the overload.
        args: all arguments in the order of the schema; those of a factory are followed by its requires_grad.
        out: the argument `out=`, or None.
        composite: the function that implements a composite operator; None for others.
    """

    __slots__ = ("wrapper", "args", "out", "composite")

    def __init__(self, wrapper: Any, args: tuple[Any, ...], out: Any = None, composite: Any = None) -> None:
        self.wrapper, self.args, self.out, self.composite = wrapper, args, out, composite

    def tensors(self) -> Iterator[Any]:
        """Yield the tensors among the arguments, also those in lists, and `out`."""
        for value in (*self.args, self.out):
            if isinstance(value, _operators.Tensor):
                yield value
            elif value.__class__ in (tuple, list):
                yield from (t for t in value if isinstance(t, _operators.Tensor))

    def with_args(self, args: tuple[Any, ...], out: Any = None) -> Call:
        """Return the same call with other arguments."""
        return Call(self.wrapper, args, out, self.composite)

    def below(self, key: int) -> Any:
        """Redispatch to the handlers after `key`, and finally to the operator itself."""
        for handler in _handlers[key + 1 :]:
            if handler is not None:
                found = handler(self)
                if found is not NotImplemented:
                    return found
        return self.run()

    def run(self) -> Any:
        """Call the operator itself; the operators that a composite one calls are intercepted in turn.

        Raises TypeError for tensors without values that no handler has taken.
        """
        if self.composite is not None and self.out is None:
            return self.composite(*self.args)
        for t in self.tensors():
            if not has_operand(t):
                name = name_of(self.wrapper)
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
        """Call the wrapper with the flags unchanged."""
        return call_wrapper(self.wrapper, self.args, self.out)


def call_wrapper(wrapper: Any, args: tuple[Any, ...], out: Any = None) -> Any:
    """Call a generated function with all arguments in the order of the schema."""
    keywords = getattr(wrapper, "keyword_only", ())
    count = len(args) - len(keywords)
    named = dict(zip(keywords, args[count:], strict=True))
    if out is not None:
        named["out"] = out
    return wrapper(*args[:count], **named)


def intercept(wrapper: Any, args: tuple[Any, ...], out: Any = None, composite: Any = None) -> Any:
    """Handle a call that a generated wrapper passes on; see Note [Interception]."""
    return Call(wrapper, args, out, composite).below(-1)


def elsewhere(device: Any) -> bool:
    """Return whether a device that a factory is called with is the meta device, whose calls are intercepted.

    Raises RuntimeError, AssertionError for devices that are not available; see `names_meta`.
    """
    if not names_meta(device):
        return False
    prepare(META)
    return True


def attend(thread: dict[str, Any] | None = None) -> None:
    """Set or clear the bit INTERCEPT of a thread. To be called when a mode or profiler changes.

    Args:
        thread: the state of the thread, as a dictionary; the running thread's by default.
    """
    if thread is None:
        thread = state.__dict__
    watching = thread.get("profiler") is not None or thread.get("tracer") is not None
    wanted = watching or any(map(thread.get, ("dispatch_modes", "batching", "view_replay", "node_hooks")))
    flags = thread.get("flags", state.__class__.flags)
    thread["flags"] = flags | INTERCEPT if wanted else flags & ~INTERCEPT


def has_operand(tensor: Any) -> bool:
    """Return whether kernels may read the tensor's array."""
    return hasattr(tensor, "_operand")


def operand_of(tensor: Any) -> Any:
    """Return `_operand` of a tensor without values: its metadata while a wrapper records around a given kernel.

    Raises AttributeError at any other time, so that the wrapper hands the call to `intercept`.
    """
    if state.flags & REDISPATCH:
        return tensor._array
    raise AttributeError(f"a {type(tensor).__name__} has no array for kernels; its operators are intercepted")


def record(wrapper: Any, kernel: Callable[[], Any], args: tuple[Any, ...]) -> Any:
    """Run a generated wrapper with another kernel: record the history of the result that `kernel()` returns.

    Args:
        wrapper: the generated function of an overload.
        kernel: computes the operator's result, below autograd.
        args: the arguments as in `Call.args`; they may have no values.
    """
    flags = state.flags
    state.redispatch = kernel, flags | GIVEN_RESULT
    state.flags = flags | INTERCEPT | REDISPATCH
    try:
        return call_wrapper(wrapper, args)
    finally:
        state.redispatch, state.flags = None, flags


def take_kernel() -> Callable[[], Any]:
    """Return the kernel passed to `record`, and restore the flags with which it is called."""
    kernel, state.flags = state.redispatch
    return kernel  # type: ignore[no-any-return]
