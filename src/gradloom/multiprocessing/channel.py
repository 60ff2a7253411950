"""A connection between two processes on which shared memory travels along with the message.

Queues and pipes of multiprocessing carry bytes, so that the receiver must ask the sender for each descriptor. A channel
is a socket: descriptors follow the message, and belong to the kernel until they are received. The sender may end, and a
message that nobody receives leaves nothing behind. Windows has no such messages; handles go the usual way there.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
import socket
import struct
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ..core.tensor import Tensor
from ..memory import shared
from ..tensors.sharing import reduce_tensor

_AT_ONCE = 200  # descriptors in one packet; Linux allows 253
_COUNT = struct.Struct("<I")
_TOO_MANY = (
    "Too many open files. Communication with the workers is no longer possible. Please increase the limit using "
    "`ulimit -n` in the shell, or keep fewer batches: each of their tensors has a descriptor (two before Python 3.13)"
)


class Channel:
    """One end of a connection. The other end may be sent to a process that is being started.

    Args:
        connection: one end of `context.Pipe(duplex=True)`.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def fileno(self) -> int:
        """Return the descriptor, so that multiprocessing.connection.wait can wait for messages."""
        return self.connection.fileno()

    def close(self) -> None:
        """Close this end. The other end's `receive` raises EOFError."""
        self.connection.close()

    def send(self, thing: Any) -> None:
        """Send an object; its tensors move to shared memory.

        Raises:
            OSError: if the other end is closed.
            Exception: if the object cannot be pickled.
        """
        buffer = io.BytesIO()
        buffer.write(_COUNT.pack(0))
        pickler = _Pickler(buffer)
        pickler.dump(thing)
        descriptors = [segment.descriptor for segment in pickler.segments]
        with buffer.getbuffer() as message:  # released also by an error, or the buffer could not be freed
            message[: _COUNT.size] = _COUNT.pack(len(descriptors))
            self.connection.send_bytes(message)
        if descriptors:
            self._send_descriptors(descriptors)

    def receive(self) -> Any:
        """Wait for an object and return it.

        Raises:
            EOFError: if the other end is closed.
            RuntimeError: if this process cannot open more descriptors.
        """
        data = self.connection.recv_bytes()
        (count,) = _COUNT.unpack_from(data)
        descriptors = self._receive_descriptors(count) if count else []
        try:
            return _Unpickler(io.BytesIO(memoryview(data)[_COUNT.size :]), descriptors).load()
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            raise RuntimeError(_TOO_MANY) from error

    def _send_descriptors(self, descriptors: list[Any]) -> None:
        stream = socket.socket(fileno=self.connection.fileno())
        try:
            for i in range(0, len(descriptors), _AT_ONCE):
                socket.send_fds(stream, [b"d"], descriptors[i : i + _AT_ONCE])
        finally:
            stream.detach()

    def _receive_descriptors(self, count: int) -> list[int]:
        stream = socket.socket(fileno=self.connection.fileno())
        found: list[int] = []
        try:
            while len(found) < count:
                wanted = min(_AT_ONCE, count - len(found))
                data, got, _, _ = socket.recv_fds(stream, 1, wanted)
                found += got
                if not data:
                    raise EOFError
                if len(got) < wanted:
                    raise RuntimeError(_TOO_MANY)
        except BaseException:
            for descriptor in found:
                os.close(descriptor)
            raise
        finally:
            stream.detach()
        return found


class _Pickler(ForkingPickler):
    """Collects the segments that a message refers to."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self.segments: list[shared.Segment] = []
        self._places: dict[int, int] = {}

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, Tensor) and type(thing).__reduce_ex__ is Tensor.__reduce_ex__:
            return reduce_tensor(thing)
        return NotImplemented

    def persistent_id(self, thing: Any) -> Any:
        if type(thing) is not shared.Segment or thing.descriptor is None:
            return None
        place = self._places.get(id(thing))
        if place is None:
            place = self._places[id(thing)] = len(self.segments)
            self.segments.append(thing)
        return place, thing.nbytes


class _Unpickler(pickle.Unpickler):
    """Puts the received descriptors where the message refers to them."""

    def __init__(self, buffer: io.BytesIO, descriptors: list[int]) -> None:
        super().__init__(buffer)
        self._descriptors: list[int | None] = list(descriptors)
        self._segments: dict[int, shared.Segment] = {}

    def load(self) -> Any:
        try:
            return super().load()
        finally:
            for descriptor in self._descriptors:
                if descriptor is not None:
                    os.close(descriptor)

    def persistent_load(self, found: Any) -> shared.Segment:
        place, nbytes = found
        if place not in self._segments:
            descriptor, self._descriptors[place] = self._descriptors[place], None
            assert descriptor is not None
            self._segments[place] = shared.of_descriptor(descriptor, nbytes)
        return self._segments[place]


def channels(context: Any) -> tuple[Channel, Channel]:
    """Return the two ends of a new connection.

    Args:
        context: a multiprocessing context.
    """
    first, second = context.Pipe(duplex=True)
    return Channel(first), Channel(second)
