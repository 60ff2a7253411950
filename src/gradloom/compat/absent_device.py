"""Functions shared by the modules of absent device types (cuda, mps, mtia, xpu)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NoReturn

from ..types.absent import absent


def is_available() -> bool:
    """Return False: gradloom computes on the CPU."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator to seed."""


def empty_cache() -> None:
    """Do nothing: there is no cached memory."""


def synchronize(device: Any = None) -> None:
    """Refuse to wait for a device.

    Raises RuntimeError always.
    """
    raise RuntimeError("there is no such device: gradloom computes on the CPU. Ask is_available() first")


def own_functions(module: str) -> None:
    """Give a module functions of its own in place of those that it shares: by its name and theirs, for pickles."""
    space = vars(sys.modules[module])
    for name in space["__all__"]:
        shared = space.get(name)
        if isinstance(shared, FunctionType) and (shared.__module__, shared.__name__) != (module, name):
            own = FunctionType(shared.__code__, shared.__globals__, name, shared.__defaults__, shared.__closure__)
            own.__kwdefaults__, own.__annotations__ = shared.__kwdefaults__, shared.__annotations__
            own.__module__, own.__qualname__, own.__doc__ = module, name, shared.__doc__
            space[name] = own


def names(
    module: str, answers: Mapping[str, Callable[[], Any]], refused: str, error: Callable[[], Exception]
) -> Callable[[str], Any]:
    """Return the `__getattr__` of the module of an absent device: it makes functions when a program asks for them.

    Args:
        module: full name of the module.
        answers: name of a function -> what makes its answer.
        refused: names of functions that raise, separated by spaces.
        error: makes their exception.
    """
    refusing = frozenset(refused.split())

    def __getattr__(name: str) -> Any:
        if name in answers:
            return _function(module, name, answers[name])
        if name not in refusing:
            raise absent(module, name)

        def refuse() -> NoReturn:
            raise error()

        return _function(module, name, refuse)

    return __getattr__


def _function(module: str, name: str, answer: Callable[[], Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return answer()

    function.__module__, function.__name__, function.__qualname__ = module, name, name
    function.__doc__ = "Answer for a device that is not there, or raise an error that says so."
    vars(sys.modules[module])[name] = function
    return function
