"""Write traces in the JSON format that chrome://tracing, Perfetto and TensorBoard read.

Each call is a complete event (`"ph": "X"`); viewers nest them by time. An arrow (`"s"` to `"f"`) leads from each
forward call to the node that it made. Each change of memory is an instant event (`"i"`).
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from typing import IO, Any, cast

from .events import BACKWARD_FUNCTION, FunctionEvent, makes_node


def write_trace(
    path: str | os.PathLike[str],
    events: Iterable[FunctionEvent],
    *,
    header: dict[str, Any] | None = None,
    native_ids: dict[int, int] | None = None,
    memory: Iterable[dict[str, Any]] = (),
) -> None:
    """Write events as a trace.

    Args:
        path: the file; compressed if it ends in .gz.
        events: the events.
        header: entries before the events: options of the profile and the user's metadata.
        native_ids: number of a thread -> its id in the operating system.
        memory: instant events to add.

    Raises:
        OSError: if the file cannot be written.
    """
    path = os.fspath(path)
    events = list(events)
    pid = os.getpid()
    threads = {event.thread: (native_ids or {}).get(event.thread, event.thread) for event in events}
    trace = {
        "schemaVersion": 1,
        "deviceProperties": [],
        **(header or {}),
        "displayTimeUnit": "ms",
        "traceName": path,
        "traceEvents": [
            *_names(pid, threads),
            *(_complete(event, pid, threads) for event in events if _is_shown(event)),
            *_arrows(events, pid, threads),
            *({**change, "pid": pid, "tid": threads.get(change["tid"], change["tid"])} for change in memory),
        ],
    }
    with _open(path) as file:
        json.dump(trace, file, indent=1, default=str)


def _open(path: str) -> IO[str]:
    if path.endswith(".gz"):
        return cast("IO[str]", gzip.open(path, "wt", encoding="utf-8"))
    return open(path, "w", encoding="utf-8")


def _is_shown(event: FunctionEvent) -> bool:
    return event.time_range.elapsed_us() > 0 or event.name != "[memory]"


def _names(pid: int, threads: dict[int, int]) -> Iterator[dict[str, Any]]:
    """Yield the metadata events that label the rows."""
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": "python"}}
    yield {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "ts": 0, "args": {"labels": "CPU"}}
    for number, native in sorted(threads.items()):
        for name, args in (
            ("thread_name", {"name": f"thread {number} (python)"}),
            ("thread_sort_index", {"sort_index": number}),
        ):
            yield {"ph": "M", "name": name, "pid": pid, "tid": native, "ts": 0, "args": args}


def _complete(event: FunctionEvent, pid: int, threads: dict[int, int]) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": event.id}
    if event.sequence_nr >= 0:
        args["Sequence number"] = event.sequence_nr
        args["Fwd thread id"] = event.fwd_thread or 0
    if event.input_dtypes:
        args["Input Dims"] = event.structured_input_shapes
        args["Input Strides"] = event.structured_input_strides
        args["Input type"] = event.input_dtypes
        args["Concrete Inputs"] = ["" if value is None else str(value) for value in event.concrete_inputs]
    if event.stack:
        args["Call stack"] = ";".join(reversed(event.stack))
    if event.flops:
        args["flops"] = event.flops
    return {
        "ph": "X",
        "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
        "name": event.trace_name or event.name,
        "pid": pid,
        "tid": threads[event.thread],
        "ts": event.time_range.start,
        "dur": event.time_range.elapsed_us(),
        "args": args,
    }


def _arrows(events: list[FunctionEvent], pid: int, threads: dict[int, int]) -> Iterator[dict[str, Any]]:
    """Yield an arrow for each run of a node, from the last earlier forward call with its sequence number."""
    makers: dict[int, FunctionEvent] = {}
    number = 0
    for event in sorted(events, key=lambda e: e.time_range.start):
        if makes_node(event):
            makers[event.sequence_nr] = event
        elif event.scope == BACKWARD_FUNCTION and event.sequence_nr in makers:
            number += 1
            for phase, end in (("s", makers[event.sequence_nr]), ("f", event)):
                yield {
                    "ph": phase,
                    "id": number,
                    "cat": "fwdbwd",
                    "name": "fwdbwd",
                    "pid": pid,
                    "tid": threads[end.thread],
                    "ts": end.time_range.start,
                    **({"bp": "e"} if phase == "f" else {}),
                }
