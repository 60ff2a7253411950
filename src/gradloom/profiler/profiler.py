"""`gradloom.profiler.profile`: record the steps that a schedule selects, and export them."""

from __future__ import annotations

import enum
import json
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .collected import profile as _Collected
from .options import (
    ExecutionTraceObserver as ExecutionTraceObserver,
    ProfilerAction,
    always,
    schedule as schedule,
    tensorboard_trace_handler as tensorboard_trace_handler,
)
from .recorder import record_function

if TYPE_CHECKING:
    from typing import Self

    from .event_list import EventList

_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class ProfilerActivity(enum.Enum):
    """Kinds of activity. gradloom records CPU; the other members exist for code that names them."""

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that gradloom records: the CPU's."""
    return {ProfilerActivity.CPU}


@dataclass
class ProfilerActivityConfig:
    """What to collect of an activity, the value of a dict in `activities`. All types of events are collected.

    Args:
        activity_types: names of types of events.
        profiler_configs: further configurations, which are about counters of GPUs.
    """

    activity_types: list[str] | None = None
    profiler_configs: list[Any] = field(default_factory=list)


def _chosen(activities) -> set[ProfilerActivity]:
    if activities is None:
        return supported_activities()
    chosen: set[Any] = set()
    for item in activities:
        if not isinstance(item, (ProfilerActivity, dict)):
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(item)}")
        chosen.update(item if isinstance(item, dict) else (item,))
    if not chosen:
        raise AssertionError(
            "No valid profiler activities found: `activities` takes members of ProfilerActivity, such "
            f"as [ProfilerActivity.CPU], but got {activities!r}"
        )
    return chosen


class _KinetoProfile:
    """A profiler without a schedule: `start` and `stop`, or their parts.

    Args:
        activities: members of ProfilerActivity; only the CPU has events.
        record_shapes: record the shapes, types and values of arguments.
        profile_memory: record the memory that results allocate, and when it is freed.
        with_stack: record the call stack of the user's code.
        with_flops: estimate floating-point operations.
        with_modules: has no effect, as in PyTorch.
        experimental_config: `capture_overload_names` gives events the overloads of their operators.
        execution_trace_observer: its start() and stop() are called with the profiler's.
        acc_events: keep the events of earlier cycles.
        custom_trace_id_callback: returns the id of each cycle's trace.
        post_processing_timeout_s: has no effect.

    Raises:
        AssertionError: if `activities` has no valid member.
    """

    record_shapes: bool
    profile_memory: bool
    with_stack: bool
    with_flops: bool
    with_modules: bool
    experimental_config: Any
    execution_trace_observer: Any
    acc_events: bool

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = _chosen(activities)
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules = with_flops, with_modules
        self.experimental_config, self.execution_trace_observer = experimental_config, execution_trace_observer
        self.acc_events, self.custom_trace_id_callback = acc_events, custom_trace_id_callback
        self.profiler: _Collected | None = None
        self._metadata: dict[str, str] = {}  # of the next trace: name -> JSON
        self._preset: dict[str, str] = {}  # of all traces

    def prepare_trace(self) -> None:
        """Prepare to record a trace."""
        if self.profiler is None or not self.acc_events:
            self.profiler = _Collected(
                use_cpu=True,
                record_shapes=self.record_shapes,
                with_flops=self.with_flops,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_modules=self.with_modules,
                experimental_config=self.experimental_config,
                acc_events=self.acc_events,
                custom_trace_id_callback=self.custom_trace_id_callback,
            )
        self.profiler._prepare_trace()
        self._metadata = {}

    def start_trace(self) -> None:
        """Start recording."""
        if self.execution_trace_observer:
            self.execution_trace_observer.start()
        self._collected("starting trace")._start_trace()

    def stop_trace(self) -> None:
        """Stop recording.

        Raises:
            AssertionError: if nothing was started.
        """
        if self.execution_trace_observer:
            self.execution_trace_observer.stop()
        self._collected("stopping trace").__exit__(None, None, None)

    def start(self) -> None:
        """Prepare and start recording."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """Stop recording."""
        self.stop_trace()

    def _collected(self, doing: str) -> _Collected:
        if self.profiler is None:
            raise AssertionError(
                f"Profiler must be initialized before {doing}: use it in a `with` block, or start() it"
            )
        return self.profiler

    def events(self) -> EventList:
        """Return the events of the last cycle.

        Raises:
            AssertionError: if nothing was started.
        """
        return self._collected("accessing events").function_events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList:
        """Return one average per name for the last cycle; see EventList.key_averages.

        Args:
            group_by_input_shape: also distinguish the shapes of inputs; needs `record_shapes`.
            group_by_stack_n: also distinguish the innermost n calls of the user's code; needs `with_stack`.
            group_by_overload_name: also distinguish overloads.
            include_python_functions: also average the events of Python functions.

        Raises:
            AssertionError: if nothing was started.
        """
        collected = self._collected("getting key averages")
        return collected.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        )

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write the last cycle as a trace for chrome://tracing and Perfetto.

        Args:
            path: the file; compressed if it ends in .gz.
            use_python_export: has no effect.

        Raises:
            AssertionError: if nothing was started.
        """
        self._collected("exporting chrome trace").export_chrome_trace(path, {**self._preset, **self._metadata})

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks of the last cycle for flame graph programs; see EventList.export_stacks.

        Args:
            path: the file.
            metric: the time to write with each stack.

        Raises:
            AssertionError: if nothing was started, or without `with_stack`.
        """
        self._collected("exporting stacks").export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Raise NotImplementedError: the category of memory (gradient, parameter, activation) is not recorded."""
        raise NotImplementedError(
            "gradloom has no export_memory_timeline(). With profile_memory=True, the trace of "
            "export_chrome_trace() shows the memory in use over time"
        )

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the next trace.

        Args:
            key, value: its name, and the text.
        """
        self.add_metadata_json(key, json.dumps(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value to the next trace.

        Args:
            key, value: its name, and the value as JSON.
        """
        self._metadata[key] = value

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value to every trace of this profiler.

        Args:
            key, value: its name, and the value as JSON.
        """
        self._preset[key] = value

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Pause or resume recording.

        Args:
            enable: whether to record.
            activities: the activities concerned; only ProfilerActivity.CPU has an effect.
        """
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Set the function that makes the ids of traces.

        Args:
            callback: takes no arguments and returns a str.
        """
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """Return the id of the last trace; None before the first."""
        return None if self.profiler is None else self.profiler.trace_id


class profile(_KinetoProfile):
    """Profile a `with` block, or the code between start() and stop().

        with profile(record_shapes=True) as prof:
            net(x).sum().backward()
        print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))

    Args:
        schedule: a function from the number of a step to a ProfilerAction, such as the result of `schedule(...)`;
            step() begins the next step. Default: record everything.
        on_trace_ready: called with the profiler at the end of each cycle.
        use_cuda: deprecated; warns.
        activities, record_shapes, profile_memory, with_stack, with_flops, with_modules: see _KinetoProfile.
        experimental_config, execution_trace_observer, acc_events, custom_trace_id_callback, post_processing_timeout_s:
            see _KinetoProfile.

    Raises:
        AssertionError: if `activities` has no valid member.
        TypeError: if the schedule is not callable.
    """

    step_num: int
    current_action: ProfilerAction

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        if schedule is not None and not callable(schedule):
            raise TypeError(
                f"'{type(schedule).__name__}' object is not callable: schedule must be a function from the "
                "number of a step to a ProfilerAction"
            )
        self.schedule = always if schedule is None else schedule
        self.record_steps: bool = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.step_rec_fn: record_function | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
            return self
        except BaseException:  # see Note [Interrupts]
            self._abandon()
            raise

    def __exit__(self, *exc: object) -> None:
        try:
            self.stop()
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        if self.profiler is not None:
            self.profiler._abandon()

    def start(self) -> None:
        """Begin the first step."""
        self._change(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """End the last step, and hand over the trace if one is being recorded."""
        self._end_step()
        if self.current_action is ProfilerAction.WARMUP:
            self._collected("stopping trace")._cancel()
        elif self.current_action in _RECORDING:
            self._collected("stopping trace")
            self._finish()

    def step(self) -> None:
        """Begin the next step, with the action that the schedule gives it."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._change(before, self.current_action)
        self._begin_step()

    def _begin_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _change(self, before: ProfilerAction, now: ProfilerAction) -> None:
        """Start and stop recording between the actions of two steps."""
        if before is ProfilerAction.RECORD and now not in _RECORDING:
            warnings.warn(
                f"Incorrect schedule: RECORD followed by {now.name}. The last step of a cycle must be "
                "RECORD_AND_SAVE; this trace is handed over now",
                stacklevel=3,
            )
            self._finish()
        elif before is ProfilerAction.RECORD_AND_SAVE:
            self._finish()
        recorded = before is ProfilerAction.RECORD
        if now is ProfilerAction.WARMUP and before is not ProfilerAction.WARMUP:
            self.prepare_trace()
        elif now in _RECORDING and not recorded:
            if before is not ProfilerAction.WARMUP:
                self.prepare_trace()
            self.start_trace()

    def _finish(self) -> None:
        self.stop_trace()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)
