"""What runs while a profile is taken: notes when each operator, node and marked block began and ended.

Note [Profiling]
A thread that is profiled has a Recorder in `state.profiler` and the bit INTERCEPT in its flags. The bit lets wrappers
hand their calls to `interception.intercept`, which asks `answer` first, and lets the engine run nodes by `hooks.run`,
which comes here, too. `record_function`, optimizers and custom functions look at `state.profiler`. Where there is none,
operators and nodes do nothing for it: they look at their flags in any case.

While code runs, a Record is all that is made of a call. Events with names, shapes and stacks as text are made of the
records when somebody first asks for them.

A forward call and the node that it made are linked by the node's sequence number: a call is given the number that the
next node will get. Of several calls with the same number the last one made the node.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, cast

from ..core import node as nodes
from ..core.accumulate_grad import AccumulateGrad
from ..core.node_hooks import validated
from ..dispatch import interception
from ..dispatch.state import GRAD_OFF, state
from .arguments import Arguments, operator_name
from .events import BACKWARD_FUNCTION, FUNCTION, USER_SCOPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from .allocations import Allocations

_clock = time.perf_counter_ns
_NOT_NUMBERED = 1 << 60  # nodes that belong to no operator have sequence numbers above this


class Record:
    """One call while it runs, and what is known of it afterwards. Times are in nanoseconds."""

    name: str
    overload: str
    scope: int
    sequence_nr: int
    thread: int
    parent: Record | None
    allocated: int
    flops: int

    __slots__ = (
        "name",
        "overload",
        "scope",
        "sequence_nr",
        "start",
        "end",
        "thread",
        "parent",
        "arguments",
        "stack",
        "keywords",
        "allocated",
        "flops",
        "twin",
    )

    def __init__(self, name: str, scope: int, sequence_nr: int, thread: int, parent: Record | None) -> None:
        self.name, self.overload, self.scope, self.sequence_nr = name, "", scope, sequence_nr
        self.thread, self.parent = thread, parent
        self.arguments: Arguments | None = None
        self.stack: list[tuple[Any, int]] | None = None
        self.keywords: dict[str, Any] | None = None
        self.allocated = self.flops = 0
        self.twin: Record | None = None
        self.end: int | None = None
        self.start: int = _clock()


class Recorder:
    """Collects the records of the thread that starts it, and of threads that go on with its backward passes.

    Args:
        shapes: note the shapes, types and values of arguments.
        memory: note what results allocate, and when it is freed.
        stack: note where in the user's code a call is.
        flops: estimate floating point operations.
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
        self.outer: Recorder | None = None  # one that was recording this thread before, and goes on with it
        self.threads: dict[int, int] = {}  # identity of a thread -> its number, from 1
        self.native_ids: dict[int, int] = {}
        self.wall_start, self.start = time.time_ns(), _clock()
        self.allocations: Allocations | None = None
        if memory:
            from .allocations import Allocations

            self.allocations = Allocations(self)
        self._thread: dict[str, Any] | None = None

    def attach(self) -> None:
        """Record this thread from now on."""
        interception.register(interception.PROFILER, answer)
        self._thread = state.__dict__
        self.outer = state.profiler
        state.profiler = self
        interception.attend()

    def detach(self) -> None:
        """Record no more. It may be another thread that says so, and others may have begun to record meanwhile."""
        thread = self._thread
        if thread is None:
            return
        self._thread = None
        if thread.get("profiler") is self:
            thread["profiler"] = self.outer
            interception.attend(thread)
            return
        inner = thread.get("profiler")
        while inner is not None and inner.outer is not self:
            inner = inner.outer
        if inner is not None:
            inner.outer = self.outer

    def begin(self, name: str, scope: int = FUNCTION, sequence_nr: int = -1) -> Record:
        """A call begins.

        Args:
            name: how events call it.
            scope: what kind of code it is.
            sequence_nr: of the node that it is, or that it may make.
        """
        thread = self.threads.get(threading.get_ident()) or self._number_thread()
        record = Record(name, scope, sequence_nr, thread, self.open[-1] if self.open else None)
        if self.stack:
            record.stack = _user_stack()
        self.records.append(record)
        self.open.append(record)
        if self.outer is not None:
            record.twin = self.outer.begin(name, scope, sequence_nr)
        return record

    def begin_operator(self, call: interception.Call) -> Record:
        """A call of an operator begins."""
        name, overload = _name_of(call.wrapper)
        record = self.begin(name, FUNCTION, -1 if state.flags & GRAD_OFF else next_sequence_nr())
        record.overload = overload
        recorder: Recorder | None = self
        twin: Record | None = record
        while recorder is not None and twin is not None:
            recorder.describe(twin, call.args)
            if recorder.flops:
                from .flops import estimate

                twin.flops = estimate(name, call.args)
            recorder, twin = recorder.outer, twin.twin
        return record

    def describe(self, record: Record, arguments: Any, keywords: dict[str, Any] | None = None) -> None:
        """Note the arguments of a call, if that was asked for."""
        if self.shapes:
            record.arguments = Arguments(arguments)
            record.keywords = keywords

    def allocated(self, record: Record | None, arguments: Any, result: Any) -> None:
        """Note the memory that a call's result brought, if that was asked for."""
        recorder: Recorder | None = self
        while recorder is not None and record is not None:
            if recorder.allocations is not None:
                recorder.allocations.note(record, arguments, result)
            recorder, record = recorder.outer, record.twin

    def end(self, record: Record) -> None:
        """A call ends, and with it those inside it that an exception left open."""
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

    def close(self) -> None:
        """Nothing more is recorded: what still runs ends now, and memory is not watched any longer."""
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


_names: dict[Any, tuple[str, str]] = {}  # wrapper -> its operator's names; as many as there are operators


def _name_of(wrapper) -> tuple[str, str]:
    found = _names.get(wrapper)
    if found is None:
        found = _names[wrapper] = operator_name(wrapper)
    return found


def next_sequence_nr() -> int:
    """The sequence number that the next node will get, without taking it."""
    return int(repr(cast("Any", nodes.next_sequence_nr).__self__)[len("count(") : -1])


def _user_stack() -> list[tuple[Any, int]]:
    from ..core.user_stack import current_stack

    return current_stack(3)


def answer(call: interception.Call) -> Any:
    """Note an intercepted call, and pass it on."""
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


def evaluate(node: Any, grads: list, edges: Any, run: Callable[..., tuple], apply: Callable[..., tuple]) -> tuple:
    """Run a node in a backward pass that is profiled: one event for all that the engine does, one for the node itself.

    Args:
        node, grads, edges: as for `hooks.run`.
        run: does what `hooks.run` does, calling `apply` for the node itself.
        apply: calls the node.
    """
    recorder = cast("Recorder", state.profiler)
    name = node.name()
    number = node._sequence_nr()
    number = number if number < _NOT_NUMBERED else -1

    def apply_recorded(node, grads, edges):
        record = recorder.begin(name, BACKWARD_FUNCTION, number)
        recorder.describe(record, grads)
        try:
            outputs = apply(node, grads, edges)
            if node.__class__ is AccumulateGrad:
                recorder.allocated(record, None, node.variable._grad)
            return outputs
        finally:
            recorder.end(record)

    record = recorder.begin(f"autograd::engine::evaluate_function: {name}", FUNCTION, number)
    try:
        return validated(node, run(node, grads, edges, apply_recorded))
    finally:
        recorder.end(record)


class record_function:
    """Marks a block, or a function that is decorated with it, in profiles; without a profiler it does nothing.

    Args:
        name: what profiles call it.
        args: a text that they show with it.

    Raises:
        TypeError: if either is no str.
    """

    _unseen = 0  # how often it was entered while no profiler ran
    _seen: tuple[tuple[Recorder, Record], ...] = ()

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str) or not (args is None or isinstance(args, str)):
            raise TypeError(
                f"record_function(name, args=None) takes texts, but got {type(name).__name__} and {type(args).__name__}"
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
        """The function with each of its calls marked."""
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
    """Begin a block that the user marked."""
    record = recorder.begin(name, USER_SCOPE)
    if args is not None:
        recorder.describe(record, (args,))
    return record
