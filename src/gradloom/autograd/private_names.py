"""Private names of torch.autograd that programs import, and names that live in other modules here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core import engine
from ..core.roots import as_tuple, is_edge, roots_and_gradients
from ..core.saved_variable import SavedTensor as SavedTensor
from ..dispatch import _operators
from ..dispatch.state import SAVED_HOOKS, state
from ..profiler import (
    DeviceType as DeviceType,
    ProfilerActivity as ProfilerActivity,
    kineto_available as kineto_available,
)
from ..profiler.recorder import next_sequence_nr
from .graph import saved_tensors_hooks

if TYPE_CHECKING:
    from ..core.tensor import Tensor
    from ..types.size import Size


def _is_checkpoint_valid() -> bool:
    """Return whether this thread's backward passes compute all gradients, rather than those of selected inputs only."""
    return engine.is_checkpoint_valid()


def _make_grads(
    outputs: Sequence[Any], grads: Sequence[Tensor | None], is_grads_batched: bool = False
) -> tuple[Tensor | None, ...]:
    """Return the gradient of each output with which a backward pass starts.

    Args:
        outputs: Tensors or GradientEdges.
        grads: the given gradient of each; None for outputs of one element.
        is_grads_batched: whether the gradients have an additional first dimension, which vmap maps over; then they are
            only checked.

    Raises RuntimeError if one does not fit its output, or is missing.
    """
    if is_grads_batched:
        for output, grad in zip(outputs, grads, strict=True):
            if grad is not None:
                of_output, of_grad = _calculate_shape(output, grad, True)
                if of_output != of_grad:
                    raise RuntimeError(
                        "If `is_grads_batched=True`, we interpret the first dimension of each "
                        "grad_output as the batch dimension. Mismatch in shape: a grad_output has a "
                        f"shape of {tuple(grad.shape)} and its output one of {tuple(of_output)}."
                    )
        return tuple(grads)
    return tuple(roots_and_gradients(as_tuple(outputs), tuple(grads))[1])


def _calculate_shape(output: Any, grad: Tensor, is_grads_batched: bool) -> tuple[Size, Size]:
    """Return the shapes of an output and of its gradient, without the dimension that vmap maps over.

    Args:
        output: a Tensor or a GradientEdge.
        grad: its gradient.
        is_grads_batched: whether it has an additional first dimension.
    """
    from ..types.size import Size

    shape = Size(output.node.input_metadata[2 * output.output_nr]) if is_edge(output) else output.shape
    return shape, grad.shape[1:] if is_grads_batched else grad.shape


def _tensor_or_tensors_to_tuple(
    tensors: Tensor | Sequence[Tensor | None] | None, length: int
) -> tuple[Tensor | None, ...]:
    """Return one Tensor or several as a tuple; for None, a tuple of `length` times None.

    Args:
        tensors: a Tensor, a sequence of them, or None.
        length: the number of None.
    """
    if tensors is None:
        return (None,) * length
    return (tensors,) if isinstance(tensors, _operators.Tensor) else tuple(tensors)


def _get_sequence_nr() -> int:
    """Return the sequence number that the next node will get."""
    return next_sequence_nr()


def _push_saved_tensors_default_hooks(pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
    """Push a pair of hooks for tensors that are saved from now on.

    Args:
        pack_hook, unpack_hook: as for saved_tensors_hooks.

    Raises RuntimeError if hooks are disabled.
    """
    saved_tensors_hooks(pack_hook, unpack_hook).__enter__()


def _pop_saved_tensors_default_hooks() -> None:
    """Remove the hooks that were pushed last.

    Raises RuntimeError if there are none.
    """
    if not state.saved_tensor_hooks:
        raise RuntimeError("_pop_saved_tensors_default_hooks(): no hooks are there; each pop belongs to a push")
    state.saved_tensor_hooks = state.saved_tensor_hooks[:-1]
    if not state.saved_tensor_hooks:
        state.flags &= ~SAVED_HOOKS
