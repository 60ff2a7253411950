"""The current accelerator: there is none."""

from __future__ import annotations

from typing import Any

from ..compat.absent_device import device_count, is_available, names as _names, own_functions as _own_functions
from . import random as random

__all__ = ["current_accelerator", "device_count", "is_available"]


def current_accelerator(check_available: bool = False) -> Any:
    """Return None: there is no accelerator."""
    return None


__getattr__ = _names(
    __name__,
    {},
    """
    current_device_idx current_device_index current_stream empty_cache empty_host_cache get_device_capability
    get_memory_info max_memory_allocated max_memory_reserved memory_allocated memory_reserved memory_stats
    reset_accumulated_memory_stats reset_peak_memory_stats set_device_idx set_device_index set_stream synchronize
    """,
    lambda: RuntimeError("Cannot access accelerator device when none is available."),
)

_own_functions(__name__)
