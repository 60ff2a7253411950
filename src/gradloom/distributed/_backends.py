"""Which engine moves the data of a group: what a backend's name means on these machines."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.util import find_spec

from ._engines import Engine, host_key
from .stores import PrefixStore, Store

__all__ = ["has_mpi", "make_engine", "started_by_mpi"]

# By which a process knows that MPI started it: MPICH and Intel MPI, Open MPI, MVAPICH, Slurm's PMI.
_MPI_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")


def has_mpi() -> bool:
    """Return whether mpi4py is installed; MPI itself is loaded when a group first uses it."""
    return find_spec("mpi4py") is not None


def started_by_mpi() -> bool:
    """Return whether mpiexec, or a batch system, started this process as one of several."""
    return any(name in os.environ for name in _MPI_VARIABLES)


def make_engine(
    backend: str, store: Store, rank: int, size: int, ranks: Sequence[int], group_name: str, deadline: float | None
) -> Engine:
    """Connect the ranks of a group.

    Args:
        backend: "shm", "mpi", "sockets", or "gloo" to choose.
        store: where the ranks find each other; no other group uses these keys.
        rank, size: of the group.
        ranks: the ranks' numbers in the default group.
        group_name: name of the group, the same on all ranks.
        deadline: when to give up, by `time.monotonic`.

    Raises:
        DistBackendError: if the backend does not fit these machines, or ranks do not come.
    """
    if backend == "gloo":
        backend = _chosen(store, rank, size)
    if backend == "shm":
        from ._engines.shm import SharedMemoryEngine

        return SharedMemoryEngine(PrefixStore("shm", store), rank, size, "", deadline)
    if backend == "mpi":
        from ._engines.mpi import connect

        return connect(list(ranks), group_name, deadline)
    from ._engines.sockets import SocketEngine

    return SocketEngine(PrefixStore("sockets", store), rank, size, deadline)


def prepare(backend: str, size: int, deadline: float | None) -> None:
    """Do what all ranks must do together before some of them make a group.

    Args:
        backend: of the group.
        size: number of ranks of the default group.
        deadline: when to give up, by `time.monotonic`.
    """
    if backend == "mpi":
        from ._engines import mpi

        if mpi._world is None:
            mpi.connect(range(size), "all ranks", deadline)


def _chosen(store: Store, rank: int, size: int) -> str:
    """Return the backend that fits; all ranks come to the same result."""
    usable = started_by_mpi() and has_mpi()
    store.set(f"host/{rank}", json.dumps([host_key(), usable]))
    found = [json.loads(text) for text in store.multi_get([f"host/{other}" for other in range(size)])]
    if all(host == found[0][0] for host, _ in found):
        return "shm"
    return "mpi" if all(mpi for _, mpi in found) else "sockets"
