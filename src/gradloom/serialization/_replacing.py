"""Replace a file completely or not at all, whatever else writes to it at the same time."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.part")


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing bytes that takes the place of `path` if the block ends without an exception.

    Whoever opens `path` meanwhile sees the old file or the new one. The mode and the owner of an old file stay as they
    are, and symbolic links still lead to it. A process that is killed leaves a file `<path>.<16 digits>.part`, which
    the next call for this path removes. Pipes, devices and files in folders that take no new files are written to in
    place.

    Raises OSError if the file cannot be written.
    """
    file, unfinished, old = None, "", None
    with suppress(FileNotFoundError):
        old = os.stat(path)
    try:
        if old is None or (stat.S_ISREG(old.st_mode) and os.access(path, os.W_OK)):
            path = os.path.realpath(path)
            _remove_abandoned(path)
            try:
                file, unfinished = _create(path)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG):
                    raise
        if file is None:
            file = open(path, "wb")
            yield file
            return
        if old is not None:
            _take_over(file, old)
        yield file
        file.flush()
        os.fsync(file.fileno())
        if fcntl is None:
            file.close()
        os.replace(unfinished, path)
        _sync_folder(os.path.dirname(path))
    finally:
        if file is not None:
            file.close()
        if unfinished:
            with suppress(FileNotFoundError):
                os.remove(unfinished)


def _create(path: str) -> tuple[BinaryIO, str]:
    """Create an unfinished file next to `path`, locked until it is closed."""
    while True:
        name = f"{path}.{os.urandom(8).hex()}.part"
        number = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        file = os.fdopen(number, "wb")
        if _lock(number) is not False and os.fstat(number).st_nlink:
            return file, name
        file.close()  # another call took it for abandoned before it was locked, and removed it


def _lock(number: int) -> bool | None:
    """Lock an open file; return False if another has locked it, None where there are no locks."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (OSError, AttributeError):
        return None
    return True


def _remove_abandoned(path: str) -> None:
    """Remove the unfinished files of `path` whose writers have ended."""
    folder, name = os.path.split(path)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(name) or not _UNFINISHED.fullmatch(entry.name[len(name) :]):
                continue
            with suppress(OSError):
                if fcntl is None:
                    os.remove(entry.path)
                    continue
                number = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if _lock(number):
                        os.remove(entry.path)
                finally:
                    os.close(number)


def _take_over(file: BinaryIO, old: os.stat_result) -> None:
    """Give a new file the mode of an old one, and its owner where that is permitted."""
    if hasattr(os, "fchmod"):
        new = os.fstat(file.fileno())
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            with suppress(PermissionError):
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
        os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))


def _sync_folder(folder: str) -> None:
    """Write the new entry of a folder to the disk, where folders can be opened."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
