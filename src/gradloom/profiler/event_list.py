"""EventList: the events of a profile as a tree, with averages, tables and exports."""

from __future__ import annotations

from typing import Any

from ..types.public import found_in as _found_in
from .chrome_trace import write_trace
from .events import BACKWARD_FUNCTION, DeviceType, FunctionEvent, FunctionEventAvg
from .table import build_table


class EventList(list):
    """The events of a profile, or averages of them.

    Args:
        args: the events.
        use_device: None: all events ran on the CPU.
        profile_memory: whether tables show memory.
        with_flops: whether tables show floating-point operations.
    """

    def __init__(
        self, *args: Any, use_device: str | None = None, profile_memory: bool = False, with_flops: bool = False
    ) -> None:
        super().__init__(*args)
        self._use_device, self._profile_memory, self._with_flops = use_device, profile_memory, with_flops
        self._tree_built = False

    def _build_tree(self) -> None:
        """Set parents, merge calls that only delegate, and give nodes the stacks of their forward calls."""
        _nest(self)
        _merge_repeated(self)
        _propagate_stacks(self)
        self._tree_built = True

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Sum of the events' self times, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return the events as a table.

        Args:
            sort_by: attribute to sort rows by, largest first, such as `cpu_time_total`, `self_cpu_time_total`,
                `cpu_memory_usage` or `count`; default: the order of the events.
            row_limit: maximum number of rows; -1 for all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: maximum widths of the columns for
                source lines, names and shapes; None for as wide as needed.
            header: a line above the table.
            top_level_events_only: omit events that ran inside other events.
            time_unit: "s", "ms" or "us" for all times; default: chosen per time.

        Raises:
            AttributeError: if events have no attribute `sort_by`.
            ValueError: for another time_unit.
        """
        widths = {"name": max_name_column_width, "shapes": max_shapes_column_width, "source": max_src_column_width}
        return build_table(
            self,
            sort_by=sort_by,
            row_limit=row_limit,
            widths=widths,
            header=header,
            top_level_only=top_level_events_only,
            time_unit=time_unit,
            memory=self._profile_memory,
            flops=self._with_flops,
        )

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList:
        """Return one FunctionEventAvg per name.

        Args:
            group_by_input_shapes: also distinguish the shapes of inputs.
            group_by_stack_n: also distinguish the innermost n calls of the user's code.
            group_by_overload_name: also distinguish overloads.
            include_python_functions: also average the events of Python functions.

        Raises:
            AssertionError: for a list that is not a tree, such as one made by hand.
        """
        if not self._tree_built:
            raise AssertionError("Expected tree to be built before calling key_averages: use the list of a profile")
        groups: dict[tuple, FunctionEventAvg] = {}
        for event in self:
            if event.is_python_function and not include_python_functions:
                continue
            key = [event.key, event.node_id, event.device_type, event.is_legacy, event.is_user_annotation]
            if group_by_overload_name:
                key.append(event.overload_name)
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_stack_n:
                key.extend((event.stack or ())[:group_by_stack_n])
            groups.setdefault(tuple(key), FunctionEventAvg()).add(event)
        for average in groups.values():
            average.stack = (average.stack or [])[:group_by_stack_n]
            average.input_shapes = average.input_shapes if group_by_input_shapes else ""
            average.overload_name = average.overload_name if group_by_overload_name else ""
        return EventList(
            groups.values(),
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )

    def total_average(self) -> FunctionEventAvg:
        """Return the sums over all events, as one average with the key `Total`."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
            total.key = None
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as a trace for chrome://tracing and Perfetto, with arrows from forward to backward.

        Args:
            path: the file; compressed if it ends in .gz.
        """
        write_trace(path, self)

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return the metrics that export_stacks accepts."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write each stack and its time on one line, the format of flame graph programs.

        Args:
            path: the file.
            metric: the time to write; one of supported_export_stacks_metrics().

        Raises:
            ValueError: for another metric.
        """
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}, but got {metric!r}")
        attribute = metric if metric == "self_cpu_time_total" else "self_device_time_total"
        unfit = str.maketrans(" ;\t\n", "____")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                spent = int(getattr(event, attribute))
                if event.stack and spent > 0:
                    file.write(f"{';'.join(entry.translate(unfit) for entry in reversed(event.stack))} {spent}\n")


def _nest(events: EventList) -> None:
    """Set parents and children: an event's parent is the shortest event of its thread that contains it."""
    threads: dict[Any, list[FunctionEvent]] = {}
    for event in events:
        if not event.is_async and event.device_type is DeviceType.CPU:
            threads.setdefault((event.thread, event.node_id), []).append(event)
    for of_thread in threads.values():
        open_events: list[FunctionEvent] = []
        for event in sorted(of_thread, key=lambda e: (e.time_range.start, -e.time_range.end)):
            while open_events and not open_events[-1].time_range.contains(event.time_range):
                open_events.pop()
            if open_events:
                open_events[-1].append_cpu_child(event)
                event.set_cpu_parent(open_events[-1])
            open_events.append(event)


def _merge_repeated(events: EventList) -> None:
    """Drop an event that is the only child of one of the same name; its children move up."""
    dropped = set()
    for event in reversed(events):  # innermost first, so that a chain of them collapses to its outermost
        parent = event.cpu_parent
        if parent is not None and parent.name == event.name and len(parent.cpu_children) == 1:
            parent.cpu_children, parent.kernels = event.cpu_children, event.kernels
            for child in event.cpu_children:
                child.cpu_parent = parent
            dropped.add(id(event))
    if dropped:
        events[:] = [event for event in events if id(event) not in dropped]


def _node_around(event: FunctionEvent | None) -> FunctionEvent | None:
    """Return the node in whose backward an event ran; a node returns itself."""
    while event is not None and event.scope != BACKWARD_FUNCTION:
        event = event.cpu_parent
    return event


def _propagate_stacks(events: EventList) -> None:
    """Give a node, and the events inside it, the stack of the forward call that made the node."""
    nodes = {id(event): node for event in events if (node := _node_around(event)) is not None}
    forward: dict[tuple, list[str]] = {}
    for event in events:
        if event.stack is not None and id(event) not in nodes:
            forward.setdefault((event.sequence_nr, event.thread), event.stack)
    for event in events:
        node = nodes.get(id(event))
        if node is not None:
            event.stack = forward.get((node.sequence_nr, node.fwd_thread), [])


_found_in("gradloom.autograd.profiler_util", EventList)
