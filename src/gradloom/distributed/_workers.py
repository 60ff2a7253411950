"""Worker processes of `torchrun` on one machine: starting, watching and ending them, and what they print."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from .elastic.multiprocessing.errors import ProcessFailure

__all__ = ["Logs", "Workers"]

_PR_SET_PDEATHSIG = 1
# What a rank raises because another one failed, so not the cause.
_CONSEQUENCES = ("DistBackendError", "DistNetworkError", "DistStoreError", "ConnectionError", "PeerLost")


def _std_streams(text: str, local_size: int) -> list[int]:
    """Return, for each local rank, which streams an option such as "3" or "0:1,1:2" names: 1 stdout, 2 stderr, 3 both.

    Raises:
        ValueError: if it has another form.
    """
    try:
        if ":" not in text:
            found = [int(text)] * local_size
        else:
            pairs = [pair.split(":") for pair in text.split(",")]
            chosen = {int(rank): int(streams) for rank, streams in pairs}
            found = [chosen.get(rank, 0) for rank in range(local_size)]
    except ValueError:
        found = [-1]
    if not all(0 <= value <= 3 for value in found):
        raise ValueError(f"{text!r} does not say which streams: use a number from 0 to 3, or pairs such as 0:1,1:3")
    return found


class Logs:
    """Where the output of workers goes.

    Args:
        folder: base folder; a temporary one if None.
        run_id: the job, part of the names.
        redirects: streams that go to files only, as the option of torchrun says it.
        tee: streams that go to files and to the console.
        shown: local ranks whose output reaches the console; all if None.
        local_size: number of workers.
    """

    def __init__(
        self, folder: str | None, run_id: str, redirects: str, tee: str, shown: Sequence[int] | None, local_size: int
    ) -> None:
        self._redirects, self._tee = _std_streams(redirects, local_size), _std_streams(tee, local_size)
        self._shown = shown
        if folder is not None:
            os.makedirs(folder, exist_ok=True)
        self._temporary = tempfile.TemporaryDirectory(prefix="torchelastic_") if folder is None else None
        base = folder if self._temporary is None else self._temporary.name
        self.folder = tempfile.mkdtemp(prefix=f"{run_id.replace(os.sep, '_')}_", dir=base)
        self._threads: list[threading.Thread] = []

    def of_worker(self, attempt: int, local_rank: int) -> str:
        """Return the folder of a worker, and make it."""
        folder = os.path.join(self.folder, f"attempt_{attempt}", str(local_rank))
        os.makedirs(folder, exist_ok=True)
        return folder

    def streams(self, folder: str, local_rank: int) -> dict[str, Any]:
        """Return the arguments `stdout` and `stderr` of Popen for a worker."""
        found: dict[str, Any] = {}
        for bit, name in ((1, "stdout"), (2, "stderr")):
            hidden = self._shown is not None and local_rank not in self._shown
            if self._tee[local_rank] & bit and not hidden:
                found[name] = subprocess.PIPE
            elif (self._tee[local_rank] | self._redirects[local_rank]) & bit:
                found[name] = open(os.path.join(folder, f"{name}.log"), "wb")
            elif hidden:
                found[name] = subprocess.DEVNULL
        return found

    def follow(self, process: subprocess.Popen[bytes], folder: str, prefix: str) -> None:
        """Copy what a worker writes to its pipes into files and to the console."""
        for name, pipe, console in (("stdout", process.stdout, sys.stdout), ("stderr", process.stderr, sys.stderr)):
            if pipe is not None:
                path = os.path.join(folder, f"{name}.log")
                thread = threading.Thread(target=_copy, args=(pipe, path, console, prefix), daemon=True)
                thread.start()
                self._threads.append(thread)

    def finish(self) -> None:
        """Wait until all output is copied."""
        for thread in self._threads:
            thread.join(5.0)
        self._threads.clear()

    def close(self) -> None:
        """Delete the folder, if it is a temporary one."""
        self.finish()
        if self._temporary is not None:
            self._temporary.cleanup()


def _copy(pipe: IO[bytes], path: str, console: Any, prefix: str) -> None:
    with pipe, open(path, "wb") as file:
        for line in pipe:
            file.write(line)
            file.flush()
            console.write(f"{prefix}:{line.decode(errors='replace')}")
            console.flush()


def _end_with_parent() -> Any:
    """Return what a new process calls so that it is killed when the launcher ends in any way; None where that is not
    known."""
    if sys.platform != "linux":
        return None
    call, parent = ctypes.CDLL(None, use_errno=True).prctl, os.getpid()

    def in_child() -> None:
        call(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return in_child


class Workers:
    """The processes of one attempt.

    Args:
        command: what each runs.
        environments: the variables of each, besides those of this process.
        logs: where their output goes.
        attempt: number of the attempt.
        prefixes: what begins the lines of each, where they are copied.
    """

    def __init__(
        self,
        command: Sequence[str],
        environments: Sequence[Mapping[str, str]],
        logs: Logs,
        attempt: int,
        prefixes: Sequence[str],
    ) -> None:
        self._logs = logs
        self._files: list[str] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        options: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {}
        prepare = _end_with_parent()
        for local_rank, (variables, prefix) in enumerate(zip(environments, prefixes, strict=True)):
            folder = logs.of_worker(attempt, local_rank)
            self._files.append(os.path.join(folder, "error.json"))
            given = {**os.environ, **variables, "TORCHELASTIC_ERROR_FILE": self._files[-1]}
            streams = logs.streams(folder, local_rank)
            try:
                process = subprocess.Popen(command, env=given, preexec_fn=prepare, **streams, **options)
            except BaseException:
                self.end(0.0)
                raise
            finally:
                for stream in streams.values():
                    if not isinstance(stream, int):
                        stream.close()
            self.processes.append(process)
            logs.follow(process, folder, prefix)

    def running(self) -> bool:
        """Return whether a process has not ended."""
        return any(process.poll() is None for process in self.processes)

    def failures(self) -> list[ProcessFailure]:
        """Return how processes failed so far, what seems to be the cause first."""
        found = []
        for local_rank, process in enumerate(self.processes):
            if process.poll():
                found.append(ProcessFailure(local_rank, process.pid, process.returncode, self._files[local_rank]))

        def order(failure: ProcessFailure) -> tuple[bool, float]:
            # A process that was killed reports nothing, and those that lost it do.
            return failure.kind in _CONSEQUENCES, 0.0 if failure.exitcode < 0 else failure.timestamp

        return sorted(found, key=order)

    def signal(self, number: int) -> None:
        """Send a signal to the processes that have not ended, and to those that they started."""
        for process in self.processes:
            if process.poll() is None:
                with suppress(OSError):
                    if os.name == "posix":
                        os.killpg(process.pid, number)
                    else:
                        process.terminate()

    def end(self, grace: float) -> None:
        """End all processes: by SIGTERM, and after some seconds by SIGKILL."""
        self.signal(signal.SIGTERM)
        end = time.monotonic() + grace
        while self.running() and time.monotonic() < end:
            time.sleep(0.02)
        for process in self.processes:
            with suppress(OSError):  # also what a worker that has ended left behind
                if os.name == "posix":
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
        for process in self.processes:
            process.wait()
        self._logs.finish()
