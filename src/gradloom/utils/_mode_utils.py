"""Disabling dispatch for a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..dispatch.state import DisableTorchDispatch

__all__ = ["all_same_mode", "no_dispatch"]


@contextmanager
def no_dispatch() -> Iterator[None]:
    """Call neither dispatch modes nor `__torch_dispatch__` of subclasses in this block."""
    with DisableTorchDispatch():
        yield


def all_same_mode(modes: Any) -> bool:
    """Return whether all of `modes`, a sequence with at least one, are the same object."""
    return all(mode is modes[0] for mode in modes)
