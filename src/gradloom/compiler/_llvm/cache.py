"""Machine code on disk: written once, and trusted only if it is this user's own.

Note [The cache of machine code]
A file holds the code of one structure (Note [Structure and geometry]) for one processor, made by one version of
gradloom and of LLVM; its name is the SHA-256 of all that. What is read is executed, so the folder is created for its
owner alone (0700), and a folder or file that belongs to another user, or that others may write to, is not used. A
checksum finds damaged and cut-off files, which are made anew. Files are written under another name and renamed, so
that concurrent processes see a whole file or none.

When the folder has outgrown LIMIT, the files that were used longest ago, to the day, are deleted. Looking at all files
takes long, so the size of the file TALLY is at least the number of blocks on disk that they take: each write appends
as many bytes as it takes blocks, and the folder is looked at when there are too many, which sets the size right. One
write deletes a limited number of files; if the folder is still too large, the next write goes on.

`GRADLOOM_CACHE_DIR` names another folder; empty, it switches the cache off.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
import warnings
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

LIMIT = 1 << 16  # blocks: 256 MiB
KEPT = LIMIT // 16 * 15  # blocks that are left of a folder that was too large
DELETED = 2048  # files that one write deletes at most: 50,000 take minutes on a busy disk
TALLY = ".blocks"
BEGAN = time.time_ns()
_VARIABLES = ("GRADLOOM_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA")
_BLOCK = 4096  # bytes; a file takes whole blocks
_DAY = 86_400  # seconds; that a file is used is written down once in so many
_MAGIC = b"gradloom machine code 1\n"
# What lies in a file's place is not followed, and a pipe not waited for.
_CAREFULLY = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_READING, _APPENDING = os.O_RDONLY | _CAREFULLY, os.O_WRONLY | os.O_APPEND | _CAREFULLY


class GoneError(Exception):
    """A file of the cache names another one, which is no longer there."""


def _own_sha256() -> Any:
    """Return Python's own SHA-256; hashlib loads OpenSSL, which takes longer than the rest of a cached start."""
    for name in ("_sha2", "_sha256"):  # since Python 3.12; before
        try:
            return import_module(name).sha256
        except ImportError:
            continue
    return import_module("hashlib").sha256


sha256 = _own_sha256()
LARGE = 1 << 18  # bytes, from which on OpenSSL is faster by more than it takes to load


def folder(room: str = "llvm") -> Path | None:
    """Return the folder of cached code, or another one beside it, made if need be; None if there is none that can be
    trusted."""
    named = os.environ.get(_VARIABLES[0])
    return _checked(room, named) if named is not None else _checked(room, None, *map(os.environ.get, _VARIABLES[1:]))


def _default() -> Path:
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


@lru_cache(16)
def _checked(room: str, named: str | None, *_others: str | None) -> Path | None:
    """Return the folder of a room for these values of _VARIABLES."""
    if named == "":
        return None
    try:
        path = (Path(named) if named else _default() / "gradloom") / room
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except (OSError, RuntimeError):  # nowhere to write, no home
        return None
    if not stat.S_ISDIR(found.st_mode) or not _own(found):
        warnings.warn(
            f"{path} is not used as the cache: it is not this user's own, or others may write to it. "
            "Remove it, or set GRADLOOM_CACHE_DIR",
            stacklevel=3,
        )
        return None
    return path


def _own(found: os.stat_result) -> bool:
    """Return whether a file belongs to this user and nobody else may write to it."""
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def file_name(*what: str) -> str:
    """Return the name of the file for code that is determined by these texts."""
    return str(sha256("\0".join(what).encode()).hexdigest())


def read(name: str, room: str = "llvm") -> bytes | None:
    """Return what was written under a name, if it is there, whole, and this user's own."""
    where = folder(room)
    if where is None:
        return None
    try:
        path = f"{where}{os.sep}{name}"
        descriptor = os.open(path, _READING)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or not _own(found):
                return None
            data = os.read(descriptor, found.st_size)  # the checksum finds a short read
        finally:
            os.close(descriptor)
    except OSError:  # it is not there, or cannot be read
        return None
    start = len(_MAGIC) + 32
    payload = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : start] != _checksum(name, payload):
        return None
    if time.time() - found.st_mtime > _DAY:
        with suppress(OSError):
            os.utime(path)
    return payload


def write(name: str, payload: bytes, room: str = "llvm") -> None:
    """Keep code under a name; a full disk or a folder that is not writable is no error."""
    where = folder(room)
    if where is None:
        return
    data = _MAGIC + _checksum(name, payload) + payload
    with suppress(OSError):
        temporary = where / f".new-{os.getpid()}-{threading.get_ident()}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, where / name)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        if _counted(where, _blocks(len(data))) > LIMIT:
            left = evict(where, KEPT)
            os.truncate(where / TALLY, left)


def _checksum(name: str, payload: bytes) -> bytes:
    function = sha256 if len(payload) < LARGE else import_module("hashlib").sha256
    return bytes(function(name.encode() + payload).digest())


def _blocks(size: int) -> int:
    """Return how many blocks a file of `size` bytes takes."""
    return -(-size // _BLOCK)


def _counted(where: Path, blocks: int) -> int:
    """Add the blocks of a written file to the tally, and return the tally: at least the blocks of all files."""
    path = where / TALLY
    try:
        descriptor = os.open(path, _APPENDING)
    except FileNotFoundError:  # the folder's size is not known
        os.close(os.open(path, _APPENDING | os.O_CREAT, 0o600))
        return LIMIT + 1
    try:
        os.write(descriptor, bytes(blocks))
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def evict(where: Path, most: int) -> int:
    """Delete the least recently used files, DELETED at most, until `most` blocks are left; return the blocks left."""
    found = []
    for entry in os.scandir(where):
        with suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            if entry.name != TALLY:
                found.append((status.st_mtime, _blocks(status.st_size), entry.path))
    total = sum(blocks for _, blocks, _ in found)
    for _, blocks, path in sorted(found)[:DELETED] if total > most else ():
        with suppress(OSError):  # another process may have deleted it
            os.unlink(path)
        total -= blocks
        if total <= most:
            break
    return total
