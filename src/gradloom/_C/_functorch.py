"""gradloom._C._functorch: what code asks about tensors within vmap.

Levels are those of vmap. Transforms that differentiate, such as `func.grad`, record into one graph and wrap nothing
(Note [One graph]), so that a tensor within them is as it would be without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dispatch.state import state

if TYPE_CHECKING:
    from ..batching.levels import Level
    from ..core.tensor import Tensor


def _level_of(tensor: Any) -> Level | None:
    return getattr(tensor, "_batch", None)


def is_batchedtensor(tensor: Tensor) -> bool:
    """Whether a tensor stands for one example of those that vmap maps over.

    Args:
        tensor: a Tensor.
    """
    return _level_of(tensor) is not None


is_functorch_wrapped_tensor = is_batchedtensor


def is_gradtrackingtensor(tensor: Tensor) -> bool:
    """False: transforms that differentiate wrap nothing here.

    Args:
        tensor: a Tensor.
    """
    return False


is_functionaltensor = is_legacy_batchedtensor = is_gradtrackingtensor


def maybe_get_level(tensor: Tensor) -> int:
    """How many vmaps there are around what a tensor is an example of, and one more; -1 for one that is none.

    Args:
        tensor: a Tensor.
    """
    level = _level_of(tensor)
    return -1 if level is None else level.depth


def maybe_get_bdim(tensor: Tensor) -> int:
    """The dimension of all examples along which a tensor is one: 0, to which vmap moves it; -1 for one that is none.

    Args:
        tensor: a Tensor.
    """
    return 0 if is_batchedtensor(tensor) else -1


def get_unwrapped(tensor: Tensor) -> Tensor:
    """All examples of which a tensor is one.

    Args:
        tensor: a Tensor within vmap.

    Raises:
        RuntimeError: for any other.
    """
    if not is_batchedtensor(tensor):
        raise RuntimeError("No wrappers present! The tensor does not stand for examples that vmap maps over")
    return tensor._physical  # type: ignore[attr-defined]


def maybe_current_level() -> int | None:
    """How many vmaps this thread is running; None outside of one."""
    return len(state.batching) or None


def current_level() -> int:
    """How many vmaps this thread is running.

    Raises:
        RuntimeError: outside of one.
    """
    if not state.batching:
        raise RuntimeError("current_level() was called outside of vmap: there is no level")
    return len(state.batching)


def get_dynamic_layer_stack_depth() -> int:
    """How many vmaps this thread is running; 0 outside of one."""
    return len(state.batching)
