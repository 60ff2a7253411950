"""Options of profilers that have no argument of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class _ExperimentalConfig:
    """Options of profilers that have no argument of their own.

    Args:
        capture_overload_names: whether events have the overloads of their operators.
        others: PyTorch's, for other devices and tools; they are kept and have no effect.
    """

    _NAMES = (
        "profiler_metrics",
        "profiler_measure_per_kernel",
        "verbose",
        "performance_events",
        "enable_cuda_sync_events",
        "adjust_profiler_step",
        "disable_external_correlation",
        "profile_all_threads",
        "capture_overload_names",
        "record_python_gc_info",
        "expose_kineto_event_metadata",
        "custom_profiler_config",
        "adjust_timestamps",
        "trace_only",
    )

    def __init__(
        self,
        profiler_metrics: Sequence[str] = (),
        profiler_measure_per_kernel: bool = False,
        verbose: bool = False,
        performance_events: Sequence[str] = (),
        enable_cuda_sync_events: bool = False,
        adjust_profiler_step: bool = False,
        disable_external_correlation: bool = False,
        profile_all_threads: bool = False,
        *,
        capture_overload_names: bool = False,
        **others: Any,
    ) -> None:
        unknown = sorted(set(others).difference(self._NAMES))
        if unknown:
            raise TypeError(f"_ExperimentalConfig() got an unexpected keyword argument '{unknown[0]}'")
        self.profiler_metrics, self.performance_events = list(profiler_metrics), list(performance_events)
        self.profiler_measure_per_kernel, self.verbose = profiler_measure_per_kernel, verbose
        self.enable_cuda_sync_events, self.adjust_profiler_step = enable_cuda_sync_events, adjust_profiler_step
        self.disable_external_correlation, self.profile_all_threads = disable_external_correlation, profile_all_threads
        self.capture_overload_names = capture_overload_names
        self.__dict__.update(others)
