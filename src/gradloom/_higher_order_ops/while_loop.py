"""while_loop: a function applied to its own results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl

__all__ = ["while_loop"]


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
