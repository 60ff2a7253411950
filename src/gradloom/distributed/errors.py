"""Errors of torch.distributed, and how long something may take."""

from __future__ import annotations

import time
from datetime import timedelta

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "QueueEmptyError",
    "deadline_after",
    "default_pg_timeout",
    "seconds_until",
]

default_pg_timeout: timedelta = timedelta(minutes=30)


class DistError(RuntimeError):
    """Something between processes failed."""


class DistBackendError(DistError):
    """A collective failed: a peer was lost, timed out, or called something else."""


class DistNetworkError(DistError):
    """A connection could not be made, or broke."""


class StoreLost(DistNetworkError):
    """The server of a store closed the connection."""


class DistStoreError(DistError):
    """A store did not answer in time."""


class QueueEmptyError(DistStoreError):
    """A queue of a store has no value."""


def deadline_after(timeout: timedelta | float | None) -> float | None:
    """Return the time of `time.monotonic` at which a timeout ends, or None for none.

    Args:
        timeout: timedelta or seconds. PyTorch's kNoTimeout, a negative one, counts as none.
    """
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    return None if timeout is None or timeout < 0 else time.monotonic() + timeout


def seconds_until(deadline: float | None) -> float | None:
    """Return the seconds left until a deadline, at least 0, or None if there is none."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())
