"""How a program's loops are laid out for machine code: which one fills the lanes, which ones merge, in what order.

Note [Structure and geometry]
Code is made for a structure: instructions, dtypes, the number of loops, and for each stride whether it is 0, one
element, or anything else. Sizes, strides and addresses are arguments. So programs that differ in sizes share code, and
a new batch size costs no compilation. `Plan.key` is the structure as text, `Plan.geometry` the rest as numbers. Three
decisions by size are part of the code too: the number of lanes, and whether rows are cut into parts, or kept.

Note [Rows and columns]
A pass over rows that are contiguous in memory takes the elements of one row in the lanes (`columns` is False). Where
the next row is the next element, as for sums over the first dimension of a matrix, each lane takes a row (`columns`).
A pointwise program is a program of rows without reductions; any of its dimensions may be the row.

Note [Large results]
A store to memory that is not in a cache reads its line first. Where a program moves more than the caches hold, its
results are gone from them before anything reads them, so they are stored past the caches (x86's non-temporal stores),
which saves that read: a quarter of the traffic of a product of two arrays. Such stores are of whole aligned registers;
the first step of the loop ends where the first result is aligned, and results that are aligned otherwise are stored as
usual.

Note [Kept values]
A pass computes again what an earlier one has computed, because a row may be longer than the cache. In rows that are
not, and lie in the lanes, values that take a division or an expensive function are written to memory of the stack by
the pass that computes them first (`keep`), and read by later ones (`kept`): the exponentials of a softmax.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from .._interpreter import half_dtype
from .._loops import COMPLEX, FLOATS, Instruction, LoopProgram, Pass
from .host import Unsupported, host

CACHED = 24 << 20  # bytes that a program moves, up to which its results are stored in the caches
_LONG_ROW = 2048  # bytes of a row, from which a first step of fewer lanes does not matter
LONGEST = 1 << 12  # elements of a row whose values are kept
LONG = frozenset(
    """exp exp2 expm1 log log2 log10 log1p tanh sinh cosh arcsinh arccosh arctanh logaddexp logaddexp2 hypot sin cos tan
    arctan arctan2 arcsin arccos erf erfc **""".split()
)  # functions that take long


class Loop(NamedTuple):
    """One loop: its size, the stride of each buffer in bytes (0 for tables), and its dimension if `index` names it."""

    size: int
    strides: tuple[int, ...]
    dimension: int | None


@dataclass(frozen=True)
class Plan:
    """Loops of a program in the order in which they are nested: `rows`, then `lanes` and `inner` or the other way.

    rows: outer loops but the lanes'; inner: scalar loops inside a row; lanes: the loop whose steps are taken together.
    """

    program: LoopProgram
    rows: tuple[Loop, ...]
    inner: tuple[Loop, ...]
    lanes: Loop
    columns: bool
    itemsizes: tuple[int, ...]

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        return (*self.rows, *self.inner, self.lanes)

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """Return the program's passes with kept values: Note [Kept values]."""
        row = prod(self.program.shape[len(self.program.shape) - self.program.inner :])
        return self.program.passes if self.columns or row > LONGEST else _keeping(self.program)

    @cached_property
    def geometry(self) -> list[int]:
        """Return sizes, strides of each buffer, and sizes and strides of tables, as the code expects them."""
        program = self.program
        numbers = [loop.size for loop in self.loops]
        for i in range(len(self.itemsizes)):
            numbers += [loop.strides[i] for loop in self.loops]
        for i, buffer in enumerate(program.inputs):
            if buffer.sizes is not None:
                numbers += [*buffer.sizes, *(s * self.itemsizes[i] for s in buffer.strides)]
        if self.sums:
            numbers += self.sums.values()
        return numbers

    @cached_property
    def sums(self) -> dict[int, int]:
        """Return for each output that sums of rows are added to, where the sums of a part of the rows begin in the
        scratch memory, in bytes; and for -1, how many bytes a part takes."""
        program, found, at = self.program, {}, 0
        row = prod(program.shape[len(program.shape) - program.inner :])
        for part in program.passes:
            for i in part.body:
                if i.op == "add":
                    number = int(i.attribute or 0)
                    found[number] = at
                    at += -(-row * self.itemsizes[len(program.inputs) + number] // 64) * 64
        return {**found, -1: at} if found else {}

    @cached_property
    def streamed(self) -> frozenset[int]:
        """Return the numbers of the outputs that are stored past the caches: Note [Large results]."""
        program, first = self.program, len(self.program.inputs)
        if host().machine not in ("x86_64", "amd64") or host().register < 256 or self.columns:
            return frozenset()
        moved = sum(
            size * prod([*(loop.size for loop in self.loops if loop.strides[b]), *(buffer.sizes or ())])
            for b, (size, buffer) in enumerate(zip(self.itemsizes, (*program.inputs, *program.outputs), strict=True))
        )
        if moved < CACHED:
            return frozenset()
        found = set()
        for part in program.passes:
            if not any(i.op == "reduce" for i in part.body):
                found |= {int(i.attribute or 0) for i in part.body if i.op == "store"}
        found -= {output for output, _ in program.aliases}
        size = self.lanes.size
        return frozenset(
            output
            for output in found
            if self.kind(self.lanes, first + output) == "1" and size * self.itemsizes[first + output] >= _LONG_ROW
        )

    def kind(self, loop: Loop, buffer: int) -> str:
        """Return how a buffer moves along a loop: "0", "1" (by one element) or "s" (by any stride)."""
        stride = loop.strides[buffer]
        return "0" if stride == 0 else "1" if stride == self.itemsizes[buffer] else "s"

    @cached_property
    def key(self) -> str:
        """Return the structure as text; see Note [Structure and geometry]."""
        program = self.program
        kinds = " ".join("".join(self.kind(loop, i) for loop in self.loops) for i in range(len(self.itemsizes)))
        singles = " ".join(str(loop.dimension) for loop in self.loops)
        head = f"{len(self.rows)} {len(self.inner)} {'columns' if self.columns else 'row'} | {kinds} | {singles}"
        buffers = [f"{b.dtype} {'' if b.sizes is None else len(b.sizes)}" for b in (*program.inputs, *program.outputs)]
        passes = ["\n".join([*map(str, p.body), "row", *map(str, p.row)]) for p in self.passes]
        head += "".join(f" past {output}" for output in sorted(self.streamed))
        return "\n".join([head, str(len(program.inputs)), *buffers, *program.numbers, str(program.aliases), *passes])


def make_plan(program: LoopProgram) -> Plan:
    """Return the layout of a program's loops. Raises Unsupported for complex numbers."""
    buffers = (*program.inputs, *program.outputs)
    if COMPLEX & {*program.dtypes.values(), *program.numbers, *(b.dtype for b in buffers)}:
        raise Unsupported("the llvm backend has no complex numbers")
    itemsizes = tuple(half_dtype(b.dtype).itemsize for b in buffers)
    instructions = [i for part in program.passes for i in (*part.body, *part.row)]
    single = {i.attribute for i in instructions if i.op == "index"}
    outer = len(program.shape) - program.inner
    ordered = any(i.op == "reduce" and str(i.attribute).startswith("arg") for i in instructions)

    def loop(dim: int) -> Loop:
        strides = tuple(
            0 if b.sizes is not None else b.strides[dim] * s for b, s in zip(buffers, itemsizes, strict=True)
        )
        return Loop(program.shape[dim], strides, dim if dim in single else None)

    loops = [loop(dim) for dim in range(len(program.shape))]
    outside = [x for i, x in enumerate(loops[:outer]) if x.size != 1 or i in single]
    inside = [x for i, x in enumerate(loops[outer:], outer) if x.size != 1 or i in single]
    weights = _weights(program)
    rows = _merge(_sorted(outside, weights))
    outside = _merge(_with_lanes_last(outside, itemsizes, weights))
    inside = _merge(inside if ordered else _with_lanes_last(inside, itemsizes, weights))
    unit = Loop(1, (0,) * len(buffers), None)
    if program.inner == 0:
        *others, lanes = outside or [unit]
        return Plan(program, tuple(others), (), lanes, False, itemsizes)
    inside = inside or [unit]
    adds = any(i.op == "add" for i in instructions)
    if (
        outside
        and not adds
        and _contiguous(outside[-1], itemsizes, weights) > _contiguous(inside[-1], itemsizes, weights)
    ):
        *others, lanes = outside
        return Plan(program, tuple(others), tuple(inside), lanes, True, itemsizes)
    *between, lanes = inside
    return Plan(program, tuple(rows), tuple(between), lanes, False, itemsizes)


def _keeping(program: LoopProgram) -> tuple[Pass, ...]:
    """Return passes in which `keep` and `kept` are in the place of what earlier passes computed: Note [Kept values]."""
    outer = len(program.shape) - program.inner
    numbers: dict[str, int] = {}  # of what values stand for: equal ones have equal numbers
    known: dict[Any, int] = {}
    first: dict[int, tuple[int, str]] = {}  # number -> where it is computed first: the pass, and the name
    costs: dict[int, tuple[bool, bool]] = {}  # number -> whether it varies along a row, and is worth keeping
    places: dict[int, int] = {}  # number -> where it is kept
    bodies: list[list[Instruction]] = []
    for number, part in enumerate(program.passes):
        by_name = {i.name: i for i in part.body if i.name}
        for i in part.body:
            if i.op in ("store", "add", "reduce"):
                continue
            found = known.setdefault((i.op, tuple([numbers[a] for a in i.args]), i.dtype, i.attribute), len(known))
            numbers[i.name] = found
            if found not in costs:
                operands = [costs[numbers[a]] for a in i.args]
                along = i.op in ("gather", "index") or any(along for along, _ in operands)
                if i.op == "load":
                    along = any(program.inputs[int(i.attribute or 0)].strides[outer:])
                costs[found] = along, along and (i.op in LONG or i.op == "/" or any(dear for _, dear in operands))
                first[found] = number, i.name
        needed: set[str] = set()
        kept: dict[str, int] = {}
        stack = [a for i in part.body if i.op in ("store", "add", "reduce") for a in i.args]
        while stack:
            name = stack.pop()
            if name not in by_name or name in needed:
                continue
            needed.add(name)
            found = numbers[name]
            if first[found][0] < number and costs[found][1] and by_name[name].dtype in FLOATS:
                kept[name] = places.setdefault(found, len(places))
            else:
                stack += by_name[name].args
        body = []
        for i in part.body:
            if i.name in kept:
                body.append(Instruction(i.name, "kept", (), i.dtype, kept[i.name]))
            elif i.op in ("store", "add", "reduce") or i.name in needed:
                body.append(i)
        bodies.append(body)
        for name in by_name:
            if by_name[name].op == "reduce":
                known[name] = numbers[name] = len(known)
                costs[numbers[name]] = False, False
        for i in part.row:
            if i.name:
                known[i.name] = numbers[i.name] = len(known)
                costs[numbers[i.name]] = False, False
    for found, place in places.items():
        number, name = first[found]
        at = next(k for k, i in enumerate(bodies[number]) if i.name == name)
        bodies[number].insert(at + 1, Instruction("", "keep", (name,), "", place))
    return tuple([part._replace(body=tuple(body)) for part, body in zip(program.passes, bodies, strict=True)])


def lanes_for(plan: Plan, register: int) -> int:
    """Return the number of lanes: two vector registers (of `register` bits) of the widest floats, so that two chains
    of operations overlap; four where lanes go down columns, so that more is read of each row of memory; one where a row
    fills no more."""
    dtypes = set(plan.program.dtypes.values())
    size = 64 if "float64" in dtypes - {"bool"} and _computes_double(plan) else 32
    if len(plan.loops) > 1 and plan.lanes.size * size <= register:
        return register // size
    wide = plan.columns and plan.lanes.size >= 4 * register // size
    return (4 if wide else 2) * register // size


def _computes_double(plan: Plan) -> bool:
    """Return whether doubles are computed in the lanes, rather than numbers from which row values are made."""
    program = plan.program
    wide = {i.attribute for part in program.passes for i in part.body if i.op == "load" and i.dtype == "float64"}
    return bool(wide) or any(
        i.dtype == "float64" and i.op not in ("number", "const") for part in program.passes for i in part.body
    )


def _weights(program: LoopProgram) -> list[int]:
    """Return how often each buffer is walked through in the bodies."""
    weights = [0] * (len(program.inputs) + len(program.outputs))
    for part in program.passes:
        for i in part.body:
            if i.op in ("load", "store", "add"):
                weights[int(i.attribute or 0) + (0 if i.op == "load" else len(program.inputs))] += 1
    return weights


def _contiguous(loop: Loop, itemsizes: Sequence[int], weights: Sequence[int]) -> int:
    """Return how many accesses go from one element to the next along a loop, less those that jump."""
    score = 0
    for stride, size, weight in zip(loop.strides, itemsizes, weights, strict=True):
        score += weight if stride == size else 0 if stride == 0 else -weight
    return score if loop.size > 1 else min(score, 0)


def _sorted(loops: list[Loop], weights: Sequence[int]) -> list[Loop]:
    """Return loops from large strides to small ones."""

    def steps(x: Loop) -> int:
        return sum(abs(stride) * weight for stride, weight in zip(x.strides, weights, strict=True))

    return sorted(loops, key=steps, reverse=True)


def _with_lanes_last(loops: list[Loop], itemsizes: Sequence[int], weights: Sequence[int]) -> list[Loop]:
    """Return loops with the one best for the lanes last, and the others from large strides to small ones."""
    loops = _sorted(loops, weights)
    if loops:
        best = max(range(len(loops)), key=lambda i: (_contiguous(loops[i], itemsizes, weights), i))
        loops.append(loops.pop(best))
    return loops


def _merge(loops: list[Loop]) -> list[Loop]:
    """Return loops in which neighbours that walk through memory as one are one."""
    merged: list[Loop] = []
    for x in loops:
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.dimension is x.dimension is None
            and all(a == b * x.size for a, b in zip(last.strides, x.strides, strict=True))
        ):
            merged[-1] = Loop(prod((last.size, x.size)), x.strides, None)
        else:
            merged.append(x)
    return merged
