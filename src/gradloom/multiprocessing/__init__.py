"""Processes that share tensors: Python's multiprocessing, whose queues, pipes and pools send tensors by shared memory.

A tensor that is sent moves to shared memory and the receiver gets a tensor on the same memory, whatever class of
multiprocessing takes it: what one process writes, the other reads. A tensor that requires grad must be a leaf; its
`.grad` stays behind. Note [Shared memory] in memory/shared.py says how the memory travels and when it is freed.
"""

from __future__ import annotations

import multiprocessing as _python
from multiprocessing import *  # noqa: F403

import gradloom as _gl

from ..memory import shared as _shared
from ..tensors import sharing as _sharing
from . import reductions as reductions
from .spawn import (
    ProcessContext as ProcessContext,
    ProcessExitedException as ProcessExitedException,
    ProcessRaisedException as ProcessRaisedException,
    SpawnContext as SpawnContext,
    spawn as spawn,
    start_processes as start_processes,
)

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]
__all__ += _python.__all__  # type: ignore[attr-defined]


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how tensors travel between processes.

    "file_descriptor" passes descriptors, one for each storage that is in use, and the sender has to live until its
    message is read. "file_system" lets a sender end before the first message of a storage is read, which has a name in
    /dev/shm until then (on Linux; elsewhere on Unix it does what "file_descriptor" does). It is the only strategy on
    Windows, where it uses named mappings.

    Args:
        new_strategy: one of `get_all_sharing_strategies()`. Set it before processes are started.

    Raises:
        AssertionError: for another strategy.
    """
    if new_strategy not in _shared.STRATEGIES:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {get_all_sharing_strategies()}"
        )
    _shared.set_strategy(new_strategy)


def get_sharing_strategy() -> str:
    """Return how tensors travel between processes; see set_sharing_strategy."""
    return _shared.strategy


def get_all_sharing_strategies() -> set[str]:
    """Return the strategies of this platform."""
    return set(_shared.STRATEGIES)


_sharing.register(_gl.Tensor)
_sharing.register_without_attributes(_gl.nn.Parameter)
