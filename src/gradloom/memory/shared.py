"""Shared memory: segments that several processes map, and how a process hands one to another.

Note [Shared memory]
A segment is anonymous memory that lives as long as a process maps it or holds a descriptor of it. No file name refers
to it, so the kernel frees it after any end of the processes: a return, an exception, a crash, `kill -9`.

- Linux: a memfd. It is not part of /dev/shm, whose size containers limit.
- macOS and other Unixes: a temporary file that is unlinked before its first use.
- Windows: a named mapping, which ends with its last handle.

A message contains a token, a way to the segment: on Unix, a duplicate of the descriptor that the receiver fetches from
the sender (multiprocessing.reduction.DupFd), so the sender must live until then; on Windows, a duplicate of the handle.
With the strategy "file_system" Linux gives a segment that is sent for the first time a name in /dev/shm instead. The
receiver removes the name, and multiprocessing's resource tracker removes those of messages that nobody received. The
sender may then end before its message is read. Elsewhere on Unix both strategies pass descriptors.

A process maps a segment once, however often it receives it: tensors of one storage keep sharing it.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np

from .ownership import owner

ON_WINDOWS = sys.platform == "win32"
STRATEGIES = frozenset(("file_system",) if ON_WINDOWS else ("file_descriptor", "file_system"))
_FOLDER = "/dev/shm"

strategy: str = "file_system" if ON_WINDOWS else "file_descriptor"


class Segment(mmap.mmap):
    """A shared segment, mapped into this process.

    Attributes:
        descriptor: the file descriptor that the segment owns; None on Windows.
        name: name of the mapping, on Windows.
        nbytes: number of bytes that tensors use. A mapping has at least one byte.
        has_path: whether the file can be given a name in /dev/shm.
    """

    descriptor: int | None = None
    name: str | None = None
    nbytes: int = 0
    has_path: bool = False
    _owner: ref[np.ndarray] | None = None

    def array(self) -> np.ndarray:
        """Return the array that stands for the memory, uint8 (nbytes,): the owner of all arrays on it."""
        found = None if self._owner is None else self._owner()
        if found is None:
            found = np.ndarray((self.nbytes,), np.uint8, self)
            self._owner = ref(found)
        return found

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            close(descriptor)


_segments: WeakValueDictionary[Any, Segment] = WeakValueDictionary()  # by file: those that this process maps


def segment_of(array: np.ndarray) -> Segment | None:
    """Return the segment that an array lies in, or None."""
    base = owner(array).base
    return base if isinstance(base, Segment) else None


def is_shared(array: np.ndarray) -> bool:
    """Return whether an array lies in shared memory, or in a mapped file."""
    base: Any = owner(array).base
    while hasattr(base, "kept"):  # see ownership.rooted
        base = owner(base.kept).base
    return isinstance(base, mmap.mmap)


def create(nbytes: int) -> Segment:
    """Return a new segment of zeros.

    Raises:
        OSError: if there is no memory, or no descriptor left.
    """
    if ON_WINDOWS:
        return _named(f"gradloom_{os.getpid()}_{os.urandom(8).hex()}", nbytes)
    descriptor, has_path = _new_file()
    try:
        if has_path:  # /dev/shm may be full; without this, the first write to a missing page would kill the process
            os.posix_fallocate(descriptor, 0, max(nbytes, 1))
        else:
            os.ftruncate(descriptor, max(nbytes, 1))
    except BaseException:
        os.close(descriptor)
        raise
    return of_descriptor(descriptor, nbytes, has_path)


def _new_file() -> tuple[int, bool]:
    """Return the descriptor of a new file without a name, and whether it can get one."""
    if sys.platform == "linux":
        if strategy == "file_system":
            return os.open(_FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), True
        return os.memfd_create("gradloom"), False
    from tempfile import mkstemp

    descriptor, path = mkstemp(prefix="gradloom_")
    os.unlink(path)
    return descriptor, False


def of_descriptor(descriptor: int, nbytes: int, has_path: bool = False) -> Segment:
    """Return the segment of a file, which takes ownership of the descriptor.

    Args:
        descriptor: an open file.
        nbytes: number of bytes that tensors use.
        has_path: see Segment.
    """
    try:
        status = os.fstat(descriptor)
        key = status.st_dev, status.st_ino
        known = _segments.get(key)
        if known is not None:
            os.close(descriptor)
            return known
        options: dict[str, Any] = {} if sys.version_info < (3, 13) else {"trackfd": False}  # else mmap duplicates it
        found = Segment(descriptor, max(nbytes, 1), **options)
    except BaseException:
        os.close(descriptor)
        raise
    found.descriptor, found.nbytes, found.has_path = descriptor, nbytes, has_path
    _segments[key] = found
    return found


def token(segment: Segment) -> Any:
    """Return an object to pickle for another process, for `attach` there."""
    if ON_WINDOWS:
        return _named_token(segment)
    assert segment.descriptor is not None
    if segment.has_path and strategy == "file_system":
        try:
            return _linked(segment.descriptor)
        except FileNotFoundError:  # it had a name, which was removed; Linux does not give it another
            segment.has_path = False
    from multiprocessing import reduction

    return reduction.DupFd(segment.descriptor)


def attach(found: Any, nbytes: int) -> Segment:
    """Return the segment of a token that another process sent.

    Args:
        found: the token, which can be used once.
        nbytes: number of bytes that tensors use.
    """
    if isinstance(found, tuple):
        name, handle = found
        return _attach_named(name, handle, nbytes)
    if not isinstance(found, str):
        return of_descriptor(found.detach(), nbytes)
    from multiprocessing import resource_tracker

    path = f"{_FOLDER}/{found}"
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    os.unlink(path)
    resource_tracker.unregister(f"/{found}", "shared_memory")
    return of_descriptor(descriptor, nbytes)


def _linked(descriptor: int) -> str:
    """Give a file without a name one in /dev/shm, and return it."""
    from multiprocessing import resource_tracker

    name = f"gradloom_{os.getpid()}_{os.urandom(8).hex()}"
    resource_tracker.register(f"/{name}", "shared_memory")
    try:
        # A given directory, which an absolute path leaves unused, makes Python follow the link in /proc.
        os.link(f"/proc/self/fd/{descriptor}", f"{_FOLDER}/{name}", src_dir_fd=descriptor, follow_symlinks=True)
    except BaseException:
        resource_tracker.unregister(f"/{name}", "shared_memory")
        raise
    return name


def set_strategy(name: str) -> None:
    """Choose how segments travel: "file_descriptor" or "file_system"; see Note [Shared memory]."""
    global strategy
    strategy = name
    if name == "file_system" and sys.platform == "linux":
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # before the first fork: all processes must use the same one


# --- Windows ----------------------------------------------------------------------------------------------------------


def _named(name: str, nbytes: int) -> Segment:
    found = _segments.get(name)
    if found is None:
        found = Segment(-1, max(nbytes, 1), tagname=name)  # type: ignore[call-arg]
        found.name, found.nbytes = name, nbytes
        _segments[name] = found
    return found


def _named_token(segment: Segment) -> tuple[str | None, Any]:
    """Return the name and a handle that keeps the mapping alive until the receiver takes it from this process."""
    import _winapi
    from multiprocessing import reduction

    windows: Any = _winapi
    size = len(segment)
    handle = windows.CreateFileMapping(
        windows.INVALID_HANDLE_VALUE, windows.NULL, windows.PAGE_READWRITE, size >> 32, size & 0xFFFFFFFF, segment.name
    )
    try:
        return segment.name, reduction.DupHandle(handle, windows.FILE_MAP_ALL_ACCESS)  # type: ignore[attr-defined]
    finally:
        windows.CloseHandle(handle)


def _attach_named(name: str, handle: Any, nbytes: int) -> Segment:
    import _winapi

    windows: Any = _winapi
    kept = handle.detach()
    try:
        return _named(name, nbytes)
    finally:
        windows.CloseHandle(kept)
