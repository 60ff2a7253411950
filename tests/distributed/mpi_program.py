"""A program that mpiexec starts: `mpi_program.py CHECK`. Rank 0 prints what the check found."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from mpi4py import MPI

from gradloom.distributed._engines import Aborted, CallTimeout, Mismatch
from gradloom.distributed._engines.mpi import MPIEngine, connect
from gradloom.distributed.errors import DistBackendError
from tests.distributed import engine_checks
from tests.waiting import forked

COUNTS = (0, 7, 70_001)


def everything(world: MPIEngine) -> list[str]:
    wrong = engine_checks.reductions(world, COUNTS) + engine_checks.movements(world, COUNTS)
    return wrong + (engine_checks.messages(world) if world.size > 1 else [])


def agreements(world: MPIEngine) -> list[str]:
    return engine_checks.agreements(world)


def subgroups(world: MPIEngine) -> list[str]:
    """Groups of some ranks, in another order than the world's, beside each other."""
    wrong = []
    for number, ranks in enumerate(([2, 0], [1], [1, 2], [2, 1, 0])):
        if world.rank in ranks:
            group = connect(ranks, f"group {number}", engine_checks.deadline())
            if (group.rank, group.size) != (ranks.index(world.rank), len(ranks)):
                wrong.append(f"rank {group.rank} of {group.size} in {ranks}")
            wrong += engine_checks.reductions(group, (7,))
            group.close()
    return wrong


def late(world: MPIEngine) -> list[str]:
    """Rank 1 is late, and the others name it."""
    world.barrier(engine_checks.deadline())
    if world.rank == 1:
        time.sleep(600)
    try:
        world.allreduce(np.ones(3), "sum", time.monotonic() + 2)
    except CallTimeout as error:
        line = f"rank {world.rank}: missing {error.missing}: {error}\n"
        sys.stdout.write(line)  # in one write, because mpiexec joins what the ranks write
        sys.stdout.flush()
        other = 2 - world.rank
        MPI.COMM_WORLD.sendrecv(None, other, source=other)  # a rank that ends, ends all: let the other write, too
        raise
    return ["no timeout"]


def other_size(world: MPIEngine) -> list[str]:
    if world.rank == 0:
        try:
            world.recv(np.ones(3), 1, 0, engine_checks.deadline())
        except Mismatch as error:
            return [] if "sent 32 bytes, but recv expects 24" in str(error) else [str(error)]
        return ["no error"]
    world.send(np.ones(4), 0, 0, engine_checks.deadline())
    return []


def aborted(world: MPIEngine) -> list[str]:
    import threading

    if world.rank == 0:
        threading.Timer(0.2, world.abort).start()
        try:
            world.recv(np.ones(3), 1, 0, engine_checks.deadline())
        except Aborted:
            print("aborted", flush=True)
            raise
    time.sleep(600)
    return []


def names(world: MPIEngine) -> list[str]:
    """Print the names of the shared memory that this process has mapped, and abort."""
    world.allreduce(np.ones(100_000), "sum", engine_checks.deadline())
    maps = Path("/proc/self/maps").read_text().splitlines()
    if world.rank == 0:
        print("names:", [line for line in maps if "/dev/shm/" in line and not line.endswith("(deleted)")], flush=True)
    raise RuntimeError("ends all by MPI_Abort")


def uncaught(world: MPIEngine) -> list[str]:
    if world.rank == 1:
        raise ZeroDivisionError("a defect of rank 1")
    world.barrier()
    return []


def forks(world: MPIEngine) -> list[str]:
    """Calls in a forked process raise, and neither they nor its end change what the ranks get."""
    calls = [
        lambda: world.allreduce(np.ones(3), "sum", engine_checks.deadline()),
        lambda: world.send(np.ones(3), 1 - world.rank),
        lambda: world.recv(np.ones(3), 1 - world.rank),
        lambda: world.barrier(engine_checks.deadline()),
        lambda: world.subgroup([0, 1], 1, engine_checks.deadline()),
        lambda: connect([0, 1], "new", engine_checks.deadline()),
    ]

    def child() -> int:
        accepted = 0
        for call in calls:
            try:
                call()
            except DistBackendError as error:
                accepted += "forked" not in str(error)
            else:
                accepted += 1
        world.abort()
        world.close()
        return accepted

    wrong = []
    for step in range(5):
        wrong += [f"accepted {count}" for count in [forked(child)] if count]
        total = np.full(3, world.rank + step)
        world.allreduce(total, "sum", engine_checks.deadline())
        wrong += [] if (total == 2 * step + 1).all() else [str(total)]
    return wrong


if __name__ == "__main__":
    started = MPIEngine.world(engine_checks.deadline())
    engine = connect(range(started.size), "world", engine_checks.deadline())
    found = globals()[sys.argv[1]](engine)
    outs = [np.empty(1, np.int64) for _ in range(engine.size)]
    engine.allgather(outs, np.array([len(found)]), engine_checks.deadline())
    if found:
        print(engine.rank, found[:20])
    if engine.rank == 0:
        print("wrong:", sum(int(one[0]) for one in outs))
