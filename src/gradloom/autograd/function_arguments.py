"""Arguments of a custom function that are given by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def by_position(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], separate: bool
) -> tuple[Any, ...]:
    """All arguments of `Function.apply` by position, since that is how backward numbers their gradients.

    Args:
        forward: the method that they are for.
        args: those that were given by position, without `ctx`.
        kwargs: those that were given by name.
        separate: whether there is a setup_context, which sees the defaults of all arguments that were left out. Else
            those in front of one that is given by name have to be given, and those behind it are left to forward.

    Raises:
        TypeError: for a name that forward does not have, or has after a `*`; and for one given twice or missing.
    """
    import inspect

    signature = inspect.signature(forward)
    if separate:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name in bound.kwargs:
            _refuse(name)
        return bound.args
    names = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ][1:]
    for name in kwargs:
        if name not in names:
            _refuse(name)
        if name in names[: len(args)]:
            raise TypeError(f"forward() got multiple values for argument '{name}'")
    last = max(map(names.index, kwargs))
    for position in range(len(args), last):
        if names[position] not in kwargs:
            raise TypeError(
                f"forward() missing required argument: '{names[position]}' (position {position}). A custom "
                "function takes an argument by name only if those in front of it are given"
            )
    return (*args, *[kwargs[name] for name in names[len(args) : last + 1]])


def _refuse(name: str) -> NoReturn:
    raise TypeError(
        f"forward() got an unexpected keyword argument '{name}'. A custom function takes by name only what "
        "it could take by position: an argument after `*` or in `**kwargs` has no gradient to return"
    )
