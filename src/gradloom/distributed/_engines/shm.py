"""Collectives through memory that the processes of one machine share.

Note [Steps]
A collective is a number of steps, which every rank derives from the sizes. In a step a rank publishes up to CHUNK bytes
in its slot, then reads what others published. Its COUNTER, increased when a step is published, says two things: that
the chunk of step k is there, and that this rank has read what it wanted from all steps before k.

A slot has two chunks, for even and odd steps. So a rank may publish step k when all others have counted k - 1: they
have read step k - 2, whose chunk is overwritten. Ranks that only give (to a root) go on without waiting; ranks that
read wait for those that they read from.

Every call starts with a step whose head has a signature: call, dtype, root, operation and number of bytes. A rank
compares the signatures of those that it reads from, and raises Mismatch where they differ from its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from . import Aborted, CallTimeout, Engine, Mismatch, Op, PeerLost, host_key
from ._mailbox import Mail
from ._segment import BELL, CHUNK, CLOSED, COUNTER, LINE, OPEN, PID, STATE, Segment, offered, opened
from .reduction import OPS, Reduction
from .waiting import fence, has_ended, sleep_on, wake

__all__ = ["SharedMemoryEngine"]

_CALLS = (
    "barrier", "all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
)  # fmt: skip
_SMALL = 1 << 17  # bytes below which each rank reduces all, in one step, rather than its share
_SPINS = 300  # looks at a counter before sleeping, about 20 microseconds
_LOOK = 0.05  # seconds between looks at the other processes


class SharedMemoryEngine(Engine):
    """Connect processes of one machine by shared memory. See Note [Steps], Note [Shared segment].

    Args:
        store: where the processes find each other, with PyTorch's methods `set`, `get` and `delete_key`.
        rank: number of this process.
        size: number of processes.
        prefix: of the keys in the store; the same on all ranks, and new for each group.
        deadline: when to give up on the others.

    Raises:
        CallTimeout: some rank did not come.
        RuntimeError: the processes are not on the same machine, or may not open each other's memory.
    """

    def __init__(self, store: Any, rank: int, size: int, prefix: str = "", deadline: float | None = None) -> None:
        super().__init__()
        self.rank, self.size = rank, size
        self._others = tuple(r for r in range(size) if r != rank)
        self._step = 0
        self._call = "init_process_group"
        self._typed: dict[np.dtype, Any] = {}
        self._started = time.monotonic()
        self._segment = Segment(size, rank)
        self._join(store, f"{prefix}/shm", deadline)
        self._spins = _SPINS if size <= _cores() else 0
        self._mail = Mail(self._segment, self)

    def _join(self, store: Any, key: str, deadline: float | None) -> None:
        segment = self._segment
        done = None
        if self.rank == 0:
            path, done = offered(segment)
            store.set(key, f"{host_key()}\n{path}")
        else:
            host, _, path = bytes(store.get(key)).decode().partition("\n")
            if host != host_key():
                raise RuntimeError('the backend "shm" connects processes of one machine and user; use "mpi"')
            try:
                opened(segment, path)
            except OSError as error:
                raise RuntimeError(f'cannot open the memory of rank 0 ({error}); use the backend "mpi"') from error
        self._words, self._longs = segment.words, segment.longs
        line = segment.line(self.rank) // 4
        self._words[line + PID] = os.getpid()
        fence()
        self._words[line + STATE] = OPEN
        wake(segment.address + (line + STATE) * 4)
        try:
            for rank in self._others:
                self._wait_for(partial(self._state, rank), rank, STATE, deadline)
        finally:
            if done is not None:
                done()
        if self.rank == 0:
            store.delete_key(key)

    # --- waiting --------------------------------------------------------------------------------------------------

    def _state(self, rank: int) -> int:
        return self._words[rank * (LINE // 4) + STATE]

    def _counted(self, rank: int, step: int) -> bool:
        """Return whether a rank has published a step. Counters have 32 bits, so distances are compared."""
        return (self._words[rank * (LINE // 4) + COUNTER] - step) & 0x80000000 == 0

    def _await(self, ranks: Iterable[int], step: int, deadline: float | None) -> None:
        """Wait until ranks have published a step."""
        for rank in ranks:
            if not self._counted(rank, step):
                for _ in range(self._spins):
                    if self._counted(rank, step):
                        break
                else:
                    self._wait_for(partial(self._counted, rank, step), rank, COUNTER, deadline, step)
        fence()

    def _wait_for(
        self, found: Callable[[], object], rank: int, word: int, deadline: float | None, step: int | None = None
    ) -> None:
        index = rank * (LINE // 4) + word
        address, begun, slice_ = self._segment.address + 4 * index, time.monotonic(), 1e-3
        while True:
            seen = self._words[index]
            if found():
                return
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                missing = [r for r in self._others if not (self._state(r) if step is None else self._counted(r, step))]
                raise self.fail(CallTimeout(self._call, now - self._started, missing))
            left = slice_ if deadline is None else min(slice_, deadline - now)
            sleep_on(address, seen, left, now - begun)
            slice_ = min(2 * slice_, _LOOK)
            if slice_ == _LOOK:
                self._check(self._call, rank, found)

    def _check(self, call: str, rank: int, found: Callable[[], object]) -> None:
        """Raise if this engine is broken, or if a rank that is waited for is gone."""
        if self.broken is not None:
            raise self.broken
        how = self.gone(rank)
        if how is not None and not found():
            raise self.fail(PeerLost(call, rank, how))

    def gone(self, rank: int) -> str | None:
        """Return how a rank went away, or None while it is there."""
        if self._state(rank) == CLOSED:
            return "closed its process group"
        pid = self._words[rank * (LINE // 4) + PID]
        return f"(process {pid}) has ended" if pid and pid != os.getpid() and has_ended(pid) else None

    def fail(self, error: BaseException) -> BaseException:
        """Make this and all later calls raise an error, and the others notice that this rank is gone."""
        if self.broken is None:
            self.broken = error
            self._leave()
        return error

    def _leave(self) -> None:
        line = self._segment.line(self.rank)
        self._words[line // 4 + STATE] = CLOSED
        for word in (COUNTER, STATE):
            wake(self._segment.address + line + 4 * word)
        for rank in self._others:
            wake(self._segment.address + self._segment.line(rank) + 4 * BELL)

    # --- steps ----------------------------------------------------------------------------------------------------

    def _begin(self, call: str, nbytes: int, dtype: np.dtype | None, extra: int, deadline: float | None) -> None:
        """Start a call: wait until its first step may be published, and write its signature."""
        if self.broken is not None:
            raise self.broken
        self._call, self._started = call, time.monotonic()
        self._await(self._others, self._step & 0xFFFFFFFF, deadline)
        head = self._segment.head(self.rank, (self._step + 1) & 1) // 8
        kind = 0 if dtype is None else ord(dtype.char) << 8 | dtype.itemsize << 16
        self._longs[head] = _CALLS.index(call) | kind | extra << 24
        self._longs[head + 1] = nbytes

    def _publish(self, deadline: float | None) -> int:
        """Count a step whose chunk is written, and return its number."""
        self._step = step = (self._step + 1) & 0xFFFFFFFF
        index = self.rank * (LINE // 4) + COUNTER
        fence()
        self._words[index] = step
        wake(self._segment.address + 4 * index)
        return step

    def _agree(self, ranks: Iterable[int], sizes: bool = True) -> None:
        """Compare the signatures of the ranks' current call with this rank's own."""
        longs, parity = self._longs, self._step & 1
        own = self._segment.head(self.rank, parity) // 8
        for rank in ranks:
            head = self._segment.head(rank, parity) // 8
            if longs[head] != longs[own] or (sizes and longs[head + 1] != longs[own + 1]):
                theirs, mine = (_described(longs[at], longs[at + 1]) for at in (head, own))
                raise self.fail(Mismatch(f"rank {rank} called {theirs}, but rank {self.rank} {mine}"))

    def _arrays(self, dtype: np.dtype) -> tuple[list[list[np.ndarray]], list[list[np.ndarray]]]:
        found = self._typed.get(dtype)
        if found is None:
            found = self._typed[dtype] = self._segment.arrays(dtype)
        return found

    def _run(
        self,
        steps: int,
        write: Callable[[int, int], None] | None,
        sources: Sequence[int],
        read: Callable[[int, int], None] | None,
        deadline: float | None,
    ) -> None:
        """Run the steps of a call that has begun.

        Args:
            steps: their number, at least 1.
            write: called with the number of the step and the parity of the chunk to write.
            sources: the ranks that `read` reads from.
            read: called likewise, when all sources have published the step.
            deadline: of the call.
        """
        for number in range(steps):
            if number:
                self._await(self._others, self._step, deadline)
            if write is not None:
                write(number, (self._step + 1) & 1)
            step = self._publish(deadline)
            if read is not None:
                self._await(sources, step, deadline)
                if not number:
                    self._agree(sources)
                read(number, step & 1)

    # --- collectives ----------------------------------------------------------------------------------------------

    def barrier(self, deadline: float | None = None) -> None:
        self._begin("barrier", 0, None, 0, deadline)
        self._run(1, None, self._others, lambda number, parity: None, deadline)

    def allreduce(self, array: np.ndarray, op: Op, deadline: float | None = None) -> None:
        self._reduce("all_reduce", array, op, None, deadline)

    def reduce(self, array: np.ndarray, root: int, op: Op, deadline: float | None = None) -> None:
        self._reduce("reduce", array, op, root, deadline)

    def _reduce(self, call: str, array: np.ndarray, op: Op, root: int | None, deadline: float | None) -> None:
        reduction = Reduction(op, array.dtype, self.size)
        flat = array.reshape(-1)
        if self.size == 1:
            reduction.reduce(flat, [reduction.prepared(flat)])
            return
        extra = OPS.index(reduction.name) | (0 if root is None else root + 1) << 8
        self._begin(call, array.nbytes, array.dtype, extra, deadline)
        if array.nbytes * self.size <= 2 * _SMALL and array.nbytes <= CHUNK // 2:
            self._reduce_all(flat, reduction, root, deadline)
        else:
            self._reduce_shares(flat, reduction, root, deadline)

    def _reduce_all(self, flat: np.ndarray, reduction: Reduction, root: int | None, deadline: float | None) -> None:
        """Publish everything in one step; each rank, or root, reduces it."""
        chunks, results = self._arrays(flat.dtype)
        count = flat.size

        def write(number: int, parity: int) -> None:
            chunks[self.rank][parity][:count] = reduction.prepared(flat)

        def read(number: int, parity: int) -> None:
            parts = [chunks[rank][parity][:count] for rank in range(self.size)]
            reduction.reduce(flat, parts)

        reads = root is None or root == self.rank
        self._run(1, write, self._others if reads else (), read if reads else None, deadline)

    def _reduce_shares(self, flat: np.ndarray, reduction: Reduction, root: int | None, deadline: float | None) -> None:
        """Reduce in chunks, of which each rank reduces a share.

        Step k publishes chunk k of this rank's array, and its share of the reduced chunk k - 1. Then it copies the
        others' shares of chunk k - 1. So a chunk costs one wait, and stays in the processors' caches.
        """
        chunks, results = self._arrays(flat.dtype)
        per_step = min(chunks[0][0].size, results[0][0].size * self.size) // self.size * self.size
        steps = -(-flat.size // per_step)
        rank, keeps = self.rank, root is None or root == self.rank
        pending: tuple[int, int] | None = None
        for number in range(steps + 1):
            if number:
                self._await(self._others, self._step, deadline)
                if number == 1:
                    self._agree(self._others)
            parity = (self._step + 1) & 1
            start, end = number * per_step, min((number + 1) * per_step, flat.size)
            if number < steps:
                chunk = chunks[rank][parity]
                low, high = _share(end - start, rank, self.size)
                for part in (slice(0, low), slice(high, end - start)) if reduction.name != "premul_sum" else (
                    slice(0, end - start),
                ):  # fmt: skip
                    if part.start < part.stop:
                        chunk[part] = reduction.prepared(flat[start + part.start : start + part.stop])
            if pending is not None:
                low, high = _share(pending[1] - pending[0], rank, self.size)
                result = results[rank][parity][: high - low]
                own = flat[pending[0] + low : pending[0] + high]
                parts = [
                    own if r == rank and reduction.name != "premul_sum" else chunks[r][parity ^ 1][low:high]
                    for r in range(self.size)
                ]
                reduction.reduce(result, parts)
                if keeps:
                    own[...] = result
            step = self._publish(deadline)
            if pending is not None and keeps:
                self._await(self._others, step, deadline)
                for r in self._others:
                    low, high = _share(pending[1] - pending[0], r, self.size)
                    flat[pending[0] + low : pending[0] + high] = results[r][parity][: high - low]
            pending = (start, end)

    def broadcast(self, array: np.ndarray, root: int, deadline: float | None = None) -> None:
        flat = _bytes(array)
        chunks, _ = self._arrays(flat.dtype)
        self._begin("broadcast", array.nbytes, None, root, deadline)

        def write(number: int, parity: int) -> None:
            part = flat[number * CHUNK : (number + 1) * CHUNK]
            chunks[root][parity][: part.size] = part

        def read(number: int, parity: int) -> None:
            part = flat[number * CHUNK : (number + 1) * CHUNK]
            part[...] = chunks[root][parity][: part.size]

        steps = max(1, -(-flat.size // CHUNK))
        if self.rank == root:
            self._run(steps, write, (), None, deadline)
        else:
            self._run(steps, None, (root,), read, deadline)

    def allgather(self, outs: Sequence[np.ndarray], array: np.ndarray, deadline: float | None = None) -> None:
        self._gather("all_gather", outs, array, None, deadline)

    def gather(
        self, outs: Sequence[np.ndarray] | None, array: np.ndarray, root: int, deadline: float | None = None
    ) -> None:
        self._gather("gather", outs, array, root, deadline)

    def _gather(
        self, call: str, outs: Sequence[np.ndarray] | None, array: np.ndarray, root: int | None, deadline: float | None
    ) -> None:
        flat = _bytes(array)
        chunks, _ = self._arrays(flat.dtype)
        self._begin(call, array.nbytes, None, 0 if root is None else root + 1, deadline)
        targets = [] if outs is None else [_bytes(out) for out in outs]
        if outs is not None:
            targets[self.rank][...] = flat

        def write(number: int, parity: int) -> None:
            part = flat[number * CHUNK : (number + 1) * CHUNK]
            chunks[self.rank][parity][: part.size] = part

        def read(number: int, parity: int) -> None:
            for rank in self._others:
                part = targets[rank][number * CHUNK : (number + 1) * CHUNK]
                part[...] = chunks[rank][parity][: part.size]

        reads = outs is not None
        steps = max(1, -(-flat.size // CHUNK))
        self._run(steps, write, self._others if reads else (), read if reads else None, deadline)

    def scatter(
        self, array: np.ndarray, ins: Sequence[np.ndarray] | None, root: int, deadline: float | None = None
    ) -> None:
        flat = _bytes(array)
        chunks, _ = self._arrays(flat.dtype)
        self._begin("scatter", array.nbytes, None, root, deadline)
        space = CHUNK // self.size
        steps = max(1, -(-flat.size // space))
        if ins is not None:
            sources = [_bytes(one) for one in ins]
            flat[...] = sources[root]

            def write(number: int, parity: int) -> None:
                for rank in self._others:
                    part = sources[rank][number * space : (number + 1) * space]
                    chunks[root][parity][rank * space : rank * space + part.size] = part

            self._run(steps, write, (), None, deadline)
            return

        def read(number: int, parity: int) -> None:
            part = flat[number * space : (number + 1) * space]
            part[...] = chunks[root][parity][self.rank * space : self.rank * space + part.size]

        self._run(steps, None, (root,), read, deadline)

    def reduce_scatter(self, out: np.ndarray, ins: Sequence[np.ndarray], op: Op, deadline: float | None = None) -> None:
        reduction = Reduction(op, out.dtype, self.size)
        target, sources = out.reshape(-1), [one.reshape(-1) for one in ins]
        chunks, results = self._arrays(out.dtype)
        space = min(chunks[0][0].size // self.size, results[0][0].size)
        self._begin("reduce_scatter", out.nbytes, out.dtype, OPS.index(reduction.name), deadline)

        def write(number: int, parity: int) -> None:
            for rank in range(self.size):
                part = sources[rank][number * space : (number + 1) * space]
                chunks[self.rank][parity][rank * space : rank * space + part.size] = reduction.prepared(part)

        def read(number: int, parity: int) -> None:
            part = target[number * space : (number + 1) * space]
            start = self.rank * space
            reduction.reduce(part, [chunks[r][parity][start : start + part.size] for r in range(self.size)])

        self._run(max(1, -(-target.size // space)), write, self._others, read, deadline)

    def alltoall(self, outs: Sequence[np.ndarray], ins: Sequence[np.ndarray], deadline: float | None = None) -> None:
        targets, sources = [_bytes(one) for one in outs], [_bytes(one) for one in ins]
        chunks, _ = self._arrays(np.dtype(np.uint8))
        space = CHUNK // self.size
        targets[self.rank][...] = sources[self.rank]
        # The ranks agree in the first step on the number of steps: that of the largest array anywhere.
        self._begin("all_to_all", max(one.size for one in sources), None, 0, deadline)
        steps, number = 1, 0
        while number < steps:
            if number:
                self._await(self._others, self._step, deadline)
            parity = (self._step + 1) & 1
            for rank in self._others:
                part = sources[rank][number * space : (number + 1) * space]
                chunks[self.rank][parity][rank * space : rank * space + part.size] = part
            step = self._publish(deadline)
            self._await(self._others, step, deadline)
            if not number:
                self._agree(self._others, sizes=False)
                largest = max(self._longs[self._segment.head(r, parity) // 8 + 1] for r in range(self.size))
                steps = max(1, -(-largest // space))
            for rank in self._others:
                part = targets[rank][number * space : (number + 1) * space]
                part[...] = chunks[rank][parity][self.rank * space : self.rank * space + part.size]
            number += 1

    # --- messages -------------------------------------------------------------------------------------------------

    def send(self, array: np.ndarray, dst: int, tag: int = 0, deadline: float | None = None) -> None:
        if self.broken is not None:
            raise self.broken
        self._mail.send(_bytes(array), dst, tag, deadline)

    def recv(self, array: np.ndarray, src: int | None = None, tag: int = 0, deadline: float | None = None) -> int:
        if self.broken is not None:
            raise self.broken
        return self._mail.recv(_bytes(array), src, tag, deadline)

    def close(self) -> None:
        self.fail(RuntimeError("the process group was destroyed"))

    def abort(self) -> None:
        self.fail(Aborted("the process group was aborted"))


def _bytes(array: np.ndarray) -> np.ndarray:
    """Return a contiguous array as bytes, shape (nbytes,)."""
    return array.reshape(-1).view(np.uint8)


def _share(count: int, rank: int, size: int) -> tuple[int, int]:
    """Return start and end of a rank's share of `count` elements."""
    return count * rank // size, count * (rank + 1) // size


def _described(signature: int, nbytes: int) -> str:
    call = _CALLS[signature & 0xFF]
    dtype, extra = signature >> 8 & 0xFFFF, signature >> 24
    text = f"{call} of {nbytes} bytes" + (f" of type {chr(dtype & 0xFF)}{dtype >> 8}" if dtype else "")
    return f"{text} ({extra})" if extra else text


def _cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
