"""gradloom._C._profiler: the profiler's options and what it calls the kinds of things."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from ..dispatch import state
from ..profiler.session import ProfilerActivity as ProfilerActivity

__all__ = ["ActiveProfilerType", "ProfilerActivity", "ProfilerConfig", "ProfilerState", "RecordScope",
           "_ExperimentalConfig", "_RecordFunctionFast"]


class ProfilerState(enum.Enum):
    """Which profiler is meant; KINETO is the one here."""

    Disabled = 0
    CPU = 1
    CUDA = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5
    KINETO = 6
    KINETO_GPU_FALLBACK = 7
    KINETO_PRIVATEUSE1_FALLBACK = 8


class ActiveProfilerType(enum.Enum):
    """Which profiler runs."""

    NONE = 0
    LEGACY = 1
    KINETO = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5


class RecordScope(enum.Enum):
    """What kind of code an event is: `FunctionEvent.scope` has the numbers."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9


class _ExperimentalConfig:
    """Options of profilers that have no argument of their own.

    Args:
        capture_overload_names: whether events have the overloads of their operators.
        others: PyTorch's, for other devices and tools; they are kept and have no effect.
    """

    _NAMES = ("profiler_metrics", "profiler_measure_per_kernel", "verbose", "performance_events",
              "enable_cuda_sync_events", "adjust_profiler_step", "disable_external_correlation", "profile_all_threads",
              "capture_overload_names", "record_python_gc_info", "expose_kineto_event_metadata",
              "custom_profiler_config", "adjust_timestamps", "trace_only")

    def __init__(self, profiler_metrics: Sequence[str] = (), profiler_measure_per_kernel: bool = False,
                 verbose: bool = False, performance_events: Sequence[str] = (), enable_cuda_sync_events: bool = False,
                 adjust_profiler_step: bool = False, disable_external_correlation: bool = False,
                 profile_all_threads: bool = False, *, capture_overload_names: bool = False, **others: Any) -> None:
        unknown = sorted(set(others).difference(self._NAMES))
        if unknown:
            raise TypeError(f"_ExperimentalConfig() got an unexpected keyword argument '{unknown[0]}'")
        self.profiler_metrics, self.performance_events = list(profiler_metrics), list(performance_events)
        self.profiler_measure_per_kernel, self.verbose = profiler_measure_per_kernel, verbose
        self.enable_cuda_sync_events, self.adjust_profiler_step = enable_cuda_sync_events, adjust_profiler_step
        self.disable_external_correlation, self.profile_all_threads = disable_external_correlation, profile_all_threads
        self.capture_overload_names = capture_overload_names
        self.__dict__.update(others)


class ProfilerConfig:
    """What a profile is to have.

    Args:
        state: a ProfilerState.
        report_input_shapes, profile_memory, with_stack, with_flops, with_modules: as for gradloom.profiler.profile.
        experimental_config: an _ExperimentalConfig.
        trace_id: of the trace.
    """

    def __init__(self, state: ProfilerState, report_input_shapes: bool, profile_memory: bool, with_stack: bool,
                 with_flops: bool, with_modules: bool, experimental_config: _ExperimentalConfig,
                 trace_id: str = "") -> None:
        self.state, self.trace_id = state, trace_id
        self.report_input_shapes, self.profile_memory, self.with_stack = report_input_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules, self.experimental_config = with_flops, with_modules, experimental_config


class _RecordFunctionFast:
    """A block that profiles show as they show an operator.

    Args:
        name: what they call it.
        input_values: what they show as its arguments.
        keyword_values: named arguments.
    """

    def __init__(self, name: str, input_values: Sequence[Any] = (), keyword_values: Mapping[str, Any] | None = None,
                 ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"_RecordFunctionFast takes a name, but got {type(name).__name__}")
        self.name, self.input_values, self.keyword_values = name, input_values, dict(keyword_values or {})
        self._began: Any = None

    def __enter__(self) -> _RecordFunctionFast:
        recorder = state.profiler
        if recorder is not None:
            record = recorder.begin(self.name)
            recorder.describe(record, self.input_values, self.keyword_values)
            self._began = recorder, record
        return self

    def __exit__(self, *exc: object) -> None:
        if self._began is not None:
            recorder, record = self._began
            self._began = None
            recorder.end(record)
