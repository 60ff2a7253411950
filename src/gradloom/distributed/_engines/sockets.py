"""Collectives over TCP connections between all pairs of ranks: for several machines without MPI.

Note [Socket engine]

Each rank listens, writes its address into the store, connects to the ranks below it and accepts those above. Both ends
prove that they know the job's key (Note [The job's key]). A message is a head (channel, tag, number of bytes) and
bytes. One thread per engine reads all connections and sorts messages by sender, channel and tag, so a rank that sends
never waits for the receiver to ask, unless the receiver's process is stopped: then it waits until its deadline.
Collectives have a channel of their own, with the number of the call as tag.

Large arrays are reduced by parts: rank i gets part i of all others, reduces these in the order of the ranks, and sends
the result back. So each rank sends 2 (n - 1) / n of the array, the least possible, and every rank has the same bits.

A rank whose deadline passes asks the others for the number of their last call, which their reading threads answer: the
missing ones are those that are behind.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from .. import _auth
from .._tcp_server import is_loopback, listen_on
from ..errors import DistNetworkError, seconds_until
from . import Aborted, CallTimeout, Engine, Mismatch, Op, PeerLost, host_key
from .reduction import Reduction

__all__ = ["SocketEngine"]

_HEAD = struct.Struct("<qqq")
_USER, _CALL, _ASK, _TELL = range(4)  # channels
_SMALL = 1 << 15  # bytes below which each rank reduces all, rather than its part
_GLANCE = 0.05  # seconds after which a rank that waits for connections looks who has proved itself
_ASKING = 0.5  # seconds that other ranks have to say where they are
_Waiter: Any = getattr(selectors, "PollSelector", selectors.SelectSelector)


class _Stuck(TimeoutError):
    """A peer did not take a message in time.

    Attributes:
        is_cut: whether it has the beginning of the message, so that nothing else can follow.
    """

    def __init__(self, is_cut: bool) -> None:
        self.is_cut = is_cut


class _Peer:
    """A connection, which does not block, and what of a message has been read from it."""

    def __init__(self, rank: int, connection: socket.socket) -> None:
        self.rank, self.connection, self.sending = rank, connection, threading.Lock()
        self.start()

    def start(self) -> None:
        """Begin to read a head."""
        self.head: tuple[int, int, int] | None = None
        self.buffer, self.filled = bytearray(_HEAD.size), 0


class SocketEngine(Engine):
    """Connect processes by TCP. Note [Socket engine]

    Args:
        store: where the processes find each other's addresses.
        rank: number of this process.
        size: number of processes.
        deadline: when to give up on the others.

    Raises:
        DistError: some rank did not come, or does not know the job's key.
    """

    def __init__(self, store: Any, rank: int, size: int, deadline: float | None = None) -> None:
        super().__init__()
        self.rank, self.size = rank, size
        self._others = [(rank + step) % size for step in range(1, size)]
        self._inbox: dict[tuple[int, int, int], deque[bytearray]] = {}
        self._arrived = threading.Condition()
        self._lost: dict[int, str] = {}
        self._answers: dict[int, int] = {}
        self._number, self._call, self._started = 0, "init_process_group", time.monotonic()
        self._closing = False
        self._selector = selectors.DefaultSelector()
        self._peers = {peer: _Peer(peer, connection) for peer, connection in self._connect(store, deadline).items()}
        for peer in self._peers.values():
            peer.connection.setblocking(False)
            peer.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(peer.connection, selectors.EVENT_READ, peer)
        self._reader = threading.Thread(target=self._read, name="socket engine", daemon=True)
        self._reader.start()

    def _connect(self, store: Any, deadline: float | None) -> dict[int, socket.socket]:
        store.set(f"host/{self.rank}", host_key())
        alone = len({bytes(store.get(f"host/{rank}")) for rank in range(self.size)}) == 1
        listener = listen_on("127.0.0.1" if alone else _own_address(store), 0)
        key = _auth.job_key(beyond_loopback=not is_loopback(listener.getsockname()[0]))
        found: dict[int, socket.socket] = {}
        try:
            host = "127.0.0.1" if alone else _own_address(store)
            store.set(f"address/{self.rank}", f"{host} {listener.getsockname()[1]}")
            for rank in range(self.rank):
                host, port = bytes(store.get(f"address/{rank}")).decode().split()
                found[rank] = connection = socket.create_connection((host, int(port)), seconds_until(deadline))
                _auth.prove(connection, key, server=False, deadline=deadline)
                connection.sendall(struct.pack("<q", self.rank))
            found.update(self._accept(listener, key, deadline))
            return found
        except BaseException as error:
            for connection in found.values():
                connection.close()
            if not isinstance(error, TimeoutError):
                raise
            raise CallTimeout("init_process_group", time.monotonic() - self._started, []) from error
        finally:
            listener.close()

    def _accept(self, listener: socket.socket, key: bytes, deadline: float | None) -> dict[int, socket.socket]:
        """Return connections of the ranks above this one. A stranger, who may be slow or silent, holds nobody up."""
        expected, found = set(range(self.rank + 1, self.size)), dict[int, socket.socket]()
        lock, proving = threading.Lock(), threading.BoundedSemaphore(_auth.STRANGERS)

        def admit(connection: socket.socket) -> None:
            try:
                _auth.prove(connection, key, server=True, deadline=deadline)
                (rank,) = struct.unpack("<q", _auth.receive(connection, 8, time.monotonic() + _auth.PATIENCE))
                connection.settimeout(None)
                with lock:
                    if rank in expected and not is_over:
                        expected.remove(rank)
                        found[rank] = connection
                        return
                connection.close()
            except (DistNetworkError, OSError, EOFError):
                connection.close()
            finally:
                proving.release()

        is_over = False
        try:
            while expected:
                left = seconds_until(deadline)
                if left is not None and left <= 0:
                    raise TimeoutError("ranks did not connect")
                listener.settimeout(_GLANCE if left is None else max(0.001, min(_GLANCE, left)))
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                if proving.acquire(blocking=False):
                    threading.Thread(target=admit, args=(connection,), daemon=True).start()
                else:
                    connection.close()
        except BaseException:
            with lock:
                is_over = True
            for connection in found.values():
                connection.close()
            raise
        return found

    # -- messages

    def _read(self) -> None:
        while not self._closing and self._peers:
            for chosen, _ in self._selector.select(0.2):
                peer = chosen.data
                try:
                    self._read_some(peer)
                except BlockingIOError:
                    continue
                except OSError as error:
                    self._lose(peer, f"cannot be reached: {error}")
                except (ValueError, MemoryError) as error:  # of a head that announces no number of bytes
                    self._lose(peer, f"sent what is no message: {error}")
        self._selector.close()

    def _read_some(self, peer: _Peer) -> None:
        view = memoryview(peer.buffer)[peer.filled :]
        count = peer.connection.recv_into(view) if len(view) else 0
        if len(view) and not count:
            self._lose(peer, "closed its connection")
            return
        peer.filled += count
        if peer.filled < len(peer.buffer):
            return
        if peer.head is None:
            peer.head = _HEAD.unpack(peer.buffer)
            peer.buffer, peer.filled = bytearray(peer.head[2]), 0
            if peer.head[2]:
                return
        (channel, tag, _), data = peer.head, peer.buffer
        peer.start()
        if channel == _ASK:
            try:
                self._send_raw(peer, _TELL, self._number, b"", time.monotonic() + _ASKING)
            except _Stuck as stuck:
                if stuck.is_cut:
                    self._broken_by(CallTimeout(self._call, _ASKING, [peer.rank]))
            return
        with self._arrived:
            if channel == _TELL:
                self._answers[peer.rank] = tag
            else:
                self._inbox.setdefault((peer.rank, channel, tag), deque()).append(data)
            self._arrived.notify_all()

    def _lose(self, peer: _Peer, how: str) -> None:
        with suppress(KeyError, ValueError, OSError):
            self._selector.unregister(peer.connection)
        with self._arrived:
            self._lost[peer.rank] = how
            self._arrived.notify_all()

    def _send_raw(self, peer: _Peer, channel: int, tag: int, data: Any, deadline: float | None) -> None:
        """Send a message.

        Raises:
            _Stuck: if the peer does not take it before the deadline.
            OSError: if the connection is lost.
        """
        left = seconds_until(deadline)
        if not peer.sending.acquire(timeout=-1 if left is None else left):
            raise _Stuck(is_cut=False)
        try:
            is_cut = False
            for part in (_HEAD.pack(channel, tag, len(data)), data):
                rest = memoryview(part)
                while len(rest):
                    try:
                        rest = rest[peer.connection.send(rest) :]
                        is_cut = True
                    except BlockingIOError:
                        if not _writable(peer.connection, deadline):
                            raise _Stuck(is_cut) from None
        finally:
            peer.sending.release()

    def _send(self, rank: int, array: np.ndarray, deadline: float | None, channel: int = _CALL, tag: int = 0) -> None:
        """Send an array. A peer's reading thread takes it at once, unless the peer's process is stopped."""
        if self.broken is not None:
            raise self.broken
        if rank == self.rank:
            with self._arrived:
                self._inbox.setdefault((rank, channel, tag or self._number), deque()).append(bytearray(_bytes(array)))
                self._arrived.notify_all()
            return
        if rank in self._lost:
            self._fail(PeerLost(self._call, rank, self._lost[rank]))
        began = time.monotonic()
        try:
            number = self._number if channel == _CALL else tag
            self._send_raw(self._peers[rank], channel, number, _bytes(array), deadline)
        except _Stuck as stuck:
            if channel == _CALL:
                self._fail(CallTimeout(self._call, time.monotonic() - self._started, [rank]))
            error = CallTimeout("send", time.monotonic() - began, [rank])
            if stuck.is_cut:
                self._fail(error)
            raise error from None
        except OSError as error:
            self._fail(PeerLost(self._call, rank, f"cannot be reached: {error}"))

    def _receive(
        self, array: np.ndarray, rank: int | None, deadline: float | None, channel: int = _CALL, tag: int | None = None
    ) -> int:
        """Receive into an array, and return the sender."""
        number = self._number if tag is None else tag
        senders = [rank] if rank is not None else range(self.size)
        keys = [(sender, channel, number) for sender in senders]  # type: ignore[misc]
        began = time.monotonic()

        def ready() -> bool:
            lost = rank in self._lost if rank is not None else len(self._lost) >= self.size - 1
            return any(self._inbox.get(key) for key in keys) or lost or self.broken is not None

        with self._arrived:
            in_time = self._arrived.wait_for(ready, seconds_until(deadline))
            key = next((key for key in keys if self._inbox.get(key)), None)
            if key is not None:
                data = self._inbox[key].popleft()
                if not self._inbox[key]:
                    del self._inbox[key]
        if key is not None:
            self._unpack(array, data, key[0])
            return key[0]
        if self.broken is not None:
            raise self.broken
        if in_time:
            gone = rank if rank is not None else next(iter(self._lost))
            self._fail(PeerLost(self._call, gone, self._lost[gone]))
        missing = self._behind() if channel == _CALL else [] if rank is None else [rank]
        call = self._call if channel == _CALL else "recv"
        error = CallTimeout(call, time.monotonic() - (self._started if channel == _CALL else began), missing)
        if channel == _CALL:
            self._fail(error)
        raise error

    def _unpack(self, array: np.ndarray, data: bytearray, sender: int) -> None:
        if len(data) != array.nbytes:
            self._fail(
                Mismatch(
                    f"{self._call}: rank {sender} sent {len(data)} bytes, but rank {self.rank} expects {array.nbytes}",
                    sender,
                )
            )
        array.reshape(-1).view(np.uint8)[...] = np.frombuffer(data, np.uint8)

    def _behind(self) -> list[int]:
        """Ask the other ranks for the number of their last call, and return those that have not made this one."""
        self._answers.clear()
        end = time.monotonic() + _ASKING
        for peer in self._peers.values():
            with suppress(OSError):
                self._send_raw(peer, _ASK, 0, b"", end)
        with self._arrived:
            self._arrived.wait_for(lambda: len(self._answers) + len(self._lost) >= self.size - 1, seconds_until(end))
            return sorted(rank for rank in self._others if self._answers.get(rank, -1) < self._number)

    def _fail(self, error: BaseException) -> NoReturn:
        """Break the engine and raise the error that broke it: this one, unless it is a consequence of another."""
        raise self._broken_by(error)

    def _broken_by(self, error: BaseException) -> BaseException:
        """Break the engine: later calls raise the same error, and the others lose their connections."""
        if self.broken is None:
            self.broken = error
            self._hang_up()
        return self.broken

    def _hang_up(self) -> None:
        for peer in self._peers.values():
            with suppress(OSError):
                peer.connection.shutdown(socket.SHUT_RDWR)
        with self._arrived:
            self._arrived.notify_all()

    def _begin(self, call: str) -> None:
        if self.broken is not None:
            raise self.broken
        self._call, self._started = call, time.monotonic()
        self._number += 1

    # -- collectives

    def allreduce(self, array: np.ndarray, op: Op, deadline: float | None = None) -> None:
        self._begin("all_reduce")
        reduction = Reduction(op, array.dtype, self.size)
        flat = array.reshape(-1)
        if array.nbytes <= _SMALL:
            mine = reduction.prepared(flat)
            parts = [np.empty_like(flat) for _ in range(self.size)]
            self._exchange(parts, [mine] * self.size, deadline)
            reduction.reduce(flat, parts)
            return
        shares = np.array_split(flat, self.size)
        self._reduce_share(shares[self.rank].copy(), shares, reduction, deadline, shares[self.rank])
        self._number += 1
        self._exchange(shares, [shares[self.rank]] * self.size, deadline)

    def _reduce_share(
        self,
        own: np.ndarray,
        shares: Sequence[np.ndarray],
        reduction: Reduction,
        deadline: float | None,
        out: np.ndarray,
    ) -> None:
        """Send each rank its share, and reduce those of this rank into `out`."""
        parts = [own if rank == self.rank else np.empty_like(own) for rank in range(self.size)]
        for rank in self._others:
            self._send(rank, reduction.prepared(shares[rank]), deadline)
        parts[self.rank] = reduction.prepared(own)
        for rank in reversed(self._others):
            self._receive(parts[rank], rank, deadline)
        reduction.reduce(out, parts)

    def _exchange(self, outs: Sequence[np.ndarray], ins: Sequence[np.ndarray], deadline: float | None) -> None:
        """Send `ins[i]` to rank i, and receive `outs[i]` from it."""
        for rank in self._others:
            self._send(rank, ins[rank], deadline)
        if outs[self.rank] is not ins[self.rank]:
            outs[self.rank].reshape(-1)[...] = ins[self.rank].reshape(-1)
        for rank in reversed(self._others):
            self._receive(outs[rank], rank, deadline)

    def broadcast(self, array: np.ndarray, root: int, deadline: float | None = None) -> None:
        self._begin("broadcast")
        # A binomial tree: in step k, the ranks below 2^k (counted from the root) send to those 2^k above.
        place, step = (self.rank - root) % self.size, 1
        while step < self.size:
            if step <= place < 2 * step:
                self._receive(array, (place - step + root) % self.size, deadline)
            elif place < step and place + step < self.size:
                self._send((place + step + root) % self.size, array, deadline)
            step *= 2

    def reduce(self, array: np.ndarray, root: int, op: Op, deadline: float | None = None) -> None:
        self._begin("reduce")
        reduction = Reduction(op, array.dtype, self.size)
        mine = reduction.prepared(array)
        if self.rank != root:
            self._send(root, mine, deadline)
            return
        parts = [mine.copy() if rank == root else np.empty_like(array) for rank in range(self.size)]
        for rank in self._others:
            self._receive(parts[rank], rank, deadline)
        reduction.reduce(array, parts)

    def allgather(self, outs: Sequence[np.ndarray], array: np.ndarray, deadline: float | None = None) -> None:
        self._begin("all_gather")
        self._exchange(outs, [array] * self.size, deadline)

    def gather(
        self, outs: Sequence[np.ndarray] | None, array: np.ndarray, root: int, deadline: float | None = None
    ) -> None:
        self._begin("gather")
        if outs is None:
            self._send(root, array, deadline)
            return
        outs[root].reshape(-1)[...] = array.reshape(-1)
        for rank in self._others:
            self._receive(outs[rank], rank, deadline)

    def scatter(
        self, array: np.ndarray, ins: Sequence[np.ndarray] | None, root: int, deadline: float | None = None
    ) -> None:
        self._begin("scatter")
        if ins is None:
            self._receive(array, root, deadline)
            return
        for rank in self._others:
            self._send(rank, ins[rank], deadline)
        array.reshape(-1)[...] = ins[root].reshape(-1)

    def reduce_scatter(self, out: np.ndarray, ins: Sequence[np.ndarray], op: Op, deadline: float | None = None) -> None:
        self._begin("reduce_scatter")
        reduction = Reduction(op, out.dtype, self.size)
        own = ins[self.rank].reshape(-1).copy()
        self._reduce_share(own, [part.reshape(-1) for part in ins], reduction, deadline, out.reshape(-1))

    def alltoall(self, outs: Sequence[np.ndarray], ins: Sequence[np.ndarray], deadline: float | None = None) -> None:
        self._begin("all_to_all")
        self._exchange(outs, ins, deadline)

    def barrier(self, deadline: float | None = None) -> None:
        self._begin("barrier")
        nothing = np.empty(0, np.uint8)
        self._exchange([nothing] * self.size, [nothing] * self.size, deadline)

    def send(self, array: np.ndarray, dst: int, tag: int = 0, deadline: float | None = None) -> None:
        self._send(dst, array, deadline, _USER, tag)

    def recv(self, array: np.ndarray, src: int | None = None, tag: int = 0, deadline: float | None = None) -> int:
        return self._receive(array, src, deadline, _USER, tag)

    def close(self) -> None:
        if self.broken is None:
            self.broken = Aborted("the process group was destroyed")
        self._closing = True
        self._hang_up()
        if threading.current_thread() is not self._reader:
            self._reader.join(5.0)
        for peer in self._peers.values():
            peer.connection.close()

    def after_fork(self) -> None:
        super().after_fork()
        # Only the copies of the descriptors: shutting down, or asking the selector to forget, would reach the parent.
        for peer in self._peers.values():
            peer.connection.close()
        self._peers, self._arrived = {}, threading.Condition()
        self._selector.close()

    def abort(self) -> None:
        self._broken_by(Aborted("the process group was aborted"))


def _writable(connection: socket.socket, deadline: float | None) -> bool:
    """Wait until a connection takes more bytes, or is lost; return False if that takes until the deadline."""
    with _Waiter() as waiter:
        waiter.register(connection, selectors.EVENT_WRITE)
        return bool(waiter.select(seconds_until(deadline)))


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _own_address(store: Any) -> str:
    """Return the address of this machine from which it reaches the store's server."""
    inner = getattr(store, "_underlying_non_prefix_store", store)
    host, port = getattr(inner, "host", None), getattr(inner, "port", None)
    if host is None:
        return socket.gethostbyname(socket.gethostname())
    find: Callable[..., Any] = socket.getaddrinfo
    family, kind, _, _, address = find(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)  # sends nothing
        return str(probe.getsockname()[0])
