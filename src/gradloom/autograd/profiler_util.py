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

__all__ = ["EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel"]
