"""The fuser: which nodes of a graph become one loop program, and the loop programs of those groups.

Note [Fusion]
A node whose operator has a scalar definition can be computed in a loop with others. Nodes join a group in the order of
the program, if they walk over the same space, read what the group makes at the point where it is made (so that it
stays in a register), share an operand or a result with it, and if no path leads from the group to the node through
something outside of it. Reductions are not fused: they are calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._graph import Content, Node, Value
from ._loops import Buffer, Instruction, LoopProgram, Pass, widened
from ._scalar import CannotFuseError, Expr, Exprs, definition_of, lower, ordered

MOST_NODES, MOST_BUFFERS, MOST_OPEN = 48, 24, 12

Access = tuple[int, ...]  # the stride of a value for each dimension of a space, in bytes; 0 where it is broadcast


def broadcast_access(value: Value, shape: Sequence[int]) -> Access:
    """Return how a tensor that is broadcast to a shape is walked over."""
    lead = len(shape) - len(value.shape)
    return (0,) * lead + tuple([0 if n == 1 else s for n, s in zip(value.shape, value.strides, strict=True)])


@dataclass(eq=False, slots=True)
class Group:
    """Nodes that one loop program computes.

    Attributes:
        space: the sizes of the loops.
        nodes: in the order of the program.
        made: content -> how its value is written, in the space.
    """

    space: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    made: dict[Content, Access] = field(default_factory=dict)
    loads: set[Content] = field(default_factory=set)
    needs: set[Any] = field(default_factory=set)  # groups and nodes that must run before

    @property
    def name(self) -> str:
        return "+".join(dict.fromkeys(n.name.partition(".")[0] for n in self.nodes))


@dataclass(frozen=True, slots=True)
class Kernel:
    """A group's loop program, and the values that its buffers stand for."""

    program: LoopProgram
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]


def result_of(node: Node) -> Value | None:
    """Return the result of a node that could be fused: one new content, written whole."""
    value = node.result
    if value.__class__ is not Value or len(node.made) != 1 or node.made[0] is not value.content:
        return None
    return value if value.is_whole and not node.is_random else None


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
    exprs = Exprs()
    try:
        lower(node, exprs, lambda v: exprs.make("load", (), widened(str(v.dtype)), v), str(result.dtype))
    except CannotFuseError as error:
        return str(error)
    for value in node.values():
        if any(s % value.dtype.itemsize for s in value.strides) or value.offset % value.dtype.itemsize:
            return "a tensor is not aligned to its elements"
    return None


class Fuser:
    """Groups the nodes of a graph.

    Attributes:
        steps: nodes and Groups, in an order in which they can run.
        reasons: node -> why it is not in a group.
    """

    def __init__(self, nodes: Iterable[Node], fuses: bool = True) -> None:
        self.fuses = fuses
        self.nodes = list(nodes)
        self.reasons: dict[Node, str] = {}
        self.home: dict[Node, Any] = {}  # node -> its Group, or itself
        self.maker: dict[Content, Node] = {}
        self.readers: dict[Content, list[Node]] = {}
        self.open: list[Group] = []
        self._edges: dict[Any, set[Any]] = {}  # groups and nodes -> what they need
        for node in self.nodes:
            self._place(node)
        self.steps = self._ordered()

    def _place(self, node: Node) -> None:
        reason = refusal(node) if self.fuses else "the backend does not fuse"
        needs = self._needs(node)
        if reason is not None:
            self.reasons[node] = reason
            self.home[node] = node
        else:
            group = self._group_for(node, needs)
            group.nodes.append(node)
            group.needs |= {n for n in needs if n is not group}
            result = result_of(node)
            assert result is not None
            group.made[result.content] = broadcast_access(result, group.space)
            group.loads |= {v.content for v in node.values() if v.content not in group.made}
            self.home[node] = group
        for content in node.made:
            self.maker[content] = node
        for value in node.values():
            self.readers.setdefault(value.content, []).append(node)
        self._edges[self.home[node]] = self.home[node].needs if self.home[node].__class__ is Group else needs

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
        for group in reversed(self.open[-MOST_OPEN:]):
            if group.space != result.shape or not self._joins(node, group, needs):
                continue
            if joined is None:
                joined = group
            elif self._merges(joined, group, node):
                needs.discard(group)
                self._merge(joined, group)
        if joined is None:
            joined = Group(result.shape)
            self.open.append(joined)
        return joined

    def _merges(self, group: Group, other: Group, node: Node) -> bool:
        """Return whether two groups, both of which a node could join, can be one."""
        if len(group.nodes) + len(other.nodes) >= MOST_NODES:
            return False
        for first, second in ((group, other), (other, group)):
            for member in second.nodes:
                for value in member.values():
                    made = first.made.get(value.content)
                    if made is not None and (value.offset or made != broadcast_access(value, group.space)):
                        return False
            if any(n is not first and self._reaches(n, first) for n in self._edges.get(second, ())):
                return False
        return True

    def _merge(self, group: Group, other: Group) -> None:
        group.nodes = sorted([*group.nodes, *other.nodes], key=lambda n: n.number)
        group.made.update(other.made)
        group.loads = {c for c in group.loads | other.loads if c not in group.made}
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
        if len(group.nodes) >= MOST_NODES:
            return False
        related = False
        contents = set()
        for value in node.values():
            made = group.made.get(value.content)
            contents.add(value.content)
            if made is not None:
                related = True
                if value.offset or made != broadcast_access(value, group.space):
                    return False
            elif value.content in group.loads:
                related = True
        if not related or len(contents | group.loads | set(group.made)) > MOST_BUFFERS + MOST_NODES:
            return False
        if any(c.before is not None and c.before in group.made for c in node.made):
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


def _first_number(item: Any) -> int:
    return item.nodes[0].number if item.__class__ is Group else item.number


# --- loop programs ----------------------------------------------------------------------------------------------------


def kernel_of(group: Group, needed: Iterable[Content]) -> Kernel:
    """Return the loop program of a group, which stores the contents that are needed outside of it."""
    return _Builder(group, set(needed)).kernel()


class _Builder:
    """Builds the loop program of one group."""

    def __init__(self, group: Group, needed: set[Content]) -> None:
        self.group, self.exprs = group, Exprs()
        self.values: dict[Content, Expr] = {}
        self.inputs: dict[tuple[Any, ...], int] = {}
        self.input_values: list[Value] = []
        self.stores: list[tuple[Value, Expr]] = []
        for node in group.nodes:
            result = result_of(node)
            assert result is not None
            found = lower(node, self.exprs, self._operand, str(result.dtype))
            self.values[result.content] = found
            if result.content in needed:
                self.stores.append((result, found))

    def _operand(self, value: Value) -> Expr:
        found = self.values.get(value.content)
        if found is not None:
            return found
        access = broadcast_access(value, self.group.space)
        key = value.content, access, value.offset, value.dtype
        number = self.inputs.get(key)
        if number is None:
            number = self.inputs[key] = len(self.input_values)
            self.input_values.append(value)
        return self.exprs.make("load", (), widened(str(value.dtype)), number)

    def kernel(self) -> Kernel:
        used, body = self._body()
        accesses = [a for (_, a, _, _), number in self.inputs.items() if number in used]
        inputs = [self.input_values[n] for n in used]
        outputs = [value for value, _ in self.stores]
        accesses += [broadcast_access(v, self.group.space) for v in outputs]
        shape, strides = collapsed(self.group.space, accesses)
        buffers = [
            Buffer(str(v.dtype), tuple([s // v.dtype.itemsize for s in each]))
            for v, each in zip([*inputs, *outputs], strides, strict=True)
        ]
        program = LoopProgram(
            shape, 0, tuple(buffers[: len(inputs)]), tuple(buffers[len(inputs) :]), (Pass(tuple(body)),)
        )
        return Kernel(program, tuple(inputs), tuple(outputs), tuple(self.group.nodes))

    def _body(self) -> tuple[list[int], list[Instruction]]:
        """Return the inputs that are loaded, in the order of their numbers, and the instructions."""
        order = ordered(root for _, root in self.stores)
        used = sorted({e.attribute for e in order if e.op == "load"})
        place = {number: i for i, number in enumerate(used)}
        names: dict[int, str] = {}
        body = []
        last_store: dict[int, list[int]] = {}
        for i, (_, root) in enumerate(self.stores):
            last_store.setdefault(id(root), []).append(i)
        for e in order:
            name = names[id(e)] = f"v{len(names)}"
            attribute = place[e.attribute] if e.op == "load" else e.attribute
            body.append(Instruction(name, e.op, tuple([names[id(a)] for a in e.args]), e.dtype, attribute))
            for i in last_store.get(id(e), ()):
                body.append(Instruction("", "store", (name,), "", i))
        return used, body


def collapsed(space: tuple[int, ...], accesses: list[Access]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return the space with its dimensions in the order of memory and neighbours merged, and the strides in it.

    Dimensions of one element go; the order is that of the last buffer, an output, whose strides are never 0.
    """
    kept = [d for d, n in enumerate(space) if n != 1]
    if accesses:
        kept.sort(key=lambda d: -abs(accesses[-1][d]))
    shape: list[int] = []
    strides: list[list[int]] = [[] for _ in accesses]
    for d in kept:
        merges = shape and all(s[-1] == a[d] * space[d] for s, a in zip(strides, accesses, strict=True))
        if merges:
            shape[-1] *= space[d]
            for s, a in zip(strides, accesses, strict=True):
                s[-1] = a[d]
        else:
            shape.append(space[d])
            for s, a in zip(strides, accesses, strict=True):
                s.append(a[d])
    if not shape:
        return (1,), [(0,) for _ in accesses]
    return tuple(shape), [tuple(s) for s in strides]
