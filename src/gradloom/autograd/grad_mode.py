"""Grad modes: no_grad, enable_grad, set_grad_enabled, inference_mode; context managers and decorators.

Note [Grad modes]
A mode sets bits of the thread's flags; leaving a block restores the former bits. Inference mode keeps GRAD_OFF set even
if enable_grad is entered inside, so that operators test one bit only.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from ..core.views import replay_by_operator
from ..dispatch import _operators
from ..dispatch.interception import REPLAY, Call, attend, register
from ..dispatch.state import FORWARD_AD, GRAD_ASKED, GRAD_OFF, INFERENCE, state
from ..types.public import found_in as _found_in
from ._decorators import _DecoratorContextManager, _Function, _NoParamDecoratorContextManager

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

if TYPE_CHECKING:
    from ..core.tensor import Tensor

_GRAD = GRAD_OFF | GRAD_ASKED
_ALL = _GRAD | INFERENCE


def _with_grad(flags: int) -> int:
    """Return the flags with recording switched on."""
    return flags | GRAD_ASKED if flags & INFERENCE else flags & ~GRAD_OFF


def _set_grad(mode: bool) -> None:
    flags = _with_grad(state.flags) if mode else state.flags & ~GRAD_ASKED | GRAD_OFF
    state.flags = flags
    state.unrecorded += not mode


def _recorded_before(self: Any) -> bool:
    return self._before & _GRAD != GRAD_OFF


class _Recording(_NoParamDecoratorContextManager):
    """Base of no_grad and enable_grad, of which neither is the other."""

    _before = GRAD_OFF  # until it is entered
    prev = property(_recorded_before, doc="Whether operators recorded history when the block was entered.")

    @overload
    def __new__(cls, function: None = None) -> Self: ...

    @overload
    def __new__(cls, function: _Function) -> _Function: ...

    def __new__(cls, function: Any = None) -> Any:
        self = object.__new__(cls)
        return self if function is None else self(function)

    def __exit__(self, *exc: object) -> None:
        state.flags = state.flags & ~_GRAD | self._before


class no_grad(_Recording):
    """Disable recording inside the block or the decorated function."""

    def __enter__(self) -> None:
        flags = state.flags
        self._before = flags & _GRAD
        state.flags = flags & ~GRAD_ASKED | GRAD_OFF
        state.unrecorded += 1


class untracked(no_grad):
    """no_grad for the library's own writes, which must not be taken for the user's: see `state.unrecorded`."""

    def __enter__(self) -> None:
        self._before = state.flags & _GRAD
        state.flags = state.flags & ~GRAD_ASKED | GRAD_OFF


class enable_grad(_Recording):
    """Enable recording inside the block or the decorated function, even within no_grad; not within inference_mode."""

    def __enter__(self) -> None:
        flags = _with_grad(state.flags)
        self._before = state.flags & _GRAD
        state.flags = flags


class set_grad_enabled(_DecoratorContextManager):
    """Switch recording on or off: as a statement immediately, or for the duration of a `with` block.

    Args:
        mode: whether operators record history.
    """

    prev = property(_recorded_before, doc="Whether operators recorded history before.")

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self._before = state.flags & _GRAD
        self.mode = mode
        _set_grad(mode)

    def __call__(self, function: _Function) -> _Function:
        state.flags = state.flags & ~_GRAD | self._before
        return super().__call__(function)

    def __enter__(self) -> None:
        flags = _with_grad(state.flags) if self.mode else state.flags & ~GRAD_ASKED | GRAD_OFF
        state.flags = flags
        state.unrecorded += not self.mode

    def __exit__(self, *exc: object) -> None:
        state.flags = state.flags & ~_GRAD | self._before

    def clone(self) -> Self:
        return type(self)(self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}(mode={self.mode})"


class inference_mode(_DecoratorContextManager):
    """Like no_grad, and tensors made inside can never take part in autograd.

    Args:
        mode: switch it on (default) or off.
    """

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...

    @overload
    def __new__(cls, mode: _Function) -> _Function: ...

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return object.__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        bits = GRAD_OFF | INFERENCE if self.mode else _forward_mode()
        flags = state.flags
        self._before = flags & (_ALL | FORWARD_AD)
        state.flags = flags & ~(_ALL | FORWARD_AD) | bits
        state.unrecorded += self.mode

    def __exit__(self, *exc: object) -> None:
        state.flags = state.flags & ~(_ALL | FORWARD_AD) | self._before

    def clone(self) -> Self:
        return type(self)(self.mode)


def _forward_mode() -> int:
    """Return the bit that lets operators make tangents, if a forward-mode level is open."""
    from .forward_ad import is_level_open

    return FORWARD_AD if is_level_open() else 0


def is_grad_enabled() -> bool:
    """Return whether operators record history in this thread (in inference mode: whether enable_grad is on)."""
    return state.flags & _GRAD != GRAD_OFF


def is_inference_mode_enabled() -> bool:
    """Return whether this thread is in inference mode."""
    return bool(state.flags & INFERENCE)


class set_multithreading_enabled(_DecoratorContextManager):
    """Set whether backward may use several threads: immediately, or for the duration of a `with` block.

    The setting has no effect, since backward always runs in the calling thread; `is_multithreading_enabled` returns it.

    Args:
        mode: bool.
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_multithreading_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self._before = state.multithreading
        state.multithreading = self.mode = mode

    def __call__(self, function: _Function) -> _Function:
        state.multithreading = self._before
        return super().__call__(function)

    def __enter__(self) -> None:
        state.multithreading = self.mode

    def __exit__(self, *exc: object) -> None:
        state.multithreading = self._before

    def clone(self) -> Self:
        return type(self)(self.mode)


def is_multithreading_enabled() -> bool:
    """Return the value of `set_multithreading_enabled` in this thread; True by default."""
    return state.multithreading


class _ThreadSwitch(_DecoratorContextManager):
    """Set an attribute of the thread's state: immediately, or for the duration of a `with` block."""

    _attribute = ""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"{type(self).__name__} takes a bool, but got {type(mode).__name__}")
        self._before = getattr(state, self._attribute)
        self.mode = mode
        self._set(mode)

    def _set(self, mode: bool) -> None:
        state.__dict__[self._attribute] = mode

    def __call__(self, function: Any) -> Any:
        self._set(self._before)
        return super().__call__(function)

    def __enter__(self) -> None:
        try:
            self._set(self.mode)
        except BaseException:  # see Note [Interrupts]
            self._set(self._before)
            raise

    def __exit__(self, *exc: object) -> None:
        try:
            self._set(self._before)
        except BaseException:
            self._set(self._before)
            raise

    def clone(self) -> Self:
        return type(self)(self.mode)


class enforce_grad_layout_policy(_ThreadSwitch):
    """Set whether a leaf's first gradient is copied if its memory layout differs from the leaf's.

    Args:
        enable: True (the default), or False to keep a gradient without other references as it is.

    Raises:
        TypeError: if it is not a bool.
    """

    _attribute = "grad_layout"

    def __init__(self, enable: bool = True) -> None:
        super().__init__(enable)


def set_view_replay(mode: bool) -> None:
    """Set whether views that this thread makes are recreated by their operators; see _force_original_view_tracking."""
    register(REPLAY, _replayable)
    state.view_replay = mode
    attend()


def _replayable(call: Call) -> Any:
    """Handle a call whose result, if it is a view, is to be replayed by the operator."""
    if not state.view_replay or call.composite is not None:
        return NotImplemented
    found = call.below(REPLAY)
    if getattr(found, "_view", None) is not None:
        replay_by_operator(found, call)
    return found


class _force_original_view_tracking(_ThreadSwitch):
    """Set whether views are recreated by the operators that made them, instead of from their strides.

    That happens when their base has been written to and their history is needed next: it then consists of the same
    nodes as before, instead of one AsStridedBackward0.

    Args:
        mode: the value.

    Raises:
        TypeError: if it is not a bool.
    """

    _attribute = "view_replay"

    def _set(self, mode: bool) -> None:
        set_view_replay(mode)


class _unsafe_preserve_version_counter:
    """A `with` block whose writes do not increment versions; gradients that need the former values are wrong.

    Args:
        tensors: a Tensor, or a tuple of them.
    """

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        self.tensors = (tensors,) if isinstance(tensors, _operators.Tensor) else tensors
        if not isinstance(self.tensors, tuple):
            raise AssertionError("Expected tensors to be a tuple")
        self.prev_versions = tuple([t._version for t in self.tensors])

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for tensor, version in zip(self.tensors, self.prev_versions, strict=True):
            if tensor._vc is not None:
                tensor._vc[0] = version


def _enter_inference_mode(mode: bool) -> inference_mode:
    """Enter inference mode without a block.

    Args:
        mode: whether inference mode is on.

    Returns:
        The argument for _exit_inference_mode.
    """
    entered = inference_mode(mode)
    entered.__enter__()
    return entered


def _exit_inference_mode(mode: inference_mode) -> None:
    """Leave inference mode.

    Args:
        mode: the result of _enter_inference_mode.
    """
    mode.__exit__(None, None, None)


def is_view_replay_enabled() -> bool:
    """Return the value of _force_original_view_tracking."""
    return state.view_replay


_found_in("gradloom", is_grad_enabled, is_inference_mode_enabled)
