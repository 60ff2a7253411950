"""Tensor's own `__torch_function__`: results have the class of the arguments."""

from __future__ import annotations

from typing import Any

from ...dispatch import _operators
from ...dispatch.state import MODES_ANSWER, state


def preserve_class(cls: type, function: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The function's result, whose tensors are of class `cls`, but for gradients and bases: they are what they are.

    Args:
        cls: the subclass of Tensor that answers.
        function: the public function.
        types: the classes among the arguments that override functions.
        args, kwargs: the arguments.

    Returns:
        The result; NotImplemented if one of `types` is no base of `cls`.
    """
    for other in types:
        if not issubclass(cls, other):
            return NotImplemented
    before = state.function_overrides
    state.function_overrides = max(before, MODES_ANSWER)
    try:
        found = function(*args, **kwargs)
        return found if cls is _operators.Tensor or _gives_what_is_kept(function) else _as(found, cls)
    finally:
        state.function_overrides = before


def _gives_what_is_kept(function) -> bool:
    """Whether a function gives away a tensor that was there before: `x.grad`, `x._base`."""
    return getattr(function, "__self__", None) in (_operators.Tensor.grad, _operators.Tensor._base)


def _as(found, cls):
    if isinstance(found, _operators.Tensor):
        return found if isinstance(found, cls) else found.as_subclass(cls)
    if isinstance(found, (tuple, list)):
        converted = [_as(value, cls) for value in found]
        if any(new is not old for new, old in zip(converted, found, strict=True)):
            make = getattr(type(found), "_make", type(found))  # that of named tuples
            return make(converted)
    return found
