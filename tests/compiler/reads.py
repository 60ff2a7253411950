"""The form of the programs in reads_of_objects.py, reads_of_containers.py and reads_of_settings.py.

A program is a generator that yields a function and its arguments, changes something that the function reads, yields
again, and so on. test_reads.py compiles the function at the first or the second `yield`; at each one from there on, it
must give what it gives as Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PROGRAMS: dict[str, Any] = {}
RUNS_AS_PYTHON: set[str] = set()
_NONE = object()


def program(function: Any) -> Any:
    """Add a program whose function is a graph at each `yield` from the second call on."""
    assert function.__name__ not in PROGRAMS
    PROGRAMS[function.__name__] = function
    return function


def python(function: Any) -> Any:
    """Add a program whose function reads what cannot be guarded, and so may run as Python."""
    RUNS_AS_PYTHON.add(function.__name__)
    return program(function)


@contextmanager
def changed(obj: Any, **members: Any) -> Iterator[None]:
    """Set attributes of an object or class, and bring back its own ones at the end."""
    own = {name: _special(obj, name) for name in members}
    for name, value in members.items():
        setattr(obj, name, value)
    try:
        yield
    finally:
        for name, value in own.items():
            if value is _NONE:
                delattr(obj, name)
            else:
                setattr(obj, name, value)


def _special(obj: Any, name: str) -> Any:
    """Return what an object has under a name itself, and what every function or class has, such as `__defaults__`."""
    if name in ("__dict__", "__name__", "__code__", "__defaults__", "__kwdefaults__"):
        return getattr(obj, name)
    return vars(obj).get(name, _NONE)


@contextmanager
def without(obj: Any, name: str) -> Iterator[None]:
    """Delete an attribute until the end."""
    value = vars(obj)[name]
    delattr(obj, name)
    try:
        yield
    finally:
        setattr(obj, name, value)


def item(container: Any, key: Any, value: Any) -> None:
    """Set an item."""
    container[key] = value
