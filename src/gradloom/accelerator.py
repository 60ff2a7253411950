"""The current accelerator: there is none."""

from __future__ import annotations

from typing import Any

from .compat.absent_device import device_count, empty_cache, is_available, synchronize

__all__ = ["current_accelerator", "device_count", "empty_cache", "is_available", "synchronize"]


def current_accelerator(check_available: bool = False) -> Any:
    """Return None: there is no accelerator."""
    return None
