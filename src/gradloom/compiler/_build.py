"""The loop programs of groups: which values each pass over a row computes, and how buffers are walked over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..types.dtype import default
from ._fuse import Access, Group, result_of
from ._graph import Content, Node, Value, dtype_name, form_of, size_of
from ._loops import Buffer, Instruction, LoopProgram, Pass, widened
from ._scalar import Expr, Exprs, Stage, lower, ordered


class Kernel(NamedTuple):
    """A group's loop program, the values that its buffers stand for, how it walks over inputs and outputs, and the
    sources of its numbers.

    The access of a table, of which it reads single elements, is None.
    """

    program: LoopProgram
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    accesses: tuple[Access | None, ...]
    nodes: tuple[Node, ...]
    numbers: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """How many bytes of memory it reads and writes."""
        pairs = zip((*self.inputs, *self.outputs), self.accesses, strict=True)
        elements = size_of(self.program.shape)
        return sum(v.nbytes if a is not None else min(v.nbytes, elements * v.dtype.itemsize) for v, a in pairs)


class Kernels:
    """Makes the kernels of a graph: of equal groups, such as those of equal blocks of a network, only one is built."""

    def __init__(self) -> None:
        self.found: dict[Any, tuple[Kernel, dict[Content, int]]] = {}

    def of(self, group: Group, needed: Iterable[Content]) -> Kernel:
        """Return the kernel of a group, which stores the contents that are needed outside of it."""
        needed = set(needed)
        numbers: dict[Content, int] = {}
        form = _form(group, needed, numbers)
        if form not in self.found:
            self.found[form] = _Builder(group, needed).kernel(), numbers
        kernel, others = self.found[form]
        if others is numbers:
            return kernel
        contents = list(numbers)

        def own(value: Value) -> Value:
            return value.of(contents[others[value.content]])

        inputs, outputs = tuple(map(own, kernel.inputs)), tuple(map(own, kernel.outputs))
        return kernel._replace(inputs=inputs, outputs=outputs, nodes=tuple(group.nodes))


def _form(group: Group, needed: set[Content], numbers: dict[Content, int]) -> Any:
    """Return all that a group's kernel depends on, with contents by `numbers` in the order of their first use."""

    def numbered(value: Value) -> Any:
        number = numbers.setdefault(value.content, len(numbers))
        return number, value.shape, value.strides, value.dtype, value.offset

    nodes = [
        (n.wrapper if n.wrapper.__class__ is Stage else n.name, form_of(n.args, numbered), form_of(n.result, numbered))
        for n in group.nodes
    ]
    stored = [(group.made[n.result.content], n.result.content in needed) for n in group.nodes]
    return group.space, group.axes, default.float, tuple(nodes), tuple(stored)


class _Builder:
    """Builds the loop program of one group."""

    def __init__(self, group: Group, needed: set[Content]) -> None:
        self.group, self.exprs = group, Exprs()
        self.values: dict[Content, Expr] = {}
        self.inputs: dict[tuple[Any, ...], int] = {}
        self.input_values: list[Value] = []
        self.accesses: list[Access | None] = []
        self.stores: list[tuple[Value, Expr]] = []
        self.sums: set[int] = set()  # positions of stores of sums over rows
        for node in group.nodes:
            self.node = node
            result = result_of(node)
            assert result is not None
            found = lower(node, self.exprs, self._operand, dtype_name(result.dtype))
            if result.content in group.sums:
                assert found.op == "reduce"
                (found,) = found.args
                self.sums.add(len(self.stores))
            self.values[result.content] = found
            if result.content in needed or result.content in group.sums:
                self.stores.append((result, found))

    def _operand(self, value: Value, *indices: Expr) -> Expr:
        found = self.values.get(value.content)
        if found is not None:
            return found
        access = None if indices else self.group.access(self.node, value, self.group.axes)
        key = value.content, access, value.offset, value.dtype, indices and (value.shape, value.strides)
        number = self.inputs.get(key)
        if number is None:
            number = self.inputs[key] = len(self.input_values)
            self.input_values.append(value)
            self.accesses.append(access)
        return self.exprs.make("gather" if indices else "load", indices, widened(dtype_name(value.dtype)), number)

    def kernel(self) -> Kernel:
        group = self.group
        order = ordered(root for _, root in self.stores)
        used = sorted({e.attribute for e in order if e.op in ("load", "gather")})
        place = {number: i for i, number in enumerate(used)}
        inputs = [self.input_values[n] for n in used]
        outputs = [value for value, _ in self.stores]
        accesses = [self.accesses[n] for n in used] + [group.made[v.content] for v in outputs]
        single = {e.attribute for e in order if e.op == "index"}
        shape, strides, inner, dims = _geometry(group, [a for a in accesses if a is not None], single)
        walks = iter(strides)
        buffers = [
            _table(v) if a is None else Buffer(dtype_name(v.dtype), tuple([s // v.dtype.itemsize for s in next(walks)]))
            for v, a in zip([*inputs, *outputs], accesses, strict=True)
        ]
        along = [a is not None and any(a[d] for d in group.axes) for a in accesses]
        roots = [root for _, root in self.stores]
        passes = Passes(order, roots, place, along, bool(group.axes), dims, group.axes, self.sums).passes()
        numbers = tuple(self.exprs.numbers)
        program = LoopProgram(
            shape, inner, tuple(buffers[: len(inputs)]), tuple(buffers[len(inputs) :]), passes,
            tuple([dtype for _, dtype in numbers]),
        )  # fmt: skip
        sources = tuple([source for source, _ in numbers])
        return Kernel(program, tuple(inputs), tuple(outputs), tuple(accesses), tuple(group.nodes), sources)


def _table(value: Value) -> Buffer:
    strides = tuple([s // value.dtype.itemsize for s in value.strides])
    return Buffer(dtype_name(value.dtype), strides, value.shape)


class Passes:
    """Distributes expressions over passes.

    A value of a row has a level, the number of walks over the row that it takes; one that follows from numbers and from
    inputs that are constant along rows has level 0, and is computed wherever it is used. A value of an element is
    computed in each pass that uses it, but never before the row's values that it depends on.

    Args:
        order: expressions, each after its operands.
        roots: what the outputs store.
        place: numbers of the inputs, by the `load`s' attributes.
        along: for each input, then each output, whether it varies along a row.
        has_rows: False for a pointwise program.
        dims: for each dimension that an `index` names, its number in the program.
        axes: the dimensions of a row.
        sums: numbers of the outputs that are sums over rows of the roots.
    """

    def __init__(
        self,
        order: list[Expr],
        roots: list[Expr],
        place: dict[int, int],
        along: list[bool],
        has_rows: bool,
        dims: dict[int, int] | None = None,
        axes: tuple[int, ...] = (),
        sums: Iterable[int] = (),
    ) -> None:
        self.order, self.roots, self.place, self.along = order, roots, place, along
        self.dims, self.sums = dims or {}, set(sums)
        self.names: dict[int, str] = {}  # of values that every later pass sees
        self.count = 0
        self.of_row: dict[int, bool] = {}
        self.level: dict[int, int] = {}
        for e in order:
            level = max((self.level[id(a)] for a in e.args), default=0)
            self.level[id(e)] = level + (e.op == "reduce")
            if e.op == "load":
                self.of_row[id(e)] = has_rows and not along[place[e.attribute]]
            elif e.op == "index":
                self.of_row[id(e)] = has_rows and e.attribute not in axes
            else:
                self.of_row[id(e)] = has_rows and (e.op == "reduce" or all(self.of_row[id(a)] for a in e.args))

    def passes(self) -> tuple[Pass, ...]:
        bodies: dict[int, list[Expr]] = {}  # pass -> reductions, and numbers of outputs, in their order
        stores: dict[tuple[int, bool], list[int]] = {}
        last = 0
        for e in self.order:
            if e.op == "reduce":
                number = self.level[id(e)] - 1
                bodies.setdefault(number, []).append(e)
                last = max(last, number)
        for i, root in enumerate(self.roots):
            of_row = self.of_row[id(root)] and not self.along[len(self.place) + i]
            number = max(self.level[id(root)] - of_row, 0)
            stores.setdefault((number, of_row), []).append(i)
            last = max(last, number)
        made = []
        for number in range(last + 1):
            body = self._block({}, bodies.get(number, []), stores.get((number, False), ()))
            ends = [
                e
                for e in self.order
                if self.of_row[id(e)] and e.op != "reduce" and e.args and self.level[id(e)] == number + 1
            ]
            row = self._block(self.names, ends, stores.get((number, True), ()))
            made.append(Pass(tuple(body), tuple(row)))
        return tuple(made)

    def _block(self, names: dict[int, str], wanted: list[Expr], stores: Iterable[int]) -> list[Instruction]:
        """Return the instructions of a body, or of a row's end, whose `names` stay."""
        found: list[Instruction] = []
        roots = {i: self.roots[i] for i in stores}
        for e in ordered([*wanted, *roots.values()], lambda e: id(e) in self.names or id(e) in names):
            name = f"v{self.count}"
            self.count += 1
            (self.names if e.op == "reduce" else names)[id(e)] = name
            args = tuple([names.get(id(a)) or self.names[id(a)] for a in e.args])
            attribute = e.attribute
            if e.op in ("load", "gather"):
                attribute = self.place[attribute]
            elif e.op == "index":
                attribute = self.dims[attribute]
            found.append(Instruction(name, e.op, args, e.dtype, attribute))
            for i in [i for i, root in roots.items() if root is e]:
                found.append(Instruction("", self._store(i), (name,), "", i))
                del roots[i]
        for i, root in roots.items():
            found.append(Instruction("", self._store(i), (names.get(id(root)) or self.names[id(root)],), "", i))
        return found

    def _store(self, output: int) -> str:
        return "add" if output in self.sums else "store"


def _geometry(
    group: Group, accesses: list[Access], single: set[int]
) -> tuple[tuple[int, ...], list[tuple[int, ...]], int, dict[int, int]]:
    """Return a program's space, the strides of its buffers in it, how many of its dimensions are a row's, and which
    dimension each of `single` is."""
    full = max(accesses, key=lambda a: sum(1 for s in a if s)) if group.axes else accesses[-1]

    def part(dims: list[int]) -> tuple[tuple[int, ...], list[tuple[int, ...]], dict[int, int]]:
        chosen = [tuple([a[d] for d in dims]) for a in accesses]
        alone = {i for i, d in enumerate(dims) if d in single}
        key = tuple([full[d] for d in dims])
        shape, strides, found = collapsed(tuple([group.space[d] for d in dims]), chosen, key, alone)
        return shape, strides, {dims[i]: at for i, at in found.items()}

    rows, row_strides, dims = part([d for d in range(len(group.space)) if d not in group.axes])
    if not group.axes:
        return rows, row_strides, 0, dims
    row, strides, inner = part([d for d in range(len(group.space)) if d in group.axes])
    dims |= {d: at + len(rows) for d, at in inner.items()}
    return rows + row, [a + b for a, b in zip(row_strides, strides, strict=True)], len(row), dims


def collapsed(
    space: tuple[int, ...], accesses: list[Access], key: Access, single: set[int]
) -> tuple[tuple[int, ...], list[tuple[int, ...]], dict[int, int]]:
    """Return the space with its dimensions in the order of memory and neighbours merged, and the strides in it.

    Dimensions of one element go; the order is that of the strides `key`. Those of `single` are not merged; the last
    value says which dimension each of them is.
    """
    kept = [d for d, n in enumerate(space) if n != 1]
    kept.sort(key=lambda d: -abs(key[d]))
    shape: list[int] = []
    strides: list[list[int]] = [[] for _ in accesses]
    places: dict[int, int] = {}
    for d in kept:
        merges = shape and all(s[-1] == a[d] * space[d] for s, a in zip(strides, accesses, strict=True))
        if d in single:
            places[d] = len(shape)
        if merges and d not in single and len(shape) - 1 not in places.values():
            shape[-1] *= space[d]
            for s, a in zip(strides, accesses, strict=True):
                s[-1] = a[d]
        else:
            shape.append(space[d])
            for s, a in zip(strides, accesses, strict=True):
                s.append(a[d])
    if not shape:
        return (1,), [(0,) for _ in accesses], places
    return tuple(shape), [tuple(s) for s in strides], places
