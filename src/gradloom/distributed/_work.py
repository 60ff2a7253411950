"""Asynchronous work: calls that run one after the other, and what tells whether they are done."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn

from ..futures import Future
from ._forks import forked_error, tell_forks
from ._kinds import UNSET
from .errors import DistBackendError

__all__ = ["Lane", "Work"]

_IDLE = 5.0  # seconds without work after which a lane's thread ends


class Work:
    """A call that another thread makes.

    Args:
        outputs: tensors that have the result when it is done.
        source: for receiving, a function that returns the sender's rank then.
    """

    def __init__(self, outputs: Sequence[Any] = (), source: Callable[[], int] | None = None) -> None:
        self._outputs, self._source = list(outputs), source
        self._done = False
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._ended: threading.Event | None = None
        self._future: Future[list[Any]] | None = None

    def _end(self, error: BaseException | None = None) -> None:
        with self._lock:
            self._error, self._done = error, True
            if self._ended is not None:
                self._ended.set()
            future = self._future
        if future is not None:
            self._resolve(future)

    def _resolve(self, future: Future[list[Any]]) -> None:
        if self._error is None:
            future.set_result(self._outputs)
        else:
            future._complete(None, self._error)

    def _after_fork(self) -> None:
        """End with an error in a forked process: the parent's thread does not run there, and may hold the locks."""
        self._lock = threading.Lock()
        if not self._done:
            self._ended = None
            self._end(forked_error())

    def is_completed(self) -> bool:
        """Return whether it is done, or has failed."""
        return self._done

    def wait(self, timeout: timedelta = UNSET) -> bool:
        """Wait until it is done, and return True.

        Args:
            timeout: longest time to wait; by default the call's own.

        Raises:
            DistBackendError: if the call failed, or `timeout` passed.
        """
        if not self._done:
            with self._lock:
                if self._ended is None:
                    self._ended = threading.Event()
                    if self._done:
                        self._ended.set()
            seconds = timeout.total_seconds() if timeout.total_seconds() > 0 else None
            if not self._ended.wait(seconds):
                raise DistBackendError(f"Operation timed out: it has not completed within {seconds:g} seconds")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """Wait until it is done, as `wait` does."""
        self.wait()

    def block_current_stream(self) -> None:
        """Wait until it is done: there are no streams."""
        self.wait()

    def is_success(self) -> bool:
        """Return whether it is done and has not failed."""
        return self._done and self._error is None

    def exception(self) -> BaseException | None:
        """Return the exception with which it failed, or None."""
        return self._error

    def result(self) -> list[Any]:
        """Return the tensors that have the result; an empty list if it is not done."""
        return self._outputs if self._done else []

    def source_rank(self) -> int:
        """Return the sender's rank in the group, of a call that received.

        Raises:
            RuntimeError: for other calls.
        """
        if self._source is None:
            raise RuntimeError(
                "sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call."
            )
        self.wait()
        return self._source()

    _source_rank = source_rank

    def get_future(self) -> Future[list[Any]]:
        """Return a future of the tensors that have the result."""
        with self._lock:
            if self._future is not None:
                return self._future
            self._future = Future()
            ended = self._done
        if ended:
            self._resolve(self._future)
        return self._future

    def get_future_result(self) -> NoReturn:
        """Raise RuntimeError, as PyTorch's backends for CPUs do: `get_future` has the result."""
        raise RuntimeError("Work::getFutureResult not implemented.")

    def _get_duration(self) -> NoReturn:
        raise RuntimeError("This Backend doesn't support getDuration.")

    def boxed(self) -> Work:
        """Return itself."""
        return self


class Lane:
    """Calls that are made one after the other: in the caller's thread if none is before it, else in the lane's own.

    Args:
        name: name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name, self._changed = name, threading.Condition()
        self._waiting: deque[tuple[Callable[[], None], Work]] = deque()
        self._current: Work | None
        self._busy, self._current = False, None
        self._thread: threading.Thread | None = None
        tell_forks(self)

    def after_fork(self) -> None:
        """End the calls that only the parent makes, with an error. Note [Forked processes]"""
        works = [self._current, *(work for _, work in self._waiting)]
        self._changed, self._thread, self._busy, self._current = threading.Condition(), None, False, None
        self._waiting.clear()
        for work in works:
            if work is not None:
                work._after_fork()

    def run(self, call: Callable[[], Any]) -> Any:
        """Make a call after those that were submitted, and return its result."""
        with self._changed:
            now = not self._busy and not self._waiting
            self._busy = self._busy or now
        if not now:
            return self._run_after_others(call)
        try:
            return call()
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _run_after_others(self, call: Callable[[], Any]) -> Any:
        found: list[Any] = []
        work = self.submit(lambda: found.append(call()), Work())
        work.wait()
        return found[0]

    def submit(self, call: Callable[[], Any], work: Work) -> Work:
        """Let the lane's thread make a call, and end `work` then."""

        def make() -> None:
            try:
                call()
            except BaseException as error:
                work._end(error)
            else:
                work._end()

        with self._changed:
            self._waiting.append((make, work))
            if self._thread is None:
                self._thread = threading.Thread(target=self._make_calls, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return work

    def _make_calls(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._waiting and not self._busy, _IDLE):
                    if self._busy or self._waiting:
                        continue
                    self._thread = None
                    return
                (call, self._current), self._busy = self._waiting.popleft(), True
            call()
            del call  # what it holds, tensors among them, is free while this thread waits
            with self._changed:
                self._busy, self._current = False, None
                self._changed.notify_all()

    def drain(self, seconds: float | None = None) -> bool:
        """Wait until all calls are made; return whether they are within some seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)
