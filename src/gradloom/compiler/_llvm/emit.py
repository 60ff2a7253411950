"""The text of a program's functions: loops, instructions and reductions around the values that `lower` computes.

Note [Levels]
An instruction of a body is written in the outermost loop in which its operands are known: level 0 before the loops,
level k in the k-th. So what is constant along a row is computed once.

Note [Sums]
A sum of floats has one partial sum for each lane, of 128 terms each; these are added up with the error of each addition
kept (T. J. Dekker, 1971), so that the error does not grow with the number of terms: it is at most that of 128 terms
in sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from .._loops import FLOATS, Instruction, Pass, const_value
from .access import NUMBERS, Accesses
from .direct import ENTRY
from .entry import LOOPS, write_entry, write_parallel
from .exponentials import two_sum
from .host import Host
from .ir import BITS, FLOAT, I32, I64, PTR, Function, Module, V, lane_numbers, least, loop, vector
from .lower import ELEMENTS, cast, extreme, from_memory, greater, memory_element, operate, to_memory, write_long
from .plan import Plan, Unsupported, lanes_for

TERMS = 128  # Note [Sums]


def emit(plan: Plan, host: Host, header: int, entries: tuple[str, ...]) -> str:
    """Return the module's text with these functions: `kernel`, and its entry or `many`; or `partial` and `finish` for a
    reduction whose rows are split."""
    module = Module(host.fma, host.register == 512)
    width = lanes_for(plan, host.register)
    if any(b.dtype == "float16" for b in (*plan.program.inputs, *plan.program.outputs)) and not host.half:
        raise Unsupported("the llvm backend has no float16 on this processor")
    program = plan.program
    arrays, numbers = len(program.inputs) + len(program.outputs), [NUMBERS[dtype] for dtype in program.numbers]
    for mode in entries:
        if mode == ENTRY:
            write_entry(module, arrays, numbers, header, LOOPS)
        elif mode == "many":
            write_many(module, plan)
        elif mode == "shared":
            if "many" in entries:
                write_many_shared(module, plan)
            else:
                write_shared(module, entries[0], arrays, numbers)
        else:
            _Writer(plan, host, module, width, header, mode).write()
    return str(module)


def write_many(module: Module, plan: Plan) -> None:
    """Add the function `many(geometry, library, count, ranges, objects, numbers...)` to a module with `kernel`."""
    program = plan.program
    numbers = [(NUMBERS[dtype], f"n{i}") for i, dtype in enumerate(program.numbers)]
    parameters = [(PTR, "geometry"), (PTR, "library"), (I64, "count"), (PTR, "ranges"), (PTR, "objects"), *numbers]
    f = Function(module, "many", I32, parameters)
    width = len(program.inputs) + len(program.outputs)

    def one(i: V) -> None:
        edges = f.offset("%ranges", i * 16)
        first, last = f.load(edges, I64), f.load(f.offset(edges, 8), I64)
        row = f.offset("%objects", i * (8 * width))
        arrays = [(PTR, f.load(f.offset(row, 8 * k), PTR).name) for k in range(width)]
        place = [(I64, "0"), (I64, "1"), (I64, first.name), (I64, last.name), (I64, "0"), (PTR, "null")]
        arguments = [(PTR, "%geometry"), (PTR, "%library"), *place, *arrays]
        f.call("kernel", I32, I32, 0, [*arguments, *((type, f"%{name}") for type, name in numbers)])

    loop(f, f.const(0, I64), f.parameter("count", I64), 1, one)
    f.line("ret i32 0")
    f.finish()


def write_shared(module: Module, target: str, count: int, types: Sequence[str]) -> None:
    """Add `shared(pool, run, items, count, helpers, geometry, library, scratch, arrays..., numbers...)`, by which the
    pool's threads call `target` for each of `count` items, ranges of rows and lanes: Note [The pool].

    Args:
        count: the number of arrays.
        types: LLVM's, of the numbers.
    """
    arrays = [(PTR, f"a{i}") for i in range(count)]
    numbers = [(type, f"n{i}") for i, type in enumerate(types)]

    def call(f: Function, kept: dict[str, V], part: V) -> V:
        item = f.offset(kept["items"].name, part * 32)
        edges = [f.load(f.offset(item, 8 * k), I64) for k in range(4)]
        given = [kept["geometry"], kept["library"], *edges, part, kept["scratch"]]
        given += [kept[name] for _, name in (*arrays, *numbers)]
        return f.call(target, I32, I32, 0, [(x.elem, x.name) for x in given])

    write_parallel(module, [(PTR, "geometry"), (PTR, "library"), (PTR, "scratch"), *arrays, *numbers], call)


def write_many_shared(module: Module, plan: Plan) -> None:
    """Add `shared(pool, run, items, count, helpers, geometry, library, ranges, objects, numbers...)`, by which the
    pool's threads call `many` for each of `count` items: the first row, and the number of rows."""
    numbers = [(NUMBERS[dtype], f"n{i}") for i, dtype in enumerate(plan.program.numbers)]
    width = len(plan.program.inputs) + len(plan.program.outputs)

    def call(f: Function, kept: dict[str, V], part: V) -> V:
        item = f.offset(kept["items"].name, part * 16)
        first, count = f.load(item, I64), f.load(f.offset(item, 8), I64)
        ranges, objects = f.offset(kept["ranges"].name, first * 16), f.offset(kept["objects"].name, first * (8 * width))
        given = [(PTR, kept["geometry"].name), (PTR, kept["library"].name), (I64, count.name)]
        given += [(PTR, ranges), (PTR, objects), *((type, kept[name].name) for type, name in numbers)]
        return f.call("many", I32, I32, 0, given)

    tables = [(PTR, name) for name in ("geometry", "library", "ranges", "objects")]
    write_parallel(module, [*tables, *numbers], call)


class _Writer(Accesses):
    """Writes one function."""

    def write(self) -> None:
        self.enter()
        loop(self.f, self.range["r0"], self.range["r1"], 1, self.row)
        if self.plan.streamed:
            self.module.declarations.add("declare void @llvm.x86.sse.sfence()")
            self.f.line("call void @llvm.x86.sse.sfence()")  # other threads see the stores
        self.f.line(f"ret i32 {self.f.load(self.bad, I32).name}")
        self.f.finish()

    def row(self, r: V) -> None:
        """Write one row, or one strip after another of `width` rows."""
        self.number_of_row = r
        places, rest = list(self.data), r
        for k, x in reversed(list(enumerate(self.plan.rows))):
            index = rest
            if k:
                size = self.size(x)
                index, rest = rest._binary("urem", size), rest._binary("udiv", size)
            self.indices[id(x)] = index
        for x in self.plan.rows:
            places = self.moved(places, x, self.indices[id(x)])
        if not self.plan.columns:
            self.places = places
            self.passes()
            return
        lanes = self.plan.lanes
        start = self.f.const(0, I64) if self.mode != "kernel" else self.range["c0"]
        stop = self.size(lanes) if self.mode != "kernel" else self.range["c1"]

        def strip(s: V) -> None:
            self.indices[id(lanes)] = s
            self.places = self.moved(places, lanes, s)
            self.set_active(s, stop)
            self.passes()

        loop(self.f, start, stop, self.width, strip)

    def passes(self) -> None:
        self.values = {}
        for part in self.plan.passes:
            if part.body:
                reductions = [i for i in part.body if i.op == "reduce"]
                if self.mode == "finish":
                    self.combine_parts(reductions)
                else:
                    self.body(part, reductions)
            if self.mode == "partial":
                return
            for i in part.row:
                self.instruction(i, in_row=True)

    # -- one pass

    def body(self, part: Pass, reductions: list[Instruction]) -> None:
        self.part, self.levels = part, self.levels_of(part)
        self.sums = [i for i in reductions if i.attribute == "sum" and i.dtype in FLOATS]
        self.accumulators = {i.name: self.accumulator(i, self.width) for i in reductions}
        self.totals = {i.name: (self.cleared(i), self.cleared(i)) for i in self.sums}
        self.mask = None
        outside = self.places
        self.level(0)
        self.nest(1)
        self.places = outside
        results = [(i, self.result(i)) for i in reductions]
        if self.mode == "partial":
            for k, (_, parts) in enumerate(results):
                for j, value in enumerate(parts):
                    address = self.scratch(self.range["part"], k, len(results))
                    self.f.store(value, self.f.offset(address, j * 8 * max(1, value.width)))
        self.values.update({i.name: parts[-1] for i, parts in results})

    def levels_of(self, part: Pass) -> dict[str, int]:
        """Return the level of each instruction that has a value; see Note [Levels]."""
        levels = dict.fromkeys(self.values, 0)
        stored: set[int] = set()
        aliased = {input: output for output, input in self.program.aliases}
        for i in part.body:
            if i.op == "store":
                stored.add(int(i.attribute or 0))
            if i.op == "load":
                b = int(i.attribute or 0)
                if aliased.get(b) in stored:
                    raise Unsupported("the llvm backend loads before it stores; this body loads what it stored")
                level = max((k for k, x in enumerate(self.inner, 1) if self.plan.kind(x, b) != "0"), default=0)
            elif i.op == "kept":
                level = len(self.inner)
            elif i.op == "index":
                level = next((k for k, x in enumerate(self.inner, 1) if x.dimension == i.attribute), 0)
            else:
                level = max((levels[name] for name in i.args), default=0)
            if i.op not in ("store", "add", "keep", "reduce"):
                levels[i.name] = level
        return levels

    def nest(self, depth: int) -> None:
        x, last = self.inner[depth - 1], depth == len(self.inner)
        in_lanes = x is self.plan.lanes
        start, stop = self.f.const(0, I64), self.size(x)
        if (depth == 1) if self.mode == "partial" else (in_lanes and self.program.inner == 0):
            start, stop = self.range["c0"], self.range["c1"]
        places = self.places
        step = self.width if in_lanes else 1
        streamed = [int(i.attribute or 0) for i in self.part.body if self.is_streamed(i)] if in_lanes and last else []
        first = start
        if streamed:  # the first step begins before the first lane, where a result is aligned
            number = len(self.program.inputs) + streamed[0]
            first = start - self.lanes_past_aligned(self.moved(places, x, start)[number], self.itemsize(number))

        def inside(i: V) -> None:
            end = stop
            if streamed:
                i, end = (i < start).where(start, i), least(stop, i + self.width)
            self.indices[id(x)] = i
            self.places = self.moved(places, x, i)
            if in_lanes:
                self.set_active(i, end)
            self.level(depth)
            if not last:
                self.nest(depth + 1)

        if last and self.sums:
            self.in_blocks(start, stop, step, inside)
        else:
            loop(self.f, first, stop, step, inside)

    def in_blocks(self, start: V, stop: V, step: int, inside: Callable[[V], None]) -> None:
        """Write the innermost loop in blocks of TERMS steps; see Note [Sums]."""
        f = self.f

        def block(i: V) -> None:
            end = i + TERMS * step
            end = (end < stop).where(end, stop)
            for s in self.sums:
                f.store(self.identity(s, self.width), self.accumulators[s.name][0], 64)
            loop(f, i, end, step, inside)
            for s in self.sums:
                self.add_to_total(s, self.read(s, self.accumulators[s.name][0], self.width), self.width)

        loop(f, start, stop, TERMS * step, block)

    def add_to_total(self, s: Instruction, value: V, width: int) -> None:
        total, lost = self.totals[s.name]
        new, error = two_sum(self.read(s, total, width), value)
        finite = (new - new).equals(0.0)  # the error of an infinite sum is NaN
        self.f.store(new, total, 64)
        self.f.store(self.read(s, lost, width) + finite.where(error, 0.0), lost, 64)

    def read(self, i: Instruction, address: str, width: int) -> V:
        return self.f.load(address, ELEMENTS[i.dtype], width, 64)

    def cleared(self, i: Instruction, width: int | None = None) -> str:
        width = self.width if width is None else width
        address = self.f.alloca(vector(ELEMENTS[i.dtype], width), 64)
        self.f.store(self.f.const(0, ELEMENTS[i.dtype], width), address, 64)
        return address

    def level(self, depth: int) -> None:
        """Write a body's instructions of one level: loads first, then values, then reductions and stores."""
        last = depth == len(self.inner)
        ends = ("store", "add", "keep", "reduce")
        mine = [i for i in self.part.body if i.op not in ends and self.levels[i.name] == depth]
        loads = [i for i in mine if i.op == "load" and self.in_lanes(int(i.attribute or 0))]
        reductions = [i for i in self.part.body if i.op == "reduce"] if last else []
        along_lanes = bool(reductions) and not self.plan.columns
        if loads or along_lanes:
            self.load_lanes(loads, along_lanes)
        for i in mine:
            if i not in loads:
                self.instruction(i)
        for i in reductions:
            self.reduce(i)
        if last:
            self.keep([i for i in self.part.body if i.op == "keep"])
            self.store_lanes([i for i in self.part.body if i.op in ("store", "add")])

    # -- instructions

    def instruction(self, i: Instruction, in_row: bool = False) -> None:
        """Write one instruction that is neither a reduction nor a load or store of lanes in a body."""
        f = self.f
        operands = [self.values[name] for name in i.args]
        number = i.attribute if isinstance(i.attribute, int) else 0
        if i.op == "const":
            value = f.const(const_value(i), ELEMENTS[i.dtype])
        elif i.op == "number":
            value = f.parameter(f"n{number}", NUMBERS[i.dtype][:6])
            value = value.differs(0) if i.dtype == "bool" else value
        elif i.op == "index":
            value = self.index(number)
        elif i.op == "load":
            if in_row and self.plan.columns and self.in_lanes(number):
                self.load_lanes([i], False)
                return
            bits = f.load(self.places[number], memory_element(self.buffers[number].dtype), 0, self.itemsize(number))
            value = from_memory(bits, self.buffers[number].dtype)
        elif i.op == "kept":
            address = self.kept_at(number, i.dtype)
            value = f.load(address, ELEMENTS[i.dtype], self.width, BITS[ELEMENTS[i.dtype]] // 8)
        elif i.op == "store":
            self.store_in_row(i)
            return
        elif i.op == "gather":
            value = self.gather(i, number, operands)
        elif i.op == "cast":
            value = cast(operands[0], self.program.dtypes[i.args[0]], i.dtype)
        elif i.op == "bitcast":
            value = operands[0].convert("bitcast", ELEMENTS[i.dtype])
        elif i.op == "round":
            value = from_memory(to_memory(operands[0], str(i.attribute)), str(i.attribute))
            if i.attribute == "float16" and not self.host.half:
                raise Unsupported("the llvm backend has no float16 on this processor")
        elif i.op == "where":
            value = operands[0].where(operands[1], operands[2])
        else:
            value = operate(i.op, operands, self.program.dtypes[i.args[0]], self.call_long)
        self.values[i.name] = value

    def store_in_row(self, i: Instruction) -> None:
        if self.plan.columns:
            self.store_lanes([i])
            return
        b = len(self.program.inputs) + int(i.attribute or 0)
        bits = to_memory(self.values[i.args[0]], self.buffers[b].dtype)
        self.f.store(bits, self.places[b], self.itemsize(b))

    def call_long(self, name: str, operands: list[V]) -> V:
        f, elem = self.f, operands[0].elem
        uniform = not any(x.width for x in operands)
        operands = [f.splat(x, self.width) for x in operands]
        dtype = "float32" if elem == FLOAT else "float64"
        full = write_long(self.module, name, elem, self.width, inline=self.uses[name, dtype] <= 1)
        arguments = [*((x.type, x.name) for x in operands), (PTR, "%library")]
        result = f.call(full, operands[0].type, elem, self.width, arguments)
        return result.lane(0) if uniform else result

    # -- reductions

    def identity(self, i: Instruction, width: int) -> V:
        """Return the value that changes nothing when it is combined."""
        source = self.program.dtypes[i.args[0]]
        elem, kind = ELEMENTS[source], str(i.attribute)
        low = kind in ("max", "argmax")
        value: float | int
        if kind in ("sum", "prod", "any", "all"):
            value = 1 if kind in ("prod", "all") else 0
        elif source in FLOATS:
            value = -inf if low else inf
        elif source == "bool":
            value = 0 if low else 1
        else:
            bits = BITS[elem]
            limits = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if source[0] == "i" else (0, 2**bits - 1)
            value = limits[0 if low else 1]
        return self.f.const(value, elem, width)

    def accumulator(self, i: Instruction, width: int) -> list[str]:
        """Reserve what a reduction has found so far: a value; for argmax and argmin, its index too."""
        f, identity = self.f, self.identity(i, width)
        places = [f.alloca(identity.type, 64)]
        f.store(identity, places[0], 64)
        if str(i.attribute).startswith("arg"):
            places.append(f.alloca(vector(I64, width), 64))
            f.store(f.const(2**63 - 1, I64, width), places[1], 64)
        return places

    def reduce(self, i: Instruction) -> None:
        """Write the combination of this step's lanes with what was found before."""
        f, w = self.f, self.width
        value = f.splat(self.values[i.args[0]], w)
        if self.mask is not None and not self.plan.columns:
            value = self.mask.where(value, self.identity(i, w))
        found = [value]
        if str(i.attribute).startswith("arg"):
            index = f.splat(self.flat_index(), w)
            if not self.plan.columns:
                index = index + lane_numbers(self.f, I64, self.width)
                index = self.mask.where(index, 2**63 - 1) if self.mask is not None else index
            found.append(index)
        self.accumulate(i, self.accumulators[i.name], found)

    def accumulate(self, i: Instruction, places: list[str], found: list[V]) -> None:
        f = self.f
        before = [f.load(place, x.elem, x.width, 64) for place, x in zip(places, found, strict=True)]
        for place, x in zip(places, self.combine(i, before, found), strict=True):
            f.store(x, place, 64)

    def combine(self, i: Instruction, a: list[V], b: list[V]) -> list[V]:
        kind, dtype = str(i.attribute), self.program.dtypes[i.args[0]]
        x, y = a[0], b[0]
        if kind == "sum":
            return [x + y]
        if kind == "prod":
            return [x * y]
        if kind in ("any", "all"):
            return [x | y if kind == "any" else x & y]
        if kind in ("max", "min"):
            return [extreme("maximum" if kind == "max" else "minimum", x, y, dtype)]
        better = greater(y, x, dtype) if kind == "argmax" else greater(x, y, dtype)
        equal = x.equals(y)
        if dtype in FLOATS:  # NaN is the greatest and the least, and the first one counts
            x_nan, y_nan = x.is_nan(), y.is_nan()
            better, equal = (better & ~x_nan) | (y_nan & ~x_nan), equal | (x_nan & y_nan)
        take = better | (equal & (b[1] < a[1]))
        return [take.where(y, x), take.where(b[1], a[1])]

    def result(self, i: Instruction) -> list[V]:
        """Return what a reduction found in a row (columns: in each lane's), the index last."""
        f, w = self.f, self.width
        if i.name in self.totals:
            total, lost = (self.read(i, place, w) for place in self.totals[i.name])
            found = [total + lost]
        else:
            elems = [ELEMENTS[self.program.dtypes[i.args[0]]], I64]
            found = [f.load(p, e, w, 64) for p, e in zip(self.accumulators[i.name], elems, strict=False)]
        if self.plan.columns:
            return found
        while w > 1:
            w //= 2
            halves = [[self.part_of(x, start, w) for x in found] for start in (0, w)]
            found = self.combine(i, *halves)
        return [x.lane(0) for x in found]

    def part_of(self, x: V, start: int, width: int) -> V:
        numbers = ", ".join(f"i32 {start + k}" for k in range(width))
        text = f"shufflevector {x.type} {x.name}, {x.type} poison, <{width} x i32> <{numbers}>"
        return self.f.emit(text, x.elem, width)

    # -- rows in several parts

    def scratch(self, part: V, k: int, count: int) -> str:
        """Return where part number `part` of a row keeps its k-th reduction."""
        cell = part * self.range["r1"] + self.number_of_row
        slot = 16
        if self.plan.columns:
            lanes = self.plan.lanes
            strips = (self.size(lanes) + (self.width - 1))._binary("udiv", self.width)
            cell = cell * strips + self.indices[id(lanes)]._binary("udiv", self.width)
            slot *= self.width
        return self.f.offset("%scratch", (cell * count + k) * slot)

    def combine_parts(self, reductions: list[Instruction]) -> None:
        """Write the combination of a row's parts, in their order."""
        f, w = self.f, self.width if self.plan.columns else 0
        self.accumulators = {i.name: self.accumulator(i, w) for i in reductions}
        sums = [i for i in reductions if i.attribute == "sum" and i.dtype in FLOATS]
        self.totals = {i.name: (self.cleared(i, w), self.cleared(i, w)) for i in sums}

        def one(part: V) -> None:
            for k, i in enumerate(reductions):
                address = self.scratch(part, k, len(reductions))
                elems = [ELEMENTS[self.program.dtypes[i.args[0]]]]
                elems += [I64] * str(i.attribute).startswith("arg")
                found = [f.load(f.offset(address, j * 8 * max(1, w)), e, w) for j, e in enumerate(elems)]
                if i.name in self.totals:
                    self.add_to_total(i, found[0], w)
                else:
                    self.accumulate(i, self.accumulators[i.name], found)

        loop(f, self.range["c0"], self.range["c1"], 1, one)
        for i in reductions:
            if i.name in self.totals:
                total, lost = (self.read(i, place, w) for place in self.totals[i.name])
                self.values[i.name] = total + lost
            else:
                place = self.accumulators[i.name][-1]
                self.values[i.name] = f.load(place, ELEMENTS[i.dtype], w, 64)
