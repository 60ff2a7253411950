"""The hooks around the `__iter__` and `reset` of IterDataPipes: one valid iterator at a time, counts, profiles, errors.

Note [One iterator]
A pipe has one valid iterator, since many pipes have a buffer. Each iterator has a number; the pipe's
`_valid_iterator_id` is that of the newest. Starting one resets the pipe, and an older one raises RuntimeError when it
is used. A pipe made by `fork` or `demux` shares its container with others, so that the container decides (`_begin`).

Note [Snapshots]
A pipe that was fast-forwarded (`utils.snapshot`) is Restored: its next iterator goes on where the fast-forwarded one
stands, and does not reset it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Any

import gradloom as gl

from ....dispatch.state import state as _thread


class _SnapshotState(Enum):
    """What may happen to a pipe: NotStarted can be restored; Restored starts without a reset, and cannot be restored
    again; Iterating can be restored, and a new iterator resets it."""

    NotStarted = 0
    Restored = 1
    Iterating = 2


def _described(pipe: Any, short: bool = False) -> str:
    """Return "MapperIterDataPipe(datapipe=..., fn=...)", with the attributes named as arguments of the constructor.

    Args:
        pipe: the pipe.
        short: leave "IterDataPipe" and "MapDataPipe" out.
    """
    names = sorted(set(inspect.signature(type(pipe)).parameters) & set(dir(pipe)))
    values = ((name, getattr(pipe, name)) for name in names if hasattr(pipe, name))
    shown = (f"{name}={value.__name__ if inspect.isfunction(value) else repr(value)}" for name, value in values)
    text = f"{type(pipe).__name__}({', '.join(shown)})"
    return text.replace("IterDataPipe", "").replace("MapDataPipe", "") if short else text


def _is_child(pipe: Any) -> bool:
    return getattr(pipe, "_is_child_datapipe", False) is True


def _begin(pipe: Any) -> int:
    """Make the number of a new iterator the valid one and reset the pipe; return the number."""
    if _is_child(pipe):
        if not hasattr(pipe, "_set_main_datapipe_valid_iterator_id"):
            raise RuntimeError("ChildDataPipe must have method `_set_main_datapipe_valid_iterator_id`.")
        pipe._set_main_datapipe_valid_iterator_id()
    else:
        last = pipe._valid_iterator_id
        pipe._valid_iterator_id = 0 if last is None else last + 1
        pipe.reset()
    return int(pipe._valid_iterator_id)


def _check(pipe: Any, number: int) -> None:
    """Raise RuntimeError unless a number is that of the pipe's valid iterator."""
    if _is_child(pipe):
        if not hasattr(pipe, "_check_valid_iterator_id"):
            raise RuntimeError("ChildDataPipe must have method `_check_valid_iterator_id`.")
        if not pipe._check_valid_iterator_id(number):
            raise RuntimeError(
                "This iterator has been invalidated, because a new iterator has been created from one of the "
                f"ChildDataPipes of {_described(pipe.main_datapipe)}."
            )
    elif pipe._valid_iterator_id != number:
        raise RuntimeError(
            "This iterator has been invalidated because another iterator has been created from the same IterDataPipe: "
            f"{_described(pipe)}\nThis may be caused by multiple references to the same IterDataPipe. We recommend "
            "using `.fork()` if that is necessary."
        )


def _recorded(pipe: Any) -> AbstractContextManager[Any]:
    """Return the context in which a pipe makes an example: an event of the profiler that is running, if one is."""
    if _thread.profiler is None:
        return nullcontext()
    if not hasattr(pipe, "_profile_name"):
        pipe._profile_name = _described(pipe, short=True)
    return gl.autograd.profiler.record_function(pipe._profile_name)


class _HookedIterator:
    """An iterator of a pipe: it checks that it is the valid one, counts the examples, and records profiles.

    Args:
        pipe: the pipe.
        source: iterator of what the pipe's own `__iter__` returned.
        lazy: begin with the first example, as pipes do whose `__iter__` is a generator function; errors in these name
            the pipe.
        counts: count the examples; a pipe that is its own iterator counts by itself.
    """

    def __init__(self, pipe: Any, source: Iterator[Any], lazy: bool, counts: bool) -> None:
        self.iterator, self._pipe, self._lazy, self._counts = source, pipe, lazy, counts
        self._number = None if lazy else _begin(pipe)

    def __iter__(self) -> _HookedIterator:
        return self

    def __next__(self) -> Any:
        pipe = self._pipe
        if self._number is None:
            ahead = _restored(pipe)
            if ahead is not None:
                self.iterator, self._number, self._counts = ahead, -1, False
            else:
                self._number = _begin(pipe)
        try:
            with _recorded(pipe):
                if self._number >= 0:
                    _check(pipe, self._number)
                value = next(self.iterator)
        except StopIteration:
            raise
        except Exception as error:
            if self._lazy:
                _name_the_pipe(error, pipe)
            raise
        pipe._number_of_samples_yielded += self._counts
        return value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.iterator, name)


def _restored(pipe: Any) -> Iterator[Any] | None:
    """Return the iterator at which a restored pipe goes on, once; else None (Note [Snapshots])."""
    ahead: Iterator[Any] | None = pipe._fast_forward_iterator
    if ahead is not None:
        pipe._fast_forward_iterator = None
        pipe._snapshot_state = _SnapshotState.Iterating
    return ahead


def hook_iterator(namespace: dict[str, Any]) -> None:
    """Replace the `__iter__`, and the `__next__`, of a class of pipes by hooked ones.

    Args:
        namespace: the attributes of the class, before it is made.
    """
    iterate, advance = namespace["__iter__"], namespace.get("__next__")
    lazy = inspect.isgeneratorfunction(iterate)

    @functools.wraps(iterate)
    def hooked(pipe: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        source = iterate(pipe, *args, **kwargs)
        if lazy:
            return _HookedIterator(pipe, source, True, True)
        pipe._snapshot_state = _SnapshotState.Iterating
        ahead = _restored(pipe)
        counts = source is not pipe or advance is None
        return _HookedIterator(pipe, source, False, counts) if ahead is None else ahead

    namespace["__iter__"] = hooked
    if advance is not None and not lazy:
        namespace["__next__"] = _counting(advance)


def hook_reset(reset: Callable[..., None]) -> Callable[..., None]:
    """Return the `reset` of a class of pipes so that it spares a restored pipe, once (Note [Snapshots])."""

    @functools.wraps(reset)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> None:
        if self._snapshot_state is not _SnapshotState.Restored:
            self._number_of_samples_yielded = 0
            self._fast_forward_iterator = None
            reset(self, *args, **kwargs)
        self._snapshot_state = _SnapshotState.Iterating

    return hooked


def _name_the_pipe(error: Exception, pipe: Any) -> None:
    """Add the pipe to the words of an error, unless another pipe did, or the error is about iterators."""
    place = "thrown by __iter__ of"
    addition = f"\nThis exception is {place} {_described(pipe)}"
    if not error.args or not isinstance(error.args[0], str):
        error.args = (addition,)
    elif place not in error.args[0] and "This iterator has been invalidated" not in error.args[0]:
        error.args = (error.args[0] + addition, *error.args[1:])


def _counting(advance: Callable[..., Any]) -> Callable[..., Any]:
    """Return the `__next__` of a pipe that is its own iterator, so that it counts and is recorded."""

    @functools.wraps(advance)
    def hooked(pipe: Any, *args: Any, **kwargs: Any) -> Any:
        with _recorded(pipe):
            value = advance(pipe, *args, **kwargs)
        pipe._number_of_samples_yielded += 1
        return value

    return hooked
