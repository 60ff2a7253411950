"""Locks that are free in a forked process, whichever thread of the parent held them."""

from __future__ import annotations

import os
from threading import RLock
from typing import Any
from weakref import ref

_locks: set[ref[Any]] = set()


def new_lock() -> Any:
    """Return a reentrant lock. All locks of the library are made here."""
    return renewed(RLock())


def renewed(lock: Any) -> Any:
    """Let a lock, such as one that NumPy made, be free in forked processes; return it."""
    _locks.add(ref(lock, _locks.discard))
    return lock


def _renew() -> None:
    for lock in [kept() for kept in _locks]:
        if lock is not None:
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
