"""Audit many operators in processes of their own; a process that crashes or hangs is replaced."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gradloom.tools.verify import own_operators, select
from gradloom.tools.verify.operators import Operator

from .auditing import auditable
from .findings import CRASH, HANG, Finding, entry

_THREADS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
RESTARTS = 3  # of a process, for one operator
CALL_LIMIT = 60.0  # seconds


@dataclass
class Audit:
    """The results of an audit, also of one that was stopped.

    Attributes:
        library, version: what was audited.
        findings: what is wrong, in the order in which it was found.
        counts: judgment -> number of derivatives.
        notes: [operator, mode, numbers, judgment, message] of what is no finding, but where something may be wrong.
        done: the operators that were audited.
        printed: programs of other audits -> what they print with this version, see `rechecking`.
        total: number of operators to audit.
        seconds: duration.
        first: seconds to the first finding; None without one.
        stopped: whether it was stopped before its end.
    """

    library: str
    version: str = ""
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[list[str]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    printed: dict[str, str] = field(default_factory=dict)
    total: int = 0
    seconds: float = 0.0
    first: float | None = None
    stopped: bool = False


class _Stopped(Exception):
    """The audit ends."""


class _Worker(threading.Thread):
    """A thread that gives operators to a process, one after another, and passes on what that says."""

    def __init__(
        self, command: list[str], waiting: queue.SimpleQueue[Operator], events: queue.SimpleQueue[Any], restarts: int
    ) -> None:
        super().__init__(daemon=True)
        self.command, self.waiting, self.events, self.restarts = command, waiting, events, restarts
        self.process: subprocess.Popen[str] | None = None
        self.lock = threading.Lock()  # held while a process is started or ended
        self.called: float | None = None  # when the call began that is made now
        self.hung, self.ends, self.place = False, False, (0, "")

    def run(self) -> None:
        try:
            while True:
                self.audit(self.waiting.get_nowait())
        except (queue.Empty, _Stopped):
            pass
        finally:
            self.end()
            self.close()
            self.events.put((self, "ended", None))

    def audit(self, operator: Operator) -> None:
        skipped = 0
        for _ in range(self.restarts):
            self.place = (-1, "")
            if self.talk({"operator": operator.name, "skipped": skipped}):
                return
            if self.ends:
                raise _Stopped
            number, label = self.place
            if number < 0:
                break
            self.events.put((self, "finding", self.ended(operator, label)))
            skipped = number + 1
        self.events.put((self, "done", operator.name))

    def talk(self, task: dict[str, Any]) -> bool:
        """Give the process a task and pass on its lines; return whether it finished the task."""
        if self.process is None or self.process.poll() is not None:
            self.close()
            self.hung = False
            self.start_process()
        process = self.process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
        except OSError:
            pass  # its last words may say why
        for line in process.stdout:
            ((kind, value),) = json.loads(line).items()
            self.called = time.monotonic() if kind in ("at", "finding", "note") else None
            if kind == "at":
                self.place = (value[0], value[1])
            else:
                self.events.put((self, kind, Finding.from_dict(value) if kind == "finding" else value))
            if kind == "done":
                return True
            if kind == "absent":
                raise _Stopped
        process.wait()
        self.called = None
        return False

    def ended(self, operator: Operator, label: str) -> Finding:
        """Return the finding of a call that ended the process. It has no numbers: they would do the same elsewhere."""
        assert self.process is not None
        code = self.process.returncode
        reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        what = "the call did not return" if self.hung else f"the process ended ({reason})"
        kind = HANG if self.hung else CRASH
        return Finding(
            operator.name, "", kind, label=label, found=what, right="a result or an exception", entry=entry(operator)
        )

    def start_process(self) -> None:
        """Start a process, unless the audit has ended, which kills the one that it finds."""
        with self.lock:
            if self.ends:
                raise _Stopped
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, **dict.fromkeys(_THREADS, "1")},
            )

    def end(self) -> None:
        with self.lock:
            self.ends = True
            if self.process is not None and self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def close(self) -> None:
        """Close the pipes of a process that has ended."""
        for pipe in (self.process.stdin, self.process.stdout) if self.process is not None else ():
            assert pipe is not None
            with contextlib.suppress(OSError):  # what it did not read
                pipe.close()


def audit(
    library: str,
    names: Iterable[str] = (),
    *,
    families: Iterable[str] = (),
    seed: int = 0,
    seconds: float | None = None,
    processes: int = 2,
    limit: float = CALL_LIMIT,
    restarts: int = RESTARTS,
    progress: Callable[[Audit, str], None] | None = None,
    report: Callable[[Finding], None] | None = None,
    command: list[str] | None = None,
) -> Audit:
    """Audit a library's derivatives of operators; those of a stopped audit (Ctrl-C) are returned, too.

    Args:
        library: 'torch', 'gradloom', 'jax' or 'autograd'.
        names, families: the operators, as in `verify`. Default: all.
        seed: of the numbers that are drawn.
        seconds: stop after this time.
        processes: how many operators are audited at the same time.
        limit: seconds for one call, with all of its derivatives, after which its process is replaced.
        restarts: number of processes for one operator, after which it is left alone.
        progress: called with the results so far and an operator that is done.
        report: called with each finding.
        command: what starts a process, for tests.

    Raises:
        ValueError: for an unknown name or family.
        ImportError: if the library is not installed.
    """
    chosen = [o for o in select(own_operators(), names, families) if auditable(o)]
    found = Audit(library, total=len(chosen))
    waiting: queue.SimpleQueue[Operator] = queue.SimpleQueue()
    for operator in chosen:
        waiting.put(operator)
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    command = command or [sys.executable, "-m", f"{__package__}.worker", library, str(seed)]
    workers = [_Worker(command, waiting, events, restarts) for _ in range(max(1, min(processes, len(chosen))))]
    start = time.monotonic()
    for worker in workers:
        worker.start()
    try:
        running = len(workers)
        while running:
            if seconds is not None and time.monotonic() - start > seconds:
                found.stopped = True
                break
            _watch(workers, limit)
            try:
                _, kind, value = events.get(timeout=0.2)
            except queue.Empty:
                continue
            if kind == "ended":
                running -= 1
            elif kind == "absent":
                raise ImportError(value)
            elif kind == "ready":
                found.version = value
            elif kind == "counts":
                found.counts.update(value)
            elif kind == "note":
                found.notes.append(value)
            elif kind == "done":
                found.done.append(value)
                if progress is not None:
                    progress(found, value)
            else:
                if found.first is None:
                    found.first = time.monotonic() - start
                found.findings.append(value)
                if report is not None:
                    report(value)
    except KeyboardInterrupt:
        found.stopped = True
    finally:
        for worker in workers:
            worker.end()
            worker.join()
        found.seconds = time.monotonic() - start
    return found


def _watch(workers: list[_Worker], limit: float) -> None:
    """End processes that have said nothing for too long."""
    for worker in workers:
        called = worker.called
        if called is not None and time.monotonic() - called > limit and worker.process is not None:
            worker.hung, worker.called = True, None
            worker.process.kill()
