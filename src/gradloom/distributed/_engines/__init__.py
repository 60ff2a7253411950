"""Engines: what moves and reduces arrays between the processes of one group.

An engine belongs to one process group. It sees NumPy arrays only; process groups, tensors and asynchronous work stand
above it. `shm.SharedMemoryEngine` connects processes of one machine, `mpi.MPIEngine` those that MPI started.

Rules that all engines share:

- Collective calls of one group are made in the same order by all ranks, and by one thread at a time. `send`, `recv` and
  `abort` may be called from other threads meanwhile.
- Arrays are contiguous and have any dtype that a tensor can have, bfloat16, bool and complex included. The ranks pass
  equal sizes and dtypes; an engine refuses others where it notices them, and debug mode above it checks all of them.
- The elements of a result are the same bits on every rank: each is computed once, or in the order of the ranks.
- `deadline` is a value of `time.monotonic()`, or None to wait without end. A call that outlasts it raises CallTimeout.
- After an exception other than ValueError the ranks no longer agree about what comes next. The engine is broken then,
  and later calls raise the same exception. So is it in a forked process (Note [Forked processes]).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from .._forks import forked_error, tell_forks

__all__ = ["Aborted", "CallTimeout", "Engine", "Mismatch", "Op", "PeerLost", "host_key"]

# "sum", "avg", "product", "min", "max", "band", "bor", "bxor", or ("premul_sum", factor): the sum of all ranks' arrays,
# each multiplied by the factor (a number or an array that broadcasts) of its own rank.
Op = str | tuple[str, object]


class CallTimeout(TimeoutError):
    """A call outlasted its deadline.

    Attributes:
        missing: the ranks, within the group, that have not arrived; empty if the engine cannot tell.
    """

    def __init__(self, call: str, seconds: float, missing: Sequence[int]) -> None:
        self.missing = tuple(missing)
        who = f"ranks that did not arrive: {', '.join(map(str, missing))}" if missing else "all ranks arrived"
        super().__init__(f"{call} timed out after {seconds:.3g} seconds; {who}")


class PeerLost(ConnectionError):
    """The process of another rank ended, or closed its group, while it was waited for.

    Attributes:
        rank: the rank within the group.
    """

    def __init__(self, call: str, rank: int, how: str) -> None:
        self.rank = rank
        super().__init__(f"{call}: rank {rank} {how}")


class Aborted(RuntimeError):
    """The group was aborted, by another thread of this process, while a call was waiting."""


class Mismatch(RuntimeError):
    """The ranks called different collectives, or passed different sizes or dtypes.

    Args:
        text: says what the ranks did.
        sender: of a message that does not fit, the rank that sent it.
    """

    def __init__(self, text: str, sender: int | None = None) -> None:
        self.sender = sender
        super().__init__(text)


class Engine(ABC):
    """The connection of one process to the others of its group.

    Attributes:
        rank: number of this process within the group.
        size: number of processes.
        broken: raised by all calls, if there is one.
        is_forked: whether the engine is that of the parent process.
    """

    rank: int
    size: int
    broken: BaseException | None = None
    is_forked = False

    def __init__(self) -> None:
        tell_forks(self)

    def after_fork(self) -> None:
        """Leave the group to the parent process."""
        self.broken, self.is_forked = forked_error(), True

    @abstractmethod
    def allreduce(self, array: np.ndarray, op: Op, deadline: float | None = None) -> None:
        """Reduce the arrays of all ranks, and put the result into each of them."""

    @abstractmethod
    def broadcast(self, array: np.ndarray, root: int, deadline: float | None = None) -> None:
        """Copy root's array into those of the others."""

    @abstractmethod
    def reduce(self, array: np.ndarray, root: int, op: Op, deadline: float | None = None) -> None:
        """Reduce the arrays of all ranks into root's; the others' keep their values."""

    @abstractmethod
    def allgather(self, outs: Sequence[np.ndarray], array: np.ndarray, deadline: float | None = None) -> None:
        """Copy the array of rank i into `outs[i]` on every rank."""

    @abstractmethod
    def gather(
        self, outs: Sequence[np.ndarray] | None, array: np.ndarray, root: int, deadline: float | None = None
    ) -> None:
        """Copy the array of rank i into root's `outs[i]`; `outs` is None elsewhere."""

    @abstractmethod
    def scatter(
        self, array: np.ndarray, ins: Sequence[np.ndarray] | None, root: int, deadline: float | None = None
    ) -> None:
        """Copy root's `ins[i]` into the array of rank i; `ins` is None elsewhere."""

    @abstractmethod
    def reduce_scatter(self, out: np.ndarray, ins: Sequence[np.ndarray], op: Op, deadline: float | None = None) -> None:
        """Reduce `ins[i]` of all ranks into `out` of rank i. `out` may be this rank's own `ins[rank]`."""

    @abstractmethod
    def alltoall(self, outs: Sequence[np.ndarray], ins: Sequence[np.ndarray], deadline: float | None = None) -> None:
        """Copy `ins[j]` of rank i into `outs[i]` of rank j. The sizes of pairs may differ, and may be 0."""

    @abstractmethod
    def send(self, array: np.ndarray, dst: int, tag: int = 0, deadline: float | None = None) -> None:
        """Send an array to `dst`; return when `array` may be written to again."""

    @abstractmethod
    def recv(self, array: np.ndarray, src: int | None = None, tag: int = 0, deadline: float | None = None) -> int:
        """Receive into an array what `src`, or with None any rank, sends with this tag; return the sender."""

    @abstractmethod
    def barrier(self, deadline: float | None = None) -> None:
        """Return when all ranks have called it."""

    @abstractmethod
    def close(self) -> None:
        """Release memory and descriptors. Other ranks that wait for this one raise PeerLost."""

    @abstractmethod
    def abort(self) -> None:
        """Make the waiting and all later calls of this process raise Aborted. Call it from any thread."""


def host_key() -> str:
    """Return a string that is the same for two processes exactly if they can share memory through an engine."""
    import os
    import socket
    import sys

    if sys.platform != "linux":
        return socket.gethostname()
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    # Processes find each other's memory under /proc, so they must see each other's numbers.
    return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}/{os.getuid()}"
