"""Apple GPUs; there are none here."""

from __future__ import annotations

from .compat.absent_device import (
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    own_functions as _own_functions,
    synchronize,
)

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]

_own_functions(__name__)
