"""The libraries that are compared by running: PyTorch in an environment of its own, or gradloom in this process."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from gradloom.codegen.errors import UsageError

from . import worker

START, CALL = 120.0, 20.0  # seconds: to import PyTorch, and for a call
_THREADS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"

Answer = dict[str, Any]


class Library(Protocol):
    @property
    def name(self) -> str: ...

    def answer(self, request: dict[str, Any]) -> Answer: ...
    def close(self) -> None: ...


class Torch:
    """PyTorch, run by an interpreter. A call that ends the process or takes too long is answered by an error."""

    def __init__(self, python: Path, command: list[str] | None = None) -> None:
        self.command = command or [str(python), "-I", worker.__file__]
        self.process: subprocess.Popen[str] | None = None
        self._start()

    @cached_property
    def name(self) -> str:
        """The version. Raises UsageError if PyTorch cannot be imported; waits until it is."""
        first = self._line(START)
        if first is None:
            self.close()
            raise UsageError(f"{self.command[0]} cannot import PyTorch")
        return str(json.loads(first)["version"]).partition("+")[0]

    def _start(self) -> None:
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **dict.fromkeys(_THREADS, "1")},
        )
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(self.process.stdout, self.lines), daemon=True).start()

    def _line(self, seconds: float) -> str | None:
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def answer(self, request: dict[str, Any]) -> Answer:
        assert self.name
        if self.process is None:
            self._start()
            self._line(START)
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended, so there is no line
        line = self._line(CALL)
        if line is None:
            self.close()
            return {"value": {"error": "the call did not return, or ended the process"}}
        found: Answer = json.loads(line)
        return found

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
        self.process = None


def _read(pipe: Any, lines: queue.SimpleQueue[str | None]) -> None:
    with contextlib.suppress(ValueError, OSError):  # closed meanwhile
        for line in pipe:
            lines.put(line)
    lines.put(None)


class Gradloom:
    name = "gradloom"

    def answer(self, request: dict[str, Any]) -> Answer:
        import gradloom

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return json.loads(json.dumps(worker.answer(gradloom, request)))  # type: ignore[no-any-return]

    def close(self) -> None:
        pass
