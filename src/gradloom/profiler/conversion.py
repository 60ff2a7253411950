"""Records, made while code ran, as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .event_list import EventList
from .events import BACKWARD_FUNCTION, FUNCTION, USER_SCOPE, FunctionEvent

if TYPE_CHECKING:
    from .recorder import Record, Recorder

STEP = "ProfilerStep#"


def events_of(recorder: Recorder, overload_names: bool = False) -> EventList:
    """The events of a recorder that is closed, as a tree.

    Args:
        recorder: what recorded.
        overload_names: whether events have the overloads of their operators.
    """
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


def makes_node(record: Record | FunctionEvent) -> bool:
    """Whether it is a forward call that may have made the node of its sequence number."""
    return record.sequence_nr >= 0 and record.scope == FUNCTION and not record.name.startswith("autograd::engine::")


def _memory_totals(records: list[Record]) -> dict[int, int]:
    """What each record allocated together with those inside it."""
    totals = {id(record): record.allocated for record in records}
    for record in reversed(records):  # those inside another were made after it
        if record.parent is not None and id(record.parent) in totals:
            totals[id(record.parent)] += totals[id(record)]
    return totals


def _forward_thread(record: Record, threads: dict[int, int]) -> int:
    if record.sequence_nr < 0 or makes_node(record):
        return 0
    is_node = record.scope == BACKWARD_FUNCTION or record.name.startswith("autograd::engine::")
    return threads.get(record.sequence_nr, record.thread) if is_node else 0


def _stack_texts(stack, texts: dict) -> list[str]:
    """The user's calls of a stack, innermost first, each as `file(line): function`."""
    if stack is None:
        return []
    found = []
    for code, line in stack:
        place = id(code), line  # the code of a wrapper may hold what has no hash
        text = texts.get(place)
        if text is None:
            from ..core.user_stack import is_ours

            text = texts[place] = "" if is_ours(code) else f"{code.co_filename}({line}): {code.co_name}"
        if text:
            found.append(text)
    return found
