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

_MORE = (
    "\nFor feedback regarding this single iterator per IterDataPipe constraint, feel free to comment on this issue: "
    "https://github.com/pytorch/data/issues/45."
)


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
                f"ChildDataPipes of {_described(pipe.main_datapipe)}.{_MORE}"
            )
    elif pipe._valid_iterator_id != number:
        raise RuntimeError(
            "This iterator has been invalidated because another iterator has been created from the same IterDataPipe: "
            f"{_described(pipe)}\nThis may be caused by multiple references to the same IterDataPipe. We recommend "
            f"using `.fork()` if that is necessary.{_MORE}"
        )


def _recorded(pipe: Any) -> AbstractContextManager[Any]:
    """Return the context in which a pipe makes an example: an event of the profiler that is running, if one is."""
    if _thread.profiler is None:
        return nullcontext()
    if not hasattr(pipe, "_profile_name"):
        pipe._profile_name = _described(pipe, short=True)
    return gl.autograd.profiler.record_function(pipe._profile_name)


class _HookedIterator:
    """The iterator of a pipe whose `__iter__` is no generator function: it returns the pipe itself, or any iterator.

    Args:
        iterator: what `__iter__` returned.
        datapipe: the pipe.
        iterator_id: its number.
        counts: whether the pipe is its own iterator, whose hooked `__next__` counts.
    """

    def __init__(self, iterator: Iterator[Any], datapipe: Any, iterator_id: int, counts: bool) -> None:
        self.iterator, self.datapipe, self.iterator_id, self._counts = iterator, datapipe, iterator_id, counts

    def __iter__(self) -> _HookedIterator:
        return self

    def __next__(self) -> Any:
        with _recorded(self.datapipe):
            _check(self.datapipe, self.iterator_id)
            value = next(self.iterator)
            if not self._counts:
                self.datapipe._number_of_samples_yielded += 1
            return value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.iterator, name)


def hook_iterator(namespace: dict[str, Any]) -> None:
    """Replace the `__iter__`, and the `__next__`, of a class of pipes by hooked ones.

    Args:
        namespace: the attributes of the class, before it is made.
    """
    iterate = namespace["__iter__"]
    if inspect.isgeneratorfunction(iterate):
        namespace["__iter__"] = _hooked_generator(iterate)
        return
    if "__next__" in namespace:
        namespace["__next__"] = _hooked_next(namespace["__next__"])
    namespace["__iter__"] = _hooked_iter(iterate, "__next__" in namespace)


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


def _hooked_generator(iterate: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(iterate)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        source = iterate(self, *args, **kwargs)
        if self._fast_forward_iterator:
            ahead, self._fast_forward_iterator = self._fast_forward_iterator, None
            self._snapshot_state = _SnapshotState.Iterating
            for value in ahead:
                yield value
            return
        number = _begin(self)
        try:
            with _recorded(self):
                value = source.send(None)
            while True:
                self._number_of_samples_yielded += 1
                sent = yield value
                with _recorded(self):
                    _check(self, number)
                    value = source.send(sent)
        except StopIteration:
            return
        except Exception as error:
            _name_the_pipe(error, self)
            raise

    return hooked


def _name_the_pipe(error: Exception, pipe: Any) -> None:
    """Add the pipe to the words of an error, unless another pipe did, or the error is about iterators."""
    place = "thrown by __iter__ of"
    addition = f"\nThis exception is {place} {_described(pipe)}"
    if not error.args or not isinstance(error.args[0], str):
        error.args = (addition,)
    elif place not in error.args[0] and "single iterator per IterDataPipe constraint" not in error.args[0]:
        error.args = (error.args[0] + addition, *error.args[1:])


def _hooked_next(advance: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(advance)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _recorded(self):
            value = advance(self, *args, **kwargs)
        self._number_of_samples_yielded += 1
        return value

    return hooked


def _hooked_iter(iterate: Callable[..., Any], advances: bool) -> Callable[..., Iterator[Any]]:
    @functools.wraps(iterate)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        found = iterate(self, *args, **kwargs)
        self._snapshot_state = _SnapshotState.Iterating
        if self._fast_forward_iterator:
            found, self._fast_forward_iterator = self._fast_forward_iterator, None
            return found
        return _HookedIterator(found, self, _begin(self), found is self and advances)

    return hooked
