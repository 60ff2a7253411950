"""Arguments of calls with defaults filled in and by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    arg_types: Any = None,
    kwarg_types: Any = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a function with defaults filled in; None if its signature is not known or does not fit.

    Args:
        target, args, kwargs: the function and the arguments.
        arg_types, kwarg_types: accepted without effect: a function's signature holds for all of its overloads.
        normalize_to_only_use_kwargs: pass all arguments by name.
    """
    try:
        found = inspect.signature(target)
    except (TypeError, ValueError):
        return None
    return _normalized(found, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Any,
    target: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a submodule's forward with defaults filled in; None if they do not fit.

    Args:
        root: the module that has the submodule.
        target: the submodule's path.
        args, kwargs: the arguments.
        normalize_to_only_use_kwargs: pass all arguments by name.

    Raises:
        RuntimeError: if there is no such submodule.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize arguments for module target {target} but root did not have it!"
        ) from error
    return _normalized(inspect.signature(module.forward), args, kwargs or {}, normalize_to_only_use_kwargs)


def _normalized(found: inspect.Signature, args: Any, kwargs: Any, only_kwargs: bool) -> ArgsKwargsPair | None:
    try:
        bound = found.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found.parameters.values()):
        return ArgsKwargsPair(bound.args, bound.kwargs)
    values = dict(bound.arguments)
    if only_kwargs:
        return ArgsKwargsPair((), values)
    positional = tuple(values.pop(name) for name in list(values)[: len(args)])
    return ArgsKwargsPair(positional, values)
