"""What became of a compiled function, in words: graphs, fusion, breaks, code and memory traffic."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from ._build import Kernel
from ._graph import Node, values_in
from ._run import Program
from ._scalar import Stage, definition_of


class Explanation:
    """The graphs of a compiled function after one call; `str` gives the whole account.

    Attributes:
        graph_count: number of graphs, those of its pieces included.
        graph_break_count: number of places where the function, or a piece, cannot be part of a graph.
        break_reasons: (place, reason) of each.
        pieces: the compiled functions that it calls, if it is not one graph itself.
        op_count: number of operators in the graphs' forward passes.
        graphs: the compiled graphs, each with `graph`, `before` (its text as recorded), `forward` and `backward`.
        numbers: for each, the numbers that are its arguments.
    """

    def __init__(self, optimized: Any) -> None:
        self.pieces = list(optimized.pieces.all()) if optimized.breaks else []
        functions = [optimized, *self.pieces]
        entries = [e for f in functions for e in f.entries if hasattr(e, "compiled")]
        self.effects = [[*e.before, *e.after] for e in entries]
        self.steps = {k: v for f in functions for k, v in f.pieces.steps.items()}
        self.names = [f.name for f in functions for e in f.entries if hasattr(e, "compiled")]
        self.graphs = [e.compiled for e in entries]
        self.numbers = [e.numbers for e in entries]
        self.break_reasons = list(dict.fromkeys(b for f in functions for b in f.breaks))
        self.graph_count = len(self.graphs)
        self.graph_break_count = len(self.break_reasons)
        self.op_count = sum(c.account.graph.forward for c in self.graphs)
        self.ops_per_graph = [
            [n.wrapper for n in c.account.graph.nodes[: c.account.graph.forward]] for c in self.graphs
        ]
        self.out_guards = [g for entry in entries for g in entry.guards.splitlines()[1:-1]]
        self.compile_times = [c.account.seconds for c in self.graphs]
        self.name, self.backend = optimized.name, optimized.backend.name

    def text(self, *, sources: bool = True, machine_code: bool = False) -> str:
        """Return the account.

        Args:
            sources: include the generated Python code and the loops.
            machine_code: include LLVM's text of the loops, where the backend has made machine code of them.
        """
        return "\n".join(self._lines(sources, machine_code))

    def __str__(self) -> str:
        return self.text()

    def _lines(self, sources: bool, machine_code: bool) -> Iterator[str]:
        yield f"{self.name}: {self.graph_count} graph(s), {self.graph_break_count} break(s), backend {self.backend}"
        for place, reason in self.break_reasons:
            yield f"break at {place or 'the call'}: {reason}"
        yield from self._about_pieces()
        for name, updates in self.steps.items():
            yield f"it calls {name}"
            yield from _updates(updates, sources)
        for number, compiled in enumerate(self.graphs):
            account = compiled.account
            yield ""
            yield f"graph {number}, {self.names[number]}, compiled in {account.seconds * 1000:.0f} ms, as recorded:"
            yield from _indented(account.before)
            numbers = self.numbers[number]
            for i, (name, value) in enumerate(zip(numbers.names, numbers.values, strict=True)):
                what = "its value is a guard" if i in numbers.read else "an argument of the graph"
                yield f"n[{i}] is {name}, {value!r} in this call: {what}"
            dead, common = account.removed
            yield (
                f"removed: {dead} dead and {common} common operator(s); the backward pass computes "
                f"{account.recomputed} value(s) again and reads {len(compiled.saved)} saved ones"
            )
            if dead or common:
                yield "after that:"
                yield from _indented(str(account.graph))
            yield from _program("forward", compiled.forward, sources, machine_code)
            if compiled.backward is not None:
                yield from _program("backward", compiled.backward, sources, machine_code)
            yield from _saved(compiled.forward, compiled.backward)
            for effect in self.effects[number]:
                yield f"{'before' if effect.is_first else 'after'} the graph: {effect.name}"
                yield from _updates(effect.updates, sources)

    def _about_pieces(self) -> Iterator[str]:
        if self.break_reasons and not self.graphs:
            yield "it runs as Python; what it calls is compiled by itself when it is called again"
        elif self.pieces:
            yield "it runs as Python; what it calls after the break is compiled by itself, and the rest in later calls"
        for piece in self.pieces:
            graphs, breaks = len(piece.entries), len(piece.breaks)
            note = "" if piece.is_worth_it else ": nothing to fuse, so it runs as Python"
            yield f"piece {piece.name}: {graphs} graph(s), {breaks} break(s){note}"


def _program(title: str, program: Program, sources: bool, machine_code: bool) -> Iterator[str]:
    fused = sum(len(k.nodes) for k in program.kernels)
    yield ""
    by_blas = sum(n in program.reasons for n in program.products)
    counts = f"{fused} operator(s) in {len(program.kernels)} kernel(s), {len(program.products) - by_blas} product(s)"
    yield f"{title}: {counts}, {by_blas} product(s) by BLAS, {len(program.calls)} call(s)"
    for node in program.products:
        reason = program.reasons.get(node)
        (*batch, rows, depth), columns = node.args[0].shape, node.args[1].shape[-1]
        sizes = " x ".join(map(str, [*batch, rows, depth, columns]))
        yield f"product: {node.name}, {sizes}{'' if reason is None else f' by BLAS: {reason}'} ({node.where})"
    for node in program.tasks:
        yield f"machine code: {node.name} ({node.where})"
    for node in program.calls:
        yield f"not fused: {node.name}, {program.reasons.get(node, '')} ({node.where})"
    if sources:
        yield from _indented(program.source)
    for number, kernel in enumerate(program.kernels):
        entries = ", ".join(dict.fromkeys(n.name for n in kernel.nodes))
        yield f"kernel{number}: {entries}; moves {kernel.nbytes:,} bytes, the operators alone {_bytes_alone(kernel):,}"
        if not sources:
            continue
        yield from _indented("\n".join(_definitions(kernel)))
        yield from _indented(str(kernel.program))
        function = program.run.__globals__.get(f"kernel{number}")
        source = getattr(function, "source", None)
        if source:
            yield from _indented(str(source))
        if machine_code:
            yield from _indented(_machine_code(kernel, function))


def _updates(updates: Any, sources: bool) -> Iterator[str]:
    """Yield what became of the updates of an optimizer's step."""
    if updates is None:
        return
    for loop, count in updates.fused.items():
        yield f"update {loop.name}: {count} parameter(s) in one loop"
        if sources:
            yield from _indented(str(loop.program))
    for reason, count in updates.reasons.items():
        yield f"not fused: {count} update(s): {reason}"


def _definitions(kernel: Kernel) -> Iterator[str]:
    """Yield, as comments, what native_functions.yaml says of the operators that a kernel computes."""
    for name, node in {n.name: n for n in kernel.nodes}.items():
        stage, record = node.wrapper, definition_of(node)
        source = stage.source if stage.__class__ is Stage else "" if record is None else record.scalar
        yield f"# native_functions.yaml, {name}: {f'scalar: {source}' if source else ''}".rstrip(": ")


def _machine_code(kernel: Kernel, function: Any) -> str:
    llvm = import_module("gradloom.compiler._llvm")
    if not isinstance(function, llvm.Kernel):
        return "# this loop runs on NumPy"
    return str(llvm.emitted(kernel.program))


def _saved(*programs: Program | None) -> Iterator[str]:
    """Yield the memory traffic of all loops of a graph."""
    kernels = [k for program in programs if program is not None for k in program.kernels]
    moved, alone = sum(k.nbytes for k in kernels), sum(map(_bytes_alone, kernels))
    if kernels:
        yield ""
        yield (
            f"memory traffic of the kernels: {moved:,} bytes; of their operators one by one: {alone:,}; "
            f"saved: {alone - moved:,}"
        )


def _indented(text: str) -> Iterator[str]:
    for line in text.rstrip().splitlines():
        yield f"    {line}"


def _bytes_alone(kernel: Kernel) -> int:
    return sum(map(_traffic, kernel.nodes))


def _traffic(node: Node) -> int:
    return sum(v.nbytes for v in node.values()) + sum(v.nbytes for v in values_in(node.result))
