"""Profiles of operators and nodes: when they run, and for how long; the API of torch.profiler.

with gradloom.profiler.profile(record_shapes=True) as prof:
    loss = net(x).sum()
    loss.backward()
print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
prof.export_chrome_trace("trace.json")
"""

from __future__ import annotations

from .events import DeviceType as DeviceType
from .options import (
    ExecutionTraceObserver as ExecutionTraceObserver,
    ProfilerAction as ProfilerAction,
    _ExperimentalConfig as _ExperimentalConfig,
    schedule as schedule,
    tensorboard_trace_handler as tensorboard_trace_handler,
)
from .profiler import (
    ProfilerActivity as ProfilerActivity,
    ProfilerActivityConfig as ProfilerActivityConfig,
    _KinetoProfile as _KinetoProfile,
    profile as profile,
    supported_activities as supported_activities,
)
from .recorder import record_function as record_function

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerActivityConfig",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def kineto_available() -> bool:
    """Return True: a profiler can write traces."""
    return True
