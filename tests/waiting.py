"""Wait for threads and processes, but never for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LIMIT = 300  # seconds that something may take on a busy machine before it counts as hanging


class Running(threading.Thread):
    """A function that runs in a thread of its own: a daemon, so that Python ends even if it does not."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call, self._result, self._error = call, None, None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        """Wait for the function; return what it returned, or raise what it raised."""
        self.join(LIMIT)
        assert not self.is_alive(), f"a thread has not ended after {LIMIT} seconds"
        if self._error is not None:
            raise self._error
        return self._result


def in_threads(*calls: Callable[[], Any]) -> list[Any]:
    """Run functions at once, each in a thread of its own, and return what they return."""
    running = [Running(call) for call in calls]
    return [thread.result() for thread in running]


def fork() -> int:
    """Return `os.fork()`, without the warning that this process has other threads: they do not matter to the child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def forked(call: Callable[[], int]) -> int:
    """Run a function in a fork of this process, and return the exit code: what it returns, or 1 where it raises."""
    child = fork()
    if not child:
        code = 1
        try:
            code = call()
        finally:
            os._exit(code)
    end = time.monotonic() + LIMIT
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"a forked process has not ended after {LIMIT} seconds")
        time.sleep(0.001)
    return os.waitstatus_to_exitcode(found[1])


class Started:
    """A process that runs beside the test, with a file that holds what it prints."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log, self._seen = process, log, 0

    def wait_for(self, *texts: str) -> None:
        """Wait until it has printed the texts, one after the other, behind those that were waited for before."""
        end = time.monotonic() + LIMIT
        for text in texts:
            while (at := self.log.read_text().find(text, self._seen)) < 0:
                ended = self.process.poll() is not None
                assert not ended and time.monotonic() < end, f"no {text!r} in {self.log.read_text()}"
                time.sleep(0.05)
            self._seen = at + len(text)

    def end(self, number: int = signal.SIGINT) -> int:
        """Send it a signal, Ctrl-C if none is named, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(LIMIT)


@contextmanager
def started(command: Iterable[str | Path], log: Path, **options: Any) -> Iterator[Started]:
    """Run a process beside the test and kill it afterwards.

    It can be ended by Ctrl-C also where the tests run in the background, ignore SIGINT, and would hand that down.
    """
    if os.name != "nt":
        options["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(log, "wb") as file:
        process = subprocess.Popen(list(map(str, command)), stdout=file, stderr=file, **options)
    try:
        yield Started(process, log)
    finally:
        process.kill()
        process.wait(LIMIT)
