"""Meta's accelerators; there are none here."""

from __future__ import annotations

from .compat.absent_device import device_count, empty_cache, is_available, synchronize

__all__ = ["device_count", "empty_cache", "is_available", "synchronize"]
