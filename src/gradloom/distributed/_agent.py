"""The agent of `torchrun` on each machine: it meets the other machines' agents, starts the workers and restarts them.

Note [Agents]

The agent of node 0 serves a TCPStore, which the workers use, too: so it outlives the worker with rank 0, and the
others can say what happened. An attempt begins with a number of nodes; each agent writes how many workers it has, and
knows then the ranks of its own. An agent whose workers fail writes so into the store, the others see it and end theirs,
and all of them begin the next attempt, or give up.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from . import _auth
from ._tcp_store import TCPStore
from ._workers import Logs, Workers
from .elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from .errors import DistError, DistNetworkError

__all__ = ["Agent", "Settings"]

_PREFIX = "torchrun"


@dataclass(frozen=True)
class Settings:
    """What `torchrun` was asked for."""

    command: tuple[str, ...]
    name: str
    min_nodes: int
    max_nodes: int
    local_size: int
    node_rank: int | None  # None: in the order in which agents come
    host: str
    port: int
    run_id: str
    role: str = "default"
    max_restarts: int = 0
    monitor_interval: float = 0.1
    shutdown_timeout: float = 30.0
    join_timeout: float = 600.0
    last_call: float = 30.0
    virtual_local_rank: bool = False
    signals: tuple[str, ...] = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")


class _Stopped(Exception):
    """A signal asked the agent to end."""

    def __init__(self, number: int) -> None:
        self.number = number


def _is_here(host: str) -> bool:
    """Return whether an address is one of this machine's."""
    with suppress(OSError):
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
        with socket.socket(found[0][0], socket.SOCK_STREAM) as probe:
            probe.bind(found[0][4])
            return True
    return False


class Agent:
    """Run a job's part on this machine.

    Args:
        settings: what to run.
        logs: where the workers' output goes.
    """

    def __init__(self, settings: Settings, logs: Logs) -> None:
        self._settings, self._logs = settings, logs
        self._workers: Workers | None = None
        if settings.max_nodes == 1 and not os.environ.get(_auth.VARIABLE):
            os.environ[_auth.VARIABLE] = _auth.new_key()
        self._store = self._meet()
        self._node = 0

    def _meet(self) -> TCPStore:
        s = self._settings
        limit = timedelta(seconds=s.join_timeout)
        serves = s.node_rank == 0 if s.node_rank is not None else _is_here(s.host)
        if serves:
            try:
                return TCPStore(s.host, s.port, None, True, limit, wait_for_workers=False)
            except DistNetworkError:
                if s.node_rank is not None or s.max_nodes == 1:
                    raise  # else another agent of this machine serves it
        return TCPStore(s.host, s.port, None, False, limit, wait_for_workers=False)

    def run(self) -> None:
        """Run the workers until they end well.

        Raises:
            ChildFailedError: if they fail more often than they may be restarted.
            SystemExit: if a signal asks for it.
        """
        before = {}
        if threading.current_thread() is threading.main_thread():
            for name in self._settings.signals:
                number = getattr(signal, name.strip(), None)
                if number is not None:
                    before[number] = signal.signal(number, self._stop)
        attempt = 0
        try:
            while True:
                failures = self._attempt(attempt)
                if failures is None:
                    self._leave()
                    return
                if attempt >= self._settings.max_restarts:
                    raise ChildFailedError(self._settings.name, failures)
                attempt += 1
                first = next(iter(failures.values()), None)
                why = "workers of another node failed" if first is None else f"rank {next(iter(failures))} failed"
                left = self._settings.max_restarts - attempt
                print(f"torchrun: {why}; restarting all workers ({left} restarts left)", file=sys.stderr, flush=True)
        except _Stopped as stopped:
            raise SystemExit(128 + stopped.number) from None
        finally:
            if self._workers is not None:
                for number in before:
                    signal.signal(number, signal.SIG_IGN)  # nothing interrupts the end
                self._workers.end(self._settings.shutdown_timeout if sys.exc_info()[0] is SystemExit else 2.0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: Any) -> None:
        raise _Stopped(number)

    def _attempt(self, attempt: int) -> dict[int, ProcessFailure] | None:
        """Run the workers once; return the failures by rank, empty if another node's failed, None if all ended well."""
        s = self._settings
        sizes = self._nodes(attempt)
        first_rank, world_size = sum(sizes[: self._node]), sum(sizes)
        environments = [self._environment(attempt, r, first_rank, world_size, sizes) for r in range(s.local_size)]
        prefixes = [f"[{s.role}{first_rank + r}]" for r in range(s.local_size)]
        self._workers = workers = Workers(s.command, environments, self._logs, attempt, prefixes)
        failed_elsewhere, next_look = f"{_PREFIX}/{attempt}/failed", 0.0
        while True:
            found = workers.failures()
            if found:
                with suppress(DistError):
                    self._store.set(failed_elsewhere, str(first_rank + found[0].local_rank))
                time.sleep(0.2)  # others that fail for the same reason show it
                found = workers.failures()
                workers.end(s.shutdown_timeout if s.max_restarts > attempt else min(2.0, s.shutdown_timeout))
                return {first_rank + failure.local_rank: failure for failure in found}
            if not workers.running():
                workers.end(0.0)
                return None
            if len(sizes) > 1 and time.monotonic() > next_look:
                next_look = time.monotonic() + max(0.5, s.monitor_interval)
                if self._store.check([failed_elsewhere]):
                    workers.end(min(2.0, s.shutdown_timeout))
                    return {}
            time.sleep(min(s.monitor_interval, 0.1))

    def _nodes(self, attempt: int) -> Sequence[int]:
        """Meet the other agents, and return the number of workers of each node."""
        s, key = self._settings, f"{_PREFIX}/{attempt}"
        if s.max_nodes == 1:
            return [s.local_size]
        self._node = s.node_rank if s.node_rank is not None else self._store.add(f"{key}/nodes", 1) - 1
        if s.node_rank is not None:
            self._store.add(f"{key}/nodes", 1)
        self._store.set(f"{key}/node/{self._node}", str(s.local_size))
        if self._node == 0:
            self._store.set(f"{key}/count", str(self._wait_for_nodes(key)))
        count = int(self._store.get(f"{key}/count"))
        if self._node >= count:
            raise DistError(f"torchrun: the job has {count} nodes already and does not take another")
        return [int(size) for size in self._store.multi_get([f"{key}/node/{node}" for node in range(count)])]

    def _wait_for_nodes(self, key: str) -> int:
        """Return the number of nodes: all, or those that have come when the last call is over."""
        s = self._settings
        end, last_call = time.monotonic() + s.join_timeout, None
        while True:
            count = self._store.add(f"{key}/nodes", 0)
            if count >= s.max_nodes:
                return s.max_nodes
            now = time.monotonic()
            if count >= s.min_nodes:
                last_call = now + s.last_call if last_call is None else last_call
                if now > last_call:
                    return count
            if now > end:
                raise DistError(f"torchrun: only {count} of {s.min_nodes} nodes came within {s.join_timeout:g} seconds")
            time.sleep(0.1)

    def _environment(self, attempt: int, local: int, first: int, world: int, sizes: Sequence[int]) -> dict[str, str]:
        s, rank = self._settings, str(first + local)
        found = {
            "LOCAL_RANK": "0" if s.virtual_local_rank else str(local),
            "RANK": rank,
            "GROUP_RANK": str(self._node),
            "ROLE_RANK": rank,
            "ROLE_NAME": s.role,
            "LOCAL_WORLD_SIZE": str(s.local_size),
            "WORLD_SIZE": str(world),
            "GROUP_WORLD_SIZE": str(len(sizes)),
            "ROLE_WORLD_SIZE": str(world),
            "MASTER_ADDR": s.host,
            "MASTER_PORT": str(self._store.port),
            "TORCHELASTIC_RESTART_COUNT": str(attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(s.max_restarts),
            "TORCHELASTIC_RUN_ID": s.run_id,
            "TORCHELASTIC_USE_AGENT_STORE": str(True),
        }
        if s.local_size > 1 and "OMP_NUM_THREADS" not in os.environ:
            found["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // s.local_size))
        return found

    def _leave(self) -> None:
        """Wait, as the node that serves the store, until the workers of the others have ended."""
        if self._settings.max_nodes == 1:
            return
        with suppress(DistError):
            self._store.add(f"{_PREFIX}/ended", 1)
            if self._store._server is not None:
                end = time.monotonic() + self._settings.join_timeout
                count = int(self._store.get(f"{_PREFIX}/0/count"))
                while self._store.add(f"{_PREFIX}/ended", 0) < count and time.monotonic() < end:
                    time.sleep(0.1)
