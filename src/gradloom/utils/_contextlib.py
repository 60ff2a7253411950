"""Context managers that decorate functions, and base classes for users' own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..autograd.grad_mode import _DecoratorContextManager, _NoParamDecoratorContextManager

__all__ = ["context_decorator", "_DecoratorContextManager", "_NoParamDecoratorContextManager"]


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs in `ctx`: a reusable context manager, or a function that makes one for each call."""
    is_context = hasattr(ctx, "__enter__")
    if is_context == callable(ctx) and not isinstance(ctx, _DecoratorContextManager):
        raise AssertionError(
            f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), "
            "making it ambiguous which interface to use. If you intended to pass a context manager "
            "factory, pass lambda: ctx() instead; if you intended the context manager, wrap it in a "
            "lambda."
            if is_context
            else f"expected a context manager, or a function that makes one, but got {ctx!r}"
        )

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with ctx if is_context else ctx():
            return func(*args, **kwargs)

    return call
