"""Run checks in worker processes, so that none can end the run by an exception, a hang or a crash."""

from __future__ import annotations

import faulthandler
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from .case import describe
from .results import OpResult

#: Told what is being checked just now: (stage, where).
Progress = Callable[[str, str], None]


@dataclass(frozen=True)
class Task:
    """One operator, module or optimizer to check. `run` executes in a worker process."""

    name: str
    kind: str
    family: str
    run: Callable[[Progress], OpResult]
    stages: tuple[str, ...] = ("forward",)

    def failed(self, place: tuple[str, str], reason: str) -> OpResult:
        """The result of a task that gave none."""
        result = OpResult(self.name, self.family, self.kind)
        result.count(place[0] or self.stages[0], place[1], reason)
        return result


def run_tasks(tasks: Sequence[Task], jobs: int, limit: float) -> Iterator[OpResult]:
    """Results as they come, in no fixed order. A task without an answer within `limit` seconds is killed."""
    workers = [_Worker(tasks) for _ in range(min(jobs, len(tasks)) or 1)]
    waiting = list(range(len(tasks)))[::-1]
    try:
        while waiting or any(worker.busy for worker in workers):
            for worker in workers:
                if not worker.busy and waiting:
                    worker.start(waiting.pop())
            busy = {worker.connection: worker for worker in workers if worker.busy}
            wait(list(busy), timeout=min(max(worker.deadline(limit) - time.monotonic(), 0) for worker in busy.values()))
            for worker in busy.values():
                result = worker.poll(limit)
                if result is not None:
                    yield result
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A forked process that runs tasks by number; it is replaced when it dies."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._fork()

    def _fork(self) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self._tasks), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.place = ("", "")

    @property
    def busy(self) -> bool:
        return self.task is not None

    def start(self, index: int) -> None:
        self.task, self.place, self.started = self._tasks[index], ("", ""), time.monotonic()
        self.connection.send(index)

    def deadline(self, limit: float) -> float:
        return self.started + limit

    def poll(self, limit: float) -> OpResult | None:
        """The finished task's result, if there is one; a dead or late worker gives a miss and is replaced."""
        task = self.task
        assert task is not None
        try:
            while self.connection.poll():
                kind, value = self.connection.recv()
                if kind == "done":
                    self.task = None
                    return OpResult.from_dict(value)
                self.place = value
        except (EOFError, ConnectionError):
            self.process.join(limit)
            reason = f"the process died ({_cause(self.process.exitcode)})"
        else:
            if time.monotonic() < self.deadline(limit):
                return None
            reason = f"no answer within {limit:g} s"
        self.stop()
        place, _ = self.place, self._fork()
        return task.failed(place, reason)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _cause(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"


def _serve(connection: Connection, tasks: Sequence[Task]) -> None:
    """A worker's life: a number comes in, progress and one result go out."""
    import torch

    faulthandler.disable()  # a crash is reported as a miss; its traceback would only fill the terminal
    torch.set_num_threads(1)
    for accelerator in (torch.cuda, torch.xpu, torch.mtia):
        # Each seeding of PyTorch would format the whole call stack for accelerators that nothing here uses.
        accelerator.manual_seed_all = lambda seed: None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    place: Any = ("", "")

    def progress(stage: str, where: str) -> None:
        nonlocal place
        place = (stage, where)
        connection.send(("at", place))

    while True:
        try:
            task = tasks[connection.recv()]
        except EOFError:
            return
        place = ("", "")
        try:
            result = task.run(progress)
        except BaseException as error:  # a defect of the harness, or a candidate that raises SystemExit
            result = task.failed(place, describe(error))
        connection.send(("done", result.as_dict()))
