"""Keep forked processes out of their parents' groups.

Note [Forked processes]

A fork has its parent's memory, so it could call the parent's groups: what it sends would be taken for the parent's, and
its threads for those that move the parent's data are missing. So in a forked process every engine, lane and server
that the parent had is told so (`after_fork`): calls raise, waiting work ends with an error, and the copies of the
parent's connections are closed, which the parent does not notice. Number of ranks, own rank and stores can still be
asked for. After `destroy_process_group` the process may make groups of its own.
"""

from __future__ import annotations

import os
from typing import Any, Protocol
from weakref import ref

from .errors import DistBackendError

__all__ = ["forked_error", "tell_forks"]

_told: set[ref[Any]] = set()


class _Told(Protocol):
    def after_fork(self) -> None:
        """Let go of what belongs to the parent. Called in the new process, in which no other thread runs."""


def tell_forks(one: _Told) -> None:
    """Call an object's `after_fork` in forked processes, as long as it exists."""
    _told.add(ref(one, _told.discard))


def forked_error() -> DistBackendError:
    """Return the error of calls that would be the parent's."""
    return DistBackendError(
        "This process was forked after init_process_group: its process groups are its parent's, and it takes no part "
        "in their calls. Communicate in the parent; or fork before init_process_group; or call destroy_process_group "
        "first, and init_process_group for groups of its own."
    )


def _tell_all() -> None:
    for one in [kept() for kept in _told]:
        if one is not None:
            one.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_all)
