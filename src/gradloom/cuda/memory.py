"""The functions of memory of `gradloom.cuda`, in PyTorch's module of this name."""

from __future__ import annotations

from typing import Any

import gradloom.cuda as _cuda

_NAMES = frozenset(
    """
    empty_cache get_allocator_backend host_memory_stats list_gpu_processes max_memory_allocated max_memory_cached
    max_memory_reserved mem_get_info memory_allocated memory_cached memory_reserved memory_snapshot memory_stats
    memory_summary reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached
    reset_peak_memory_stats set_per_process_memory_fraction
    """.split()
)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(_cuda, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
