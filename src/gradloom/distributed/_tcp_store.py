"""TCPStore: a store that one process serves and the others ask over TCP. Note [The protocol of TCPStore]"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta

from . import _auth
from ._tcp_server import LENGTH, TCPStoreServer, is_loopback, packed, unpacked
from .errors import DistNetworkError, DistStoreError, QueueEmptyError, StoreLost, deadline_after, seconds_until
from .stores import Store, as_key, as_value

__all__ = ["TCPStore"]

_RETRY = 0.05  # seconds between two attempts to connect
_GRACE = 10.0  # seconds by which an answer may be later than its timeout

# Servers of this process by port, for `multi_tenant`; each ends with the last store that uses it.
_servers: weakref.WeakValueDictionary[int, TCPStoreServer] = weakref.WeakValueDictionary()


class TCPStore(Store):
    """A store that one process serves over TCP. All processes must know the job's key (Note [The job's key]).

    Args:
        host_name: name or address of the server; it listens on this address only.
        port: port of the server; 0 for any free one, which the server's `port` then says.
        world_size: number of processes that use it, or None if that is not known.
        is_master: whether this process is the server.
        timeout: longest time to connect, and of `get` and `wait`.
        wait_for_workers: whether the server waits until `world_size` processes are connected.
        multi_tenant: whether a server that this process has at the port is used again.
        master_listen_fd: a socket that listens already, for the server.
        use_libuv: accepted; there is one implementation.

    Raises:
        DistNetworkError: if the server cannot listen or cannot be reached, or does not know the key.
        DistStoreError: if not all processes come within `timeout`.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300),
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        if not 0 <= port < 1 << 16:
            raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
        self.set_timeout(timeout)
        self._host, self._port = as_key(host_name, "TCPStore"), port
        self._libuv, self._server = use_libuv, None
        if is_master:
            self._server = self._make_server(multi_tenant, master_listen_fd).share()
            self._port = self._server.port
        self._idle: list[socket.socket] = []
        self._owner, self._lock = os.getpid(), threading.Lock()
        self._close = weakref.finalize(self, _close_all, self._idle, self._server)
        _auth.job_key()  # a key that is refused is no reason to wait for the server
        with self._connection(deadline_after(timeout)):
            pass  # know now whether the server is there
        if world_size is not None and world_size > 0 and wait_for_workers:
            self._await_workers(world_size, is_master)

    def _make_server(self, multi_tenant: bool, listen_fd: int | None) -> TCPStoreServer:
        if listen_fd is not None:
            server = TCPStoreServer(self._host, self._port, socket.socket(fileno=listen_fd))
        elif multi_tenant and (existing := _servers.get(self._port)) is not None and not existing._closing:
            return existing
        else:
            server = TCPStoreServer(self._host, self._port)
        if multi_tenant:
            _servers[server.port] = server
        return server

    def _await_workers(self, world_size: int, is_master: bool) -> None:
        joined = self.add("init/workers", 1)
        if joined >= world_size:
            self.set("init/ready", b"1")
        if not is_master:
            return
        try:
            self.wait(["init/ready"])
        except DistStoreError:
            joined, seconds = int(self.get("init/workers")), self._timeout.total_seconds()
            raise DistStoreError(
                f"Timed out after {seconds:g} seconds waiting for clients. {joined}/{world_size} clients joined."
            ) from None

    @property
    def host(self) -> str:
        """Name or address of the server."""
        return self._host

    @property
    def port(self) -> int:
        """Port of the server."""
        return self._port

    @property
    def libuvBackend(self) -> bool:
        """What `use_libuv` said."""
        return self._libuv

    def __repr__(self) -> str:
        server = "<nullptr>" if self._server is None else f"TCPServer(port={self._port})"
        return f"TCPStore(client=TCPClient({self._host}:{self._port}), server={server})"

    # -- connections

    @contextmanager
    def _connection(self, deadline: float | None = None) -> Iterator[socket.socket]:
        """Give a connection that no other thread uses; it is closed if anything goes wrong with it."""
        if os.getpid() != self._owner:  # forked: the connections are the parent's
            self._idle, self._owner, self._lock = [], os.getpid(), threading.Lock()
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect(deadline_after(self._timeout) if deadline is None else deadline)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def _connect(self, deadline: float | None) -> socket.socket:
        while True:
            left = seconds_until(deadline)
            try:
                return self._connected(5.0 if left is None else min(5.0, left + 0.01), deadline)
            except (OSError, _auth.NoAnswer) as raised:  # the server may come yet
                error = raised
            if left is not None and left <= 0:
                milliseconds = round(self._timeout / timedelta(milliseconds=1))
                raise DistNetworkError(
                    f"The client socket has timed out after {milliseconds}ms while trying to connect to "
                    f"({self._host}, {self._port}): {error}"
                ) from error
            time.sleep(_RETRY)

    def _connected(self, seconds: float, deadline: float | None) -> socket.socket:
        """Return a connection to the server; both ends have proved that they know the job's key."""
        connection = socket.create_connection((self._host, self._port), seconds)
        try:
            key = _auth.job_key(beyond_loopback=not is_loopback(connection.getpeername()[0]))
            _auth.prove(connection, key, server=False, deadline=deadline)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            connection.close()
            raise
        return connection

    def _ask(self, method: str, *fields: str | bytes, seconds: float = 0.0) -> list[bytes]:
        """Send a request and return the fields of the answer; `seconds` is how long the server may take."""
        request = packed(method.encode(), *(field.encode() if isinstance(field, str) else field for field in fields))
        try:
            with self._connection() as connection:
                connection.settimeout(None if seconds == math.inf else max(_GRACE, seconds + _GRACE))
                connection.sendall(request)
                (size,) = LENGTH.unpack(_auth.receive(connection, LENGTH.size))
                kind, *found = unpacked(_auth.receive(connection, size))
        except (OSError, EOFError) as error:
            raise StoreLost(
                "Connection was likely closed. Did the remote server shutdown or crash? "
                f"TCPStore at {self._host}:{self._port}, {method}: {error}"
            ) from error
        if kind == b"error":
            raise ValueError(found[0].decode())
        if kind == b"timeout":
            raise TimeoutError
        return found

    def _await(self, method: str, keys: Sequence[str], timeout: timedelta | None = None) -> list[bytes]:
        allowed = self._timeout if timeout is None else timeout
        seconds = allowed.total_seconds()
        seconds = math.inf if seconds < 0 else seconds
        try:
            return self._ask(method, str(seconds), *(as_key(key, method) for key in keys), seconds=seconds)
        except TimeoutError:
            milliseconds = round(allowed / timedelta(milliseconds=1))
            names = ", ".join(f"/{key}" for key in keys)
            raise DistStoreError(f"wait timeout after {milliseconds}ms, keys: {names}") from None

    # -- the methods of Store

    def set(self, key: str, value: str | bytes) -> None:
        self._ask("set", as_key(key, "set"), as_value(value, "set"))

    def get(self, key: str) -> bytes:
        return self.multi_get([key])[0]

    def add(self, key: str, value: int) -> int:
        return int(self._ask("add", as_key(key, "add"), str(int(value)))[0])

    def check(self, keys: Sequence[str]) -> bool:
        return self._ask("check", *(as_key(key, "check") for key in keys)) == [b"1"]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._await("wait", keys, timeout)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        values = as_value(expected_value, "compare_set"), as_value(desired_value, "compare_set")
        return self._ask("compare_set", as_key(key, "compare_set"), *values)[0]

    def delete_key(self, key: str) -> bool:
        return self._ask("delete_key", as_key(key, "delete_key")) == [b"1"]

    def num_keys(self) -> int:
        return int(self._ask("num_keys")[0])

    def list_keys(self) -> list[str]:
        return [key.decode() for key in self._ask("list_keys")]

    def append(self, key: str, value: str | bytes) -> None:
        self._ask("append", as_key(key, "append"), as_value(value, "append"))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        self._await("wait", keys)
        return self._ask("get", *keys)

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        if len(keys) != len(values):
            raise ValueError(f"multi_set(): got {len(keys)} keys but {len(values)} values")
        fields: list[str | bytes] = []
        for key, value in zip(keys, values, strict=True):
            fields += [as_key(key, "multi_set"), as_value(value, "multi_set")]
        self._ask("multi_set", *fields)

    def has_extended_api(self) -> bool:
        return True

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._ask("queue_push", as_key(key, "queue_push"), as_value(value, "queue_push"))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        if block:
            return self._await("queue_pop", [key])[0]
        try:
            return self._ask("queue_pop", "0", as_key(key, "queue_pop"))[0]
        except TimeoutError:
            raise QueueEmptyError("queue is empty") from None

    def queue_len(self, key: str) -> int:
        return int(self._ask("queue_len", as_key(key, "queue_len"))[0])

    def clone(self) -> TCPStore:
        # Each thread has a connection of its own already.
        return self


def _close_all(idle: list[socket.socket], server: TCPStoreServer | None) -> None:
    for connection in idle:
        with suppress(OSError):
            connection.close()
    if server is not None:
        server.release()
