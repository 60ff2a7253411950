"""The names of torch.compiler. gradloom has no compiler: functions are returned unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..types.public import found_in as _found_in

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def is_compiling() -> bool:
    """Return False."""
    return False


def is_dynamo_compiling() -> bool:
    """Return False."""
    return False


def is_exporting() -> bool:
    """Return False."""
    return False


def allow_in_graph(fn: _Function) -> _Function:
    """Return `fn` unchanged; there is no compiler."""
    return fn


def assume_constant_result(fn: _Function) -> _Function:
    """Return `fn` unchanged; there is no compiler."""
    return fn


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return `fn` unchanged; without `fn`, return a decorator that does so."""
    return fn if fn is not None else lambda function: function


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return a function or Module unchanged; a compiled one would compute the same.

    Args:
        model: a function or a Module; None returns a decorator.
        fullgraph, dynamic, backend, mode, options, disable: accepted; they have no effect.

    Raises:
        TypeError: if `model` is not callable.
    """
    if model is None:
        return lambda function: compile(function)
    if not callable(model):
        raise TypeError(f"compile() takes a function or a Module, not {type(model).__name__}")
    return model


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Return the names of compilers: []."""
    return []


def reset() -> None:
    """Do nothing: there is no compiled code to drop."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing: only a compiler needs to know where a training step begins."""


_found_in("gradloom", compile)
