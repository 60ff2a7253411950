"""Collectives through MPI, for processes on one or many machines that MPI started.

Note [Waiting for MPI]
A call is started in its nonblocking form and tested until it is complete, so that a deadline can end it: MPI itself
waits for ever. MPI makes progress in calls only; so the tests follow each other closely at first, then with sleeps in
proportion to what was waited.

MPI does not say who is missing. Every engine has a second communicator, on which a rank that gave up asks the others
for the number of the call that they are in. Ranks that wait answer between two tests; who does not answer in time, or
is in an earlier call, is missing.

An operation that was started cannot be withdrawn, and MPI_Finalize would wait for it. So a process with a broken
engine, or with an exception that nobody caught, ends all by MPI_Abort when it exits, after its traceback was printed.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from zlib import crc32

import numpy as np

from ..errors import DistBackendError
from . import Aborted, CallTimeout, Engine, Mismatch, Op
from .reduction import Reduction

__all__ = ["MPIEngine", "connect"]

_CLOSELY = 2e-3  # seconds of testing without sleeping
_PATIENCE = 0.5  # seconds in which ranks must answer where they are
_ASK, _ANSWER, _MEET = 1, 2, 3  # tags of control messages
_unfinished: list[Any] = []  # what MPI may still write to, of calls that were given up: until the process ends


def _mpi() -> Any:
    """Return mpi4py's module, with MPI initialized.

    Raises:
        ModuleNotFoundError: it is not installed.
        RuntimeError: this MPI does not let several threads call it.
        DistBackendError: in a process that was forked from one that uses MPI.
    """
    if _is_forked:
        raise DistBackendError("MPI cannot be used in a process that was forked from one that uses it")
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ModuleNotFoundError(
            'the backend "mpi" needs mpi4py and an MPI: pip install "gradloom[distributed]"'
        ) from error
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise RuntimeError("this MPI does not support calls from several threads (MPI_THREAD_MULTIPLE)")
    return MPI


class MPIEngine(Engine):
    """The processes of an MPI communicator. Make one by `world` or `subgroup`.

    Attributes:
        rank, size: of the communicator.
    """

    def __init__(self, comm: Any, control: Any) -> None:
        super().__init__()
        self._mpi = _mpi()
        self._comm, self._control = comm, control
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._number = 0  # of collective calls
        self._answers: dict[int, int] = {}
        self._types: dict[np.dtype, Any] = {}
        self._custom: dict[tuple[str, np.dtype], Any] = {}
        for one in (comm, control):
            one.Set_errhandler(self._mpi.ERRORS_RETURN)
        _end_together(self)

    @classmethod
    def world(cls, deadline: float | None = None) -> MPIEngine:
        """Return an engine of all processes that MPI started. All of them call this."""
        mpi = _mpi()
        copies = [mpi.COMM_WORLD.Idup() for _ in range(2)]
        begun = time.monotonic()
        while not mpi.Request.Testall([request for _, request in copies]):
            if deadline is not None and time.monotonic() >= deadline:
                _unfinished.append(copies)
                _end_together(None)
                raise CallTimeout("init_process_group", time.monotonic() - begun, [])
            _pause(time.monotonic() - begun)
        found = cls(copies[0][0], copies[1][0])
        found.barrier(deadline)
        _unlink_shared_memory()
        return found

    def subgroup(self, ranks: Sequence[int], number: int, deadline: float | None = None) -> MPIEngine:
        """Return an engine of some ranks of this one, in the given order. Those ranks call this, and no others.

        Args:
            ranks: numbers within this engine; the caller's is one of them.
            number: the same on all ranks, and another than that of groups that are made at the same time.
            deadline: when to give up on the others.
        """
        if self.broken is not None:
            raise self.broken
        self._meet(ranks, number, deadline)
        group = self._control.Get_group().Incl(list(ranks))
        comm = self._control.Create_group(group, tag=number % 32768)
        return MPIEngine(comm, comm.Dup())

    def _meet(self, ranks: Sequence[int], number: int, deadline: float | None) -> None:
        """Wait until all ranks have come: what makes a communicator has no deadline."""
        tag, first = _MEET + 1 + number % 32768, ranks[0]
        token = np.zeros(1, np.uint8)
        others = [rank for rank in ranks if rank != first]
        if self.rank == first:
            arrived = {rank: self._control.Irecv(np.empty(1, np.uint8), rank, tag) for rank in others}
            requests = list(arrived.values())
        else:
            requests = [self._control.Isend(token, first, tag)]
        begun = time.monotonic()
        while not self._mpi.Request.Testall(requests):
            if deadline is not None and time.monotonic() >= deadline:
                missing = [rank for rank, request in zip(others, requests, strict=False) if not request.Test()]
                raise self._fail(CallTimeout("new_group", time.monotonic() - begun, missing), requests)
            _pause(time.monotonic() - begun)
        requests = (
            [self._control.Isend(token, rank, tag) for rank in others]
            if self.rank == first
            else [self._control.Irecv(token, first, tag)]
        )
        self._wait("new_group", self._mpi.Request.Testall, requests, deadline, [first], token)

    # --- waiting --------------------------------------------------------------------------------------------------

    def _collective(self, call: str, start: Any, deadline: float | None, *kept: Any) -> None:
        """Start a collective by `start()`, which returns a request, and wait for it."""
        if self.broken is not None:
            raise self.broken
        self._number += 1
        request = start()
        self._wait(call, request.Test, request, deadline, None, *kept)

    def _wait(
        self, call: str, test: Any, request: Any, deadline: float | None, peers: Sequence[int] | None, *kept: Any
    ) -> None:
        """Test a request until it is complete.

        Args:
            call: name of the collective, for errors.
            test: returns whether the request is complete; takes the requests if there are several.
            request: one or several.
            deadline: of the call.
            peers: who is missing when it is not complete in time; None to ask.
            kept: what MPI reads and writes.
        """
        begun = time.monotonic()
        listed = isinstance(request, list)
        while not (test(request) if listed else test()):
            now = time.monotonic()
            if self.broken is not None:
                _unfinished.append((request, kept))
                raise self.broken
            if deadline is not None and now >= deadline:
                missing = self._missing() if peers is None else peers
                raise self._fail(CallTimeout(call, now - begun, missing), request, *kept)
            if now - begun > _CLOSELY:
                self._answer()
            _pause(now - begun)

    def _fail(self, error: BaseException, *kept: Any) -> BaseException:
        _unfinished.append(kept)
        if self.broken is None:
            self.broken = error
        return error

    def _answer(self) -> None:
        """Answer ranks that ask for the number of this rank's call, and note what others answer."""
        status = self._mpi.Status()
        while self._control.Iprobe(self._mpi.ANY_SOURCE, _ASK, status):
            number = np.empty(1, np.int64)
            self._control.Recv(number, status.Get_source(), _ASK)
            reply = np.array([self._number], np.int64)
            _unfinished.append((reply, self._control.Isend(reply, status.Get_source(), _ANSWER)))
            self._answers[status.Get_source()] = int(number[0])
        while self._control.Iprobe(self._mpi.ANY_SOURCE, _ANSWER, status):
            number = np.empty(1, np.int64)
            self._control.Recv(number, status.Get_source(), _ANSWER)
            self._answers[status.Get_source()] = int(number[0])

    def _missing(self) -> list[int]:
        """Ask the others for the number of their call, and return the ranks that are in an earlier one."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        for rank in others:
            number = np.array([self._number], np.int64)
            _unfinished.append((number, self._control.Isend(number, rank, _ASK)))
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and any(self._answers.get(rank, -1) < self._number for rank in others):
            self._answer()
            time.sleep(1e-3)
        return [rank for rank in others if self._answers.get(rank, -1) < self._number]

    # --- types and operations -------------------------------------------------------------------------------------

    def _type(self, dtype: np.dtype) -> Any:
        """Return MPI's type for elements of a dtype; of those that MPI does not know, one of as many bytes."""
        found = self._types.get(dtype)
        if found is None:
            mpi = self._mpi
            if dtype.kind in "biufc" and dtype.itemsize > 2 or dtype.kind in "biu":
                found = mpi._typedict[dtype.char]
            else:
                found = mpi.BYTE.Create_contiguous(dtype.itemsize).Commit()
            self._types[dtype] = found
        return found

    def _op(self, name: str, dtype: np.dtype) -> Any:
        """Return MPI's operation for a reduction, or one that calls NumPy where MPI has none for the dtype."""
        mpi = self._mpi
        if dtype.kind == "b":
            return {"sum": mpi.LOR, "max": mpi.LOR, "bor": mpi.LOR, "bxor": mpi.LXOR}.get(name, mpi.LAND)
        if dtype.kind in "iu" or (dtype.itemsize > 2 and dtype.kind in ("fc" if name != "product" else "f")):
            named = {"product": mpi.PROD, "min": mpi.MIN, "max": mpi.MAX, "band": mpi.BAND, "bor": mpi.BOR,
                     "bxor": mpi.BXOR}  # fmt: skip
            return named.get(name, mpi.SUM)
        name = "sum" if name in ("avg", "premul_sum") else name
        found = self._custom.get((name, dtype))
        if found is None:
            pair = Reduction(name, dtype, 2)

            def combine(source: Any, target: Any, datatype: Any) -> None:
                out = np.frombuffer(target, dtype)
                pair.reduce(out, [np.frombuffer(source, dtype), out])

            found = self._custom[name, dtype] = mpi.Op.Create(combine, commute=True)
        return found

    def _buffer(self, array: np.ndarray) -> list[Any]:
        return [array, array.size, self._type(array.dtype)]

    # --- collectives ----------------------------------------------------------------------------------------------

    def barrier(self, deadline: float | None = None) -> None:
        self._collective("barrier", self._comm.Ibarrier, deadline)

    def allreduce(self, array: np.ndarray, op: Op, deadline: float | None = None) -> None:
        reduction = Reduction(op, array.dtype, self.size)
        if not array.size:
            return self.barrier(deadline)
        if array.dtype.kind == "c" and reduction.name == "product":  # a * b and b * a may be rounded differently
            self.reduce(array, 0, op, deadline)
            return self.broadcast(array, 0, deadline)
        source = reduction.exchanged(array)
        target = array if source.dtype == array.dtype else np.empty_like(source)
        given = self._mpi.IN_PLACE if source is target else self._buffer(source)
        operation = self._op(reduction.name, source.dtype)
        self._collective(
            "all_reduce",
            lambda: self._comm.Iallreduce(given, self._buffer(target), operation),
            deadline,
            target,
            source,
        )
        reduction.finish(target, array)

    def reduce(self, array: np.ndarray, root: int, op: Op, deadline: float | None = None) -> None:
        reduction = Reduction(op, array.dtype, self.size)
        if not array.size:
            return self.barrier(deadline)
        source = np.array(reduction.exchanged(array))
        found = array if source.dtype == array.dtype else np.empty_like(source)
        target = self._buffer(found) if self.rank == root else None
        operation = self._op(reduction.name, source.dtype)
        self._collective(
            "reduce", lambda: self._comm.Ireduce(self._buffer(source), target, operation, root), deadline, found, source
        )
        if self.rank == root:
            reduction.finish(found, array)

    def reduce_scatter(self, out: np.ndarray, ins: Sequence[np.ndarray], op: Op, deadline: float | None = None) -> None:
        reduction = Reduction(op, out.dtype, self.size)
        if not out.size:
            return self.barrier(deadline)
        source = np.concatenate([reduction.exchanged(one.reshape(-1)) for one in ins])
        target = np.empty(out.shape, source.dtype)
        operation = self._op(reduction.name, source.dtype)
        self._collective(
            "reduce_scatter",
            lambda: self._comm.Ireduce_scatter_block(
                [source, target.size, self._type(source.dtype)], self._buffer(target), operation
            ),
            deadline,
            source,
            target,
        )
        reduction.finish(target, out)

    def broadcast(self, array: np.ndarray, root: int, deadline: float | None = None) -> None:
        flat = _bytes(array)
        self._collective("broadcast", lambda: self._comm.Ibcast(flat, root), deadline, flat)

    def allgather(self, outs: Sequence[np.ndarray], array: np.ndarray, deadline: float | None = None) -> None:
        flat, (target, sizes) = _bytes(array), _room(outs)
        self._collective("all_gather", lambda: self._comm.Iallgatherv(flat, [target, sizes]), deadline, flat, target)
        _spread(target, outs)

    def gather(
        self, outs: Sequence[np.ndarray] | None, array: np.ndarray, root: int, deadline: float | None = None
    ) -> None:
        flat, room = _bytes(array), None if outs is None else _room(outs)
        target = None if room is None else list(room)
        self._collective("gather", lambda: self._comm.Igatherv(flat, target, root), deadline, flat, target)
        if outs is not None and room is not None:
            _spread(room[0], outs)

    def scatter(
        self, array: np.ndarray, ins: Sequence[np.ndarray] | None, root: int, deadline: float | None = None
    ) -> None:
        flat = _bytes(array)
        source = None if ins is None else [np.concatenate([_bytes(one) for one in ins]), [one.nbytes for one in ins]]
        self._collective("scatter", lambda: self._comm.Iscatterv(source, flat, root), deadline, flat, source)

    def alltoall(self, outs: Sequence[np.ndarray], ins: Sequence[np.ndarray], deadline: float | None = None) -> None:
        source, (target, sizes) = np.concatenate([_bytes(one) for one in ins]), _room(outs)
        given = [source, [one.nbytes for one in ins]]
        self._collective("all_to_all", lambda: self._comm.Ialltoallv(given, [target, sizes]), deadline, source, target)
        _spread(target, outs)

    # --- messages -------------------------------------------------------------------------------------------------

    def send(self, array: np.ndarray, dst: int, tag: int = 0, deadline: float | None = None) -> None:
        if self.broken is not None:
            raise self.broken
        flat = _bytes(array)
        request = self._comm.Isend(flat, dst, tag)
        self._wait("send", request.Test, request, deadline, [dst], flat)

    def recv(self, array: np.ndarray, src: int | None = None, tag: int = 0, deadline: float | None = None) -> int:
        if self.broken is not None:
            raise self.broken
        flat, status, begun = _bytes(array), self._mpi.Status(), time.monotonic()
        source = self._mpi.ANY_SOURCE if src is None else src
        # A message is taken when it is there, so that a call that gives up leaves nothing behind.
        while (message := self._comm.Improbe(source, tag, status)) is None:
            now = time.monotonic()
            if self.broken is not None:
                raise self.broken
            if deadline is not None and now >= deadline:
                peers = [rank for rank in range(self.size) if rank != self.rank] if src is None else [src]
                raise CallTimeout("recv", now - begun, peers)
            _pause(now - begun)
        count = status.Get_count(self._mpi.BYTE)
        target = flat if count == flat.size else np.empty(count, np.uint8)
        request = message.Irecv(target)
        self._wait("recv", request.Test, request, deadline, [status.Get_source()], target)
        if target is not flat:
            sender = int(status.Get_source())
            raise Mismatch(f"rank {sender} sent {count} bytes, but recv expects {flat.size}", sender)
        return int(status.Get_source())

    def close(self) -> None:
        if self.broken is None:
            self.broken = RuntimeError("the process group was destroyed")
            self._comm.Free()

    def after_fork(self) -> None:
        global _world, _is_forked
        super().after_fork()
        _world, _is_forked = None, True
        _engines.clear()  # this process does not end the others

    def abort(self) -> None:
        self._fail(Aborted("the process group was aborted"))


def _unlink_shared_memory() -> None:
    """Remove the names of MPICH's shared memory, which all processes of this machine have mapped.

    MPICH itself removes them when it ends in order; after MPI_Abort or a signal they would stay in /dev/shm.
    """
    with suppress(OSError), open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/dev/shm/")[2]
            if path.startswith("mpich_shm_") and not path.endswith("(deleted)"):
                with suppress(OSError):
                    os.unlink(f"/dev/shm/{path}")


_world: MPIEngine | None = None
_is_forked = False  # from a process that uses MPI


def connect(ranks: Sequence[int], name: str, deadline: float | None = None) -> MPIEngine:
    """Return an engine of some of the processes that MPI started. Those call this, and no others.

    Args:
        ranks: their numbers in MPI_COMM_WORLD, in the order of the group. In the first call of a process, all.
        name: of the group, the same on all its ranks.
        deadline: when to give up on the others.
    """
    global _world
    if _world is None:
        _world = MPIEngine.world(deadline)
    return _world.subgroup(ranks, crc32(name.encode()), deadline)


def _bytes(array: np.ndarray) -> np.ndarray:
    """Return a contiguous array as bytes, shape (nbytes,)."""
    return array.reshape(-1).view(np.uint8)


def _room(outs: Sequence[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """Return a buffer for the bytes of all arrays, one behind the other, and how many each has.

    It is the arrays' own memory if they lie so.
    """
    sizes = [one.nbytes for one in outs]
    start, base = outs[0].ctypes.data, outs[0].base
    adjacent = base is not None and isinstance(base, np.ndarray) and base.flags.c_contiguous
    at = start
    for one in outs:
        adjacent = adjacent and one.base is base and one.ctypes.data == at
        at += one.nbytes
    if adjacent:
        offset = start - base.ctypes.data  # type: ignore[union-attr]
        return _bytes(base)[offset : offset + sum(sizes)], sizes  # type: ignore[arg-type]
    return np.empty(sum(sizes), np.uint8), sizes


def _spread(source: np.ndarray, outs: Sequence[np.ndarray]) -> None:
    """Copy the bytes of a buffer into arrays, unless it is their memory."""
    at = 0
    for one in outs:
        if one.nbytes and source.ctypes.data + at != one.ctypes.data:
            _bytes(one)[...] = source[at : at + one.nbytes]
        at += one.nbytes


def _pause(waited: float) -> None:
    """Let others run: other processes of this machine at once, and the processor rest after a while."""
    if waited < _CLOSELY:
        os.sched_yield()
    else:
        time.sleep(min(waited / 16, 2e-3))


_engines: list[MPIEngine | None] = []  # all that this process made, for its end


def _end_together(engine: MPIEngine | None) -> None:
    """Have this process end all by MPI_Abort if an engine is broken when it exits. See Note [Waiting for MPI]."""
    if not _engines:
        atexit.register(_at_exit)
    _engines.append(engine)


def _at_exit() -> None:
    failed = any(one is None or isinstance(one.broken, (TimeoutError, Mismatch, Aborted)) for one in _engines)
    if failed or hasattr(sys, "last_value"):
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(0.5)  # mpiexec drops what it has not read when it learns of the abort, such as a traceback
        _mpi().COMM_WORLD.Abort(1)
