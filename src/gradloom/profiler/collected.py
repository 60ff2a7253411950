"""A profile that was taken: records while it runs, and what can be asked of it afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .chrome_trace import write_trace
from .conversion import events_of
from .event_list import EventList
from .events import FunctionEventAvg
from .recorder import Recorder

if TYPE_CHECKING:
    from typing import Self


class profile:
    """A profile of what runs in a `with` block. `gradloom.profiler.profile` is the newer way, with steps.

    Args:
        enabled: False for a profile that does nothing.
        use_cuda, use_device: other devices, of which there are none here: the profile is of the CPU, with a warning.
        use_kineto: has no effect.
        use_cpu: must be True.
        record_shapes: note shapes, types and values of arguments.
        with_flops: estimate floating point operations.
        profile_memory: note what results allocate, and when it is freed.
        with_stack: note where in the user's code each call is.
        with_modules: has no effect, as in PyTorch.
        experimental_config: with `capture_overload_names`, events have the overloads of their operators.
        acc_events: entering it again adds to its events.
        custom_trace_id_callback: makes the trace's id.
        post_processing_timeout_s, activity_filters: have no effect.
    """

    record_shapes: bool
    with_flops: bool
    profile_memory: bool
    with_stack: bool
    with_modules: bool
    use_cpu: bool
    experimental_config: Any
    acc_events: bool
    entered: bool

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        self.enabled = enabled
        self.record_shapes, self.with_flops, self.profile_memory = record_shapes, with_flops, profile_memory
        self.with_stack, self.with_modules, self.use_cpu = with_stack, with_modules, use_cpu
        self.experimental_config, self.acc_events = experimental_config, acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.use_device: str | None = None
        self.trace_id: str | None = None
        self.entered = False
        self._recorder: Recorder | None = None
        self._finished: list[Recorder] = []
        self._events: EventList | None = None
        if use_cuda or use_device not in (None, "cpu"):
            import warnings

            warnings.warn(
                f"{(use_device or 'cuda').upper()} is not available, disabling its profiling: this profile "
                "is of the CPU",
                stacklevel=2,
            )
        if not use_cpu:
            raise AssertionError("use_cpu=False leaves nothing to profile: the CPU is the only device here")

    def __enter__(self) -> Self | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._prepare_trace()
        self._start_trace()
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.enabled or self._recorder is None:
            return
        self._recorder.close()
        if not self.acc_events:
            self._finished.clear()
        self._finished.append(self._recorder)
        self._recorder = self._events = None

    def _prepare_trace(self) -> None:
        import uuid

        self.entered = True
        self.trace_id = self.custom_trace_id_callback() if self.custom_trace_id_callback else uuid.uuid4().hex.upper()

    def _start_trace(self) -> None:
        self._recorder = Recorder(
            shapes=self.record_shapes, memory=self.profile_memory, stack=self.with_stack, flops=self.with_flops
        )
        self._recorder.attach()

    def _cancel(self) -> None:
        """Record nothing after all."""
        self._recorder = None

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Pause recording, or go on.

        Args:
            enabled: whether to record.
            activities: what; only the CPU has an effect.
        """
        if self._recorder is not None and any(getattr(activity, "name", "") == "CPU" for activity in activities):
            self._recorder.detach()
            if enabled:
                self._recorder.attach()

    @property
    def function_events(self) -> EventList:
        """The events, as an EventList; empty before the block has been left.

        Raises:
            RuntimeError: if the profile is not enabled.
        """
        if not self.enabled:
            raise RuntimeError("this profile was made with enabled=False: it has no events")
        if self._events is None:
            overloads = bool(getattr(self.experimental_config, "capture_overload_names", False))
            found = EventList(profile_memory=self.profile_memory, with_flops=self.with_flops)
            for recorder in self._finished:
                found.extend(events_of(recorder, overloads))
            found._tree_built = True
            if self._recorder is not None:
                return found
            self._events = found
        return self._events

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of the events' own times, in microseconds."""
        return self.function_events.self_cpu_time_total

    def __str__(self) -> str:
        return str(self.function_events) if self.enabled else "<disabled gradloom.autograd.profiler.profile>"

    def __repr__(self) -> str:
        return repr(self.function_events) if self.enabled else str(self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The events as a table; see EventList.table.

        Args:
            sort_by, row_limit, header, top_level_events_only: which rows, in which order, and a line above them.
            max_src_column_width, max_name_column_width, max_shapes_column_width: limits of columns.
        """
        return self.function_events.table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def export_chrome_trace(
        self, path: str, metadata: dict[str, str] | None = None, use_python_export: bool = False
    ) -> None:
        """Write the events as a trace for chrome://tracing and Perfetto.

        Args:
            path: of the file; compressed if it ends in .gz.
            metadata: more to write, name -> JSON.
            use_python_export: has no effect.
        """
        header: dict[str, Any] = {"trace_id": self.trace_id}
        for name in ("record_shapes", "profile_memory", "with_stack", "with_flops"):
            if getattr(self, name):
                header[name] = 1
        ids: dict[int, int] = {}
        memory: list[dict[str, Any]] = []
        for recorder in self._finished:
            ids.update(recorder.native_ids)
            header["baseTimeNanoseconds"] = recorder.wall_start
            memory += _memory_events(recorder)
        header.update({name: json.loads(value) for name, value in (metadata or {}).items()})
        write_trace(path, self.function_events, header=header, native_ids=ids, memory=memory)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks, for programs that draw flame graphs.

        Args:
            path: of the file.
            metric: what is written behind each stack.

        Raises:
            AssertionError: if the profile was not made with `with_stack`.
        """
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """One row for each name; see EventList.key_averages.

        Args:
            group_by_input_shape, group_by_stack_n, group_by_overload_name: what else tells rows apart.
        """
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """The sums over all events."""
        return self.function_events.total_average()


def _memory_events(recorder: Recorder) -> list[dict[str, Any]]:
    """The changes of memory as a trace has them."""
    changes = recorder.allocations.changes if recorder.allocations is not None else ()
    return [
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "tid": change.thread,
            "ts": (change.time - recorder.start) / 1000,
            "args": {
                "Bytes": change.bytes,
                "Total Allocated": change.total,
                "Addr": change.address,
                "Device Id": -1,
                "Device Type": 0,
            },
        }
        for change in changes
    ]
