"""Backward passes over remote procedure calls, which gradloom does not have: packages ask `is_available` first."""

from __future__ import annotations

from ..utils._refused import declare

__all__ = ["is_available"]

__getattr__ = declare(
    __name__,
    {"": "backward context get_gradients"},
    "gradloom has no remote procedure calls; docs/distributed.md lists what there is",
)


def is_available() -> bool:
    """Return False: there are no remote procedure calls."""
    return False
