"""What became of a compiled function, in words: graphs, fusion, breaks, code and memory traffic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._fuse import Kernel
from ._graph import Node, values_in
from ._program import Program


class Explanation:
    """The graphs of a compiled function after one call; `str` gives the whole account.

    Attributes:
        graph_count: number of graphs.
        graph_break_count: number of places where the function cannot be part of a graph.
        break_reasons: (place, reason) of each.
        op_count: number of operators in the graphs' forward passes.
        graphs: the compiled graphs, each with `graph`, `before` (its text as recorded), `forward` and `backward`.
    """

    def __init__(self, optimized: Any) -> None:
        self.graphs = [entry.compiled for entry in optimized.entries]
        self.break_reasons = list(optimized.breaks)
        self.graph_count = len(self.graphs)
        self.graph_break_count = len(self.break_reasons)
        self.op_count = sum(c.graph.forward for c in self.graphs)
        self.ops_per_graph = [[n.wrapper for n in c.graph.nodes[: c.graph.forward]] for c in self.graphs]
        self.out_guards = [g for entry in optimized.entries for g in entry.guards.splitlines()[1:-1]]
        self.compile_times = [c.seconds for c in self.graphs]
        self.name, self.backend = optimized.name, optimized.backend.name

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.name}: {self.graph_count} graph(s), {self.graph_break_count} break(s), backend {self.backend}"
        for place, reason in self.break_reasons:
            yield f"break at {place or 'the call'}: {reason}"
        for number, compiled in enumerate(self.graphs):
            yield ""
            yield f"graph {number}, compiled in {compiled.seconds * 1000:.0f} ms, as recorded:"
            yield from _indented(compiled.before)
            dead, common = compiled.removed
            yield (
                f"removed: {dead} dead and {common} common operator(s); the backward pass computes "
                f"{compiled.recomputed} value(s) again and reads {compiled.saved} saved ones"
            )
            yield from self._program("forward", compiled.forward)
            if compiled.backward is not None:
                yield from self._program("backward", compiled.backward)

    def _program(self, title: str, program: Program) -> Iterator[str]:
        fused = sum(len(k.nodes) for k in program.kernels)
        yield ""
        yield f"{title}: {fused} operator(s) in {len(program.kernels)} kernel(s), {len(program.calls)} call(s)"
        moved, alone = sum(map(_bytes, program.kernels)), sum(map(_bytes_alone, program.kernels))
        if program.kernels:
            yield f"memory traffic of the kernels: {moved:,} bytes; of the operators one by one: {alone:,}"
        for node in program.calls:
            yield f"not fused: {node.name}, {program.reasons.get(node, '')} ({node.where})"
        yield from _indented(program.source)
        for number, kernel in enumerate(program.kernels):
            entries = ", ".join(dict.fromkeys(n.name for n in kernel.nodes))
            yield f"kernel{number}: of the entries {entries} of native_functions.yaml"
            yield from _indented(str(kernel.program))
            source = getattr(program.run.__globals__.get(f"kernel{number}"), "source", None)
            if source:
                yield from _indented(str(source))


def _indented(text: str) -> Iterator[str]:
    for line in text.rstrip().splitlines():
        yield f"    {line}"


def _bytes(kernel: Kernel) -> int:
    return sum(v.nbytes for v in (*kernel.inputs, *kernel.outputs))


def _bytes_alone(kernel: Kernel) -> int:
    return sum(map(_traffic, kernel.nodes))


def _traffic(node: Node) -> int:
    return sum(v.nbytes for v in node.values()) + sum(v.nbytes for v in values_in(node.result))
