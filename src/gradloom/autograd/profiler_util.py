"""gradloom.autograd.profiler_util: events and lists of events, under the name that PyTorch has for their module."""

from __future__ import annotations

from ..profiler.event_list import EventList as EventList
from ..profiler.events import (
    FormattedTimesMixin as FormattedTimesMixin,
)
from ..profiler.events import (
    FunctionEvent as FunctionEvent,
)
from ..profiler.events import (
    FunctionEventAvg as FunctionEventAvg,
)
from ..profiler.events import (
    Interval as Interval,
)
from ..profiler.events import (
    Kernel as Kernel,
)
from ..profiler.events import format_time as _format_time  # noqa: F401
from ..profiler.table import format_memory as _format_memory  # noqa: F401
from ..profiler.table import format_share as _format_time_share  # noqa: F401

MEMORY_EVENT_NAME = "[memory]"

__all__ = ["EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel"]
