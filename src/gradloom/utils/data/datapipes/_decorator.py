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

_settings = {"determinism": False, "validation": True}


class functional_datapipe:
    """Decorator that makes a class of pipes a method of all pipes of its kind.

    Args:
        name: the method's name.
        enable_df_api_tracing: make the results of IterDataPipes data frames.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name: str = name
        self.enable_df_api_tracing: bool = enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        decorated = getattr(cls, "__self__", cls)
        if isinstance(decorated, non_deterministic) or issubclass(cls, IterDataPipe):
            IterDataPipe.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        elif issubclass(cls, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        return cls


class _Held:
    """A context that holds a setting of this module at a value, from the moment that it is made."""

    _setting: str
    _value: bool

    def __init__(self) -> None:
        self.prev = _settings[self._setting]
        _settings[self._setting] = self._value

    def __enter__(self) -> None:
        """Do nothing: the setting is made."""

    def __exit__(self, *error: object) -> None:
        _settings[self._setting] = self.prev


class guaranteed_datapipes_determinism(_Held):
    """Context in which the making of a pipe that is `non_deterministic` raises TypeError."""

    _setting, _value = "determinism", True


class runtime_validation_disabled(_Held):
    """Context in which `runtime_validation` checks nothing."""

    _setting, _value = "validation", False


class non_deterministic:
    """Decorator of an IterDataPipe whose order is not determined, at all or for some arguments.

    Args:
        arg: the class; or a function of the constructor's arguments that returns whether the order is not determined.

    Raises:
        TypeError: for anything else; and from the class, within `guaranteed_datapipes_determinism`.
    """

    cls: Any = None
    deterministic_fn: Any = None

    def __init__(self, arg: Any) -> None:
        if not callable(arg):
            raise TypeError(f"{arg} can not be decorated by non_deterministic")
        if isinstance(arg, type):
            self.cls = _of_pipes(arg, "decorated with `non_deterministic`, but")
        else:
            self.deterministic_fn = arg

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is not None:
            return self._made("", True, args, kwargs)
        (found,) = args  # the class, which the function stood before
        self.cls = _of_pipes(found, "decorated, but")
        return self.deterministic_wrapper_fn

    def deterministic_wrapper_fn(self, *args: Any, **kwargs: Any) -> Any:
        """Make the pipe, if its arguments determine the order or determinism is not asked for."""
        answer = self.deterministic_fn(*args, **kwargs)
        if answer is not True and answer is not False:
            raise TypeError(
                "deterministic_fn of `non_deterministic` decorator is required to return a boolean value, but "
                f"{type(answer)} is found"
            )
        return self._made(" with the inputs", answer, args, kwargs)

    def _made(self, when: str, undetermined: bool, args: Any, kwargs: Any) -> Any:
        if undetermined and _settings["determinism"]:
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic{when}, but you set 'guaranteed_datapipes_determinism'. You "
                "can turn off determinism for this DataPipe if that is acceptable for your application"
            )
        return self.cls(*args, **kwargs)


def _of_pipes(found: Any, words: str) -> Any:
    """Return a class of IterDataPipes. Raises TypeError, with the words, for anything else."""
    if isinstance(found, type) and issubclass(found, IterDataPipe):
        return found
    raise TypeError(f"Only `IterDataPipe` can be {words} {found.__name__} is found")


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that refuses anything but an IterDataPipe where `f` is annotated with a class of pipes."""
    signature, hints = inspect.signature(f), get_type_hints(f)

    kinds = {name: hint for name, hint in hints.items() if isinstance(hint, _DataPipeMeta)}

    @wraps(f)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        for name in kinds.keys() & given.keys():
            _check_kind(name, given[name], kinds[name])
        return f(*args, **kwargs)

    return checked


def _check_kind(name: str, pipe: Any, hint: Any) -> None:
    """Raise TypeError unless an argument is an IterDataPipe whose `type` is that of its annotation, or a part of it.

    As in PyTorch, only a class that brings a `type` of its own can be compared; others raise AttributeError.
    """
    if not isinstance(pipe, IterDataPipe):
        raise TypeError(f"Expected argument '{name}' as an IterDataPipe, but found {type(pipe)}")
    if not pipe.type.issubtype(hint.type):
        raise TypeError(f"Expected type of argument '{name}' as a subtype of hint {hint.type}, but found {pipe.type}")


def runtime_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return an `__iter__` that checks its examples against the `type` that the class of pipes brings.

    Raises:
        TypeError: for a function of another name.
    """
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @wraps(f)
    def checked(self: Any) -> Iterator[Any]:
        for value in f(self):
            if _settings["validation"] and not self.type.issubtype_of_instance(value):
                raise RuntimeError(f"Expected an instance as subtype of {self.type}, but found {value}({type(value)})")
            yield value

    return checked
