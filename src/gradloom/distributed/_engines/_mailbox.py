"""Messages between two ranks through shared memory.

A mailbox has two chunks, which the sender fills and the receiver empties in turn; WRITTEN and READ count them. A
message is one or more chunks, each with its tag and the message's number of bytes in front. The sender rings the BELL
of the receiver, who may wait for any of several mailboxes. A bell is a word with many writers: each writes a number
that it never wrote before, so that the word changes.

Messages that nobody asked for yet are kept in the receiver's memory when another is looked for. A sender is held up
when a mailbox is full and the receiver calls nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from . import CallTimeout, Mismatch, PeerLost
from ._segment import BELL, HEAD, LINE, Segment
from .waiting import fence, sleep_on, wake

_LOOK = 0.05


class Owner(Protocol):
    """What messages need of the engine that they belong to."""

    broken: BaseException | None

    def gone(self, rank: int) -> str | None:
        """Return how a rank went away, or None while it is there."""

    def fail(self, error: BaseException) -> BaseException:
        """Break the engine; return the error, to be raised."""


class _Message:
    """A message on its way: where its bytes go."""

    __slots__ = ("buffer", "filled", "nbytes", "posted", "src", "tag")

    def __init__(self, src: int, tag: int, nbytes: int, buffer: np.ndarray, posted: _Posted | None) -> None:
        self.src, self.tag, self.nbytes, self.buffer, self.posted = src, tag, nbytes, buffer, posted
        self.filled = 0


class _Posted:
    """A call of `recv` that waits."""

    __slots__ = ("array", "done", "error", "src", "tag")

    def __init__(self, array: np.ndarray, src: int | None, tag: int) -> None:
        self.array, self.src, self.tag = array, src, tag
        self.done: int | None = None  # the sender
        self.error: Exception | None = None


class Mail:
    """The messages of one rank.

    Args:
        segment: the group's memory.
        owner: the engine.
    """

    def __init__(self, segment: Segment, owner: Owner) -> None:
        self._segment, self._owner = segment, owner
        self._rank, self._size = segment.rank, segment.size
        self._sending = [threading.Lock() for _ in range(self._size)]
        self._lock = threading.Lock()
        self._rung = 0
        self._posted: list[_Posted] = []
        self._arriving: dict[int, _Message] = {}
        self._kept: dict[int, deque[_Message]] = {src: deque() for src in range(self._size)}

    # --- sending --------------------------------------------------------------------------------------------------

    def send(self, array: np.ndarray, dst: int, tag: int, deadline: float | None) -> None:
        """Send bytes, (n,)."""
        begun = time.monotonic()
        if not self._sending[dst].acquire(timeout=-1 if deadline is None else max(0.0, deadline - begun)):
            raise CallTimeout("send", time.monotonic() - begun, [dst])
        try:
            self._send(array, dst, tag, deadline, begun)
        finally:
            self._sending[dst].release()

    def _send(self, array: np.ndarray, dst: int, tag: int, deadline: float | None, begun: float) -> None:
        segment, words, longs = self._segment, self._segment.words, self._segment.longs
        written = segment.mailbox(self._rank, dst) // 4
        read = written + LINE // 4
        number, sent, size = words[written], 0, segment.mail_bytes
        while True:
            try:
                self._until(partial(self._is_free, read, number), read, dst, "send", deadline, begun)
            except CallTimeout as error:
                if sent:  # the receiver has the beginning of a message that never ends
                    self._owner.fail(error)
                raise
            part = array[sent : sent + size]
            head = segment.mail_chunk(self._rank, dst, number)
            longs[head // 8], longs[head // 8 + 1] = tag & 0xFFFFFFFFFFFFFFFF, array.size
            segment.bytes[head + HEAD : head + HEAD + part.size] = part
            sent += part.size
            number = (number + 1) & 0xFFFFFFFF
            fence()
            words[written] = number
            self._ring(dst)
            if sent >= array.size:
                return

    def _is_free(self, read: int, number: int) -> bool:
        """Return whether the receiver has emptied the chunk that comes next."""
        return (number - self._segment.words[read]) & 0xFFFFFFFF < 2

    def _ring(self, dst: int) -> None:
        with self._lock:
            self._rung += 1
            value = (self._rung * self._size + self._rank) & 0xFFFFFFFF
        bell = self._segment.line(dst) + 4 * BELL
        self._segment.words[bell // 4] = value
        wake(self._segment.address + bell)

    def _until(
        self, found: Callable[[], bool], word: int, peer: int | None, call: str, deadline: float | None, begun: float
    ) -> None:
        """Look whenever a word changes, until `found()`. `peer` is who changes it, None for any of the others."""
        words, address, slice_ = self._segment.words, self._segment.address + 4 * word, 1e-3
        peers = [r for r in range(self._size) if r != self._rank] if peer is None else [peer]
        while True:
            seen = words[word]
            if found():
                return
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise CallTimeout(call, now - begun, peers)
            sleep_on(address, seen, slice_ if deadline is None else min(slice_, deadline - now), now - begun)
            slice_ = min(2 * slice_, _LOOK)
            if slice_ == _LOOK:
                self._look(call, peers, found)

    def _look(self, call: str, peers: list[int], found: Callable[[], bool]) -> None:
        """Raise if the engine is broken, or if all who could end a call are gone."""
        if self._owner.broken is not None:
            raise self._owner.broken
        how = [self._owner.gone(peer) for peer in peers]
        if None not in how and not found():
            raise self._owner.fail(PeerLost(call, peers[0], str(how[0])))

    # --- receiving ------------------------------------------------------------------------------------------------

    def recv(self, array: np.ndarray, src: int | None, tag: int, deadline: float | None) -> int:
        """Receive bytes into an array, (n,), and return the sender."""
        begun = time.monotonic()
        posted = _Posted(array, src, tag & 0xFFFFFFFFFFFFFFFF)
        with self._lock:
            kept = self._take(posted)
            if kept is None:
                self._posted.append(posted)
        try:
            bell = (self._segment.line(self._rank) + 4 * BELL) // 4
            if kept is None:
                self._until(lambda: self._received(posted), bell, src, "recv", deadline, begun)
        finally:
            with self._lock:
                if posted in self._posted:
                    self._posted.remove(posted)
                for message in self._arriving.values():
                    if message.posted is posted and posted.done is None:  # the caller has its array back
                        message.posted, message.buffer = None, message.buffer.copy()
        if posted.error is not None:
            raise posted.error
        assert posted.done is not None
        return posted.done

    def _take(self, posted: _Posted) -> _Message | None:
        """Complete a call with a message that arrived before, or tie it to one that is arriving."""
        for src in range(self._size) if posted.src is None else (posted.src,):
            for message in self._kept[src]:
                if message.tag == posted.tag:
                    self._kept[src].remove(message)
                    message.posted = posted
                    self._finish(message)
                    return message
        return None

    def _received(self, posted: _Posted) -> bool:
        with self._lock:
            for src in range(self._size):
                if src != self._rank:
                    self._empty(src)
            return posted.done is not None

    def _empty(self, src: int) -> None:
        """Take all chunks out of a mailbox."""
        segment, words, longs = self._segment, self._segment.words, self._segment.longs
        written = segment.mailbox(src, self._rank) // 4
        read = written + LINE // 4
        number = words[read]
        while number != words[written]:
            fence()
            head = segment.mail_chunk(src, self._rank, number)
            message = self._arriving.get(src)
            if message is None:
                message = self._arriving[src] = self._addressed(src, longs[head // 8], longs[head // 8 + 1])
            count = min(segment.mail_bytes, message.nbytes - message.filled)
            part = segment.bytes[head + HEAD : head + HEAD + count]
            message.buffer[message.filled : message.filled + count] = part
            message.filled += count
            number = (number + 1) & 0xFFFFFFFF
            fence()
            words[read] = number
            wake(segment.address + 4 * read)
            if message.filled == message.nbytes:
                del self._arriving[src]
                self._finish(message)

    def _addressed(self, src: int, tag: int, nbytes: int) -> _Message:
        """Return where a message goes that starts to arrive: into the array of a call that waits, or a new one."""
        for posted in self._posted:
            if posted.tag == tag and posted.src in (None, src):
                self._posted.remove(posted)
                fits = posted.array.size == nbytes
                return _Message(src, tag, nbytes, posted.array if fits else np.empty(nbytes, np.uint8), posted)
        return _Message(src, tag, nbytes, np.empty(nbytes, np.uint8), None)

    def _finish(self, message: _Message) -> None:
        posted = message.posted
        if posted is None:
            for one in self._posted:
                if one.tag == message.tag and one.src in (None, message.src):
                    self._posted.remove(one)
                    posted = one
                    break
            else:
                self._kept[message.src].append(message)
                return
        if posted.array.size != message.nbytes:
            text = f"rank {message.src} sent {message.nbytes} bytes, but recv expects {posted.array.size}"
            posted.error = Mismatch(text, message.src)
        elif posted.array is not message.buffer:
            posted.array[...] = message.buffer
        posted.done = message.src
