"""autograd.grad within vmap, and for several vectors at once.

The graph is recorded on physical tensors. So outputs and inputs are taken out of their batches, and the vectors with
them; what else the vectors are batched over stays, and the gradients with it: that is how `vmap` of a function that
calls `autograd.grad` on a graph from outside gets a gradient for every vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..dispatch.state import state
from .levels import Level
from .tensor import BatchedTensor, batched, batched_at, levels_of

if TYPE_CHECKING:
    from collections.abc import Callable


def any_batched(*groups: Any) -> bool:
    """Whether a tensor among these sequences is batched."""
    return any(t.__class__ is BatchedTensor for group in groups if group is not None for t in group)


def grad_of_batched(
    grad: Callable[..., Any],
    outputs: tuple[Any, ...],
    inputs: tuple[Any, ...],
    vectors: tuple[Any, ...] | None,
    **options: Any,
) -> tuple[Any, ...]:
    """autograd.grad where some of the tensors are batched.

    Args:
        grad: autograd.grad.
        outputs, inputs: as for it, as tuples.
        vectors: one for each output, or None.
        options: what else it is given.
    """
    given = (None,) * len(outputs) if vectors is None else vectors
    plain, starts = [], []
    for output, vector in zip(outputs, given, strict=True):
        levels = levels_of(output)
        if vector is None and levels:
            if output._array.size != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            vector = ops.ones_like(_bottom(output))
        elif vector is not None:
            missing = sorted({*levels, *levels_of(vector)})
            vector = without(batched_at(vector, missing), levels)
        plain.append(_bottom(output))
        starts.append(vector)
    found = grad(tuple(plain), tuple([_bottom(x) for x in inputs]), tuple(starts), **options)
    return tuple([None if g is None else within(g, levels_of(x)) for g, x in zip(found, inputs, strict=True)])


def _bottom(tensor: Any) -> Any:
    """The physical tensor below all levels."""
    while tensor.__class__ is BatchedTensor:
        tensor = tensor._physical
    return tensor


def without(tensor: Tensor, levels: list[Level]) -> Tensor:
    """The tensor with its batches at `levels`, all of which it has, as first dimensions, outermost first; it stays
    batched at others."""
    if tensor.__class__ is not BatchedTensor or not levels:
        return tensor
    own, physical = tensor._batch, tensor._physical
    if own in levels:
        return without(physical, [level for level in levels if level is not own])
    inner = without(physical, levels)
    return batched(ops.movedim(inner, len(levels), 0), own)


def within(tensor: Tensor, levels: list[Level]) -> Tensor:
    """The reverse of `without`: the first dimensions of a tensor become its batches at `levels`."""
    if not levels:
        return tensor
    if tensor.__class__ is BatchedTensor and levels[-1] < tensor._batch:
        inner = ops.movedim(tensor._physical, 0, len(levels))
        return batched(within(inner, levels), tensor._batch)
    return batched(within(tensor, levels[:-1]), levels[-1])


def check_backward() -> None:
    """Refuse `backward()` within vmap.

    Raises:
        RuntimeError: always; `.grad` of a tensor outside could not hold a gradient for each example.
    """
    if state.batching:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms: within vmap, `.grad` would have to hold a gradient for each example."
        )
