"""The server of a TCPStore, and what it and its clients send.

Note [The protocol of TCPStore]

A connection starts with proofs of the job's key (Note [The job's key]). Then the client sends one request at a time
and waits for its answer. Both are a length (4 bytes, little endian) and fields, each a length (4 bytes) and bytes. The
first field of a request is the method, of an answer its kind: `ok`, `timeout` or `error`. `wait` and `queue_pop` say
how many seconds the server may hold the answer back. The server is one thread, which never waits for one client.
"""

from __future__ import annotations

import ipaddress
import os
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from . import _auth
from ._forks import tell_forks
from .errors import DistNetworkError
from .stores import Table

__all__ = ["LENGTH", "TCPStoreServer", "is_loopback", "listen_on", "packed", "unpacked"]

LENGTH = struct.Struct("<I")
_LONGEST = 1 << 30  # bytes of a request
# What a peer's connection or request may raise, if it is lost or is no request; it ends the connection, not the server.
_BROKEN = (OSError, EOFError, ValueError, LookupError, TypeError, struct.error)
_CLOSING = 10.0  # seconds that the thread may take to end
LISTEN = "GRADLOOM_LISTEN_ADDRESS"


def packed(*fields: bytes) -> bytes:
    """Return a message of fields."""
    body = b"".join(LENGTH.pack(len(field)) + field for field in fields)
    return LENGTH.pack(len(body)) + body


def unpacked(body: bytes | bytearray) -> list[bytes]:
    """Return the fields of a message, without its length.

    Raises:
        ValueError: if it is none.
    """
    fields, at = [], 0
    while at < len(body):
        (size,) = LENGTH.unpack_from(body, at)
        at += LENGTH.size
        if at + size > len(body):
            raise ValueError("a field is longer than its message")
        fields.append(bytes(body[at : at + size]))
        at += size
    return fields


def is_loopback(host: str) -> bool:
    """Return whether an address, not a name, is one of this machine only."""
    with suppress(ValueError):
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    return False


def listen_on(host: str, port: int, *, backlog: int = 1024) -> socket.socket:
    """Return a socket that listens on the address that was asked for.

    Args:
        host: name or address; `GRADLOOM_LISTEN_ADDRESS` of the environment comes first, for machines that others reach
            by an address that is none of their own.
        port: port, 0 for any free one.
        backlog: connections that may wait.

    Raises:
        DistNetworkError: if the address is not one of this machine's, or the port is taken.
    """
    asked = os.environ.get(LISTEN) or host
    errors = []
    try:
        found = socket.getaddrinfo(asked, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise DistNetworkError(f"The name of the host to listen on, {asked!r}, is unknown: {error}") from error
    for family, kind, protocol, _, address in found:
        try:
            listener = socket.socket(family, kind, protocol)
        except OSError as error:
            errors.append(error)
            continue
        try:
            if os.name != "nt":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(backlog)
        except OSError as error:
            listener.close()
            errors.append(error)
        else:
            return listener
    reason = errors[-1].strerror or str(errors[-1])
    raise DistNetworkError(
        f"The server socket has failed to listen on {asked}, port: {port}, message: {reason.lower()}. If others reach "
        f"this machine by an address that is none of its own, set {LISTEN} to one that is, such as 0.0.0.0"
    )


class _Waiting(NamedTuple):
    """A request that is answered later: when it is ready, or at its deadline."""

    is_ready: Callable[[], bool]
    deadline: float
    answer: Callable[[], bytes]


class _Peer:
    """A connection, as the server sees it: bytes that came and are to be sent, and a request that waits."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.incoming, self.outgoing = bytearray(), deque[memoryview]()
        self.waiting: _Waiting | None = None


class TCPStoreServer:
    """The server of a TCPStore: a thread that answers requests until `close`.

    Args:
        host: name or address to listen on.
        port: port, 0 for any free one.
        listener: a socket that listens already, instead of these.
    """

    def __init__(self, host: str, port: int, listener: socket.socket | None = None) -> None:
        self._listener = listen_on(host, port) if listener is None else listener
        self.port: int = self._listener.getsockname()[1]
        try:
            self._key = _auth.job_key(beyond_loopback=not is_loopback(self._listener.getsockname()[0]))
        except BaseException:
            self._listener.close()
            raise
        self._table = Table()
        self._peers: dict[socket.socket, _Peer] = {}
        self._admitted = deque[socket.socket]()
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._closing, self._users, self._pid = False, 0, os.getpid()
        self._proving = threading.BoundedSemaphore(_auth.STRANGERS)
        for number in (self._listener, self._woken):
            number.setblocking(False)
            self._selector.register(number, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name=f"TCPStore server {self.port}", daemon=True)
        self._thread.start()
        tell_forks(self)

    def after_fork(self) -> None:
        """Close this process's copies of what the parent serves, or clients would find a port that nobody serves."""
        for connection in [*self._peers, *self._admitted, self._listener, self._wake, self._woken]:
            connection.close()
        self._selector.close()

    def share(self) -> TCPStoreServer:
        """Count one more store of this process that uses the server, which calls `release` when it is done."""
        self._users += 1
        return self

    def release(self) -> None:
        """Count one store less, and close after the last."""
        self._users -= 1
        if self._users <= 0:
            self.close()

    def close(self) -> None:
        """Stop listening and close all connections."""
        if self._closing or os.getpid() != self._pid:
            return
        self._closing = True
        with suppress(OSError):
            self._wake.send(b"x")
        self._thread.join(_CLOSING)

    def _serve(self) -> None:
        try:
            while not self._closing:
                for chosen, events in self._selector.select(self._pause()):
                    self._handle(chosen.fileobj, events)  # type: ignore[arg-type]
                self._expire()
        finally:
            for connection in [*self._peers, *self._admitted, self._listener, self._wake, self._woken]:
                connection.close()
            self._selector.close()

    def _pause(self) -> float | None:
        ends = [peer.waiting.deadline for peer in self._peers.values() if peer.waiting is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends and min(ends) < float("inf") else None

    def _handle(self, source: socket.socket, events: int) -> None:
        if source is self._listener:
            with suppress(OSError):
                connection, _ = source.accept()
                # Proofs need several messages, and a stranger may be slow: not in this thread.
                if self._proving.acquire(blocking=False):
                    threading.Thread(target=self._admit, args=(connection,), daemon=True).start()
                else:
                    connection.close()
        elif source is self._woken:
            self._woken.recv(4096)
            while self._admitted:
                connection = self._admitted.popleft()
                with suppress(OSError, ValueError):  # `_admit` closes it if the server is being closed
                    connection.setblocking(False)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._selector.register(connection, selectors.EVENT_READ)
                    self._peers[connection] = _Peer(connection)
        elif (peer := self._peers.get(source)) is not None:
            try:
                if events & selectors.EVENT_WRITE:
                    self._flush(peer)
                if events & selectors.EVENT_READ:
                    self._read(peer)
            except _BROKEN:
                self._drop(peer)

    def _admit(self, connection: socket.socket) -> None:
        try:
            _auth.prove(connection, self._key, server=True)
        except (DistNetworkError, OSError):
            connection.close()
            self._proving.release()
        else:
            self._proving.release()
            self._admitted.append(connection)
            if self._closing:  # too late for the thread to see it
                connection.close()
            with suppress(OSError):
                self._wake.send(b"x")

    def _drop(self, peer: _Peer) -> None:
        self._peers.pop(peer.connection, None)
        with suppress(KeyError, ValueError):
            self._selector.unregister(peer.connection)
        peer.connection.close()

    def _read(self, peer: _Peer) -> None:
        try:
            data = peer.connection.recv(1 << 20)
        except BlockingIOError:
            return
        if not data:
            raise EOFError
        peer.incoming += data
        self._answer_requests(peer)

    def _answer_requests(self, peer: _Peer) -> None:
        while peer.waiting is None and len(peer.incoming) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(peer.incoming)
            if size > _LONGEST:
                raise ValueError("a request is too long")
            if len(peer.incoming) < LENGTH.size + size:
                return
            fields = unpacked(peer.incoming[LENGTH.size : LENGTH.size + size])
            del peer.incoming[: LENGTH.size + size]
            answer = self._answer(peer, fields[0].decode(), fields[1:])
            if answer is not None:
                self._send(peer, answer)

    def _send(self, peer: _Peer, answer: bytes) -> None:
        peer.outgoing.append(memoryview(answer))
        self._flush(peer)

    def _flush(self, peer: _Peer) -> None:
        while peer.outgoing:
            first = peer.outgoing[0]
            try:
                sent = peer.connection.send(first)
            except BlockingIOError:
                break
            if sent == len(first):
                peer.outgoing.popleft()
            else:
                peer.outgoing[0] = first[sent:]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.outgoing else 0)
        self._selector.modify(peer.connection, events)

    def _answer(self, peer: _Peer, method: str, fields: list[bytes]) -> bytes | None:
        """Return the answer to a request, or None if it comes later."""
        if method in ("wait", "queue_pop"):
            waiting = self._waiting(method, float(fields[0]), [field.decode() for field in fields[1:]])
            if waiting.is_ready():
                return waiting.answer()
            if float(fields[0]) <= 0:
                return packed(b"timeout")
            peer.waiting = waiting
            return None
        try:
            found = _METHODS[method](self._table, *fields)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            return packed(b"error", str(error).encode())
        if method in _CHANGES:
            self._wake_waiting()
        return packed(b"ok", *found)

    def _waiting(self, method: str, seconds: float, keys: list[str]) -> _Waiting:
        table, end = self._table, time.monotonic() + seconds
        if method == "wait":
            return _Waiting(lambda: all(map(table.has, keys)), end, lambda: packed(b"ok"))
        return _Waiting(lambda: bool(table.queues.get(keys[0])), end, lambda: packed(b"ok", table.pop(keys[0])))

    def _wake_waiting(self) -> None:
        for peer in list(self._peers.values()):
            if peer.waiting is not None and peer.waiting.is_ready():
                self._end_waiting(peer, peer.waiting.answer())

    def _end_waiting(self, peer: _Peer, answer: bytes) -> None:
        peer.waiting = None
        try:
            self._send(peer, answer)
            self._answer_requests(peer)
        except _BROKEN:
            self._drop(peer)

    def _expire(self) -> None:
        now = time.monotonic()
        for peer in list(self._peers.values()):
            if peer.waiting is not None and peer.waiting.deadline <= now:
                self._end_waiting(peer, packed(b"timeout"))


def _set(table: Table, key: bytes, value: bytes) -> tuple[bytes, ...]:
    table.values[key.decode()] = value
    return ()


def _get(table: Table, *keys: bytes) -> Iterator[bytes]:
    return (table.values.get(key.decode(), b"") for key in keys)


def _add(table: Table, key: bytes, value: bytes) -> tuple[bytes]:
    return (str(table.add(key.decode(), int(value))).encode(),)


def _compare_set(table: Table, key: bytes, expected: bytes, desired: bytes) -> tuple[bytes]:
    return (table.compare_set(key.decode(), expected, desired),)


def _append(table: Table, key: bytes, value: bytes) -> tuple[bytes, ...]:
    table.values[key.decode()] = table.values.get(key.decode(), b"") + value
    return ()


def _multi_set(table: Table, *fields: bytes) -> tuple[bytes, ...]:
    for key, value in zip(fields[::2], fields[1::2], strict=True):
        table.values[key.decode()] = value
    return ()


def _delete(table: Table, key: bytes) -> tuple[bytes]:
    return (b"1" if table.values.pop(key.decode(), None) is not None else b"0",)


def _check(table: Table, *keys: bytes) -> tuple[bytes]:
    return (b"1" if all(table.has(key.decode()) for key in keys) else b"0",)


def _named_by_users(table: Table) -> list[str]:
    """Return the keys without those by which the processes of a store wait for each other; these count as one."""
    return [key for key in table.values if not key.startswith("init/")]


def _push(table: Table, key: bytes, value: bytes) -> tuple[bytes, ...]:
    table.queues.setdefault(key.decode(), deque()).append(value)
    return ()


_METHODS: dict[str, Callable[..., Sequence[bytes] | Iterator[bytes]]] = {
    "set": _set,
    "get": _get,
    "add": _add,
    "compare_set": _compare_set,
    "append": _append,
    "multi_set": _multi_set,
    "delete_key": _delete,
    "check": _check,
    "num_keys": lambda table: (str(1 + len(_named_by_users(table))).encode(),),
    "list_keys": lambda table: [key.encode() for key in _named_by_users(table)],
    "queue_push": _push,
    "queue_len": lambda table, key: (str(len(table.queues.get(key.decode(), ()))).encode(),),
}
_CHANGES = {"set", "add", "compare_set", "append", "multi_set", "queue_push"}
