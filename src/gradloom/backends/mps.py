"""Apple's GPUs, which gradloom does not use."""

from __future__ import annotations


def is_available() -> bool:
    """Whether there is one to compute on: False."""
    return False


def is_built() -> bool:
    """Whether gradloom could use one: False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether this is macOS of some version or newer, as far as Apple's GPUs go: False.

    Args:
        major: the version.
        minor: the second part of the version.
    """
    return False
