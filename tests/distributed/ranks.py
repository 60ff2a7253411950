"""Run a function as the ranks of a group: forks of the test's process, which find each other in a folder."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import LIMIT, fork

_AFTER_ERROR = 30.0  # seconds


class FolderStore:
    """A store whose keys are files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / key.replace("/", "_")

    def set(self, key: str, value: str | bytes) -> None:
        path = self._path(key)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(value.encode() if isinstance(value, str) else value)
        draft.rename(path)

    def get(self, key: str) -> bytes:
        end = time.monotonic() + LIMIT
        while True:
            try:
                return self._path(key).read_bytes()
            except FileNotFoundError:
                assert time.monotonic() < end, f"nobody set {key}"
                time.sleep(0.002)

    def delete_key(self, key: str) -> bool:
        self._path(key).unlink(missing_ok=True)
        return True


class Ended:
    """How a rank ended: what it returned, the traceback of its exception, or the signal that killed it."""

    def __init__(self, result: Any, error: str | None, killed_by: int | None) -> None:
        self.result, self.error, self.killed_by = result, error, killed_by


def run(size: int, call: Callable[..., Any], folder: Path, *args: Any) -> list[Any]:
    """Call `call(rank, size, store, *args)` in `size` processes, and return what they return, by rank."""
    found = ended(size, call, folder, *args)
    for rank, one in enumerate(found):
        assert one.error is None, f"rank {rank} of {size}:\n{one.error}"
    for rank, one in enumerate(found):
        assert one.killed_by is None, f"rank {rank} of {size} was killed by signal {one.killed_by}"
    return [one.result for one in found]


def ended(size: int, call: Callable[..., Any], folder: Path, *args: Any) -> list[Ended]:
    """Call `call(rank, size, store, *args)` in `size` processes, and return how each of them ended, by rank."""
    folder.mkdir(exist_ok=True)
    children = [_fork(rank, size, call, folder, args) for rank in range(size)]
    codes = _wait(children)
    found = []
    for rank, code in enumerate(codes):
        path = folder / f"result_{rank}"
        result, error = pickle.loads(path.read_bytes()) if path.exists() else (None, None)
        if code and error is None and code > 0:
            error = f"exit code {code}"
        found.append(Ended(result, error, -code if code < 0 else None))
    return found


def _fork(rank: int, size: int, call: Callable[..., Any], folder: Path, args: Sequence[Any]) -> int:
    child = fork()
    if child:
        return child
    code = 1
    try:
        try:
            found = call(rank, size, FolderStore(folder / "store"), *args), None
            code = 0
        except BaseException:
            found = None, traceback.format_exc()
        draft = folder / f"draft_{rank}"
        draft.write_bytes(pickle.dumps(found))
        draft.rename(folder / f"result_{rank}")
    finally:
        os._exit(code)


@contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a port of 127.0.0.1 for a server that the ranks start: nothing else gets it meanwhile."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # lets servers that do so, too, have it
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


def _wait(children: Sequence[int]) -> list[int]:
    """Wait for processes, and return their exit codes. If one raises, the others have little time left."""
    codes: dict[int, int] = {}
    end = time.monotonic() + LIMIT
    while len(codes) < len(children):
        for child in children:
            if child not in codes:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid:
                    codes[child] = os.waitstatus_to_exitcode(status)
                    if codes[child] > 0:
                        end = min(end, time.monotonic() + _AFTER_ERROR)
        if time.monotonic() > end:
            for child in set(children) - set(codes):
                os.kill(child, signal.SIGKILL)
                codes[child] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert any(code > 0 for code in codes.values()), f"processes have not ended after {LIMIT} seconds"
        time.sleep(0.002)
    return [codes[child] for child in children]
