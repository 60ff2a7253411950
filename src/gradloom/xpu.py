"""Intel GPUs; there are none here."""

from __future__ import annotations

from .compat.absent_device import (
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    names as _names,
    own_functions as _own_functions,
    synchronize,
)

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all", "synchronize"]

manual_seed_all = manual_seed

__getattr__ = _names(
    __name__,
    {
        **dict.fromkeys(("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved"), int),
        **dict.fromkeys(("is_bf16_supported", "is_initialized", "is_tf32_supported"), bool),
        **dict.fromkeys(("get_arch_list", "get_rng_state_all"), list),
        **dict.fromkeys(("seed", "seed_all"), lambda: None),
        "memory_stats": dict,
    },
    """
    Event Stream StreamContext current_device current_stream device device_of get_device_capability get_device_name
    get_device_properties get_rng_state init initial_seed mem_get_info reset_accumulated_memory_stats
    reset_peak_memory_stats set_device set_rng_state set_rng_state_all set_stream stream
    """,
    lambda: AssertionError("there is no XPU: gradloom computes on the CPU. Ask torch.xpu.is_available() first"),
)

_own_functions(__name__)
