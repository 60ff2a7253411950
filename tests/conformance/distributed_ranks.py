"""One rank that runs PyTorch's tests of torch.distributed on gradloom, one after the other; torchrun or mpiexec starts
it.

BACKEND of the environment, "gloo" or "mpi", says what PyTorch's file skips; the argument, what moves the data. The
results of rank r go to `<folder>/<r>.json`: by name of the test, "passed", "skipped: ..." or the traceback.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import unittest
from datetime import timedelta
from pathlib import Path
from typing import Any

import gradloom.as_torch  # noqa: F401

LIMIT = 20  # seconds for each call


def cases(module: Any) -> type:
    """Return a class with PyTorch's tests, for ranks that exist already."""

    class Case(module.DistributedTest._DistTestBase, module.TestDistBackend):
        setUp = unittest.TestCase.setUp
        tearDown = unittest.TestCase.tearDown
        world_size = int(os.environ["WORLD_SIZE"])
        rank = int(os.environ["RANK"])

        def __init__(self, name: str) -> None:
            unittest.TestCase.__init__(self, name)
            self.file_name = os.path.join(os.environ["TEMP_DIR"], "file")

        def _barrier(self, *args: Any, **kwargs: Any) -> None:
            Case.barriers += 1
            Case.store.barrier(f"{self._testMethodName}/{Case.barriers}", self.world_size, timedelta(seconds=2 * LIMIT))

        barriers = 0

    return Case


def names(case: type) -> list[str]:
    return list(unittest.TestLoader().getTestCaseNames(case))


def run_one(case: Any, name: str, number: int, store: Any, backend: str) -> str:
    """Run a test in a default group of its own, and return what came of it."""
    import torch
    import torch.distributed as dist

    method = getattr(case, name)
    if getattr(method, "__unittest_skip__", False) or getattr(case, "__unittest_skip__", False):
        return f"skipped: {getattr(method, '__unittest_skip_why__', '')}"
    rank, size = case.rank, case.world_size
    timeout = timedelta(seconds=LIMIT)
    prefixed = dist.PrefixStore(f"{name}/{number}", store)
    dist.init_process_group(backend, store=prefixed, rank=rank, world_size=size, timeout=timeout)
    found, case.barriers = "passed", 0
    torch.manual_seed(1234)
    try:
        getattr(case(name), name)()
    except unittest.SkipTest as skipped:
        found = f"skipped: {skipped}"
    except SystemExit as ended:
        found = f"skipped: exit {ended.code}" if ended.code else "passed"
    except BaseException:
        found = traceback.format_exc()
    store.barrier(f"after/{number}", size, 3 * timeout)  # as PyTorch's runner waits
    try:
        if dist.is_initialized():
            if found == "passed" or found.startswith("skipped"):
                dist.destroy_process_group()
            else:
                from torch.distributed.distributed_c10d import _abort_process_group

                _abort_process_group()
    except BaseException:
        found = found if found != "passed" else traceback.format_exc()
        dist.distributed_c10d._world.__init__()
    return found


def main(folder: str, backend: str, wanted: list[str]) -> None:
    import torch.distributed as dist

    from tests.conformance.distributed_loading import load

    if "RANK" not in os.environ:  # mpiexec has started this
        from mpi4py import MPI

        os.environ["RANK"] = str(MPI.COMM_WORLD.Get_rank())
        os.environ["WORLD_SIZE"] = str(MPI.COMM_WORLD.Get_size())
    case: Any = cases(load())
    store = case.store = dist.FileStore(f"{folder}/store", case.world_size)
    limit = timedelta(seconds=300)
    rank, results = os.environ["RANK"], {}
    path = Path(folder, f"{rank}.json")
    for number, name in enumerate(wanted or names(case)):
        store.barrier(f"start/{number}", case.world_size, limit)
        results[name] = run_one(case, name, number, store, backend)
        path.write_text(json.dumps(results))
    store.barrier("end", case.world_size, limit)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
