"""From a recorded program to its compiled form: the joint graph of forward and backward, and both as programs.

A `Recording` is what Python code did in one call: the functions that it called on tensors, in order. `compiled` runs
them once more in a Tracer, runs the backward pass of the outputs in it, cuts the graph in two and compiles both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..core.edge import gradient_edge
from ..core.engine import execute
from ..core.tensor import Tensor
from ..dispatch.state import AUTOCAST, GRAD_OFF, INTERCEPT, state
from ._fuse import refusal
from ._geometry import NeedsValues, imaginary
from ._graph import INPUT, Content, Graph, Value, contiguous_strides, mapped
from ._numbers import Numbers, evaluated
from ._passes import Partition, without_common_nodes, without_dead_nodes
from ._picks import with_picks
from ._products import with_products
from ._program import compile_program
from ._recording import STANDS_FOR, Recording, TraceError, filled, learn
from ._rows import decomposed
from ._run import DEFINED, REPEATED, Compiled, Variant
from ._trace import NeedsCopy, Tracer
from ._windows import with_windows


class Account(NamedTuple):
    """What `explain` says of a graph.

    graph: after the passes; before: its text as recorded; removed: how many dead and common operators; recomputed: how
    many values the backward pass computes again; seconds: that it took to compile.
    """

    graph: Graph
    before: str
    removed: tuple[int, int]
    recomputed: int
    seconds: float


def compiled(recording: Recording, inputs: Sequence[Tensor], backend: Any, machine_code: bool) -> Compiled:
    """Compile a recording for inputs like the given ones. Raises TraceError if it cannot be."""
    start = perf_counter()
    return _with_numbers(
        recording.numbers,
        lambda number: _finished(_traced(recording, inputs, None, number), backend, machine_code, start),
    )


def _with_numbers(numbers: Numbers, made: Callable[[Callable[[Any], Any]], Any]) -> Any:
    """Return `made(function of what stands for a number)`: if it fails, that of the numbers of this call only."""
    if not numbers.values:
        return made(numbers.traced)
    try:
        return made(numbers.traced)
    except Exception:  # the library asked for a number in a way that has no method
        numbers.fix_all()
        return made(lambda number: evaluated(number.source, numbers.values))


def _traced(recording: Recording, inputs: Sequence[Tensor], defined: Any, number: Any) -> _Traced:
    try:
        return _Traced(recording, inputs, frozenset(), defined, False, number)
    except NeedsValues:
        return _traced_with_values(recording, inputs, defined, number)


def _traced_with_values(recording: Recording, inputs: Sequence[Tensor], defined: Any, number: Any) -> _Traced:
    copied: frozenset[int] = frozenset()
    while True:
        try:
            return _Traced(recording, inputs, copied, defined, True, number)
        except NeedsCopy as error:
            if error.position in copied:
                raise TraceError("it writes to an input in a way that the compiler does not know") from None
            copied = copied | {error.position}


class _Traced:
    """The graph of a recording, and what its outputs are.

    Args:
        copied, values: see `Tracer`.
        defined: for each output with a history, whether a gradient arrives; None for all.
        number: returns what stands for a number of the graph.
    """

    def __init__(
        self,
        recording: Recording,
        inputs: Sequence[Tensor],
        copied: frozenset[int],
        defined: Any,
        values: bool,
        number: Callable[[Any], Any],
    ) -> None:
        self.number = number
        self.tracer = tracer = Tracer(copied, values)
        self.graph = tracer.graph
        self.recording, self.inputs, self.defined = recording, inputs, defined
        self.line = ""
        flags = state.flags
        try:
            with tracer.running():
                self._forward()
                state.flags = flags & ~(GRAD_OFF | AUTOCAST) | INTERCEPT
                self._backward()
        except TraceError as error:
            error.where = error.where or self.line
            raise
        except RuntimeError as error:  # of an operator: it has no derivative, or reads values
            reason = TraceError(f"tracing it ends with {type(error).__name__}: {str(error).partition(chr(10))[0]}")
            reason.where = self.line
            raise reason from error
        finally:
            state.flags = flags
        for content, position in self._last_contents():
            self.graph.final[position] = content

    def _last_contents(self) -> Iterator[tuple[Content, int]]:
        for leaf, content in zip(self.leaves, self.graph.inputs, strict=False):
            last = leaf._array.block.content
            if last is not content:
                yield last, content.position

    def _forward(self) -> None:
        recording, tracer = self.recording, self.tracer
        self.leaves: list[Any] = []
        self.known: dict[int, Any] = {STANDS_FOR: self.number}
        tracer.where = lambda: self.line
        for slot, tensor in zip(recording.inputs, self.inputs, strict=True):
            leaf = tracer.input(tensor._array, tensor.requires_grad)
            self.leaves.append(leaf)
            self.known[slot.number] = leaf
        outside = state.flags & ~(GRAD_OFF | AUTOCAST)
        for step in recording.steps:
            self.line = step.where
            state.flags = outside | step.flags | INTERCEPT
            found = step.function(*filled(step.args, self.known), **filled(step.kwargs, self.known))
            learn(step.result, found, self.known)
        self.graph.forward = len(self.graph.nodes)

    def _backward(self) -> None:
        tracer, graph, recording = self.tracer, self.graph, self.recording
        self.outputs: list[tuple[str, int]] = []
        self.results: list[Value] = []
        self.differentiable: list[int] = []
        roots, grads = [], []
        positions = {slot.number: i for i, slot in enumerate(recording.inputs)}
        for output in recording.outputs:
            if output.number in positions:
                self.outputs.append(("input", positions[output.number]))
                continue
            traced = self.known.get(output.number)
            if traced is None:
                raise TraceError("it returns a tensor that no operator made")
            value = tracer.value(traced)
            if value.content.memory.kind == INPUT:
                raise TraceError("it returns a view of an input")
            if any(value.content.memory is other.content.memory for other in self.results):
                raise TraceError("it returns two tensors that share memory")
            number = len(self.results)
            self.outputs.append(("result", number))
            self.results.append(value)
            if traced.requires_grad:
                self.differentiable.append(number)
                if self.defined is not None and not self.defined[len(self.differentiable) - 1]:
                    continue
                roots.append(gradient_edge(traced))
                if tracer.values:
                    tangent = np.ones(value.shape, value.dtype)
                else:
                    contiguous = contiguous_strides(value.shape, value.dtype.itemsize)
                    tangent = imaginary(value.shape, contiguous, value.dtype)
                grads.append(tracer.input(tangent, False))
        self.wanted = [i for i, leaf in enumerate(self.leaves) if leaf.requires_grad] if roots else []
        graph.outputs = list(self.results)
        graph.gradients = [None] * len(self.wanted)
        if not roots:
            return
        edges = [_leaf_edge(self.leaves[i]) for i in self.wanted]
        found = execute(roots, grads, keep_graph=True, create_graph=False, capture_edges=edges)
        graph.gradients = [None if g is None else tracer.value(g) for g in found]
        graph.tangents = list(self.differentiable)


def _leaf_edge(leaf: Tensor) -> Any:
    if leaf.grad_fn is not None:
        raise TraceError("it writes in place to an input that requires a gradient")
    return gradient_edge(leaf)


def _finished(traced: _Traced, backend: Any, machine_code: bool, start: float) -> Compiled:
    graph = traced.graph
    count = len(traced.recording.inputs)
    for value in graph.outputs:
        if value.content.kind == "constant":
            raise TraceError("it returns a constant")
    before = str(graph)
    dead = without_dead_nodes(graph)
    common = without_common_nodes(graph)
    dead += without_dead_nodes(graph)
    stages = with_products(with_picks(decomposed(with_windows(graph)))) if machine_code else graph
    without_dead_nodes(stages)
    parts = Partition(stages, machine_code)
    overwritten = {c.before for n in stages.nodes for c in n.writes}
    program_inputs = graph.inputs[:count]
    kept = sorted({c.position for c in parts.reads if c.kind == INPUT and c.position < count})
    if any(graph.inputs[i] in overwritten for i in kept):
        raise TraceError("its backward pass needs an input that it writes to")
    saved = [_whole(c) for c in parts.saved]
    finals = [_whole(c) for c in graph.final.values()]
    forward = compile_program(parts.forward, program_inputs, [*graph.outputs, *saved, *finals], backend, machine_code)
    facts = {
        "outputs": traced.outputs,
        "results": len(graph.outputs),
        "leaves": traced.wanted,
        "differentiable": traced.differentiable,
        "mutated": sorted(graph.final),
        "random": any(n.is_random for n in graph.nodes),
        "saved": [c.number for c in parts.saved],
    }
    made = Compiled(traced.recording, backend, machine_code, facts, forward, variant_of)
    if graph.tangents:
        everything = (DEFINED,) * len(traced.differentiable)
        made.variants[everything] = _backward_of(made, graph, parts, everything)
    made.account = Account(graph, before, (dead, common), parts.recomputed, perf_counter() - start)
    return made


def _backward_of(made: Compiled, graph: Graph, parts: Partition, kinds: tuple[int, ...]) -> Variant:
    count = len(made.recording.inputs)
    kept = sorted({c.position for c in parts.reads if c.kind == INPUT and c.position < count})
    order = {number: i for i, number in enumerate(made.saved)}
    tangents = graph.inputs[count:]
    given = [*[graph.inputs[i] for i in kept], *parts.saved, *tangents]
    wanted = [g for g in graph.gradients if g is not None]
    program = compile_program(parts.backward, given, wanted, made.backend, made.machine_code)
    which = [i for i, kind in enumerate(kinds) if kind]
    taken = [(i, c.shape, c.strides) for i, c in zip(which, tangents, strict=True)]
    return Variant(
        program, kept, [order[c.number] for c in parts.saved], taken, [g is not None for g in graph.gradients]
    )


def variant_of(made: Compiled, kinds: tuple[int, ...], inputs: Sequence[Tensor], values: tuple[Any, ...]) -> Variant:
    """Compile the backward pass for other gradients; it reads what the forward pass saved for all."""
    numbers = Numbers(values)
    found: Variant = _with_numbers(
        numbers,
        lambda number: _variant_of(made, kinds, _traced(made.recording, inputs, tuple(map(bool, kinds)), number)),
    )
    found.conditions = tuple([c for c in numbers.conditions if c not in made.recording.numbers.conditions])
    return found


def _variant_of(made: Compiled, kinds: tuple[int, ...], traced: _Traced) -> Variant:
    graph = traced.graph
    without_dead_nodes(graph)
    without_common_nodes(graph)
    without_dead_nodes(graph)
    if made.machine_code:
        graph = with_products(with_picks(decomposed(with_windows(graph))))
        without_dead_nodes(graph)
    count = len(made.recording.inputs)
    for at, kind in enumerate([kind for kind in kinds if kind], count):
        if kind == REPEATED:
            _repeat(graph, at)
    parts = Partition(graph, made.machine_code, frozenset(made.saved))
    return _backward_of(made, graph, parts, kinds)


def _repeat(graph: Graph, at: int) -> None:
    """Let an input have one element, which its readers see as all of its elements, if they are loops."""
    dense = graph.inputs[at]
    readers = [n for n in graph.nodes if any(v.content is dense for v in n.values())]
    if any(refusal(n) is not None or n.writes or any(v.dtype != dense.dtype for v in n.values()) for n in readers):
        return
    one = graph.inputs[at] = replace(dense, shape=(), strides=())

    def seen(value: Value) -> Value:
        return value if value.content is not dense else Value(one, value.shape, (0,) * len(value.shape), value.dtype)

    for node in readers:
        node.args = mapped(node.args, seen)
    graph.gradients = [None if g is None else seen(g) for g in graph.gradients]


def _whole(content: Content) -> Value:
    return Value(content, content.shape, content.strides, content.dtype)
