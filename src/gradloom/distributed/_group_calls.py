"""The base of ProcessGroup: names, store and timeout of a group, and the running of its calls.

A call runs in the caller's thread if the caller waits and nothing is before it, else in the group's own thread
(`_work.Lane`). Sends and receives have a thread for each peer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any

import gradloom as gl

from ..dispatch.state import state
from ..memory.locks import new_lock
from . import _debug
from ._forks import forked_error
from ._kinds import UNSET
from ._work import Lane, Work
from .errors import deadline_after, default_pg_timeout
from .stores import Store

__all__ = ["GroupCalls", "record_comm"]

_titles = threading.local()  # `name`: what `record_comm` was given


@contextmanager
def record_comm(name: str) -> Iterator[None]:
    """Return a context in which profiles show each call of a process group also under a name.

    Args:
        name: the name.
    """
    former, _titles.name = getattr(_titles, "name", None), name
    try:
        yield
    finally:
        _titles.name = former


class _BackendType(Enum):
    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, CUSTOM = range(7)


class GroupCalls:
    """What a process group is called and has, and how its calls run. See ProcessGroup for the arguments."""

    BackendType = _BackendType
    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, CUSTOM = _BackendType

    bound_device_id: Any = None
    supports_splitting = supports_coalescing = supports_time_estimate = supports_shrinking = False
    _engine: Any = None
    _backend_name = "undefined"
    _watch: Any = None

    def __init__(self, store: Any, rank: int, size: int | None = None) -> None:
        if size is None:  # ProcessGroup(rank, size), for derived classes
            store, rank, size = None, store, rank
        self._store: Store | None = store
        self._rank, self._size = rank, size
        self._ranks: Sequence[int] = range(size)
        self._timeout = default_pg_timeout
        self._sequence, self.group_name, self.group_desc = 0, "", "undefined"
        self._lane, self._lanes, self._lanes_lock = Lane("process group"), dict[Any, Lane](), new_lock()

    def _attach(self, engine: Any, backend_name: str, ranks: Sequence[int], timeout: timedelta) -> None:
        """Say what moves the data, and which ranks of the default group these are."""
        self._engine, self._backend_name, self._ranks, self._timeout = engine, backend_name, ranks, timeout

    # -- about the group

    def rank(self) -> int:
        """Return the number of this process in the group."""
        return self._rank

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    def name(self) -> str:
        """Return the name of the backend."""
        return self._get_backend_name()

    def getBackendName(self) -> str:
        """Return the name of the backend; derived classes have their own."""
        return self._backend_name

    def _get_backend_name(self) -> str:
        return self.getBackendName()

    def _set_group_name(self, name: str) -> None:
        self.group_name = name

    def _set_group_desc(self, text: str) -> None:
        self.group_desc = text

    @property
    def _device_types(self) -> list[Any]:
        return [gl.device("cpu")]

    def _get_backend(self, device: Any) -> Any:
        if gl.device(device).type != "cpu":
            raise RuntimeError(f"No backend type associated with device type {gl.device(device).type}")
        return self

    def get_group_store(self) -> Store | None:
        """Return the store in which the ranks of this group find each other."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the longest time of calls that are given none."""
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _has_hooks(self) -> bool:
        return False

    def _wait_for_pending_works(self) -> None:
        for lane in [self._lane, *self._lanes.values()]:
            lane.drain(self._timeout.total_seconds())

    def shutdown(self) -> None:
        """Wait for what was started, and release the engine's memory and connections."""
        if self._engine is not None:
            self._wait_for_pending_works()
            self._engine.close()

    def abort(self) -> None:
        """End what was started with an error, and release the engine's memory and connections."""
        if self._engine is not None:
            self._engine.abort()
            for lane in [self._lane, *self._lanes.values()]:
                lane.drain(5.0)
            with suppress(Exception):
                self._engine.close()

    # -- running calls

    def _check_usable(self, name: str) -> None:
        """Raise RuntimeError in a derived class without the call, and in a process that was forked."""
        engine = self._engine
        if engine is None:
            raise RuntimeError(f"{type(self).__name__} does not support {name}")
        if engine.is_forked:
            raise forked_error()

    def _start(
        self,
        name: str,
        outputs: Sequence[Any],
        options: Any,
        call: Callable[..., Any],
        *seen: Any,
        profiled: Sequence[Any] = (),
        parts: tuple[Any, Any] | None = None,
    ) -> Work:
        """Run `call(engine, deadline)` now or in the group's thread.

        `seen` is what debug mode compares, tensors first, and `parts` what the ranks give each other. Profiles show
        the tensors of `seen`, or else those of `profiled`.
        """
        self._check_usable(name)
        self._sequence += 1
        timeout = self._timeout if options.timeout is UNSET or options.timeout == UNSET else options.timeout
        note = None if self._watch is None else self._watch.note(name, self._sequence, *seen, parts=parts)
        make = partial(self._make, name, self._sequence, timeout, call, note)
        if state.profiler is not None:
            make = self._profiled(name, profiled or (seen[0] if seen else ()), make)
        if options.asyncOp:
            return self._lane.submit(make, Work(outputs))
        self._lane.run(make)
        work = Work(outputs)
        work._done = True
        return work

    def _make(self, name: str, number: int, timeout: timedelta, call: Callable[..., Any], note: Any) -> None:
        deadline = deadline_after(timeout)
        try:
            if note is not None:
                self._watch.compare(note, deadline)
            call(self._engine, deadline)
        except (TimeoutError, ConnectionError, RuntimeError) as error:
            told = _debug.failure(self, name, number, error)
            if told is error:
                raise
            raise told from None  # which says all that the engine's error says

    def _profiled(self, name: str, tensors: Any, make: Callable[[], None]) -> Any:
        """Return a call that is an event of the profile that this thread records."""
        recorder = state.profiler
        tensors = [gl.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in tensors]  # as PyTorch
        names = (f"{self._backend_name}:{name}", getattr(_titles, "name", None))
        records = [recorder.begin_async(one, tuple(tensors)) for one in names if one is not None]

        def call() -> None:
            try:
                make()
            finally:
                for record in records:
                    recorder.end_async(record)

        return call

    def _pass(
        self,
        name: str,
        key: Any,
        tensor: Any,
        wait: bool,
        call: Callable[..., Any],
        sender: Callable[[], int] | None = None,
    ) -> Work:
        self._check_usable(name)
        with self._lanes_lock:
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = Lane(f"process group, {key}")
        work = Work([tensor], sender)
        make = partial(self._make, name, self._sequence, self._timeout, call, None)
        if state.profiler is not None:
            make = self._profiled(name if sender is None or key[1] is not None else "recvAnySource", [tensor], make)
        if not wait:
            return lane.submit(make, work)
        lane.run(make)
        work._done = True
        return work
