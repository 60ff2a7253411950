"""Two things that Python's standard library does not have in one form for all systems: a lock, and an exchange."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .target import UsageError

WAIT = 120.0  # seconds for a lock; generating takes three
_PAUSE = 0.05
_AT_FDCWD = {"linux": -100, "darwin": -2}
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold an existing folder until the end of the block; the lock goes with the process, however that ends.

    Where the system has no locks on folders (Windows), nothing is held.

    Raises:
        UsageError: if another process holds it for two minutes, or the folder cannot be opened.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"{folder}: {(error.strerror or str(error)).lower()}") from None
    try:
        end = time.monotonic() + WAIT
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    message = f"another `gradloom generate` has been writing in {folder} for {WAIT:.0f} seconds"
                    raise UsageError(f"{message}: end it first") from None
                time.sleep(_PAUSE)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        os.close(handle)


def exchange(first: Path, second: Path) -> bool:
    """Let two files or folders change places in one step; False where the system has no such step."""
    base = _AT_FDCWD.get(sys.platform)
    if base is None:
        return False
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    rename = getattr(library, "renameat2" if sys.platform == "linux" else "renameatx_np", None)
    if rename is None:
        return False
    rename.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return bool(rename(base, os.fsencode(first), base, os.fsencode(second), _EXCHANGE) == 0)
