"""Dispatch state: what a wrapper checks before it takes the common path.

Note [Dispatch state]
PyTorch routes each call through an ordered set of dispatch keys, minus those a thread excludes and plus those it
includes. Nearly always the answer is "autograd, then the CPU kernel". Here that answer is the number 0: every thread
has one integer, `state.flags`, with a bit for each departure from the common case. A generated wrapper reads it once;
if it is 0, the wrapper checks nothing else.

    GRAD_OFF      the Autograd key is excluded from recording (no_grad, and while backward runs without create_graph)
    INFERENCE     inference mode: neither history nor version counters nor view metadata
    FORWARD_AD    a forward-mode level is open, so inputs may carry tangents
    SAVED_HOOKS   default pack/unpack hooks are installed for saved tensors
    ANOMALY       anomaly mode: nodes remember where they were made
    INTERCEPT     a mode or a profiler intercepts every call; see Note [Interception]
    AUTOCAST      within autocast for the CPU: operators whose entry has the key `autocast` cast their arguments
    REDISPATCH    the wrapper that runs next records around a given kernel; see Note [Interception]
    GIVEN_RESULT  a wrapper is recording what a given kernel computed, which may be a wrapper subclass
    GRAD_ASKED    enable_grad within inference mode: nothing is recorded, but is_grad_enabled returns True

Subclasses with `__torch_dispatch__` need no flag: wrappers read `_operand`, and reading that from anything but a plain
tensor (a number, a list, a wrapper subclass) raises AttributeError and takes the wrapper's other path.

Note [Interrupts]
Ctrl-C raises KeyboardInterrupt wherever Python checks for signals: at the start of a function, after a call, and where
a loop goes back. State that a block changes must be as before when the exception leaves the block. A context manager
that changes it by plain assignments, after all calls, is safe; others derive from `Whole`, or are generators decorated
by `whole_context`, which repeat what was interrupted. One place remains, the very start of `__exit__`; `dual_level`,
which would be unusable afterwards, is then left when the manager is deleted.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import _GeneratorContextManager
from functools import wraps
from typing import Any

# Whether generated code asserts what gradloom.diagnostics.debug_checks lists.
DEBUG = os.environ.get("GRADLOOM_DEBUG", "0") not in ("", "0")

GRAD_OFF = 1
INFERENCE = 2
FORWARD_AD = 4
SAVED_HOOKS = 8
ANOMALY = 16
INTERCEPT = 32
GRAD_ASKED = 64
AUTOCAST = 128
REDISPATCH = 256
GIVEN_RESULT = 512

# PyTorch's TorchFunctionState: modes and classes override public functions, only modes do, or neither.
ENABLED, SUBCLASSES_DISABLED, ALL_DISABLED = range(3)


class ThreadState(threading.local):
    """State of a thread. The class attributes are the initial values."""

    flags = 0
    saved_tensor_hooks = ()  # innermost last: (pack, unpack) pairs
    saved_hooks_disabled: str | None = None  # the message to raise when hooks are installed
    graph_task = None  # the backward pass that this thread is running
    multithreading = True  # see grad_mode.set_multithreading_enabled
    flags_outside: int | None = None  # within a `__torch_dispatch__`: the flags outside the call that it handles
    dispatch_modes: tuple = ()  # dispatch modes, innermost last; see Note [Torch dispatch]
    redispatch: Any = None  # with REDISPATCH: the kernel, and the flags it is called with
    dispatch_off = False  # whether neither modes nor classes override operators
    function_modes: tuple = ()  # function modes, innermost last; see Note [Torch functions]
    function_overrides = ENABLED  # what may override public functions
    autocast: Any = None  # settings of autocast: amp/settings.py
    unrecorded = 0  # number of nested blocks in which nothing is recorded
    tracer: Any = None  # the Tracer of the compiler that records this thread's operators
    updates: Any = None  # what carries out the step of an optimizer that runs; see Note [Optimizer updates]
    profiler: Any = None  # the Recorder of the profile in progress; see Note [Profiling]
    forward_grad = True  # whether operators compute tangents in a dual level; see _C._set_fwd_grad_enabled
    grad_layout = True  # see autograd.grad_mode.enforce_grad_layout_policy
    node_hooks: tuple = ()  # functions that are told of each node; see autograd.node_hooks
    view_replay = False  # see _C._set_view_replay_enabled
    batching: tuple = ()  # levels of the vmaps that are running, outermost first
    float8 = False  # whether kernels may read float8 arrays; see Note [Float8 tensors]
    func_level: Any = None  # the innermost level of gradloom.func that is running; see Note [One graph]

    def __init__(self):
        self.flags = _new_threads[0]
        _threads[threading.get_ident()] = self.__dict__


_new_threads = [0]  # the initial flags of a thread
_threads: dict = {}  # identity of a thread -> its state; identities are reused when threads end
state = ThreadState()


def new_updates() -> Any:
    """Return what carries out an optimizer's step outside of compiled functions, or None: the optimizer's own rule.

    `set_kernels` replaces it.
    """
    return None


def each_thread(flag: int, on: bool) -> None:
    """Set or clear a flag of the whole process in all threads, including future ones. A thread that is inside a mode or
    a backward pass meanwhile may restore its former flags at the end."""
    for state_of_thread in (*_threads.values(), None):
        flags = _new_threads[0] if state_of_thread is None else state_of_thread["flags"]
        flags = flags | flag if on else flags & ~flag
        if state_of_thread is None:
            _new_threads[0] = flags
        else:
            state_of_thread["flags"] = flags


class Whole:
    """Base of context managers whose change of state is made as a whole or not at all; see Note [Interrupts].

    Subclasses define `_change`, which calls `_keep` before it changes anything, and `_restore`, which may be called
    several times. One object may be entered several times at once.
    """

    __slots__ = ()
    _kept: tuple[Any, ...] = ()

    def _keep(self, before: Any) -> None:
        self._kept = (*self._kept, before)  # type: ignore[misc]

    def _change(self) -> Any:
        raise NotImplementedError

    def _restore(self, before: Any) -> None:
        raise NotImplementedError

    def _leave(self, outer: tuple[Any, ...]) -> None:
        if len(self._kept) > len(outer):
            self._restore(self._kept[-1])
            self._kept = outer  # type: ignore[misc]

    def _left_by(self, error: BaseException) -> None:
        """Called after the state is restored, with the exception that leaves the block."""

    def __enter__(self) -> Any:
        kept = self._kept
        try:
            value = self._change()
        except BaseException:
            self._leave(kept)
            raise
        return value

    def __exit__(self, kind: Any = None, error: Any = None, traceback: Any = None) -> Any:
        kept = self._kept
        try:
            self._leave(kept[:-1])
        except BaseException:
            self._leave(kept[:-1])
            raise
        if error is not None:
            self._left_by(error)


class _WholeGenerator(_GeneratorContextManager):
    def __enter__(self) -> Any:
        try:
            value = super().__enter__()
        except BaseException:
            self.gen.close()
            raise
        return value

    def __exit__(self, *exception: Any) -> Any:
        try:
            value = super().__exit__(*exception)
        except BaseException:
            self.gen.close()
            raise
        return value


def whole_context(function: Any) -> Callable[..., _GeneratorContextManager[Any]]:
    """Do what contextlib.contextmanager does, and run the generator to its end where an interrupt leaves the block."""

    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> _GeneratorContextManager[Any]:
        return _WholeGenerator(function, args, kwargs)

    return make


class DisableTorchDispatch:
    """A context in which neither modes nor classes override operators."""

    def __enter__(self) -> None:
        self._before = state.dispatch_off
        state.dispatch_off = True

    def __exit__(self, *_: object) -> None:
        state.dispatch_off = self._before


def disabled_torch_dispatch(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Call the operator: the `__torch_dispatch__` of a subclass that overrides none."""
    with DisableTorchDispatch():
        return func(*args, **(kwargs or {}))


def overrides_operators(cls: type) -> bool:
    """Return whether a class has a `__torch_dispatch__` that is not disabled."""
    return getattr(cls, "__torch_dispatch__", disabled_torch_dispatch) is not disabled_torch_dispatch


class DisabledTorchFunction:
    """A `__torch_function__` that means "treat me as a plain tensor"; `disabled_torch_function` is its only instance.

    A call of it calls `func` with classes disabled.
    """

    __slots__ = ()

    def __call__(self, func, types, args=(), kwargs=None):
        before = state.function_overrides
        state.function_overrides = max(before, SUBCLASSES_DISABLED)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            state.function_overrides = before

    def __repr__(self):
        return "<disabled __torch_function__>"

    def __reduce__(self):
        return "disabled_torch_function"


disabled_torch_function = DisabledTorchFunction()
