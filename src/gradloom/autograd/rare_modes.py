"""Modes that few programs need: how gradients are laid out, what hides writes, and inference mode without a block.

They are found in gradloom.autograd.grad_mode, where PyTorch has them.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..dispatch import _operators
from ..dispatch.state import state
from .grad_mode import _Decorates, inference_mode

if TYPE_CHECKING:
    from ..core.tensor import Tensor


class _ThreadSwitch(_Decorates):
    """Sets an attribute of the thread's state: at once, or for the length of a `with` block."""

    _attribute = ""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"{type(self).__name__} takes a bool, but got {type(mode).__name__}")
        self._before = getattr(state, self._attribute)
        self.mode = mode
        setattr(state, self._attribute, mode)

    def __call__(self, function: Any) -> Any:
        setattr(state, self._attribute, self._before)
        return super().__call__(function)

    def __enter__(self) -> None:
        setattr(state, self._attribute, self.mode)

    def __exit__(self, *exc: object) -> None:
        setattr(state, self._attribute, self._before)

    def clone(self) -> Self:
        return type(self)(self.mode)


class enforce_grad_layout_policy(_ThreadSwitch):
    """Whether a leaf's first gradient is copied if its memory is laid out in another way than the leaf's.

    Args:
        enable: True, which is how it is by default, or False: then a gradient that nobody else holds is kept as it is.

    Raises:
        TypeError: if it is no bool.
    """

    _attribute = "grad_layout"

    def __init__(self, enable: bool = True) -> None:
        super().__init__(enable)


class _force_original_view_tracking(_ThreadSwitch):
    """Kept for programs written for PyTorch, and told by autograd.is_view_replay_enabled; see
    _C._set_view_replay_enabled.

    Args:
        mode: a bool.

    Raises:
        TypeError: if it is none.
    """

    _attribute = "view_replay"


class _unsafe_preserve_version_counter:
    """A `with` block whose writes to tensors go unseen: gradients that need what was there before are wrong.

    Args:
        tensors: a Tensor, or a tuple of them.
    """

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        self.tensors = (tensors,) if isinstance(tensors, _operators.Tensor) else tuple(tensors)
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
        mode: whether it is on.

    Returns:
        What _exit_inference_mode takes.
    """
    entered = inference_mode(mode)
    entered.__enter__()
    return entered


def _exit_inference_mode(mode: inference_mode) -> None:
    """Leave it.

    Args:
        mode: what _enter_inference_mode returned.
    """
    mode.__exit__(None, None, None)


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Kept for programs written for GPUs: there are no streams whose gradients could meet.

    Args:
        enabled: a bool.

    Raises:
        RuntimeError: if it is none.
    """
    if not isinstance(enabled, bool):
        raise RuntimeError(f"enabled must be a bool, but got {type(enabled).__name__}")


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Kept for programs written for GPUs: there are no streams that could be captured.

    Args:
        enabled: a bool.

    Raises:
        RuntimeError: if it is none.
    """
    set_warn_on_accumulate_grad_stream_mismatch(enabled)


def is_view_replay_enabled() -> bool:
    """What _force_original_view_tracking was told."""
    return state.view_replay
