"""scan: a recurrence along a dimension, with its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom.utils._pytree import tree_flatten, tree_unflatten

from .map import stacked

__all__ = ["scan"]

_DIMENSIONS = "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """Return the last state of a recurrence, and the results of all its steps.

    Args:
        combine_fn: function of a state and of one slice of `xs` to the next state and a result: tensors, or containers
            of them. It may close over tensors, which get gradients.
        init: the first state: a tensor, or a container of tensors. All states have its sizes and dtypes.
        xs: tensors of equal size along `dim`, in a container.
        dim: the dimension along which `xs` is sliced and the results are stacked (as the first one, where they have
            fewer dimensions).
        reverse: begin with the last slice; the results stay in the order of `xs`.

    Raises:
        RuntimeError: for arguments or results other than these.
        IndexError: if `xs` has no dimension `dim`.

    Example:
        >>> from gradloom._higher_order_ops import scan
        >>> scan(lambda state, x: (state + x, state * x), torch.zeros(1), torch.tensor([[1.0], [2.0], [3.0]]))
        (tensor([6.]), tensor([[0.],
                [2.],
                [9.]]))
    """
    leaves, spec = tree_flatten(xs)
    if not leaves:
        return init, []
    first, of_state = tree_flatten(init)
    _check(combine_fn, first, leaves, dim, reverse)
    axis = dim % leaves[0].ndim
    size = leaves[0].shape[axis]
    state, results = init, []
    for step in reversed(range(size)) if reverse else range(size):
        found = combine_fn(state, tree_unflatten([leaf.select(axis, step) for leaf in leaves], spec))
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise RuntimeError(
                f"scan: combine_fn must return a pair, the next state and a result, but returned {found}"
            )
        last, result = found
        values = tree_flatten(last)[0]
        _check_state(first, values)
        state = tree_unflatten(values, of_state)
        results.append(result)
    return last, stacked("scan: combine_fn", results[::-1] if reverse else results, axis)


def _check(combine_fn: Any, first: list[Any], leaves: list[Any], dim: Any, reverse: Any) -> None:
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if not first:
        raise RuntimeError("scan() operator requires init leaves.")
    for name, group in (("init", first), ("xs", leaves)):
        for leaf in group:
            if not isinstance(leaf, gl.Tensor):
                raise RuntimeError(f"All {name} leaves must be a Tensor but got {leaf}")
    rank = leaves[0].ndim
    if rank and not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    axis = dim % max(rank, 1)
    if any(leaf.ndim <= axis or not leaf.shape[axis] for leaf in leaves):
        raise RuntimeError(_DIMENSIONS)
    if len({leaf.shape[axis] for leaf in leaves}) > 1:
        shapes = [tuple(leaf.shape) for leaf in leaves]
        raise RuntimeError(f"All xs leaves must have the same size along dimension {dim}, but have the shapes {shapes}")


def _check_state(first: list[Any], state: list[Any]) -> None:
    if len(first) != len(state) or not all(isinstance(new, gl.Tensor) for new in state):
        raise RuntimeError(f"scan: combine_fn must return a state of {len(first)} tensors, as init is, but got {state}")
    for old, new in zip(first, state, strict=True):
        if old.shape != new.shape or old.dtype is not new.dtype:
            raise RuntimeError(
                "Expected init and carry to have same metadata, but init is a tensor of shape "
                f"{tuple(old.shape)} and {old.dtype}, and combine_fn returned {tuple(new.shape)} and {new.dtype}"
            )
