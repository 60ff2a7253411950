"""The fast path of attention modules in evaluation: a flag only, because there is one path."""

from __future__ import annotations

_enabled = True


def get_fastpath_enabled() -> bool:
    """Return the flag."""
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Set the flag."""
    global _enabled
    _enabled = value
