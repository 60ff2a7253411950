"""Dispatch: what a wrapper must look at before it may take the common path.

Note [Dispatch state]
PyTorch routes each call through an ordered set of dispatch keys, minus those a thread excludes and plus those it
includes. Nearly always the answer is "autograd, then the CPU kernel". Here that answer is the number 0: every thread
has one integer, `state.flags`, whose bits say in what way this call is *not* the common case. A generated wrapper
reads it once; while it is 0, nothing else is asked.

    GRAD_OFF      the Autograd key is excluded from recording (no_grad, and while backward runs without create_graph)
    INFERENCE     inference mode: neither history nor version counters nor view metadata
    FORWARD_AD    a forward-mode level is open, so inputs may carry tangents
    SAVED_HOOKS   default pack/unpack hooks are installed for saved tensors
    ANOMALY       anomaly mode: nodes remember where they were made
    INTERCEPT     a mode or a profiler wants to see every call first; see Note [Interception]
    AUTOCAST      within autocast for the CPU: operators whose entry has the key `autocast` cast their arguments
    REDISPATCH    the wrapper that runs next records around a given kernel; see Note [Interception]
    GIVEN_RESULT  a wrapper is recording what a given kernel computed, which may be a wrapper subclass
    GRAD_ASKED    inference mode, in which nothing is recorded, and inside it enable_grad: what is_grad_enabled says

Subclasses with `__torch_dispatch__` need no flag: wrappers read `_operand`, and reading that from anything but a plain
tensor (a number, a list, a wrapper subclass) raises AttributeError and takes the wrapper's other path.
"""

from __future__ import annotations

import threading
from typing import Any

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
    """What is particular to a thread. The class attributes are every thread's initial values."""

    flags = 0
    saved_tensor_hooks = ()  # innermost last: (pack, unpack) pairs
    saved_hooks_disabled: str | None = None  # the message to raise when somebody installs hooks
    graph_task = None  # the backward pass that this thread is running
    multithreading = True  # see grad_mode.set_multithreading_enabled
    flags_outside: int | None = None  # within a `__torch_dispatch__`: the flags outside the call that it handles
    dispatch_modes: tuple = ()  # dispatch modes, innermost last; see Note [Torch dispatch]
    redispatch: Any = None  # with REDISPATCH: the kernel, and the flags it is called with
    dispatch_off = False  # whether neither they nor classes override operators
    function_modes: tuple = ()  # function modes, innermost last; see Note [Torch functions]
    function_overrides = ENABLED  # what may override public functions
    autocast: Any = None  # what autocast has been told: amp/settings.py
    unrecorded = 0  # how many blocks in which nothing is recorded were entered
    profiler: Any = None  # the Recorder of a profile that is being taken; see Note [Profiling]
    forward_grad = True  # whether a dual level makes tangents; see _C._set_fwd_grad_enabled
    grad_layout = True  # see autograd.grad_mode.enforce_grad_layout_policy
    view_replay = False  # see _C._set_view_replay_enabled
    batching: tuple = ()  # levels of the vmaps that are running, outermost first
    func_level: Any = None  # the innermost level of gradloom.func that is running; see Note [One graph]

    def __init__(self):
        self.flags = _new_threads[0]
        _threads[threading.get_ident()] = self.__dict__


_new_threads = [0]  # the flags that a thread begins with
_threads: dict = {}  # identity of a thread -> its state; identities are used again when threads end
state = ThreadState()


def each_thread(flag: int, on: bool) -> None:
    """Set or clear a flag that belongs to the whole process, in all threads, also in those to come. A thread that is
    within a mode or a backward pass meanwhile may put its former flags back when that ends."""
    for state_of_thread in (*_threads.values(), None):
        flags = _new_threads[0] if state_of_thread is None else state_of_thread["flags"]
        flags = flags | flag if on else flags & ~flag
        if state_of_thread is None:
            _new_threads[0] = flags
        else:
            state_of_thread["flags"] = flags


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
    """A `__torch_function__` that means "treat me as a plain tensor"; `disabled_torch_function` is the only one.

    Called as one, it calls `func` with classes disabled.
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
