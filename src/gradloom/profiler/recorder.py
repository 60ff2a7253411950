"""Recorder: note when each operator, node and marked block begins and ends.

Note [Profiling]
A profiled thread has a Recorder in `state.profiler` and the bit INTERCEPT in its flags. The bit makes wrappers hand
their calls to `interception.intercept`, which calls `handle_call` first, and makes the engine run nodes by `hooks.run`,
which calls `Recorder.evaluate`. `record_function`, optimizers and custom functions look at `state.profiler`. Without a
profiler, operators and nodes do no extra work: they test their flags in any case.

While code runs, each call makes only a Record. Events with names, shapes and stacks as text are made from the records
on first use.

The node's sequence number links a forward call to the node that it made: a call gets the number that the next node
will have. Of several calls with the same number, the last one made the node.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, cast

from ..core import node as nodes
from ..core.accumulate_grad import AccumulateGrad
from ..core.hooks import validated
from ..core.user_stack import current_stack
from ..dispatch import interception
from ..dispatch.state import GRAD_OFF, state
from ..types.public import found_in as _found_in
from .details import Allocations, Arguments, estimate_flops, operator_name
from .events import BACKWARD_FUNCTION, FUNCTION, USER_SCOPE

_clock = time.perf_counter_ns
MEMORY_EVENT = "[memory]"
_NOT_NUMBERED = 1 << 60  # nodes that belong to no operator have sequence numbers above this


class Record:
    """One call. Times are in nanoseconds."""

    name: str
    overload: str
    scope: int
    sequence_nr: int
    thread: int
    parent: Record | None
    allocated: int
    flops: int

    __slots__ = """
        name overload scope sequence_nr start end thread parent arguments stack
        keywords allocated flops twin is_async
        """.split()

    def __init__(self, name: str, scope: int, sequence_nr: int, thread: int, parent: Record | None) -> None:
        self.name, self.overload, self.scope, self.sequence_nr = name, "", scope, sequence_nr
        self.thread, self.parent = thread, parent
        self.is_async = False
        self.arguments: Arguments | None = None
        self.stack: list[tuple[Any, int]] | None = None
        self.keywords: dict[str, Any] | None = None
        self.allocated = self.flops = 0
        self.twin: Record | None = None
        self.end: int | None = None
        self.start: int = _clock()


class Recorder:
    """Collects the records of the thread that starts it, and of threads that continue its backward passes.

    Args:
        shapes: record the shapes, types and values of arguments.
        memory: record the memory that results allocate, and when it is freed.
        stack: record the call stack of the user's code.
        flops: estimate floating-point operations.
    """

    shapes: bool
    stack: bool
    flops: bool
    wall_start: int
    start: int

    def __init__(self, shapes: bool = False, memory: bool = False, stack: bool = False, flops: bool = False) -> None:
        self.shapes, self.stack, self.flops = shapes, stack, flops
        self.records: list[Record] = []
        self.open: list[Record] = []
        self.outer: Recorder | None = None  # the recorder that was attached before, which continues to record
        self.threads: dict[int, int] = {}  # identity of a thread -> its number, from 1
        self.native_ids: dict[int, int] = {}
        self.wall_start, self.start = time.time_ns(), _clock()
        self.allocations = Allocations(self) if memory else None
        if memory:
            self.allocations = Allocations(self)
        self._thread: dict[str, Any] | None = None

    def attach(self) -> None:
        """Record this thread from now on."""
        interception.register(interception.PROFILER, handle_call)
        self._thread = state.__dict__
        self.outer = state.profiler
        state.profiler = self
        try:
            interception.attend()
        except BaseException:
            self.detach()
            raise

    def detach(self) -> None:
        """Stop recording. Another thread may call this, and other recorders may have been attached since."""
        thread = self._thread
        if thread is None:
            return
        if thread.get("profiler") is self:
            thread["profiler"] = self.outer
        interception.attend(thread)
        inner = thread.get("profiler")
        while inner is not None and inner.outer is not self:
            inner = inner.outer
        if inner is not None:
            inner.outer = self.outer
        self._thread = None

    def begin(self, name: str, scope: int = FUNCTION, sequence_nr: int = -1) -> Record:
        """Begin the record of a call.

        Args:
            name: name of its event.
            scope: FUNCTION, BACKWARD_FUNCTION or USER_SCOPE.
            sequence_nr: sequence number of the node that it is or may make.
        """
        thread = self.threads.get(threading.get_ident()) or self._number_thread()
        record = Record(name, scope, sequence_nr, thread, self.open[-1] if self.open else None)
        if self.stack:
            record.stack = current_stack(2)
        self.records.append(record)
        self.open.append(record)
        if self.outer is not None:
            record.twin = self.outer.begin(name, scope, sequence_nr)
        return record

    def begin_operator(self, call: interception.Call) -> Record:
        """Begin the record of an operator's call."""
        name, overload = _name_of(call.wrapper)
        record = self.begin(name, FUNCTION, -1 if state.flags & GRAD_OFF else next_sequence_nr())
        record.overload = overload
        recorder: Recorder | None = self
        twin: Record | None = record
        while recorder is not None and twin is not None:
            recorder.describe(twin, call.args)
            if recorder.flops:
                twin.flops = estimate_flops(name, call.args)
            recorder, twin = recorder.outer, twin.twin
        return record

    def describe(self, record: Record, arguments: Any, keywords: dict[str, Any] | None = None) -> None:
        """Record the arguments of a call, if `shapes` is set."""
        if self.shapes:
            record.arguments = Arguments(arguments)
            record.keywords = keywords

    def allocated(self, record: Record | None, arguments: Any, result: Any) -> None:
        """Record the memory that a call's result allocated, if `memory` is set."""
        recorder: Recorder | None = self
        while recorder is not None and record is not None:
            if recorder.allocations is not None:
                recorder.allocations.note(record, arguments, result)
            recorder, record = recorder.outer, record.twin

    def memory_record(self) -> Record | None:
        """Return the record that freed memory belongs to: the open call, or a new one if no call is open."""
        if self.open or not self.records:
            return self.open[-1] if self.open else None
        record = Record(MEMORY_EVENT, FUNCTION, -1, self.records[-1].thread, None)
        record.end = record.start
        self.records.append(record)
        return record

    def end(self, record: Record) -> None:
        """End a call, and the calls inside it that an exception left open."""
        end = _clock()
        recorder: Recorder | None = self
        while recorder is not None:
            if record in recorder.open:
                while recorder.open:
                    last = recorder.open.pop()
                    last.end = end
                    if last is record:
                        break
            if record.twin is None:
                return
            recorder, record = recorder.outer, record.twin

    def begin_async(self, name: str, arguments: Any) -> Record:
        """Begin the record of a call that another thread may make; `end_async` ends it, from any thread."""
        thread = self.threads.get(threading.get_ident()) or self._number_thread()
        record = Record(name, FUNCTION, -1, thread, None)
        record.is_async = True
        self.describe(record, arguments)
        self.records.append(record)
        if self.outer is not None:
            record.twin = self.outer.begin_async(name, arguments)
        return record

    @staticmethod
    def end_async(record: Record | None) -> None:
        """End the record of a call that another thread may have made."""
        while record is not None:
            record.end, record = _clock(), record.twin

    def evaluate(
        self, node: Any, grads: list, edges: Any, run: Callable[..., tuple], apply: Callable[..., tuple]
    ) -> tuple:
        """Record a node of a backward pass: one event for all the engine does for it, one for the node itself.

        Args:
            node, grads, edges: see `core.hooks.run`.
            run: runs the node and its hooks; takes `apply` as its last argument.
            apply: calls the node.
        """
        name = node.name()
        number = node._sequence_nr()
        number = number if number < _NOT_NUMBERED else -1

        def apply_recorded(node, grads, edges):
            record = self.begin(name, BACKWARD_FUNCTION, number)
            self.describe(record, grads)
            try:
                outputs = apply(node, grads, edges)
                if node.__class__ is AccumulateGrad:
                    self.allocated(record, None, node.variable._grad)
                return outputs
            finally:
                self.end(record)

        record = self.begin(f"autograd::engine::evaluate_function: {name}", FUNCTION, number)
        try:
            return validated(node, run(node, grads, edges, apply_recorded))
        finally:
            self.end(record)

    def close(self) -> None:
        """Stop recording, end open calls, and stop tracking memory."""
        self.detach()
        end = _clock()
        for record in self.records:
            if record.end is None:
                record.end = end
        self.open.clear()
        if self.allocations is not None:
            self.allocations.close()

    def _number_thread(self) -> int:
        number = self.threads.setdefault(threading.get_ident(), len(self.threads) + 1)
        self.native_ids[number] = threading.get_native_id()
        return number


_names: dict[Any, tuple[str, str]] = {}  # wrapper -> operator_name(wrapper); bounded by the number of operators


def _name_of(wrapper) -> tuple[str, str]:
    found = _names.get(wrapper)
    if found is None:
        found = _names[wrapper] = operator_name(wrapper)
    return found


def next_sequence_nr() -> int:
    """Return the sequence number that the next node will get, without using it."""
    return int(repr(cast("Any", nodes.next_sequence_nr).__self__)[len("count(") : -1])


def handle_call(call: interception.Call) -> Any:
    """Record an intercepted call, and pass it on."""
    recorder: Recorder | None = state.profiler
    if recorder is None:
        return NotImplemented
    record = recorder.begin_operator(call)
    try:
        result = call.below(interception.PROFILER)
        recorder.allocated(record, (call.args, call.out), result)
    finally:
        recorder.end(record)
    return result


class record_function:
    """Mark a block, or each call of a decorated function, in profiles. Without a profiler it does nothing.

    Args:
        name: name of the event.
        args: a text to record with it.

    Raises:
        TypeError: if either is not a str.
    """

    _unseen = 0  # number of open blocks that were entered without a profiler
    _seen: tuple[tuple[Recorder, Record], ...] = ()

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str) or not (args is None or isinstance(args, str)):
            raise TypeError(
                f"record_function(name, args=None) takes strings, got {type(name).__name__} and {type(args).__name__}"
            )
        self.name = name
        self.args = args

    def __enter__(self) -> record_function:
        recorder = state.profiler
        if recorder is None:
            self._unseen += 1
        else:
            self._seen = (*self._seen, (recorder, mark(recorder, self.name, self.args)))
        return self

    def __exit__(self, *exc: object) -> None:
        if self._seen:
            *rest, (recorder, record) = self._seen
            self._seen = tuple(rest)
            recorder.end(record)
        elif self._unseen:
            self._unseen -= 1
        else:
            raise AssertionError("Expected record to be set: a record_function must be entered before it is left")

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with each of its calls marked."""
        import functools

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            recorder = state.profiler
            if recorder is None:
                return function(*args, **kwargs)
            record = mark(recorder, self.name, self.args)
            try:
                return function(*args, **kwargs)
            finally:
                recorder.end(record)

        return call


def mark(recorder: Recorder, name: str, args: str | None = None) -> Record:
    """Begin the record of a block that the user marked."""
    record = recorder.begin(name, USER_SCOPE)
    if args is not None:
        recorder.describe(record, (args,))
    return record


_found_in("gradloom.autograd.profiler", record_function)
