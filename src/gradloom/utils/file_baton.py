"""A lock between processes: a file that exists while one of them holds it."""

from __future__ import annotations

import os
import time
import warnings

__all__ = ["FileBaton"]


class FileBaton:
    """A lock that one process takes and the others wait for.

    Args:
        lock_file_path: the file.
        wait_seconds: time between two looks at it.
        warn_after_seconds: warn when `wait` takes longer.
    """

    lock_file_path: str
    wait_seconds: float

    def __init__(self, lock_file_path: str, wait_seconds: float = 0.1, warn_after_seconds: float | None = None) -> None:
        self.lock_file_path, self.wait_seconds = lock_file_path, wait_seconds
        self.warn_after_seconds = warn_after_seconds
        self.fd: int | None = None

    def try_acquire(self) -> bool:
        """Create the file; return False if another process has."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Wait until the file is gone."""
        begin, warned = time.monotonic(), self.warn_after_seconds is None
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            if not warned and time.monotonic() - begin > self.warn_after_seconds:  # type: ignore[operator]
                warnings.warn(
                    f'Waited on lock file "{self.lock_file_path}" for {self.warn_after_seconds} seconds.', stacklevel=2
                )
                warned = True

    def release(self) -> None:
        """Remove the file."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
