"""Futures: values that another thread, or a later statement, provides."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Condition
from traceback import extract_tb
from typing import Any, Generic, NoReturn, TypeVar, cast

import gradloom as gl

from .memory.locks import new_lock

__all__ = ["Future", "collect_all", "wait_all"]

_Value = TypeVar("_Value")
_Other = TypeVar("_Other")


class Future(Generic[_Value]):
    """A value, or an exception, that is set once, and may be waited for.

    Example:
        >>> future = torch.futures.Future()
        >>> doubled = future.then(lambda done: 2 * done.value())
        >>> future.set_result(3)
        >>> doubled.wait()
        6

    Args:
        devices: accelerators that results may be on: none, since there are none.

    Raises:
        ValueError: if a device has no index.
        RuntimeError: for any other device.
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        for given in devices or ():
            device = gl.device(given)
            if device.index is None:
                raise ValueError(f"Expected devices to have indices, got {device}")
            raise RuntimeError(f"Future(): there is no accelerator, got device {device}")
        self._changed = Condition(new_lock())
        self._done, self._value = False, None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], object]] = []

    def done(self) -> bool:
        """Return whether a result or an exception has been set."""
        return self._done

    def wait(self) -> _Value:
        """Wait for the result and return it; raise the exception, if that was set."""
        with self._changed:
            self._changed.wait_for(self.done)
        return self.value()

    def value(self) -> _Value:
        """Return the result; raise the exception, if that was set.

        Raises:
            RuntimeError: if nothing has been set. `wait` waits.
        """
        if not self._done:
            raise RuntimeError("value() of a Future that is not completed; use wait()")
        if self._error is not None:
            raise self._error
        return cast(_Value, self._value)

    def then(self, callback: Callable[[Future[_Value]], _Other]) -> Future[_Other]:
        """Return a future of what a function returns, which is called when this future is done.

        Args:
            callback: called with this future; at once if that is done. If it raises, the future that is returned gets
                a RuntimeError with the text of the exception.

        Raises:
            TypeError: if it cannot be called.
        """
        _check_callable("then", callback)
        found: Future[_Other] = Future()

        def call() -> None:
            try:
                result = callback(self)
            except Exception as error:
                found._complete(None, RuntimeError(_described(error)))
            else:
                found._complete(result, None)

        self._when_done(call)
        return found

    def add_done_callback(self, callback: Callable[[Future[_Value]], None]) -> None:
        """Call a function with this future when it is done; at once if it is.

        Args:
            callback: called with this future. An exception that it raises is logged.

        Raises:
            TypeError: if it cannot be called.
        """
        _check_callable("add_done_callback", callback)

        def call() -> None:
            try:
                callback(self)
            except Exception as error:
                logging.getLogger(__name__).error(_described(error))

        self._when_done(call)

    def set_result(self, result: _Value) -> None:
        """Set the result and run the callbacks.

        Args:
            result: any value.

        Raises:
            RuntimeError: if the future is done.
        """
        self._complete(result, None)

    def set_exception(self, result: Exception) -> None:
        """Set an exception, which `wait` and `value` will raise, and run the callbacks.

        Args:
            result: the exception.

        Raises:
            AssertionError: if it is none.
            RuntimeError: if the future is done.
        """
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                    "completed once."
                )
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback()

    def _when_done(self, callback: Callable[[], object]) -> None:
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback()

    def __reduce__(self) -> NoReturn:
        raise RuntimeError("Can not pickle torch.futures.Future")


def _check_callable(name: str, callback: Any) -> None:
    if not callable(callback):
        raise TypeError(f"{name}(): argument 'callback' must be callable, not {type(callback).__name__}")


def _described(error: Exception) -> str:
    places = [f"  {frame.filename}({frame.lineno}): {frame.name}" for frame in extract_tb(error.__traceback__)]
    text = f"Got the following error when running the callback: {type(error).__name__}: {error}\n\nAt:\n"
    return text + "\n".join(reversed(places)) + "\n"


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future of the list of futures, which is done when all are; if one has an exception, so has it.

    Args:
        futures: futures.

    Raises:
        TypeError: if one is no Future.
    """
    futures = list(futures)
    for future in futures:
        if not isinstance(future, Future):
            raise TypeError(f"collect_all(): expected Futures, but got {type(future).__name__}")
    found: Future[list[Future[Any]]] = Future()
    if not futures:
        found.set_result([])
    left, lock = [len(futures)], Condition()

    def one_done() -> None:
        with lock:
            left[0] -= 1
            if left[0]:
                return
        errors = [future._error for future in futures if future._error is not None]
        found._complete(futures, errors[0] if errors else None)

    for future in futures:
        future._when_done(one_done)
    return found


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Wait for all futures and return their results; raise the exception of the first that has one.

    Args:
        futures: futures.

    Raises:
        TypeError: if one is no Future.
    """
    return [future.wait() for future in collect_all(futures).wait()]


def fork(func: Callable[..., _Value], *args: Any, **kwargs: Any) -> Future[_Value]:
    """Call a function at once, and return its result as a future; an exception is raised at once, too.

    Args:
        func: the function.
        args, kwargs: its arguments.
    """
    found: Future[_Value] = Future()
    found.set_result(func(*args, **kwargs))
    return found


def wait(future: Future[_Value]) -> _Value:
    """Return the result of a future that `fork` returned.

    Args:
        future: the future.

    Raises:
        TypeError: if it is none.
    """
    if not isinstance(future, Future):
        raise TypeError(f"wait(): argument 'future' must be Future, not {type(future).__name__}")
    return future.wait()
