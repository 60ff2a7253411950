"""Context managers that also decorate functions, generator functions and classes.

As in PyTorch, decorating a generator function lets the context hold while the generator runs, not in its consumer;
decorating a coroutine function or an asynchronous generator has no effect on its body, which runs after the call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _DecoratorContextManager:
    """A context manager that can also wrap a function, a generator function or a class."""

    def __call__(self, function: _Function) -> _Function:
        import inspect

        if inspect.isclass(function):
            import warnings

            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only "
                "decorate functions or methods. To preserve the current behavior of class decoration, you "
                "can directly decorate the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
            function.__init__ = self(function.__init__)
            return function
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def call(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    def _wrap_generator(self, function):
        """Wrap a generator function: the mode is on while the generator runs, not in its consumer between items."""

        @functools.wraps(function)
        def call(*args, **kwargs):
            generator = function(*args, **kwargs)
            with self.clone():
                try:
                    item = generator.send(None)
                except StopIteration as stop:
                    return stop.value
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    with self.clone():
                        try:
                            item = generator.throw(error)
                        except StopIteration as stop:
                            return stop.value
                else:
                    with self.clone():
                        try:
                            item = generator.send(sent)
                        except StopIteration as stop:
                            return stop.value

        return call

    def clone(self) -> Self:
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A context manager without arguments that can also wrap a function: `@manager` decorates as `@manager()` does."""

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)
