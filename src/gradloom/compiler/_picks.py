"""Single elements of rows: what is read by `self[target]` alone, and sums of rows that differ from zero in one element.

Note [Picks]
The loss of a classification reads one element of each row of log-probabilities, and its gradient has one in each row.
So that neither tensor has to be made, two rules move such stages: an element of what is computed element by element is
computed from elements of its operands; and the sum of a row of zeros with one other number is that number.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from ._fuse import facts_of, refusal, result_of
from ._graph import RESULT, Content, Graph, Node, Value, contiguous_strides
from ._rows import expanded
from ._scalar import Stage, class_dimension, names_in, parsed, tables_in

MOST = 32  # nodes that one element is computed by


def with_picks(graph: Graph) -> Graph:
    """Return the graph with elements of computed tensors as computed elements, and with sums of single elements."""
    maker = {c: n for n in graph.nodes for c in n.made}
    overwritten = {c.before for n in graph.nodes for c in n.writes}

    def each(node: Node) -> list[Node]:
        if node.wrapper.__class__ is not Stage:
            return [node]
        if isinstance(parsed(node.wrapper.source), ast.Subscript):
            pick = _Pick(node, maker, overwritten)
            pick.make(node.args[pick.table], node.result)
            return pick.nodes if len(pick.nodes) <= MOST else [node]
        return [_of_one(node, maker) or node]

    return expanded(graph, each)


class _Pick:
    """The nodes that compute the elements which a stage reads from a table."""

    def __init__(self, node: Node, maker: dict[Content, Node], overwritten: set[Content | None]) -> None:
        self.node, self.maker, self.overwritten = node, maker, overwritten
        (name,) = tables_in(node.wrapper.source)
        self.table = node.wrapper.names.index(name)
        self.nodes: list[Node] = []
        self.known: dict[Value, Value] = {}

    def make(self, table: Value, result: Value | None = None) -> Value:
        """Add the nodes that make the elements of a table; return them, as `result` or a new value."""
        found = self.known.get(table)
        if found is not None:
            return found
        producer = self.maker.get(table.content)
        if producer is not None and len(self.nodes) < MOST and self._can_move(producer, table):
            args = tuple([self._operand(a, table.shape) for a in producer.args])
            wrapper = producer.wrapper
            if wrapper.__class__ is Stage:
                wrapper = wrapper._replace(space=self.node.result.shape, axes=())
            node = replace(producer, wrapper=wrapper, args=args, where=self.node.where)
        else:
            args = (*self.node.args[: self.table], table, *self.node.args[self.table + 1 :])
            node = replace(self.node, args=args)
        made = self._value(table.dtype) if result is None else result
        node.result, node.made = made, (made.content,)
        made.content.node = node
        self.nodes.append(node)
        self.known[table] = made
        return made

    def _can_move(self, producer: Node, table: Value) -> bool:
        if producer.wrapper is self.node.wrapper or len(table.shape) < 2 or table != result_of(producer):
            return False
        if refusal(producer) is not None or facts_of(producer).depth or producer.writes:
            return False
        if any(v.content in self.overwritten for v in producer.values()):
            return False
        if any(a.__class__ in (tuple, list) and any(b.__class__ is Value for b in a) for a in producer.args):
            return False
        stage = producer.wrapper
        if stage.__class__ is not Stage:
            return True
        return (
            stage.space == table.shape
            and not names_in(stage.source) & {"count", "index"}
            and not tables_in(stage.source)
        )

    def _operand(self, value: Any, shape: tuple[int, ...]) -> Any:
        """Return the operand for elements of a node with a result of `shape`; they have no dimension of classes."""
        if value.__class__ is not Value or not value.shape:
            return value
        lead = len(shape) - len(value.shape)
        steps = [0 if n == 1 else s for n, s in zip(value.shape, value.strides, strict=True)]
        strides = (0,) * lead + tuple(steps)
        along = class_dimension(len(shape))
        if strides[along]:
            return self.make(value if value.shape == shape else value._replace(shape=shape, strides=strides))
        return value._replace(shape=_without(shape, along), strides=_without(strides, along))

    def _value(self, dtype: Any) -> Value:
        result = self.node.result
        shape, strides = result.shape, contiguous_strides(result.shape, dtype.itemsize)
        content = Content(f"{result.content.number}.{len(self.nodes)}", RESULT, shape, strides, dtype)
        return Value(content, shape, strides, dtype)


def _without(values: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return values[:dim] + values[dim + 1 :]


def _of_one(node: Node, maker: dict[Content, Node]) -> Node | None:
    """Return the node for a sum of rows of which one element alone is not 0; None if it is something else."""
    stage = node.wrapper
    summed = _arguments(stage.source, "sum")
    if len(summed) != 1 or not isinstance(summed[0], ast.Name):
        return None
    value: Any = dict(zip(stage.names, node.args, strict=True)).get(summed[0].id)
    producer = maker.get(value.content) if value.__class__ is Value else None
    if producer is None or producer.wrapper.__class__ is not Stage or value != result_of(producer):
        return None
    made: Stage = producer.wrapper
    choice = _arguments(made.source, "where")
    if (made.space, made.axes, made.dtype) != (stage.space, stage.axes, stage.dtype) or len(choice) != 3:
        return None
    condition, one, rest = choice
    if str(value.dtype) != made.dtype or not isinstance(rest, ast.Constant) or rest.value != 0:
        return None  # such as a half type, to which the element is rounded
    if not (isinstance(condition, ast.Compare) and isinstance(condition.ops[0], ast.Eq)):
        return None
    index, target = condition.left, condition.comparators[0]
    if not (isinstance(index, ast.Name) and index.id == "index" and "index" not in made.names):
        return None
    shown, chosen = ast.unparse(one), ast.unparse(target)
    source = f"where(({chosen} >= 0) & ({chosen} < count), {shown}, 0) + 0.0"
    if "index" in names_in(source) or tables_in(source):
        return None
    for v in producer.values():
        strides = (0,) * (len(made.space) - len(v.shape)) + tuple([0 if n == 1 else 1 for n in v.shape])
        if any(strides[d] for d in made.axes):
            return None
    wrapper = Stage(source, made.names, made.space, made.axes, made.dtype, False)
    return replace(node, wrapper=wrapper, args=producer.args)


def _arguments(source: str, name: str) -> list[ast.expr]:
    """Return the arguments of a definition that is a call of a function; none if it is something else."""
    tree = parsed(source)
    return tree.args if isinstance(tree, ast.Call) and tree.func.id == name else []  # type: ignore[attr-defined]
