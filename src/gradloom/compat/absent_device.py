"""Functions shared by the modules of absent device types (cuda, mps, mtia, xpu)."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """Return False: gradloom computes on the CPU."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator to seed."""


def empty_cache() -> None:
    """Do nothing: there is no cached memory."""


def synchronize(device: Any = None) -> None:
    """Refuse to wait for a device.

    Raises RuntimeError always.
    """
    raise RuntimeError("there is no such device: gradloom computes on the CPU. Ask is_available() first")
