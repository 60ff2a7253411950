"""autograd.grad within vmap, also for a batch of vectors.

The graph is recorded on physical tensors. Outputs, inputs and vectors are therefore unwrapped at the levels of the
output. Levels at which only the vectors are batched stay, and the gradients are batched there: `vmap` of a function
that calls `autograd.grad` on a graph from outside thus computes one gradient per vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tangents import hold_tangent, laid_out_like, tangent_of, tangent_through_base
from ..dispatch import _operators as ops
from ..dispatch.state import state
from .tensor import BatchedTensor, batched_at, levels_of, within, without


def any_batched(*groups: Any) -> bool:
    """Return whether a tensor in these sequences is batched."""
    return any(t.__class__ is BatchedTensor for group in groups if group is not None for t in group)


def grad_of_batched(
    grad: Callable[..., Any],
    outputs: tuple[Any, ...],
    inputs: tuple[Any, ...],
    vectors: tuple[Any, ...] | None,
    **options: Any,
) -> tuple[Any, ...]:
    """Compute `grad`, which is autograd.grad, for batched tensors; `options` are its further arguments."""
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
    """Return the physical tensor below all levels."""
    while tensor.__class__ is BatchedTensor:
        tensor = tensor._physical
    return tensor


def check_backward() -> None:
    """Raise RuntimeError for `backward()` within vmap: `.grad` cannot hold one gradient per batch element."""
    if state.batching:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms: within vmap, `.grad` would have to hold one gradient per batch element."
        )


def batched_tangent(tensor: Any, tangent: Any, written: Any) -> Any:
    """Return the tangent of a tensor or of its base, batched at every level at which the one written to it is.

    Args:
        tensor: the tensor, or the view, that is written to.
        tangent: the tangent that it, or its base, has.
        written: the batched tangent that is about to be written.
    """
    levels = levels_of(tangent)
    if set(levels_of(written)) <= set(levels):
        return tangent
    base = tensor if tensor._view is None else tensor._view.base
    whole = batched_at(tangent if base is tensor else tangent_of(base), sorted({*levels, *levels_of(written)}))
    hold_tangent(base, laid_out_like(ops.clone(whole), base._array.strides))
    if base is tensor:
        return base._tangent
    tensor._tangent = None
    return tangent_through_base(tensor)
