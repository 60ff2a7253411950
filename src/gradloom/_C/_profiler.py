"""gradloom._C._profiler: the profiler's options and enumerations."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from ..dispatch.state import state
from ..profiler.options import _ExperimentalConfig as _ExperimentalConfig
from ..profiler.profiler import ProfilerActivity as ProfilerActivity

__all__ = [
    "ActiveProfilerType",
    "ProfilerActivity",
    "ProfilerConfig",
    "ProfilerState",
    "RecordScope",
    "_ExperimentalConfig",
    "_RecordFunctionFast",
]


class ProfilerState(enum.Enum):
    """A kind of profiler; KINETO is the one here."""

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
    """The kind of profiler that is active."""

    NONE = 0
    LEGACY = 1
    KINETO = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5


class RecordScope(enum.Enum):
    """The kind of code that an event records; `FunctionEvent.scope` has the number."""

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


class ProfilerConfig:
    """The configuration of a profile.

    Args:
        state: a ProfilerState.
        report_input_shapes, profile_memory, with_stack, with_flops, with_modules: as for gradloom.profiler.profile.
        experimental_config: an _ExperimentalConfig.
        trace_id: identifier of the trace.
    """

    def __init__(
        self,
        state: ProfilerState,
        report_input_shapes: bool,
        profile_memory: bool,
        with_stack: bool,
        with_flops: bool,
        with_modules: bool,
        experimental_config: _ExperimentalConfig,
        trace_id: str = "",
    ) -> None:
        self.state, self.trace_id = state, trace_id
        self.report_input_shapes, self.profile_memory, self.with_stack = report_input_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules, self.experimental_config = with_flops, with_modules, experimental_config


class _RecordFunctionFast:
    """A named block that profiles show as an operator.

    Args:
        name: its name.
        input_values, keyword_values: its recorded inputs.
    """

    def __init__(
        self, name: str, input_values: Sequence[Any] = (), keyword_values: Mapping[str, Any] | None = None
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
