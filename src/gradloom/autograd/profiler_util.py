"""gradloom.autograd.profiler_util: events and lists of events, under PyTorch's module name."""

from __future__ import annotations

from ..profiler.event_list import EventList as EventList
from ..profiler.events import (
    FormattedTimesMixin as FormattedTimesMixin,
    FunctionEvent as FunctionEvent,
    FunctionEventAvg as FunctionEventAvg,
    Interval as Interval,
    Kernel as Kernel,
    format_time as _format_time,  # noqa: F401
)
from ..profiler.table import (
    format_memory as _format_memory,  # noqa: F401
    format_share as _format_time_share,  # noqa: F401
)

MEMORY_EVENT_NAME = "[memory]"

__all__ = ["EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel"]
