"""Products of matrices as LLVM's text.

Note [Generated products]
One *tile* of the result is computed at a time, in registers: some rows by some vectors of lanes. For each k it
multiplies a vector of one factor, the *panel*, by single numbers of the other, the *rows*, which may have any strides.
Lanes are columns of the result if the second factor is the panel (`across` is False), and rows of it if the first is;
then a tile is transposed before it is stored.

The lanes of a panel must lie one after another in memory for each k. So they are read in place, or copied to scratch
memory first: as they are (COPIED), or transposed, for a factor whose elements of one lane are contiguous (TURNED), as
the weight of a linear layer. The factor with fewer elements is the one to turn. The last, narrower panel is always
copied, and filled up with numbers that are not used.

An element is the sum of its terms in order of k, in blocks of at most DEPTH terms, which are added up in order. That
depends on no size or place, so neither on the tile that an element is in nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .emit import write_shared
from .entry import LOOPS, write_entry
from .host import Host
from .ir import (
    BITS,
    I32,
    I64,
    PTR,
    Function,
    Module,
    V,
    fma,
    lane_numbers,
    loop,
    masked_load,
    masked_store,
    transposed,
    vector,
    when,
)
from .tiles import COPIED, DEPTH, IN_PLACE, NUMBERS, PLACES, TURNED, scratch_size, tile_of


def emit_product(host: Host, header: int, elem: str, across: bool) -> str:
    """Return a module's text with the functions `kernel`, for arrays (panel, rows, result), `shared`, and the entry.

    The parameters of `kernel` are those of a loop program's; rows are counted on through the batch, lanes are those of
    each product.
    """
    module = Module(host.fma)
    writer = _Writer(module, host.register, elem, across, header)
    writer.write()
    write_shared(module, "kernel", 3, ())
    write_entry(module, 3, (), header, LOOPS)
    return str(module)


class _Writer:
    def __init__(self, module: Module, register: int, elem: str, across: bool, header: int) -> None:
        self.module, self.elem, self.across, self.header = module, elem, across, header
        self.size = BITS[elem] // 8
        self.width = register // BITS[elem]
        tile = tile_of(register)
        self.rows, self.vectors = tile.rows, tile.vectors
        self.vector = vector(elem, self.width)

    def write(self) -> None:
        for rows in (self.rows, 1):
            for vectors in range(1, self.vectors + 1):
                self.tile(rows, vectors)
        self.copy()
        self.turn()
        self.settle()
        self.panel()
        self.kernel()

    # Vectors

    def lanes_below(self, count: V) -> V:
        """Return a mask of the lanes with a number less than `count`."""
        return lane_numbers(count.f, I64, self.width) < count

    # Panels

    def copy(self) -> None:
        """Write `copy(k, source, k's stride, lanes, panel, its k's stride)`."""
        f = self.function("copy", ["k", "*source", "stride", "lanes", "*panel", "step"])
        p = _parameters(f)

        def places(k: V, vector: int) -> tuple[str, str]:
            first = vector * self.width * self.size
            return f.offset("%source", k * p["stride"] + first), f.offset("%panel", k * p["step"] + first)

        for count in range(1, self.vectors + 1):
            last = p["lanes"] - (count - 1) * self.width
            mask = self.lanes_below(last)

            def whole(k: V, count: int = count) -> None:
                pairs = [places(k, j) for j in range(count)]
                found = [f.load(source, self.elem, self.width, self.size) for source, _ in pairs]
                for x, (_, target) in zip(found, pairs, strict=True):
                    f.store(x, target, self.size)

            def part(k: V, count: int = count, mask: V = mask) -> None:
                for j in range(count):
                    source, target = places(k, j)
                    is_last = j == count - 1
                    x = (
                        masked_load(f, source, mask, self.elem)
                        if is_last
                        else f.load(source, self.elem, self.width, self.size)
                    )
                    f.store(x, target, self.size)

            def panel(last: V = last, whole: Any = whole, part: Any = part) -> None:
                zero = f.const(0, I64)
                full = last.equals(self.width)
                loop(f, zero, full.where(p["k"], zero), 1, whole)
                loop(f, full.where(p["k"], zero), p["k"], 1, part)

            when(f, (last > 0) & (last <= self.width), panel)
        self.end(f)

    def turn(self) -> None:
        """Write `turn(k, source, a lane's stride, lanes, panel, its k's stride)`; missing lanes are the last.

        It writes whole vectors: k is rounded up to a multiple of `width`, for which a panel of DEPTH has room.
        """
        f = self.function("turn", ["k", "*source", "stride", "lanes", "*panel", "step"])
        p = _parameters(f)
        last = p["lanes"] - 1
        w, size = self.width, self.size

        def strip(first: V) -> None:
            lanes = [(first + i < last).where(first + i, last) for i in range(w)]
            sources = [f.offset("%source", lane * p["stride"]) for lane in lanes]
            panel = f.offset("%panel", first * size)

            def block(k: V) -> None:
                mask = self.lanes_below(p["k"] - k)
                loaded = [masked_load(f, f.offset(source, k * size), mask, self.elem) for source in sources]
                for i, x in enumerate(transposed(loaded)):
                    f.store(x, f.offset(panel, (k + i) * p["step"]), size)

            loop(f, f.const(0, I64), p["k"], w, block)

        loop(f, f.const(0, I64), p["lanes"], w, strip)
        self.end(f)

    # Tiles

    def tile(self, rows: int, vectors: int) -> None:
        """Write `tileRxV(k, rows, row's stride, k's stride, panel, its k's stride, result, its stride)`."""
        w, size, elem = self.width, self.size, self.elem
        f = self.function(
            f"tile{rows}x{vectors}", ["k", "*rows", "row", "row_k", "*panel", "step", "*result", "stride"]
        )
        p = _parameters(f)
        sums = [[f.alloca(self.vector, 64) for _ in range(vectors)] for _ in range(rows)]
        for x in (x for row in sums for x in row):
            f.store(f.const(0, elem, w), x, 64)
        number, lanes = f.alloca(PTR), f.alloca(PTR)
        f.store(f.parameter("rows", PTR), number)
        f.store(f.parameter("panel", PTR), lanes)
        offsets = [p["row"] * r for r in range(rows)]

        def step(_: V) -> None:
            at, panel = f.load(number, PTR).name, f.load(lanes, PTR).name
            xs = [f.load(f.offset(panel, j * w * size), elem, w, size) for j in range(vectors)]
            for r in range(rows):
                a = f.splat(f.load(f.offset(at, offsets[r]) if r else at, elem, 0, size), w)
                for x, total in zip(xs, sums[r], strict=True):
                    f.store(fma(x, a, f.load(total, elem, w, 64)), total, 64)
            f.store(V(f, f.offset(at, p["row_k"]), PTR), number)
            f.store(V(f, f.offset(panel, p["step"]), PTR), lanes)

        loop(f, f.const(0, I64), p["k"], 1, step)
        found = [[f.load(x, elem, w, 64) for x in row] for row in sums]
        if not self.across:
            for r, row in enumerate(found):
                result = f.offset("%result", p["stride"] * r)
                for j, value in enumerate(row):
                    f.store(value, f.offset(result, j * w * size), size)
        else:
            for j in range(vectors):
                self.store_turned(f, [row[j] for row in found], j * w, p["stride"])
        self.end(f)

    def store_turned(self, f: Function, rows: list[V], first: int, stride: V) -> None:
        """Store vectors so that each lane's elements lie one after another, `stride` bytes after those of the last."""
        count, w = len(rows), self.width
        found, part = transposed(rows), min(len(rows), self.width)
        for lane in range(w):
            result = f.offset("%result", stride * (first + lane))
            for done in range(0, count, part):
                vector, at = divmod(lane * count + done, w)
                x = found[vector]
                if part == 1:
                    x = x.lane(at)
                elif part < w:
                    order = ", ".join(f"i32 {at + i}" for i in range(part))
                    text = f"shufflevector {x.type} {x.name}, {x.type} poison, <{part} x i32> <{order}>"
                    x = f.emit(text, self.elem, part)
                f.store(x, f.offset(result, done * self.size), self.size)

    def settle(self) -> None:
        """Write `settle(count, tile, its stride, length, result, its stride, adds)`: store the part of a tile that
        exists, `count` runs of `length` numbers, or add it to the result."""
        f = self.function("settle", ["count", "*tile", "step", "length", "*result", "stride", "adds"])
        p = _parameters(f)

        def run(i: V) -> None:
            source, target = f.offset("%tile", i * p["step"]), f.offset("%result", i * p["stride"])

            def vectors(at: V) -> None:
                mask, place = self.lanes_below(p["length"] - at), f.offset(target, at * self.size)
                x = masked_load(f, f.offset(source, at * self.size), mask, self.elem)
                adds, sets, after = (f.new_label(name) for name in ("adds", "sets", "after"))
                f.branch(p["adds"].differs(0), adds, sets)
                f.start(adds, fall=False)
                masked_store(f, place, mask, masked_load(f, place, mask, self.elem) + x)
                f.line(f"br label %{after}")
                f.start(sets, fall=False)
                masked_store(f, place, mask, x)
                f.start(after)

            loop(f, f.const(0, I64), p["length"], self.width, vectors)

        loop(f, f.const(0, I64), p["count"], 1, run)
        self.end(f)

    # Loops over tiles

    def panel(self) -> None:
        """Write `panel(geometry, scratch, panel, other, result, lanes, vectors, count)`: the part of a product that has
        one panel, and `count` rows. Both start at the addresses."""
        names = ["*geometry", "*scratch", "*panel", "*other", "*result", "lanes", "vectors", "count"]
        f = self.function("panel", names)
        p = _numbers(f) | _parameters(f)
        size, width = self.size, p["vectors"] * self.width
        blocks = (p["depth"] + (DEPTH - 1))._binary("udiv", DEPTH)
        length = (p["depth"] + blocks - 1)._binary("udiv", blocks)
        tile = f.offset("%scratch", DEPTH * self.vectors * self.width * size)

        def block(first: V) -> None:
            left = p["depth"] - first
            k = (left < length).where(left, length)
            adds = first.differs(0).convert("zext", I64) | p["adds"]
            source = f.offset("%panel", first * p["panel_k"])
            step, panel = f.alloca(I64), f.alloca(PTR)
            packing = ((p["lanes"] < width) & p["packing"].equals(IN_PLACE)).where(COPIED, p["packing"])
            copied, turned, in_place, ready = (f.new_label(x) for x in ("copied", "turned", "in_place", "ready"))
            cases = f"i64 {COPIED}, label %{copied} i64 {TURNED}, label %{turned}"
            f.line(f"switch i64 {packing.name}, label %{in_place} [ {cases} ]")
            for label, function, stride in ((copied, "copy", "panel_k"), (turned, "turn", "panel_lane")):
                f.start(label, fall=False)
                _call(f, function, [k, source, p[stride], p["lanes"], "%scratch", width * size])
                f.store(width * size, step)
                f.store(f.parameter("scratch", PTR), panel)
                f.line(f"br label %{ready}")
            f.start(in_place, fall=False)
            f.store(p["panel_k"], step)
            f.store(V(f, source, PTR), panel)
            f.start(ready)
            step_k, address = f.load(step, I64), f.load(panel, PTR).name
            numbers = f.offset("%other", first * p["row_k"])
            start = f.const(0, I64)
            straight = p["lanes"].equals(width) & adds.equals(0)
            for count in (self.rows, 1):
                stop = p["count"]._binary("udiv", count) * count

                def one(r: V, count: int = count) -> None:
                    row = f.offset(numbers, r * p["row"])
                    place = f.offset("%result", r * size if self.across else r * p["result"])
                    aside = f.const(count * size, I64) if self.across else width * size
                    to = f.emit(f"select i1 {straight.name}, ptr {place}, ptr {tile}", PTR).name
                    stride = straight.where(p["result"], aside)
                    labels = [f.new_label("vectors") for _ in range(self.vectors)]
                    stored = f.new_label("stored")
                    cases = " ".join(f"i64 {j + 1}, label %{label}" for j, label in enumerate(labels[:-1]))
                    f.line(f"switch i64 {p['vectors'].name}, label %{labels[-1]} [ {cases} ]")
                    for j, label in enumerate(labels):
                        f.start(label, fall=False)
                        _call(f, f"tile{count}x{j + 1}", [k, row, p["row"], p["row_k"], address, step_k, to, stride])
                        f.line(f"br label %{stored}")
                    f.start(stored, fall=False)
                    runs = (p["lanes"], f.const(count, I64)) if self.across else (f.const(count, I64), p["lanes"])
                    settled: list[V | str] = [runs[0], tile, aside, runs[1], place, p["result"], adds]
                    when(f, ~straight, lambda: _call(f, "settle", settled))

                loop(f, start, stop, count, one)
                start = stop

        loop(f, f.const(0, I64), p["depth"], length, block)
        self.end(f)

    def kernel(self) -> None:
        """Write `kernel`: rows r0 to r1, counted on from one product of a batch to the next, and lanes c0 to c1."""
        words = [(PTR, "geometry"), (PTR, "library"), *((I64, name) for name in ("r0", "r1", "c0", "c1", "part"))]
        f = Function(self.module, "kernel", I32, [*words, (PTR, "scratch"), *((PTR, f"a{i}") for i in range(3))])
        p = {name: f.parameter(name, I64) for name in ("r0", "r1", "c0", "c1")} | _numbers(f)
        bases = [f.load(f.offset(f"%a{i}", self.header), PTR).name for i in range(3)]
        # The product's own memory, if the caller gives none for each part.
        given = f.emit("ptrtoint ptr %scratch to i64", I64)
        own = given + f.parameter("part", I64) * scratch_size(self.width * BITS[self.elem])
        memory = (given.equals(0).where(p["scratch"], own) + 63) & -64
        scratch = f.emit(f"inttoptr i64 {memory.name} to ptr", PTR).name
        w, size = self.width, self.size
        vectors = (p["c1"] - p["c0"] + (w - 1))._binary("udiv", w)
        panels = (vectors + (self.vectors - 1))._binary("udiv", self.vectors)

        def product(b: V) -> None:
            start = b * p["rows"]
            low = (p["r0"] < start).where(start, p["r0"]) - start
            end = (p["r1"] < start + p["rows"]).where(p["r1"], start + p["rows"]) - start
            places = f.offset("%geometry", (b * PLACES + len(NUMBERS)) * 8)
            x, y, out = (f.offset(base, f.load(f.offset(places, 8 * i), I64)) for i, base in enumerate(bases))
            y = f.offset(y, low * p["row"])
            out = f.offset(out, low * size if self.across else low * p["result"])
            done = f.alloca(I64)
            f.store(f.const(0, I64), done)

            def one(i: V) -> None:
                before, left = f.load(done, I64), panels - i
                count = (vectors - before + left - 1)._binary("udiv", left)
                f.store(before + count, done)
                lane = p["c0"] + before * w
                rest, whole = p["c1"] - lane, count * w
                lanes = (rest < whole).where(rest, whole)
                place = f.offset(out, lane * p["result"] if self.across else lane * size)
                source = f.offset(x, lane * p["panel_lane"])
                _call(f, "panel", ["%geometry", scratch, source, y, place, lanes, count, end - low])

            loop(f, f.const(0, I64), panels, 1, one)

        batch = (p["r1"] + p["rows"] - 1)._binary("udiv", p["rows"])
        loop(f, p["r0"]._binary("udiv", p["rows"]), batch, 1, product)
        f.line("ret i32 0")
        f.finish()

    def function(self, name: str, parameters: list[str]) -> Function:
        """Begin an internal function; the names of addresses start with *."""
        typed = [(PTR if n.startswith("*") else I64, n.lstrip("*")) for n in parameters]
        return Function(self.module, name, "void", typed, "internal ", "noinline")

    def end(self, f: Function) -> None:
        f.line("ret void")
        f.finish()


def _parameters(f: Function) -> dict[str, V]:
    return {name: f.parameter(name, I64) for type, name in f.parameters if type == I64}


def _numbers(f: Function) -> dict[str, V]:
    """Return the numbers of a product."""
    return {name: f.load(f.offset("%geometry", 8 * i), I64) for i, name in enumerate(NUMBERS)}


def _call(f: Function, name: str, arguments: Sequence[V | str]) -> None:
    typed = ", ".join(f"ptr {a}" if isinstance(a, str) else f"{a.elem} {a.name}" for a in arguments)
    f.line(f"call void @{name}({typed})")
