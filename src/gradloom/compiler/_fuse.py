"""The fuser: which nodes of a graph become one loop.

Note [Fusion]
A node whose operator has a scalar definition can be computed in a loop with others. Nodes join a group in the order of
the program, if they walk over the same space, read what the group makes at the point where it is made (so that it
stays in a register), share an operand or a result with it, and if no path leads from the group to the node through
something outside of it. Stages of operators on rows (_rows.py) join likewise: with the first that combines rows, the
group gets its `axes`, and then also takes nodes whose results have one element for each row.

What reads a row's value walks over the row once more, and computes again what the group makes for its elements: so no
expensive function, and not if rows are too long for the cache or too few for the threads.

Note [Sums over rows]
The gradients of a layer norm's parameters and of a bias are sums over the rows of what a loop reads or makes anyway.
With machine code they join the loop: each thread adds its rows up in memory of its own, one sum for each element of a
row, which is short enough to stay in the cache.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..types.dtype import default
from ._graph import Content, Node, Value, contiguous_strides, dtype_name, form_of, size_of
from ._loops import FLOATS
from ._scalar import COMBINE, COSTLY, CannotFuseError, Exprs, Stage, definition_of, loads, lower, parsed, tables_of

MOST_NODES, MOST_BUFFERS, MOST_OPEN = 48, 24, 12
ROW_OF_SUMS = 1 << 14  # bytes of a row of sums over rows, at most
LONG_ROW, FEW_ROWS, SMALL = 1 << 18, 16, 1 << 17  # elements of rows that are walked over twice

# How many calls of NumPy operations take, or take as long as: dear for a definition are more than MOST_CALLS.
NUMPY_CALLS = {"load": 0, "const": 0, "number": 0, "cast": 1, "where": 4, "erf": 8, "erfc": 8, "log1p": 8, "expm1": 4}
MOST_CALLS = 4

Access = tuple[int, ...]  # the stride of a value for each dimension of a space, in bytes; 0 where it is broadcast


def broadcast_access(value: Value, shape: Sequence[int]) -> Access:
    """Return how a tensor that is broadcast to a shape is walked over."""
    lead = len(shape) - len(value.shape)
    return (0,) * lead + tuple([0 if n == 1 else s for n, s in zip(value.shape, value.strides, strict=True)])


def is_sum(source: str) -> bool:
    """Return whether a definition is the sum of something that has no reductions in it."""
    tree = parsed(source)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.func.id in COMBINE]  # type: ignore[attr-defined]
    return len(calls) == 1 and calls[0] is tree and calls[0].func.id == "sum"  # type: ignore[attr-defined]


@dataclass(eq=False, slots=True)
class Group:
    """Nodes that one loop program computes.

    Attributes:
        space: the sizes of the loops.
        axes: the dimensions of its rows; () for a pointwise group.
        nodes: in the order of the program.
        made: content -> how its value is written, in the space.
        levels: content -> how many values of rows, one computed from the other, it depends on.
        costs: content -> how many expensive functions one of its elements takes; for contents with one for each element
            of the space.
        adds: whether it may have sums over its rows; sums: the contents that are.
    """

    space: tuple[int, ...]
    axes: tuple[int, ...] = ()
    nodes: list[Node] = field(default_factory=list)
    made: dict[Content, Access] = field(default_factory=dict)
    levels: dict[Content, int] = field(default_factory=dict)
    costs: dict[Content, int] = field(default_factory=dict)
    loads: set[Content] = field(default_factory=set)
    needs: set[Any] = field(default_factory=set)  # groups and nodes that must run before
    adds: bool = False
    sums: set[Content] = field(default_factory=set)

    @property
    def name(self) -> str:
        return "+".join(dict.fromkeys(n.name.partition(".")[0] for n in self.nodes))

    def takes(self, node: Node) -> tuple[int, ...] | None:
        """Return the axes of the group with a node; None if it walks over another space."""
        result = result_of(node)
        assert result is not None
        stage = node.wrapper
        if stage.__class__ is Stage:
            if stage.space != self.space:
                return None
            if not stage.combines and result.shape == self.space or self.sums_rows(node):
                return self.axes
            return stage.axes if self.axes in ((), stage.axes) else None
        rows = [n for d, n in enumerate(self.space) if d not in self.axes]
        kept = [1 if d in self.axes else n for d, n in enumerate(self.space)]
        return self.axes if list(result.shape) in (list(self.space), kept, rows) else None

    def sums_rows(self, node: Node) -> bool:
        """Return whether a stage is a sum over the rows of this group: Note [Sums over rows]."""
        stage, result = node.wrapper, result_of(node)
        assert result is not None
        if not self.adds or not self.axes or {*self.axes, *stage.axes} != {*range(len(self.space))}:
            return False
        if {*self.axes} & {*stage.axes} or not stage.combines or not is_sum(stage.source):
            return False
        if dtype_name(result.dtype) != stage.dtype or stage.dtype not in FLOATS or not result.is_whole:
            return False
        if result.strides != contiguous_strides(result.shape, result.dtype.itemsize):
            return False
        row = size_of(stage.dropped) * result.dtype.itemsize
        return row <= ROW_OF_SUMS and size_of(self.space) > SMALL and self.axes[0] > stage.axes[-1]

    def access(self, node: Node, value: Value, axes: tuple[int, ...]) -> Access:
        """Return how a node that the group takes, then with `axes`, walks over an operand or its result."""
        result = result_of(node)
        assert result is not None
        stage = node.wrapper
        if stage.__class__ is Stage and value is not result or len(result.shape) == len(self.space):
            return broadcast_access(value, self.space)
        if stage.__class__ is Stage and self.axes and stage.axes != axes and self.sums_rows(node):
            return (0,) * len(stage.axes) + contiguous_strides(stage.dropped, result.dtype.itemsize)
        of_rows = iter(broadcast_access(value, result.shape))
        return tuple([0 if d in axes else next(of_rows) for d in range(len(self.space))])

    def level(self, node: Node) -> int:
        """Return how many values of rows, one computed from the other, a node's operands depend on."""
        return max((self.levels.get(v.content, 0) for v in node.values()), default=0)

    def walks_well(self, node: Node, axes: tuple[int, ...]) -> bool:
        """Return whether walking over the rows for a node does not cost more than memory traffic: Note [Fusion]."""
        result = result_of(node)
        assert result is not None
        of_elements = result.shape == self.space
        own, reduces = cost_of(node)
        if len(self.space) - 1 not in axes and self.space[-1] > 1 and (any(self.costs.values()) or of_elements and own):
            return False  # going down columns, at a line of memory for each step, is for cheap functions only
        last = self.level(node) + reduces - (reduces > 0 and not of_elements)  # the number of its last walk
        if not last or not (of_elements or reduces):
            return True
        if any(self.costs.get(v.content, 0) and self.levels[v.content] < last for v in node.values()):
            return False
        total, row = size_of(self.space), size_of(tuple([self.space[d] for d in axes]))
        return total <= SMALL or row <= LONG_ROW and total // row >= FEW_ROWS

    def add(self, node: Node) -> None:
        """Add a node that the group takes."""
        if node.wrapper.__class__ is Stage and node.wrapper.space == self.space and self.sums_rows(node):
            assert node.result.__class__ is Value
            self.sums.add(node.result.content)
        axes = self.takes(node)
        assert axes is not None
        self.axes = axes
        result = result_of(node)
        assert result is not None
        access = self.access(node, result, axes)
        level = self.level(node)
        own, reduces = cost_of(node)
        self.levels[result.content] = level + reduces
        if result.content not in self.sums and all(access[d] or self.space[d] == 1 for d in axes):
            self.costs[result.content] = own + sum(self.costs.get(v.content, 0) for v in node.values())
        self.nodes.append(node)
        self.made[result.content] = access
        self.loads |= {v.content for v in node.values() if v.content not in self.made}


class Facts(NamedTuple):
    """What the definition of a node says, for all nodes that differ in tensors only.

    Attributes:
        reason: why it cannot be a loop; None if it can.
        costly: how many expensive functions of elements it computes.
        depth: how deep its reductions nest.
        calls: how many calls of NumPy it takes, element by element.
    """

    reason: str | None
    costly: int = 0
    depth: int = 0
    calls: int = 0


_facts: dict[Any, Facts] = {}  # at most MOST_FACTS
MOST_FACTS = 4096


def facts_of(node: Node) -> Facts:
    """Return the facts of a node with a result that could be fused."""
    key = _structure(node)
    found = _facts.get(key)
    if found is None:
        if len(_facts) >= MOST_FACTS:
            _facts.clear()
        found = _facts[key] = _new_facts(node)
    return found


def _structure(node: Node) -> Any:
    """Return all that a node's definition is evaluated for, but which tensors."""
    places: dict[Value, int] = {}

    def numbered(value: Value) -> Any:
        return value.dtype, not value.shape, places.setdefault(value, len(places))

    what = node.wrapper if node.wrapper.__class__ is Stage else node.name
    return what, node.result.dtype, default.float, *[form_of(a, numbered) for a in node.args]


def _new_facts(node: Node) -> Facts:
    exprs = Exprs()
    try:
        lower(node, exprs, loads(exprs), dtype_name(node.result.dtype))
    except CannotFuseError as error:
        return Facts(str(error))
    depth: dict[int, int] = {}
    for e in exprs.known.values():  # operands come before what uses them
        depth[id(e)] = max((depth[id(a)] for a in e.args), default=0) + (e.op == "reduce")
    costly = sum(e.op in COSTLY for e in exprs.known.values())
    calls = sum(NUMPY_CALLS.get(e.op, 1) for e in exprs.known.values())
    return Facts(None, costly, max(depth.values(), default=0), calls)


def cost_of(node: Node) -> tuple[int, int]:
    """Return how many expensive functions of elements a fusable node computes, and how deep its reductions nest."""
    facts = facts_of(node)
    return facts.costly, facts.depth


def result_of(node: Node) -> Value | None:
    """Return the result of a node that could be fused: one new content, all of whose elements are written."""
    value = node.result
    if value.__class__ is not Value or len(node.made) != 1 or node.made[0] is not value.content:
        return None
    return value if value.covers and not node.is_random else None


def refusal(node: Node) -> str | None:
    """Return why a node cannot be fused; None if it can."""
    result = result_of(node)
    if result is None:
        if node.is_random:
            return "it draws random numbers, as eagerly"
        if definition_of(node) is not None:
            return "it writes to a part of a tensor, or returns a view"
        return "it has no scalar definition"
    if not result.size:
        return "it has no elements"
    reason = facts_of(node).reason
    if reason is not None:
        return reason
    for value in node.values():
        if any(s % value.dtype.itemsize for s in value.strides) or value.offset % value.dtype.itemsize:
            return "a tensor is not aligned to its elements"
    return None


def is_dear(node: Node) -> bool:
    """Return whether a fusable node takes more calls of NumPy, element by element, than a kernel made for it."""
    return facts_of(node).calls > MOST_CALLS


class Fuser:
    """Groups the nodes of a graph.

    Args:
        fuses: False leaves every node to its operator.
        machine_code: False leaves to operators what NumPy computes no faster in blocks: single nodes, and dear ones.

    Attributes:
        steps: nodes and Groups, in an order in which they can run.
        reasons: node -> why it is not in a group.
    """

    def __init__(self, nodes: Iterable[Node], fuses: bool = True, machine_code: bool = True) -> None:
        self.fuses, self.machine_code = fuses, machine_code
        self.nodes = list(nodes)
        self.reasons: dict[Node, str] = {}
        self.home: dict[Node, Any] = {}  # node -> its Group, or itself
        self.maker: dict[Content, Node] = {}
        self.readers: dict[Content, list[Node]] = {}
        self.open: list[Group] = []
        self._edges: dict[Any, set[Any]] = {}  # groups and nodes -> what they need
        for node in self.nodes:
            self._place(node)
        if not machine_code:
            self._leave_single_nodes()
        self.steps = self._ordered()

    def _place(self, node: Node) -> None:
        reason = refusal(node) if self.fuses else "the backend does not fuse"
        if reason is None and not self.machine_code and is_dear(node):
            reason = "its kernel takes fewer calls of NumPy than its definition"
        needs = self._needs(node)
        if reason is not None:
            self.reasons[node] = reason
            self.home[node] = node
        else:
            group = self._group_for(node, needs)
            group.add(node)
            group.needs |= {n for n in needs if n is not group}
            self.home[node] = group
        for content in node.made:
            self.maker[content] = node
        for value in node.values():
            self.readers.setdefault(value.content, []).append(node)
        self._edges[self.home[node]] = self.home[node].needs if self.home[node].__class__ is Group else needs

    def _leave_single_nodes(self) -> None:
        """Leave to their operators the nodes that found no others."""
        renamed: dict[Any, Node] = {g: g.nodes[0] for g in self.open if len(g.nodes) == 1}
        for group, node in renamed.items():
            self.home[node] = node
            self.reasons[node] = "there is nothing to fuse it with"
            self._edges[node] = self._edges.pop(group)
        for item, needs in self._edges.items():
            self._edges[item] = {renamed.get(n, n) for n in needs}

    def _needs(self, node: Node) -> set[Any]:
        """Return the groups and nodes whose results or reads a node must come after."""
        found = set()
        for value in node.values():
            maker = self.maker.get(value.content)
            if maker is not None:
                found.add(self.home[maker])
        for content in node.writes:
            before = content.before
            assert before is not None
            found.update(self.home[r] for r in self.readers.get(before, ()))
            maker = self.maker.get(before)
            if maker is not None:
                found.add(self.home[maker])
        if node.is_random:
            last = next((n for n in reversed(self.nodes[: self.nodes.index(node)]) if n.is_random), None)
            if last is not None:
                found.add(self.home[last])
        return found

    def _group_for(self, node: Node, needs: set[Any]) -> Group:
        result = result_of(node)
        assert result is not None
        joined: Group | None = None
        contents = {value.content for value in node.values()}
        for group in reversed(self.open[-MOST_OPEN:]):
            if contents.isdisjoint(group.made) and contents.isdisjoint(group.loads):
                continue
            if not self._joins(node, group, needs):
                continue
            if joined is None:
                joined = group
            elif self._merges(joined, group, node):
                needs.discard(group)
                self._merge(joined, group)
        if joined is None:
            space = node.wrapper.space if node.wrapper.__class__ is Stage else result.shape
            joined = Group(space, adds=self.machine_code)
            self.open.append(joined)
        return joined

    def _merges(self, group: Group, other: Group, node: Node) -> bool:
        """Return whether two groups, both of which a node could join, can be one."""
        if len(group.nodes) + len(other.nodes) >= MOST_NODES or group.space != other.space:
            return False
        if group.axes and other.axes:
            return False
        for first, second in ((group, other), (other, group)):
            for member in second.nodes:
                tables = tables_of(member)
                for value in member.values():
                    if value.content in first.sums:
                        return False
                    made = first.made.get(value.content)
                    if made is not None and (
                        value.offset or value.content in tables or made != broadcast_access(value, group.space)
                    ):
                        return False
            if any(n is not first and self._reaches(n, first) for n in self._edges.get(second, ())):
                return False
        axes = group.axes or other.axes
        return not axes or _joined(group, other).walks_well(node, axes)

    def _merge(self, group: Group, other: Group) -> None:
        joined = _joined(group, other)
        group.axes, group.nodes, group.made = joined.axes, joined.nodes, joined.made
        group.levels, group.costs, group.loads = joined.levels, joined.costs, joined.loads
        group.sums |= other.sums
        group.needs = {n for n in group.needs | other.needs if n is not group and n is not other}
        for member in other.nodes:
            self.home[member] = group
        self.open.remove(other)
        self._edges.pop(other, None)
        self._edges[group] = group.needs
        for edges in self._edges.values():
            if other in edges:
                edges.discard(other)
                edges.add(group)

    def _joins(self, node: Node, group: Group, needs: set[Any]) -> bool:
        axes = group.takes(node)
        if len(group.nodes) >= MOST_NODES or axes is None:
            return False
        tables = tables_of(node)
        contents = set()
        for value in node.values():
            if value.content in group.sums:
                return False  # it is complete only after the loop
            contents.add(value.content)
            made = group.made.get(value.content)
            if made is not None and (
                value.offset or value.content in tables or made != group.access(node, value, axes)
            ):
                return False
        if len(contents | group.loads | set(group.made)) > MOST_BUFFERS + MOST_NODES:
            return False
        if any(c.before is not None and c.before in group.made for c in node.made):
            return False
        if axes and (any(c.before is not None for c in node.made) or not group.walks_well(node, axes)):
            return False
        return not any(self._reaches(other, group) for other in needs if other is not group)

    def _reaches(self, start: Any, goal: Group) -> bool:
        """Return whether `start` must come after `goal`."""
        seen, stack = {start}, [start]
        while stack:
            for needed in self._edges.get(stack.pop(), ()):
                if needed is goal:
                    return True
                if needed not in seen:
                    seen.add(needed)
                    stack.append(needed)
        return False

    def _ordered(self) -> list[Any]:
        """Return groups and nodes so that each comes after what it needs, otherwise in the order of the program."""
        order: list[Any] = []
        done: set[Any] = set()
        for first in dict.fromkeys(self.home[n] for n in self.nodes):
            stack = [(first, iter(sorted(self._edges[first], key=_first_number)))]
            while stack:
                item, needs = stack[-1]
                following = next((n for n in needs if n not in done), None)
                if following is not None:
                    stack.append((following, iter(sorted(self._edges[following], key=_first_number))))
                    continue
                stack.pop()
                if item not in done:
                    done.add(item)
                    order.append(item)
        return order


def _joined(first: Group, second: Group) -> Group:
    """Return a group of the nodes of two, without what it needs."""
    nodes = sorted([*first.nodes, *second.nodes], key=lambda n: n.number)
    made = {**first.made, **second.made}
    levels, costs = {**first.levels, **second.levels}, {**first.costs, **second.costs}
    loads = {c for c in first.loads | second.loads if c not in made}
    return Group(first.space, first.axes or second.axes, nodes, made, levels, costs, loads)


def _first_number(item: Any) -> int:
    return item.nodes[0].number if item.__class__ is Group else item.number
