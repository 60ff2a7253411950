"""cond: one of two functions, by a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom.core import late
from gradloom.utils._pytree import tree_flatten, tree_map

__all__ = ["cond"]


def cond(
    pred: bool | int | float | gl.Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """Return true_fn(*operands) or false_fn(*operands).

    Args:
        pred: a number, or a tensor of one element. Within vmap it may differ between examples: then both functions are
            called, and each example takes the result of its own.
        true_fn, false_fn: return tensors, or containers of tensors, of the same structure.
        operands: tensors, or containers of tensors.

    Raises:
        RuntimeError: for a pred of several elements or another class, functions that are not callable, or operands
            other than tensors.

    Example:
        >>> torch.cond(torch.tensor(True), torch.sin, torch.cos, (torch.zeros(2),))
        tensor([0., 0.])
    """
    if not isinstance(pred, (bool, int, float, gl.Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, gl.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not all(
        isinstance(leaf, (gl.Tensor, int)) for leaf in tree_flatten(operands)[0]
    ):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, but "
            f"got {operands}."
        )
    if isinstance(pred, gl.Tensor) and late.any_batched((pred,)):
        chosen = pred != 0
        return tree_map(lambda a, b: gl.where(chosen, a, b), true_fn(*operands), false_fn(*operands))
    return true_fn(*operands) if pred else false_fn(*operands)
