"""Intel GPUs; there are none here."""

from __future__ import annotations

from .compat.absent_device import device_count, empty_cache, is_available, manual_seed, synchronize

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all", "synchronize"]

manual_seed_all = manual_seed
