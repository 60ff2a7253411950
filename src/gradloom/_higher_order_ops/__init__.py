"""Control flow as operators: `cond`, `while_loop`, `associative_scan`. Without a compiler they call the functions
themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom.core import late
from gradloom.utils._pytree import tree_flatten, tree_map

from .associative_scan import associative_scan

__all__ = ["associative_scan", "cond", "while_loop"]


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


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple[Any, ...] | list[Any]
) -> Any:
    """Return the values that `body_fn` returns last: it is called with its own results while `cond_fn` says so.

    Args:
        cond_fn: called with the values; returns a bool, or a tensor of one element.
        body_fn: called with the values; returns as many values.
        carried_inputs: the first values: tensors, numbers, or containers of them.

    Raises:
        RuntimeError: if a function is not callable, or returns something else.

    Example:
        >>> torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, 2 * x), (torch.tensor(0), torch.ones(2)))
        (tensor(3), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"carried_inputs must be a tuple or list, got {type(carried_inputs)}")
    values: Any = tuple(carried_inputs)
    single = False
    while _goes_on(cond_fn(*values)):
        found = body_fn(*values)
        single = not isinstance(found, (tuple, list))
        found = (found,) if single else tuple(found)
        if len(found) != len(values):
            raise RuntimeError(
                f"torch.while_loop: body_fn must return as many values as it is called with, {len(values)}, but "
                f"returned {len(found)}"
            )
        values = found
    return values[0] if single else values


def _goes_on(found):
    if isinstance(found, gl.Tensor) and found.numel() != 1:
        raise RuntimeError(
            f"torch.while_loop: cond_fn must return a bool or a tensor of one element, but returned {found}"
        )
    if not isinstance(found, (bool, gl.Tensor)):
        raise RuntimeError(
            f"torch.while_loop: cond_fn must return a bool or a tensor of one element, but returned {found!r}"
        )
    return bool(found)
