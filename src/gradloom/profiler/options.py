"""Arguments of profilers: a schedule of steps, a handler for traces, experimental options."""

from __future__ import annotations

import enum
import os
import socket
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..types.public import found_in as _found_in


class ProfilerAction(enum.Enum):
    """The action of a profiler in one step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Make a schedule of cycles: wait, warm up, record, and hand over the trace after the last recorded step.

    Args:
        wait: steps at the start of a cycle that are not profiled.
        warmup: steps after those, in which the profiler runs and its records are dropped.
        active: steps that are recorded.
        repeat: number of cycles; 0 for no limit.
        skip_first: steps before the first cycle.
        skip_first_wait: if not 0, the first cycle has no `wait` steps.

    Returns:
        A function from the number of a step to a ProfilerAction.

    Raises:
        AssertionError: if a number is negative, or `active` is 0.
    """
    given = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
    for name, number in given.items():
        if number < (name == "active"):
            raise AssertionError(
                "Invalid profiler schedule arguments. "
                f"{name} must be {'positive' if name == 'active' else 'at least 0'}, got {number}"
            )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results: what is imported and allocated "
            "at first counts for the first recorded step",
            stacklevel=2,
        )
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"the number of a step must be at least 0, got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, length)
        if 0 < repeat <= cycle or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def always(step: int) -> ProfilerAction:
    """Record every step: the schedule of a profiler without one."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[Any], None]:
    """Make a handler for `on_trace_ready` that writes each trace into a folder for TensorBoard.

    Args:
        dir_name: the folder; created if necessary.
        worker_name: start of the file names; default: host and process.
        use_gzip: whether to compress the files.
        use_python_export: has no effect.

    Raises:
        RuntimeError: from the handler, if the folder cannot be created.
    """

    def handle(profiler: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        profiler.export_chrome_trace(os.path.join(dir_name, name))

    return handle


class ExecutionTraceObserver:
    """Execution traces, which record all operators of a program for replay, are not implemented.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self) -> None:
        raise NotImplementedError(
            "gradloom has no ExecutionTraceObserver: use profile(record_shapes=True) and export_chrome_trace()"
        )


class _ExperimentalConfig:
    """Experimental options of a profiler.

    Args:
        capture_overload_names: whether events have the overloads of their operators.
        others: PyTorch's options for other devices and tools; kept, without effect.
    """

    _NAMES = """
        profiler_metrics profiler_measure_per_kernel verbose performance_events enable_cuda_sync_events
        adjust_profiler_step disable_external_correlation profile_all_threads capture_overload_names
        record_python_gc_info expose_kineto_event_metadata custom_profiler_config adjust_timestamps trace_only
        """.split()

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


_found_in("gradloom.profiler.profiler", ExecutionTraceObserver, ProfilerAction, schedule, tensorboard_trace_handler)
