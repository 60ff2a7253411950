"""A run: choose what to check, check it in worker processes, and judge the results."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

from .families import family_of
from .known import DEFAULT_PATH, Verdict, judge, load_known
from .library import Library
from .module_runner import run_module
from .opinfo_runner import Plan, run_op
from .optimizer_runner import run_optimizer
from .pool import Task, run_tasks
from .proxy import candidate_library
from .results import MODULE_STAGES, OPTIMIZER_STAGES, STAGES, OpResult

#: Every stage of every kind, each once.
ALL_STAGES = tuple(dict.fromkeys((*STAGES, *MODULE_STAGES, *OPTIMIZER_STAGES)))


@dataclass(frozen=True)
class Selection:
    """What a run checks. Empty means everything."""

    names: tuple[str, ...] = ()  # operators by full name, by name without the variant, or by a pattern with *
    families: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("operators", "modules", "optimizers")
    stages: tuple[str, ...] = ALL_STAGES
    limit: int | None = None  # at most this many of what was chosen
    samples: int | None = None  # at most this many samples for each stage and dtype
    whole: bool = False  # all samples of all dtypes

    @property
    def thorough(self) -> bool:
        """Whether a listed miss that did not show is news: fewer samples may just have missed it."""
        return self.samples is None

    def takes(self, task: Task) -> bool:
        plain = task.name.partition(".")[0] if task.name.count(".") == 1 else task.name.rpartition(".")[0]
        named = not self.names or any(name in (task.name, plain) or fnmatchcase(task.name, name) for name in self.names)
        return named and (not self.families or task.family in self.families) and task.kind in self.kinds


_RUN = b"\nthe run, pickled:\n"  # separates what operators print from the answer of a new process


@dataclass
class Run:
    """Results of a run, in the order of PyTorch's databases, with the verdict."""

    candidate: str
    selection: Selection
    results: list[OpResult] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    seconds: float = 0.0


def load_candidate(name: str) -> Library:
    """The library to check, by the name of its module."""
    return candidate_library(importlib.import_module(name))


def all_tasks(
    candidate: Library, selection: Selection = Selection(), family: Callable[[Any], str] = family_of
) -> list[Task]:
    """One task for everything in PyTorch's three databases that the selection takes."""
    whole = selection.whole
    plan = Plan(tuple(stage for stage in STAGES if stage in selection.stages), selection.samples, whole)

    def operator(op: Any) -> Task:
        room = family(op)
        return Task(op.full_name, "operators", room, lambda told: run_op(op, candidate, room, plan, told), plan.stages)

    def module(info: Any) -> Task:
        stages = tuple(stage for stage in MODULE_STAGES if stage in selection.stages)
        return Task(
            info.name, "modules", "modules", lambda told: run_module(info, candidate, stages, told, whole), stages
        )

    def optimizer(info: Any) -> Task:
        stages = tuple(stage for stage in OPTIMIZER_STAGES if stage in selection.stages)
        return Task(
            f"optim.{info.name}",
            "optimizers",
            "optimizers",
            lambda told: run_optimizer(info, candidate, stages, told, whole),
            stages,
        )

    tasks = [*map(operator, op_db), *map(module, module_db), *map(optimizer, optim_db)]
    return [task for task in tasks if task.stages and selection.takes(task)][: selection.limit]


def run(
    candidate: Library,
    selection: Selection = Selection(),
    *,
    jobs: int = 2,
    time_per_op: float = 60.0,
    known: Path | None = None,
    told: Callable[[OpResult], None] = lambda result: None,
) -> Run:
    """Check a library against PyTorch; `told` hears of every result as it comes.

    The list of known misses is gradloom's own unless it is given; another library has none.
    """
    started = time.monotonic()
    tasks = all_tasks(candidate, selection)
    found = {}
    for result in run_tasks(_slow_first(tasks), jobs, time_per_op):
        found[result.kind, result.name] = result
        told(result)
    results = [found[task.kind, task.name] for task in tasks]
    listed = known or (DEFAULT_PATH if candidate.name == "gradloom" else None)
    whole = selection == Selection(kinds=selection.kinds, stages=selection.stages)
    verdict = judge(results, load_known(listed, selection.whole), selection.stages, whole)
    if not selection.thorough:
        verdict.gone.clear()
    return Run(candidate.name, selection, results, verdict, time.monotonic() - started)


def run_in_new_process(candidate: str, selection: Selection = Selection(), **options: Any) -> Run:
    """Call `run` in a new process.

    The workers of `run` are forks. After deeply nested backward passes PyTorch has threads, and refuses to compute
    gradients in forks; the harness would then report that operators have no gradient.
    """
    given = pickle.dumps((candidate, selection, options))
    above = Path(__file__).parents[__name__.count(".")]  # the folder in which Python finds this module by its name
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}  # where Python finds `tests`
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, input=given, capture_output=True, cwd=above, env=environment)
    if done.returncode:
        raise RuntimeError(f"the run of the databases failed:\n{done.stderr.decode(errors='replace')}")
    return pickle.loads(done.stdout[done.stdout.index(_RUN) + len(_RUN) :])


def _run_for_other_process() -> None:
    assert __spec__ is not None
    session = importlib.import_module(__spec__.name)  # its classes are pickled by this name, not as those of __main__
    candidate, selection, options = pickle.loads(sys.stdin.buffer.read())
    found = session.run(session.load_candidate(candidate), selection, **options)
    sys.stdout.flush()
    sys.stdout.buffer.write(_RUN + pickle.dumps(found))


def _slow_first(tasks: Sequence[Task]) -> list[Task]:
    """Tasks that are known to take long go first, so that no process is left with one at the end."""
    slow = ("conv", "attention", "pool", "modules")
    return sorted(tasks, key=lambda task: task.family not in slow)


def names_of(results: Iterable[OpResult]) -> list[str]:
    return [result.name for result in results]


__all__ = ["ALL_STAGES", "Run", "Selection", "all_tasks", "load_candidate", "run", "run_in_new_process", "torch"]


if __name__ == "__main__":
    _run_for_other_process()
