"""gradloom._C._functorch: queries about batched tensors.

Levels are those of vmap. Transforms that differentiate, such as `func.grad`, record into one graph and wrap no tensors;
see Note [One graph].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor
from ..dispatch.state import state

if TYPE_CHECKING:
    from ..batching.levels import Level


def _level_of(tensor: Any) -> Level | None:
    return getattr(tensor, "_batch", None)


def is_batchedtensor(tensor: Tensor) -> bool:
    """Return whether a tensor is a batch element within vmap."""
    return _level_of(tensor) is not None


is_functorch_wrapped_tensor = is_batchedtensor


def is_gradtrackingtensor(tensor: Tensor) -> bool:
    """Return False: transforms that differentiate wrap no tensors."""
    return False


is_functionaltensor = is_legacy_batchedtensor = is_gradtrackingtensor


def maybe_get_level(tensor: Tensor) -> int:
    """Return the level of the vmap that a tensor is a batch element of, counted from 1; -1 outside of vmap."""
    level = _level_of(tensor)
    return -1 if level is None else level.depth


def maybe_get_bdim(tensor: Tensor) -> int:
    """Return the batch dimension of a tensor: 0, to which vmap moves it, or -1 if it is not batched."""
    return 0 if is_batchedtensor(tensor) else -1


def get_unwrapped(tensor: Tensor) -> Tensor:
    """Return the whole batch of which a tensor is an element.

    Raises RuntimeError if it is not batched.
    """
    if not is_batchedtensor(tensor):
        raise RuntimeError("No wrappers present! The tensor is not a batch element within vmap")
    return tensor._physical  # type: ignore[attr-defined]


def maybe_current_level() -> int | None:
    """Return the number of nested vmaps in this thread; None outside of one."""
    return len(state.batching) or None


def current_level() -> int:
    """Return the number of nested vmaps in this thread.

    Raises RuntimeError outside of one.
    """
    if not state.batching:
        raise RuntimeError("current_level() was called outside of vmap: there is no level")
    return len(state.batching)


def get_dynamic_layer_stack_depth() -> int:
    """Return the number of nested vmaps in this thread; 0 outside of one."""
    return len(state.batching)


def _add_batch_dim(tensor: Tensor, in_dim: int, level: int) -> Tensor:
    """Return the batch elements of a tensor, as vmap makes them.

    Args:
        tensor: (*, batch, *).
        in_dim: the dimension of the batch.
        level: number of the vmap in this thread, from 1.
    """
    from ..batching.tensor import batched

    return batched(tensor.movedim(in_dim, 0) if in_dim else tensor, state.batching[level - 1])


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """Return the whole batch of which a tensor is an element: (*, batch, *).

    Args:
        tensor: the element; the same for the whole batch if it is not batched at the level.
        level: number of the vmap in this thread, from 1.
        batch_size: size of the batch.
        out_dim: its dimension in the result.
    """
    from ..batching.tensor import physical_at

    whole = physical_at(tensor, state.batching[level - 1])
    return whole.movedim(0, out_dim) if out_dim else whole
