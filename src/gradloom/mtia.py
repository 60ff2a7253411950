"""Meta's accelerators; there are none here."""

from __future__ import annotations

from .compat.absent_device import (
    device_count,
    empty_cache,
    is_available,
    names as _names,
    own_functions as _own_functions,
    synchronize,
)

__all__ = ["device_count", "empty_cache", "is_available", "synchronize"]

__getattr__ = _names(
    __name__,
    {
        **dict.fromkeys(("max_memory_allocated", "memory_allocated"), int),
        **dict.fromkeys(("manual_seed", "manual_seed_all", "seed", "seed_all"), lambda: None),
        "reset_peak_memory_stats": lambda: None,
        "is_initialized": bool,
        "memory_stats": dict,
    },
    """
    Event Stream StreamContext current_device current_stream default_stream device get_device_capability
    get_device_properties get_rng_state get_rng_state_all init initial_seed set_device set_rng_state set_stream stream
    """,
    lambda: RuntimeError("there is no MTIA device: gradloom computes on the CPU. Ask torch.mtia.is_available() first"),
)

_own_functions(__name__)
