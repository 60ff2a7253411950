"""A finished profile: turns the records of a Recorder into events, and answers questions about them."""

from __future__ import annotations

import json
import uuid
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Self

from ..core.user_stack import is_ours
from ..types.public import found_in as _found_in
from .chrome_trace import write_trace
from .event_list import EventList
from .events import BACKWARD_FUNCTION, USER_SCOPE, FunctionEvent, FunctionEventAvg, makes_node
from .recorder import Record, Recorder

STEP = "ProfilerStep#"


class profile:
    """Profile a `with` block. `gradloom.profiler.profile` is the newer API; it has steps.

    Args:
        enabled: False for a profile that does nothing.
        use_cuda, use_device: devices other than the CPU warn; the CPU is profiled instead.
        use_kineto: has no effect.
        use_cpu: must be True.
        record_shapes: record the shapes, types and values of arguments.
        with_flops: estimate floating-point operations.
        profile_memory: record the memory that results allocate, and when it is freed.
        with_stack: record the call stack of the user's code.
        with_modules: has no effect, as in PyTorch.
        experimental_config: `capture_overload_names` gives events the overloads of their operators.
        acc_events: entering the profile again adds to its events.
        custom_trace_id_callback: returns the trace's id.
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
        try:
            self._prepare_trace()
            self._start_trace()
            return self
        except BaseException:  # see Note [Interrupts]
            self._abandon()
            raise

    def __exit__(self, *exc: object) -> None:
        if not self.enabled or self._recorder is None:
            return
        try:
            self._recorder.close()
        except BaseException:
            self._abandon()
            raise
        if not self.acc_events:
            self._finished.clear()
        self._finished.append(self._recorder)
        self._recorder = self._events = None

    def _prepare_trace(self) -> None:
        self.entered = True
        self.trace_id = self.custom_trace_id_callback() if self.custom_trace_id_callback else uuid.uuid4().hex.upper()

    def _start_trace(self) -> None:
        self._recorder = Recorder(
            shapes=self.record_shapes, memory=self.profile_memory, stack=self.with_stack, flops=self.with_flops
        )
        self._recorder.attach()

    def _abandon(self) -> None:
        """Stop recording after an interrupt; the record is incomplete."""
        if self._recorder is not None:
            self._recorder.close()

    def _cancel(self) -> None:
        """Discard the running record."""
        self._recorder = None

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Pause or resume recording.

        Args:
            enabled: whether to record.
            activities: the activities concerned; only the CPU has an effect.
        """
        if self._recorder is not None and any(getattr(activity, "name", "") == "CPU" for activity in activities):
            self._recorder.detach()
            if enabled:
                self._recorder.attach()

    @property
    def function_events(self) -> EventList:
        """The events; empty until the block is left.

        Raises:
            RuntimeError: if the profile is not enabled.
        """
        if not self.enabled:
            raise RuntimeError("this profile was created with enabled=False: it has no events")
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
        """Sum of the events' self times, in microseconds."""
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
        """Return the events as a table; the arguments are those of EventList.table."""
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
        self,
        path: str,
        metadata: dict[str, str] | None = None,
        use_python_export: bool = False,
        cuda_graph_annotations: Any = None,
        graph_lanes: str = "none",
        default_stream: int = 7,
    ) -> None:
        """Write the events as a trace for chrome://tracing and Perfetto.

        Args:
            path: the file; compressed if it ends in .gz.
            metadata: more entries, name -> JSON.
            use_python_export: has no effect; nor have the others, which are about CUDA graphs.
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
        """Write stacks for flame graph programs; see EventList.export_stacks.

        Args:
            path: the file.
            metric: the time to write with each stack.

        Raises:
            AssertionError: without `with_stack`.
        """
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList:
        """Return one average per name; the arguments are those of EventList.key_averages."""
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        )

    def total_average(self) -> FunctionEventAvg:
        """Return the sums over all events."""
        return self.function_events.total_average()


def _memory_events(recorder: Recorder) -> list[dict[str, Any]]:
    """Return the changes of memory as events of a trace."""
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


def events_of(recorder: Recorder, overload_names: bool = False) -> EventList:
    """Return the events of a closed recorder, as a tree; with the overloads of their operators if asked."""
    totals = _memory_totals(recorder.records)
    threads = {r.sequence_nr: r.thread for r in recorder.records if makes_node(r)}
    texts: dict = {}
    events = EventList(profile_memory=recorder.allocations is not None, with_flops=recorder.flops)
    for number, record in enumerate(recorder.records, 1):
        arguments = record.arguments
        event = FunctionEvent(
            id=number,
            name=f"{STEP[:-1]}*" if record.name.startswith(STEP) else record.name,
            trace_name=record.name,
            overload_name=record.overload if overload_names else "",
            thread=record.thread,
            start_us=(record.start - recorder.start) / 1000,
            end_us=((record.end or 0) - recorder.start) / 1000,
            fwd_thread=_forward_thread(record, threads),
            sequence_nr=record.sequence_nr,
            scope=record.scope,
            is_async=record.is_async,
            input_shapes=[] if arguments is None else arguments.flat_shapes,
            structured_input_shapes=[] if arguments is None else arguments.shapes,
            structured_input_strides=[] if arguments is None else arguments.strides,
            input_dtypes=[] if arguments is None else arguments.types,
            concrete_inputs=[] if arguments is None else arguments.values,
            kwinputs=record.keywords or {},
            stack=_stack_texts(record.stack, texts),
            cpu_memory_usage=totals[id(record)],
            flops=record.flops,
            is_user_annotation=record.scope == USER_SCOPE,
            activity_type="user_annotation" if record.scope == USER_SCOPE else "cpu_op",
        )
        events.append(event)
    events._build_tree()
    return events


def _memory_totals(records: list[Record]) -> dict[int, int]:
    """Return {id of a record: bytes allocated in it and in the records inside it}."""
    totals = {id(record): record.allocated for record in records}
    for record in reversed(records):  # a record is made after the one that contains it
        if record.parent is not None and id(record.parent) in totals:
            totals[id(record.parent)] += totals[id(record)]
    return totals


def _forward_thread(record: Record, threads: dict[int, int]) -> int:
    if record.sequence_nr < 0 or makes_node(record):
        return 0
    is_node = record.scope == BACKWARD_FUNCTION or record.name.startswith("autograd::engine::")
    return threads.get(record.sequence_nr, record.thread) if is_node else 0


def _stack_texts(stack, texts: dict) -> list[str]:
    """Return the calls of the user's code in a stack, innermost first, each as `file(line): function`."""
    if stack is None:
        return []
    found = []
    for code, line in stack:
        place = id(code), line  # the code object of a wrapper may hold unhashable constants
        text = texts.get(place)
        if text is None:
            text = texts[place] = "" if is_ours(code) else f"{code.co_filename}({line}): {code.co_name}"
        if text:
            found.append(text)
    return found


_found_in("gradloom.autograd.profiler", profile)
