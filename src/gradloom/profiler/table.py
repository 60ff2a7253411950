"""Format a profile as a table with PyTorch's columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .events import format_time

_NUMBER_WIDTH = 12
_GAP = "  "
_PREFIXES = ("", "K", "M", "G", "T", "P")


class Column(NamedTuple):
    """A column: its title and width, a function from an event to its text, and the alignment of the text."""

    title: str
    width: int
    text: Callable[[Any], str]
    align: str = ">"


def build_table(
    events: Sequence[Any],
    *,
    sort_by: str | None,
    row_limit: int,
    widths: dict[str, int | None],
    header: str | None,
    top_level_only: bool,
    time_unit: str | None,
    memory: bool,
    flops: bool,
) -> str:
    """Return the text of the table; see EventList.table."""
    if time_unit not in (None, "s", "ms", "us"):
        raise ValueError(f"time_unit must be 's', 'ms' or 'us', but got {time_unit!r}")
    if not events:
        return ""
    if sort_by is not None:
        by = sort_by.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
        events = sorted(events, key=lambda event: getattr(event, by), reverse=True)
    total = sum(event.self_cpu_time_total for event in events)
    columns = _columns(events, total, widths, time_unit, memory, flops)
    rule = "".join("-" * column.width + _GAP for column in columns)
    double_rule = "=" * (len(rule) - len(_GAP))
    lines = []
    if header is not None:
        lines += [double_rule, header]
    if top_level_only:
        lines += [double_rule, "This report only display top-level ops statistics"]
    lines += [rule, _row(columns, [column.title for column in columns]), rule]
    shown = [event for event in events if not (top_level_only and event.cpu_parent is not None)]
    for event in shown if row_limit < 0 else shown[:row_limit]:
        lines.append(_row(columns, [column.text(event) for column in columns]))
        lines += _further_calls(columns, event)
    lines += [rule, f"Self CPU time total: {format_time(total, time_unit)}"]
    return "\n".join(lines) + "\n"


def _row(columns: list[Column], texts: Sequence[str]) -> str:
    return "".join(f"{text:{column.align}{column.width}}{_GAP}" for column, text in zip(columns, texts, strict=True))


def _columns(events, total, widths, time_unit, memory, flops) -> list[Column]:
    def number(title: str, text: Callable[[Any], str]) -> Column:
        return Column(title, _NUMBER_WIDTH, text)

    def time(title: str, attribute: str) -> Column:
        return number(title, lambda event: format_time(getattr(event, attribute), time_unit))

    def share(title: str, attribute: str) -> Column:
        def text(event):
            part = 0 if event.is_async and attribute == "cpu_time_total" else getattr(event, attribute)
            shown = format_share(part, total)
            setattr(event, "self_cpu_percent" if attribute == "self_cpu_time_total" else "total_cpu_percent", shown)
            return shown

        return number(title, text)

    width = _width((event.key for event in events), widths["name"])
    columns = [Column("Name", width, lambda event: _cut_right(event.key, widths["name"]))]
    if any(event.overload_name for event in events):
        columns.append(
            Column("Overload Name", width, lambda event: _cut_right(event.overload_name or "", widths["name"]))
        )
    columns += [
        share("Self CPU %", "self_cpu_time_total"),
        time("Self CPU", "self_cpu_time_total"),
        share("CPU total %", "cpu_time_total"),
        time("CPU total", "cpu_time_total"),
        time("CPU time avg", "cpu_time"),
    ]
    if memory:
        columns += [
            number("CPU Mem", lambda event: format_memory(event.cpu_memory_usage)),
            number("Self CPU Mem", lambda event: format_memory(event.self_cpu_memory_usage)),
        ]
    columns.append(number("# of Calls", lambda event: str(event.count)))
    if any(event.node_id != -1 for event in events):
        columns.append(number("Node ID", lambda event: str(event.node_id)))
    if any(event.input_shapes for event in events):
        width_of_shapes = _width((str(event.input_shapes) for event in events), widths["shapes"])
        columns.append(Column("Input Shapes", width_of_shapes, lambda event: str(event.input_shapes)[:width_of_shapes]))
    if flops:
        columns += _flops_column(events)
    lines = [entry for event in events for entry in event.stack or ()]
    if lines:
        width_of_lines = _width(lines, widths["source"])
        columns.append(
            Column(
                "Source Location",
                width_of_lines,
                lambda event: _cut_left((event.stack or [""])[0], width_of_lines),
                "<",
            )
        )
    return columns


def _flops_column(events) -> list[Column]:
    """Make the column of operations, in the largest unit in which the smallest number is at least one."""
    counts = [event.flops for event in events if event.flops]
    if not counts:
        return []
    power = min(max(int(math.log10(min(counts)) / 3), 0), len(_PREFIXES) - 1)
    return [
        Column(
            f"Total {_PREFIXES[power]}FLOPs",
            _NUMBER_WIDTH,
            lambda event: f"{event.flops / 1000**power:8.3f}" if event.flops else "--",
        )
    ]


def _further_calls(columns: list[Column], event) -> list[str]:
    """Return the lines below an event: the rest of its stack and an empty line."""
    if columns[-1].title != "Source Location":
        return []
    empty = [""] * (len(columns) - 1)
    rest = [_cut_left(entry, columns[-1].width) for entry in (event.stack or ())[1:]]
    return [_row(columns, [*empty, entry]) for entry in [*rest, ""]]


def _width(texts, limit: int | None) -> int:
    width = max(map(len, texts)) + 4
    return width if limit is None else min(width, limit)


def _cut_right(text: str, limit: int | None) -> str:
    return text if limit is None or len(text) < limit - 3 else text[: limit - 3] + "..."


def _cut_left(text: str, width: int) -> str:
    return text if len(text) <= width else "..." + text[len(text) - width + 3 :]


def format_share(part: float, total: float) -> str:
    """Format a share of a total: `12.50%`; `NaN` if the total is 0."""
    return f"{part * 100 / total:.2f}%" if total else "NaN"


def format_memory(count: int) -> str:
    """Format a number of bytes: `12 B`, `1.50 MB`; negative for freed memory."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(count) >= 1024**power:
            return f"{count / 1024**power:.2f} {unit}"
    return f"{count} B"
