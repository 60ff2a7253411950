"""map: a function of each slice of tensors, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["map"]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """Return the results of a function for each slice of `xs` along the first dimension, stacked.

    Args:
        f: called as `f(slice, *args)`; returns tensors, or containers of them. It may close over tensors, which get
            gradients.
        xs: tensors of equal size in the first dimension, in a container.
        args: further arguments, the same for each slice.

    Raises:
        RuntimeError: for an `f` that is not callable or returns anything but tensors, and for other `xs`.

    Example:
        >>> from gradloom._higher_order_ops import map
        >>> map(lambda row, scale: row.sum() * scale, torch.ones(2, 3), 10)
        tensor([30., 30.])
    """
    leaves, spec = tree_flatten(xs)
    if not callable(f):
        raise RuntimeError(f"map: f must be callable, but got {f}")
    if not leaves or not all(isinstance(leaf, gl.Tensor) for leaf in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    if not all(leaf.ndim for leaf in leaves):
        raise RuntimeError("Mapped xs must have at least one dimension, but a tensor without dimensions was given.")
    if not leaves[0].shape[0]:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if len({leaf.shape[0] for leaf in leaves}) > 1:
        shapes = [leaf.shape for leaf in leaves]
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")
    results = [f(tree_unflatten([leaf.select(0, i) for leaf in leaves], spec), *args) for i in range(len(leaves[0]))]
    return stacked("map: f", results, 0)


def stacked(function: str, results: list[Any], dim: int) -> Any:
    """Stack the results of all steps along a dimension, or the first one if they have fewer dimensions. None stays.

    Args:
        function: a description of what returned them, for errors.

    Raises:
        RuntimeError: if steps return different containers, or leaves that are not tensors.
    """
    leaves, specs = zip(*[tree_flatten(result) for result in results], strict=True)
    if any(spec != specs[0] for spec in specs):
        raise RuntimeError(f"{function} must return the same structure in each step")
    found: list[Any] = []
    for column in zip(*leaves, strict=True):
        if all(leaf is None for leaf in column):
            found.append(None)
            continue
        if not all(isinstance(leaf, gl.Tensor) for leaf in column):
            raise RuntimeError(f"{function} must return tensors, or containers of tensors, but returned {column[0]}")
        found.append(gl.stack(column, dim if dim <= column[0].ndim else 0))
    return tree_unflatten(found, specs[0])
