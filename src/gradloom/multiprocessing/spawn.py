"""Run a function in several processes and wait for all, or for the first that fails."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from traceback import format_exc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_GRACE = 30  # seconds between SIGTERM and SIGKILL


def require_processes(instead: str) -> None:
    """Raise RuntimeError if this Python cannot start processes, as in a browser; `instead` says what to do there."""
    try:
        import _multiprocessing  # type: ignore[import-not-found]  # noqa: F401
    except ModuleNotFoundError:
        raise RuntimeError(
            f"this Python cannot start processes (it has no module _multiprocessing): {instead}"
        ) from None


class ProcessException(Exception):
    """Base of the errors for a process that failed.

    Args:
        msg: the message.
        error_index: index of the process.
        error_pid: its process id.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process failed with an exception, whose traceback the message contains."""


class ProcessExitedException(ProcessException):
    """A process was killed by a signal, or exited with a code.

    Args:
        msg: the message.
        error_index: index of the process.
        error_pid: its process id.
        exit_code: the exit code, negative for a signal.
        signal_name: name of the signal, such as "SIGKILL".
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


class ProcessContext:
    """Processes that `start_processes` started.

    Attributes:
        processes: the processes.
        sentinels: {sentinel: index} of those that have not been joined.
    """

    def __init__(self, processes: Sequence[Any], errors: Sequence[Connection]) -> None:
        self.processes = list(processes)
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}
        self._errors: dict[Any, int] = {error: index for index, error in enumerate(errors)}
        self._tracebacks: dict[int, str] = {}

    def pids(self) -> list[int]:
        """Return the process ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends; return whether all have.

        Args:
            timeout: seconds to wait; None for no limit.
            grace_period: seconds that the others may go on after one has failed, and again after SIGTERM before they
                are killed.

        Raises:
            ProcessRaisedException: if a process ended with an exception.
            ProcessExitedException: if it ended in another way. The other processes have ended then, too.
        """
        if not self.sentinels:
            return True
        failed = self._first_failure(self._ended(timeout))
        if failed is None:
            return not self.sentinels
        if grace_period is not None:
            self._wait(grace_period)
        self._end(_GRACE if grace_period is None else grace_period)
        raise self._error(failed)

    def _ended(self, timeout: float | None) -> list[int]:
        """Wait until a process has ended; return the sentinels of those that have. Read tracebacks meanwhile: a process
        cannot end before its traceback is read."""
        from multiprocessing.connection import wait

        limit = None if timeout is None else time.monotonic() + timeout
        while True:
            rest = None if limit is None else max(0.0, limit - time.monotonic())
            ready: list[Any] = wait([*self.sentinels, *self._errors], rest)
            for one in ready:
                if not isinstance(one, int):
                    self._read(one)
            ended = [one for one in ready if isinstance(one, int)]
            if ended or rest == 0.0:
                return ended

    def _read(self, error: Connection) -> None:
        index = self._errors.pop(error)
        try:
            self._tracebacks[index] = error.recv()
        except (EOFError, OSError):  # the process ended without an exception
            pass
        error.close()

    def _first_failure(self, ended: list[int]) -> int | None:
        for sentinel in ended:
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode:
                return index
        return None

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))

    def _end(self, grace: float) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait(grace)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _error(self, index: int) -> ProcessException:
        for error in [error for error, i in self._errors.items() if i == index and error.poll()]:
            self._read(error)
        process = self.processes[index]
        text, code = self._tracebacks.get(index), process.exitcode
        if text is not None:
            return ProcessRaisedException(
                f"\n\n-- Process {index:d} terminated with the following error:\n{text}", index, process.pid
            )
        if code >= 0:
            return ProcessExitedException(
                f"process {index:d} terminated with exit code {code:d}", index, process.pid, code
            )
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        return ProcessExitedException(
            f"process {index:d} terminated with signal {name}", index, process.pid, code, name
        )


class SpawnContext(ProcessContext):
    """ProcessContext's name before PyTorch 1.4."""

    def __init__(self, processes: Sequence[Any], errors: Sequence[Connection]) -> None:
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, errors)


def start_processes(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in each of `nprocs` processes, i = 0, 1 ...

    Args:
        fn: a function that can be pickled, unless processes are forked.
        args: further arguments.
        nprocs: number of processes.
        join: wait for all.
        daemon: end the processes with this one, and let them start none.
        start_method: "spawn", "fork" or "forkserver".

    Returns:
        None, or the processes if `join` is False.

    Raises:
        ProcessRaisedException, ProcessExitedException: if a process fails; the others are ended.
        RuntimeError: if this Python cannot start processes.
    """
    require_processes("call the function in this process")
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for index in range(nprocs):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, index, args, writer), daemon=daemon)
        process.start()
        writer.close()
        processes.append(process)
        errors.append(reader)
    found = ProcessContext(processes, errors)
    if not join:
        return found
    while not found.join():
        pass
    return None


def spawn(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in each of `nprocs` new processes; see start_processes.

    Args:
        fn: a function that can be pickled: one of a module.
        args: further arguments.
        nprocs: number of processes.
        join: wait for all.
        daemon: end the processes with this one, and let them start none.
        start_method: "spawn"; use start_processes for others.

    Returns:
        None, or the processes if `join` is False.

    Raises:
        ProcessRaisedException, ProcessExitedException: if a process fails; the others are ended.
    """
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different start_method "
            "use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


def _run(fn: Callable[..., object], index: int, args: tuple[Any, ...], error: Connection) -> None:
    end_with_parent()
    try:
        fn(index, *args)
    except KeyboardInterrupt:  # the parent gets it, too
        pass
    except Exception:
        error.send(format_exc())
        sys.exit(1)


def end_with_parent() -> None:
    """Let the kernel interrupt this process when its parent ends, where it can (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    parent = multiprocessing.parent_process()
    ctypes.CDLL(None).prctl(1, int(signal.SIGINT))  # PR_SET_PDEATHSIG
    if parent is not None and parent.pid != os.getppid() and not parent.is_alive():
        raise KeyboardInterrupt  # it had ended before
