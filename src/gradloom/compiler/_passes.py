"""Passes over a graph: dead nodes, common subexpressions, and what the backward pass computes again."""

from __future__ import annotations

from typing import Any

from ._fuse import cost_of, is_dear, refusal, result_of
from ._graph import RESULT, Content, Graph, Node, Value, mapped, values_in
from ._numbers import number_of


def without_common_nodes(graph: Graph) -> int:
    """Let equal pure calls be one; return how many went."""
    known: dict[Any, Node] = {}
    renamed: dict[Content, Content] = {}
    overwritten = {c.before for n in graph.nodes for c in n.writes}
    kept: list[Node] = []
    kept_forward = 0

    def current(value: Value) -> Value:
        return value.of(renamed.get(value.content, value.content))

    for i, node in enumerate(graph.nodes):
        node.args = mapped(node.args, current)
        node.result = mapped(node.result, current)
        pure = not node.is_random and not node.writes and all(c not in overwritten for c in node.made)
        key = (node.wrapper, _key(node.args)) if pure else None
        same = known.get(key) if key is not None else None
        if same is not None and _alike(same, node):
            renamed.update(zip(node.made, same.made, strict=True))
            continue
        if key is not None:
            known[key] = node
        kept.append(node)
        kept_forward += i < graph.forward
    removed = len(graph.nodes) - len(kept)
    graph.nodes, graph.forward = kept, kept_forward
    graph.outputs = [current(v) for v in graph.outputs]
    graph.gradients = [None if v is None else current(v) for v in graph.gradients]
    return removed


def _alike(first: Node, second: Node) -> bool:
    a, b = list(values_in(first.result)), list(values_in(second.result))
    if len(a) != len(b) or len(first.made) != len(second.made):
        return False
    place = {c: i for i, c in enumerate(second.made)}
    return all(
        (x.shape, x.strides, x.dtype, x.offset) == (y.shape, y.strides, y.dtype, y.offset)
        and (x.content is y.content or y.content in place and first.made[place[y.content]] is x.content)
        for x, y in zip(a, b, strict=True)
    )


def _key(value: Any) -> Any:
    if value.__class__ is Value:
        return value
    if value.__class__ in (tuple, list):
        return (value.__class__, *map(_key, value))
    free = number_of(value)
    if free is not None:
        return "free", free.source, free is value or str(value._array.dtype)
    number = getattr(value, "_wrapped_number", None)
    if number is not None:
        return "number", type(number), repr(number), str(value._array.dtype)
    if value.__class__ in (int, float, bool, complex, str, type(None)):
        return type(value), repr(value)
    return id(value)


def without_dead_nodes(graph: Graph) -> int:
    """Remove nodes that nothing needs; return how many. Random ones stay: they advance the stream."""
    wanted: set[Content] = {v.content for v in graph.outputs}
    wanted |= {v.content for v in graph.gradients if v is not None}
    wanted |= set(graph.final.values())
    kept = []
    for i in reversed(range(len(graph.nodes))):
        node = graph.nodes[i]
        if node.is_random or any(c in wanted for c in node.made):
            wanted |= {v.content for v in node.values()}
            wanted |= {c.before for c in node.writes if c.before is not None}
            kept.append((i, node))
    removed = len(graph.nodes) - len(kept)
    graph.forward = sum(1 for i, _ in kept if i < graph.forward)
    graph.nodes = [node for _, node in reversed(kept)]
    return removed


def is_cheap(node: Node) -> bool:
    """Return whether a node is fusable, without functions that take long, and without reductions."""
    result = result_of(node)
    if result is None or refusal(node) is not None:
        return False
    return not any(cost_of(node)) and not is_dear(node)


class Partition:
    """The forward and the backward pass as two programs.

    Attributes:
        forward, backward: their nodes; the backward pass may begin with nodes that compute values again.
        saved: contents that the forward pass keeps for the backward pass, those of inputs not included.
        reads: contents of inputs that the backward pass reads.
        recomputed: how many nodes the backward pass computes again.
    """

    def __init__(self, graph: Graph, costly_too: bool, available: frozenset[int | str] | None = None) -> None:
        """
        Args:
            costly_too: compute expensive functions again, too.
            available: numbers of the contents that another partition saved; then no others can be.
        """
        self.forward = graph.nodes[: graph.forward]
        backward = graph.nodes[graph.forward :]
        maker = {c: n for n in self.forward for c in n.made}
        overwritten = {c.before for n in graph.nodes for c in n.writes}
        again: dict[Node, bool] = {}

        def can_repeat(node: Node) -> bool:
            """Whether a node, and what it reads that is not kept anyway, can be computed in the backward pass."""
            if node not in again:
                again[node] = (
                    result_of(node) is not None
                    and not node.writes
                    and all(v.content not in overwritten for v in node.values())
                    and (refusal(node) is None and not cost_of(node)[1] if costly_too else is_cheap(node))
                )
            return again[node]

        kept: dict[Content, None] = {}
        repeated: set[Node] = set()
        stack = [v.content for n in backward for v in n.values()]
        stack += [v.content for v in graph.gradients if v is not None]
        outputs = {v.content for v in graph.outputs}
        for reader in backward:
            if refusal(reader) is not None:  # it reads its operands from memory anyway
                outputs |= {v.content for v in reader.values()}
        seen: set[Content] = set()
        while stack:
            content = stack.pop()
            if content in seen:
                continue
            seen.add(content)
            node = maker.get(content)
            if node is None:
                continue
            if available is not None:
                keeps = content.number in available
            else:
                keeps = content in outputs or not can_repeat(node)
                keeps = keeps or not self._saves_memory(node, content, maker, can_repeat)
            if keeps:
                kept[content] = None
                continue
            repeated.add(node)
            stack += [v.content for v in node.values()]
        self.saved = list(kept)
        self.recomputed = len(repeated)
        self.backward = [n for n in self.forward if n in repeated] + backward
        made = {c for n in self.backward for c in n.made}
        read = {v.content for n in self.backward for v in n.values()}
        read |= {v.content for v in graph.gradients if v is not None}
        self.reads = [c for c in read if c not in made and c not in kept and c.memory.kind != RESULT]

    @staticmethod
    def _saves_memory(node: Node, content: Content, maker: Any, can_repeat: Any) -> bool:
        """Whether computing a content again reads less than twice its size of what would not be kept otherwise."""
        new = 0
        for value in node.values():
            source = maker.get(value.content)
            if source is not None and not can_repeat(source):
                new += value.content.nbytes
        return new <= 2 * content.nbytes
