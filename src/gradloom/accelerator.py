"""Whatever accelerator there is: none, gradloom computes on the CPU."""

from __future__ import annotations

from typing import Any

from .compat.absent_device import device_count, empty_cache, is_available, synchronize

__all__ = ["current_accelerator", "device_count", "empty_cache", "is_available", "synchronize"]


def current_accelerator(check_available: bool = False) -> Any:
    """None: there is no accelerator.

    Args:
        check_available: whether it would have to be usable.
    """
    return None
