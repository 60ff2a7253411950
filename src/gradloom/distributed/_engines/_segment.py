"""The memory that the processes of one group share: its layout, and how the processes find it.

Note [Shared segment]
One segment holds everything, in this order:

    a line of 64 bytes per rank: COUNTER, BELL, STATE, PID    written by that rank; any sender writes BELL
    a mailbox per pair of ranks: lines WRITTEN (by the sender) and READ (by the receiver), and two chunks
    a slot of two chunks per rank, and a result of two half-chunks, for collectives

The first rank makes the segment, publishes through the store how to open it, and the others map it. It has a name in no
file system: on Linux it is a memfd that the others open as /proc/PID/fd/N; elsewhere a temporary file that is unlinked
when all have mapped it. So the kernel frees it when the last process ends, however it ends. Pages take memory when they
are first written to.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from typing import Any

import numpy as np

LINE = 64
COUNTER, BELL, STATE, PID = range(4)  # words of a rank's line
JOINING, OPEN, CLOSED = range(3)  # values of STATE
# Bytes that a rank publishes at once. Of 128 KB to 8 MB this was the fastest for arrays of 40 MB: smaller chunks wait
# more often, larger ones leave the caches.
CHUNK = 1 << 20
HEAD = 64  # bytes in front of a chunk, which describe it


class Segment:
    """The mapped memory of one group.

    Attributes:
        words: all memory as words of 4 bytes; `longs`: of 8 bytes.
        address: of the first byte.
    """

    def __init__(self, size: int, rank: int) -> None:
        self.size, self.rank = size, rank
        self.mail_bytes = 1 << (18 if size <= 8 else 16 if size <= 32 else 14)
        self._mail_stride = 2 * LINE + 2 * (HEAD + self.mail_bytes)
        self._mail = size * LINE
        self._slots = self._mail + size * size * self._mail_stride
        self._slot_stride = 2 * (HEAD + CHUNK) + CHUNK
        self.nbytes = self._slots + size * self._slot_stride

    def line(self, rank: int) -> int:
        """Return the offset of a rank's line."""
        return rank * LINE

    def mailbox(self, src: int, dst: int) -> int:
        """Return the offset of the line WRITTEN of a mailbox; READ is the next line, two chunks follow."""
        return self._mail + (src * self.size + dst) * self._mail_stride

    def mail_chunk(self, src: int, dst: int, number: int) -> int:
        """Return the offset of the head of a chunk of a mailbox."""
        return self.mailbox(src, dst) + 2 * LINE + (number & 1) * (HEAD + self.mail_bytes)

    def head(self, rank: int, parity: int) -> int:
        """Return the offset of the head of one of a rank's chunks; the chunk follows it."""
        return self._slots + rank * self._slot_stride + parity * (HEAD + CHUNK)

    def result(self, rank: int, parity: int) -> int:
        """Return the offset of one of a rank's results, of CHUNK // 2 bytes."""
        return self._slots + rank * self._slot_stride + 2 * (HEAD + CHUNK) + parity * (CHUNK // 2)

    def map(self, descriptor: int) -> None:
        """Map an open file of `nbytes` bytes."""
        options: dict[str, Any] = {} if sys.version_info < (3, 13) else {"trackfd": False}
        # NumPy's views keep the mapping alive; the last of them frees it.
        self.bytes: np.ndarray = np.frombuffer(mmap.mmap(descriptor, self.nbytes, **options), np.uint8)
        self.address: int = self.bytes.ctypes.data
        whole = self.bytes[: self.nbytes // 8 * 8].data
        self.words, self.longs = whole.cast("I"), whole.cast("Q")

    def arrays(self, dtype: np.dtype) -> tuple[list[list[np.ndarray]], list[list[np.ndarray]]]:
        """Return the chunks and the results as arrays of a dtype, by rank and parity."""

        def view(offset: int, nbytes: int) -> np.ndarray:
            return self.bytes[offset : offset + nbytes // dtype.itemsize * dtype.itemsize].view(dtype)

        ranks = range(self.size)
        chunks = [[view(self.head(r, parity) + HEAD, CHUNK) for parity in (0, 1)] for r in ranks]
        results = [[view(self.result(r, parity), CHUNK // 2) for parity in (0, 1)] for r in ranks]
        return chunks, results


def offered(segment: Segment) -> tuple[str, Any]:
    """Make the memory of a segment and map it.

    Returns:
        a text that tells other processes how to open it, and a function to call when all of them have.
    """
    if sys.platform == "linux":
        descriptor = os.memfd_create("gradloom-group")
        path, done = f"/proc/{os.getpid()}/fd/{descriptor}", lambda: os.close(descriptor)
    elif os.name == "posix":
        descriptor, path = tempfile.mkstemp(prefix="gradloom-group-")

        def done() -> None:
            os.unlink(path)
            os.close(descriptor)
    else:
        raise RuntimeError('the backend "shm" needs a Unix system; use "mpi"')
    os.ftruncate(descriptor, segment.nbytes)
    segment.map(descriptor)
    return path, done


def opened(segment: Segment, path: str) -> None:
    """Map the memory that another process of this user offers.

    Raises:
        OSError: this process may not open it, or it is something else.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.getuid() or status.st_size != segment.nbytes:
            raise PermissionError(f"{path} is not the memory of a group of this user")
        segment.map(descriptor)
    finally:
        os.close(descriptor)
