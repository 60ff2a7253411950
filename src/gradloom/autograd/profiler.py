"""gradloom.autograd.profiler: the profiler without a schedule, `record_function`, and the events of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dispatch.state import state
from ..profiler.collected import profile
from ..profiler.event_list import EventList
from ..profiler.events import FunctionEvent, FunctionEventAvg, Interval, Kernel
from ..profiler.recorder import record_function

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]


if not TYPE_CHECKING:

    def __getattr__(name):
        if name == "_is_profiler_enabled":
            return state.profiler is not None
        if name == "_ExperimentalConfig":
            from ..profiler.options import _ExperimentalConfig

            return _ExperimentalConfig
        if name in ("ProfilerActivity", "kineto_available", "DeviceType"):
            from .. import profiler

            return getattr(profiler, name)
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


class _ExternalProfile:
    """A profile taken by an external program, which is not supported; with `enabled=False` it does nothing."""

    _program = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes

    def __enter__(self) -> Self | None:
        if not self.enabled:
            return None
        raise RuntimeError(
            f"{type(self).__name__} marks events for {self._program}, which gradloom cannot talk to: "
            "use gradloom.profiler.profile and export_chrome_trace()"
        )

    def __exit__(self, *exc: object) -> None:
        pass


class emit_nvtx(_ExternalProfile):
    """Marks for NVIDIA's profilers; not supported.

    Args:
        enabled: False to do nothing.
        record_shapes: has no effect.

    Raises:
        RuntimeError: when it is entered, if it is enabled.
    """

    _program = "NVIDIA's profilers (NVTX)"


class emit_itt(_ExternalProfile):
    """Marks for Intel's VTune; not supported.

    Args:
        enabled: False to do nothing.
        record_shapes: has no effect.

    Raises:
        RuntimeError: when it is entered, if it is enabled.
    """

    _program = "Intel's VTune (ITT)"


def load_nvprof(path: str) -> EventList:
    """Raise RuntimeError: profiles of nvprof are not supported.

    Args:
        path: the file.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("load_nvprof() reads profiles of NVIDIA GPUs, which gradloom does not run on")


parse_nvprof_trace = load_nvprof
