"""Decorators of classes and methods of DataPipes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, get_type_hints

from ._typing import _DataPipeMeta
from .datapipe import IterDataPipe, MapDataPipe

__all__ = [
    "argument_validation",
    "functional_datapipe",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "runtime_validation",
    "runtime_validation_disabled",
]

_determinism = False
_runtime_validation_enabled = True


class functional_datapipe:
    """Decorator that makes a class of pipes a method of all pipes of its kind.

    Args:
        name: the method's name.
        enable_df_api_tracing: make the results of IterDataPipes data frames.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        decorated = getattr(cls, "__self__", cls)
        if isinstance(decorated, non_deterministic) or issubclass(cls, IterDataPipe):
            IterDataPipe.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        elif issubclass(cls, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        return cls


class guaranteed_datapipes_determinism:
    """Context in which the making of a pipe that is `non_deterministic` raises TypeError."""

    prev: bool

    def __init__(self) -> None:
        global _determinism
        self.prev = _determinism
        _determinism = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        global _determinism
        _determinism = self.prev


class non_deterministic:
    """Decorator of an IterDataPipe whose order is not determined, at all or for some arguments.

    Args:
        arg: the class; or a function of the constructor's arguments that returns whether the order is not determined.

    Raises:
        TypeError: for anything else; and from the class, within `guaranteed_datapipes_determinism`.
    """

    cls: Any = None

    def __init__(self, arg: Any) -> None:
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(
                    f"Only `IterDataPipe` can be decorated with `non_deterministic`, but {arg.__name__} is found"
                )
            self.cls = arg
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is not None:
            if _determinism:
                raise TypeError(
                    f"{self.cls.__name__} is non-deterministic, but you set 'guaranteed_datapipes_determinism'. You "
                    "can turn off determinism for this DataPipe if that is acceptable for your application"
                )
            return self.cls(*args, **kwargs)
        decorated = args[0]
        if not (isinstance(decorated, type) and issubclass(decorated, IterDataPipe)):
            raise TypeError(f"Only `IterDataPipe` can be decorated, but {decorated.__name__} is found")
        self.cls = decorated
        return self.deterministic_wrapper_fn

    def deterministic_wrapper_fn(self, *args: Any, **kwargs: Any) -> Any:
        """Make the pipe, if its arguments determine the order or determinism is not asked for."""
        found = self.deterministic_fn(*args, **kwargs)
        if not isinstance(found, bool):
            raise TypeError(
                "deterministic_fn of `non_deterministic` decorator is required to return a boolean value, but "
                f"{type(found)} is found"
            )
        if _determinism and found:
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic with the inputs, but you set "
                "'guaranteed_datapipes_determinism'. You can turn off determinism for this DataPipe if that is "
                "acceptable for your application"
            )
        return self.cls(*args, **kwargs)


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that refuses anything but an IterDataPipe where `f` is annotated with a class of pipes."""
    signature, hints = inspect.signature(f), get_type_hints(f)

    @wraps(f)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if not isinstance(hints.get(name), _DataPipeMeta):
                continue
            if not isinstance(value, IterDataPipe):
                raise TypeError(f"Expected argument '{name}' as a IterDataPipe, but found {type(value)}")
            # As in PyTorch, only a class of pipes that brings a `type` of its own can be compared.
            if not value.type.issubtype(hints[name].type):
                raise TypeError(
                    f"Expected type of argument '{name}' as a subtype of hint {hints[name].type}, but found "
                    f"{value.type}"
                )
        return f(*args, **kwargs)

    return checked


class runtime_validation_disabled:
    """Context in which `runtime_validation` checks nothing."""

    prev: bool

    def __init__(self) -> None:
        global _runtime_validation_enabled
        self.prev = _runtime_validation_enabled
        _runtime_validation_enabled = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        global _runtime_validation_enabled
        _runtime_validation_enabled = self.prev


def runtime_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return an `__iter__` that checks its examples against the `type` that the class of pipes brings.

    Raises:
        TypeError: for a function of another name.
    """
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @wraps(f)
    def checked(self: Any) -> Iterator[Any]:
        if not _runtime_validation_enabled:
            yield from f(self)
            return
        for value in f(self):
            if not self.type.issubtype_of_instance(value):
                raise RuntimeError(f"Expected an instance as subtype of {self.type}, but found {value}({type(value)})")
            yield value

    return checked
