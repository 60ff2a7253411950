"""OpenMP, which gradloom does not use: its kernels run in Python's threads."""

from __future__ import annotations


def is_available() -> bool:
    """Return False."""
    return False
