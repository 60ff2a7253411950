"""associative_scan: running results of an associative function, as cumsum is of addition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Return the running results of an associative function along a dimension, in log2(size) calls of it.

    Args:
        combine_fn: function of two slices of `xs`, of any equal size along `dim`, to one, place by place.
        xs: tensors of equal sizes, in a container that `combine_fn` takes and returns.
        dim: the dimension.
        reverse: begin at the end.
        combine_mode: "pointwise" or "generic", which are the same here.

    Raises:
        ValueError: for other arguments, or sizes that differ.
        RuntimeError: if `combine_fn` returns another container, or other sizes.

    Example:
        >>> associative_scan(torch.add, torch.arange(4), 0)
        tensor([0, 1, 3, 6])
    """
    leaves, spec = tree_flatten(xs)
    _check(combine_fn, leaves, dim, reverse, combine_mode)
    axis = dim % leaves[0].ndim
    values = [leaf.flip(axis) for leaf in leaves] if reverse else leaves
    size, step = values[0].shape[axis], 1
    while step < size:  # each place has the result of the `step` places up to it
        earlier = [value.narrow(axis, 0, size - step) for value in values]
        later = [value.narrow(axis, step, size - step) for value in values]
        found, made = tree_flatten(combine_fn(tree_unflatten(earlier, spec), tree_unflatten(later, spec)))
        if made != spec or any(new.shape != old.shape for new, old in zip(found, later, strict=True)):
            raise RuntimeError("associative_scan: combine_fn must return tensors of its arguments' sizes and structure")
        values = [gl.cat([value.narrow(axis, 0, step), new], axis) for value, new in zip(values, found, strict=True)]
        step *= 2
    return tree_unflatten([value.flip(axis) for value in values] if reverse else list(values), spec)


def _check(combine_fn: Any, leaves: list[Any], dim: Any, reverse: Any, combine_mode: Any) -> None:
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise ValueError(f"Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(leaf, gl.Tensor) and leaf.ndim for leaf in leaves):
        raise ValueError("xs leaves must be tensors of at least one dimension")
    if not -leaves[0].ndim <= dim < leaves[0].ndim:
        raise ValueError(f"Dim {dim} is out of range for tensors of {leaves[0].ndim} dimensions")
    if len({leaf.shape[dim] for leaf in leaves}) > 1:
        raise ValueError("All xs leaves must have the same size along dim")
