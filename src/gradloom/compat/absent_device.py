"""What the modules of kinds of devices that are not there have in common."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """Whether there is such a device: False."""
    return False


def device_count() -> int:
    """How many there are: none."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed their generators, of which there are none.

    Args:
        seed: a number.
    """


def empty_cache() -> None:
    """Give memory back that is held for them: none is."""


def synchronize(device: Any = None) -> None:
    """Wait for what one computes.

    Args:
        device: which.

    Raises:
        RuntimeError: there is none.
    """
    raise RuntimeError("there is no such device: gradloom computes on the CPU. Ask is_available() first")
