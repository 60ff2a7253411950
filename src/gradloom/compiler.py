"""What programs say to PyTorch's compiler. gradloom compiles nothing: functions stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

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
    """Whether a compiler runs this code: never."""
    return False


def is_dynamo_compiling() -> bool:
    """Whether a compiler runs this code: never."""
    return False


def is_exporting() -> bool:
    """Whether this code runs to be exported: never."""
    return False


def allow_in_graph(fn: _Function) -> _Function:
    """The function: it is a compiler that would be told to leave it whole."""
    return fn


def assume_constant_result(fn: _Function) -> _Function:
    """The function: it is a compiler that would call it once."""
    return fn


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function, which is not compiled anyway; without one, a decorator that returns it.

    Args:
        fn: a function or a class.
        recursive: whether what it calls is left alone, too.
        reason: why.
    """
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
    """The function or module as it is: gradloom has no compiler, and a compiled function computes the same.

    Args:
        model: a function or a Module; without one, a decorator that returns it.
        fullgraph, dynamic, backend, mode, options, disable: how PyTorch would compile.

    Raises:
        TypeError: if `model` cannot be called.
    """
    if model is None:
        return lambda function: compile(function)
    if not callable(model):
        raise TypeError(f"compile() takes a function or a Module, not {type(model).__name__}")
    return model


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The compilers: none."""
    return []


def reset() -> None:
    """Forget what was compiled: nothing was."""


def cudagraph_mark_step_begin() -> None:
    """Say that another step of training begins, which only a compiler needs to know."""
