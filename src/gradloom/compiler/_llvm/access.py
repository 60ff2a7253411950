"""The frame of a function, and its loads and stores of lanes.

Note [Lanes and tails]
One step of the lanes' loop computes `width` elements. The last step may have fewer; it runs the same code, and only
loads and stores take another branch. Values of lanes that do not exist are computed and thrown away, or, in a reduction
along the lanes, replaced by its identity.
"""

from __future__ import annotations

from collections import Counter

from .._loops import Instruction
from .host import Host
from .ir import BITS, I32, I64, PTR, Function, Module, V, lane_numbers, loop, vector, when
from .lower import ELEMENTS, LONG, from_memory, memory_element, to_memory
from .plan import Loop, Plan

HEADER = 3  # numbers in the geometry before the sizes: an error's flag, the wrong index, the size of the dimension
RANGE = ("r0", "r1", "c0", "c1", "part")
NUMBERS = {"float64": "double", "int64": I64, "bool": I64}


class Accesses:
    """What a function reads and writes.

    Attributes:
        values: the program's, by name.
        places: addresses of the buffers at the current loop.
        active: how many lanes exist, where not all do; `full` is whether all do.
    """

    def __init__(self, plan: Plan, host: Host, module: Module, width: int, header: int, mode: str) -> None:
        self.plan, self.program, self.host, self.mode, self.width = plan, plan.program, host, mode, width
        self.module, self.header = module, header
        self.buffers = (*self.program.inputs, *self.program.outputs)
        parameters = [(PTR, "geometry"), (PTR, "library"), *((I64, name) for name in RANGE), (PTR, "scratch")]
        parameters += [(PTR, f"a{i}") for i in range(len(self.buffers))]
        parameters += [(NUMBERS[dtype], f"n{i}") for i, dtype in enumerate(self.program.numbers)]
        self.f = Function(module, mode, I32, parameters)
        self.values: dict[str, V] = {}
        self.indices: dict[int, V] = {}  # by id of the loop
        self.places: list[str] = []
        self.active: V | None = None  # how many lanes exist, where not all do
        self.full: V | None = None  # whether all lanes exist
        self.mask: V | None = None  # of lanes that exist, for reductions along the lanes
        body = [i for part in plan.passes for i in (*part.body, *part.row)]
        self.uses = Counter((i.op, i.dtype) for i in body if i.op in LONG)
        self.inner = plan.inner if plan.columns else (*plan.inner, plan.lanes)

    def enter(self) -> None:
        """Write what comes first: the sizes, strides and addresses are loaded."""
        f, plan = self.f, self.plan
        numbers = plan.geometry
        loaded = [f.load(f.offset("%geometry", 8 * (HEADER + i)), I64) for i in range(len(numbers))]
        count = len(plan.loops)
        self.sizes = dict(zip(map(id, plan.loops), loaded, strict=False))
        self.strides = {
            (id(x), b): loaded[count * (b + 1) + k] for k, x in enumerate(plan.loops) for b in range(len(self.buffers))
        }
        self.tables: dict[int, tuple[list[V], list[V]]] = {}
        at = count * (len(self.buffers) + 1)
        for i, buffer in enumerate(self.program.inputs):
            if buffer.sizes is not None:
                n = len(buffer.sizes)
                self.tables[i] = loaded[at : at + n], loaded[at + n : at + 2 * n]
                at += 2 * n
        self.data = [f.load(f.offset(f"%a{i}", self.header), PTR).name for i in range(len(self.buffers))]
        self.range = {name: f.parameter(name, I64) for name in RANGE}
        for number, start in zip(plan.sums, loaded[len(loaded) - len(plan.sums) :], strict=True):
            if number >= 0:  # it stands for the sums of this part of the rows
                place = self.range["part"] * loaded[-1] + start
                self.data[len(self.program.inputs) + number] = f.offset("%scratch", place)
        self.bad = f.alloca(I32)
        f.store(f.const(0, I32), self.bad)
        self.kept: dict[int, str] = {}
        for keep in [i for part in plan.passes for i in part.body if i.op == "keep"]:
            elements = f.const(1, I64)
            for x in self.inner:
                elements = elements * self.size(x)
            size = (elements + self.width) * (BITS[ELEMENTS[self.program.dtypes[keep.args[0]]]] // 8)
            self.kept[int(keep.attribute or 0)] = f.emit(f"alloca i8, i64 {size.name}, align 64", PTR).name

    def kept_at(self, number: int, dtype: str) -> str:
        """Return the address of this step's lanes among the values of a row that are kept."""
        return self.f.offset(self.kept[number], self.flat_index() * (BITS[ELEMENTS[dtype]] // 8))

    def keep(self, values: list[Instruction]) -> None:
        """Write stores of the values of this step that later passes read; lanes that do not exist have room, too."""
        for i in values:
            dtype = self.program.dtypes[i.args[0]]
            address = self.kept_at(int(i.attribute or 0), dtype)
            self.f.store(self.f.splat(self.values[i.args[0]], self.width), address, BITS[ELEMENTS[dtype]] // 8)

    def flat_index(self) -> V:
        """Return the index in the row, counted in the order of memory of a contiguous one."""
        index = self.f.const(0, I64)
        for x in self.inner:
            index = index * self.size(x) + self.indices[id(x)]
        return index

    def size(self, x: Loop) -> V:
        return self.sizes[id(x)]

    def set_active(self, index: V, stop: V) -> None:
        left = stop - index
        self.full = left >= self.width
        self.active = self.full.where(self.width, left)

    def moved(self, places: list[str], x: Loop, index: V) -> list[str]:
        """Return the addresses of all buffers, further by `index` steps of a loop."""
        return [
            place
            if self.plan.kind(x, b) == "0"
            else self.f.offset(
                place, index * (self.strides[id(x), b] if self.plan.kind(x, b) == "s" else self.itemsize(b))
            )
            for b, place in enumerate(places)
        ]

    def itemsize(self, b: int) -> int:
        return self.plan.itemsizes[b]

    def in_lanes(self, b: int) -> bool:
        return self.plan.kind(self.plan.lanes, b) != "0"

    def load_lanes(self, loads: list[Instruction], masked: bool) -> None:
        """Write loads of all lanes, and of those that exist in the other branch; see Note [Lanes and tails]."""
        f, w = self.f, self.width
        whole, tail, after = f.new_label("whole"), f.new_label("tail"), f.new_label("loaded")
        assert self.full is not None and self.active is not None
        f.branch(self.full, whole, tail)
        f.start(whole, fall=False)
        wholes = [self.access(int(i.attribute or 0), None) for i in loads]
        f.line(f"br label %{after}")
        f.start(tail, fall=False)
        tails = [self.access(int(i.attribute or 0), self.active) for i in loads]
        mask = self.existing().convert("sext", I32) if masked else None
        f.start(after)
        joined = [
            f.emit(f"phi {a.type} [ {a.name}, %{whole} ], [ {b.name}, %{tail} ]", a.elem, w)
            for a, b in zip(wholes, tails, strict=True)
        ]
        if mask is not None:
            text = f"phi {mask.type} [ splat (i32 -1), %{whole} ], [ {mask.name}, %{tail} ]"
            self.mask = f.emit(text, I32, w) < 0
        for i, bits in zip(loads, joined, strict=True):
            self.values[i.name] = from_memory(bits, self.program.inputs[int(i.attribute or 0)].dtype)

    def existing(self) -> V:
        """Return the mask of lanes that exist."""
        assert self.active is not None
        return lane_numbers(self.f, I32, self.width) < self.f.splat(self.active.convert("trunc", I32), self.width)

    def access(self, b: int, active: V | None, value: V | None = None, address: str = "", stride: V | None = None) -> V:
        """Load a buffer's lanes, or store `value` to them: all, or the first `active` ones."""
        f, elem = self.f, memory_element(self.buffers[b].dtype)
        size = self.itemsize(b)
        if not address:
            address = self.places[b]
            stride = None if self.plan.kind(self.plan.lanes, b) == "1" else self.strides[id(self.plan.lanes), b]
        if stride is None and active is None:
            if value is None:
                return f.load(address, elem, self.width, size)
            f.store(value, address, size)
            return value
        if stride is None and size >= 4 and self.host.register >= 256:
            return self.masked(address, elem, value)
        if active is None:
            return self.one_by_one(address, elem, stride, value)
        step = f.const(size, I64) if stride is None else stride
        arguments = [(PTR, address), (I64, step.name), (I64, active.name)]
        name = self.helper(elem, value is not None)
        if value is None:
            return f.call(name, vector(elem, self.width), elem, self.width, arguments)
        values = ", ".join(f"{type} {text}" for type, text in [(value.type, value.name), *arguments])
        f.line(f"call void @{name}({values})")
        return value

    def masked(self, address: str, elem: str, value: V | None) -> V:
        f, type, bits = self.f, vector(elem, self.width), f"<{self.width} x i1>"
        mask = self.existing()
        short = f"v{self.width}{elem}.p0"
        if value is None:
            self.module.declarations.add(f"declare {type} @llvm.masked.load.{short}(ptr, i32, {bits}, {type})")
            operands = f"ptr {address}, i32 {BITS[elem] // 8}, {bits} {mask.name}, {type} zeroinitializer"
            return f.emit(f"call {type} @llvm.masked.load.{short}({operands})", elem, self.width)
        self.module.declarations.add(f"declare void @llvm.masked.store.{short}({type}, ptr, i32, {bits})")
        operands = f"{type} {value.name}, ptr {address}, i32 {BITS[elem] // 8}, {bits} {mask.name}"
        f.line(f"call void @llvm.masked.store.{short}({operands})")
        return value

    def one_by_one(self, address: str, elem: str, stride: V | None, value: V | None) -> V:
        """Load or store all lanes at a stride."""
        f, type = self.f, vector(elem, self.width)
        result = V(f, "poison", elem, self.width)
        for k in range(self.width):
            if value is None:
                one = f.load(address, elem)
                result = f.emit(f"insertelement {type} {result.name}, {elem} {one.name}, i32 {k}", elem, self.width)
            else:
                f.store(value.lane(k), address)
            address = f.offset(address, stride if stride is not None else BITS[elem] // 8)
        return result if value is None else value

    def helper(self, elem: str, store: bool) -> str:
        """Write the function that loads or stores some lanes at a stride; return its name."""
        name = f"{'store' if store else 'load'}.{elem}.{self.width}"
        if name not in self.module.functions:
            type = vector(elem, self.width)
            parameters = [(PTR, "address"), (I64, "stride"), (I64, "count")]
            parameters = [(type, "value"), *parameters] if store else parameters
            f = Function(self.module, name, "void" if store else type, parameters, "internal ", "noinline")
            lanes = f.alloca(type, 64)
            f.store(f.parameter("value", elem, self.width) if store else f.const(0, elem, self.width), lanes, 64)

            def one(i: V) -> None:
                there = f.offset("%address", i * f.parameter("stride", I64))
                here = f.offset(lanes, i * (BITS[elem] // 8))
                f.store(f.load(here if store else there, elem), there if store else here)

            loop(f, f.const(0, I64), f.parameter("count", I64), 1, one)
            f.line("ret void" if store else f"ret {type} {f.load(lanes, elem, self.width, 64).name}")
            f.finish()
        return name

    def is_streamed(self, i: Instruction) -> bool:
        """Return whether an instruction stores past the caches: Note [Large results]."""
        return i.op == "store" and int(i.attribute or 0) in self.plan.streamed

    def lanes_past_aligned(self, address: str, size: int) -> V:
        """Return how many elements of this size lie between an address and the aligned register before it."""
        return self.bytes_past_aligned(address)._binary("udiv", size)

    def bytes_past_aligned(self, address: str) -> V:
        return self.f.emit(f"ptrtoint ptr {address} to i64", I64) & (self.host.register // 8 - 1)

    def stream(self, value: V, b: int) -> None:
        """Write a store of all lanes: past the caches if the address is aligned, else as usual."""
        f, address = self.f, self.places[b]
        past, usual, after = (f.new_label(name) for name in ("past", "usual", "stored"))
        f.branch(self.bytes_past_aligned(address).equals(0), past, usual)
        f.start(past, fall=False)
        self.module.declarations.add("!0 = !{i32 1}")
        align = self.host.register // 8
        f.line(f"store {value.type} {value.name}, ptr {address}, align {align}, !nontemporal !0")
        f.line(f"br label %{after}")
        f.start(usual, fall=False)
        f.store(value, address, self.itemsize(b))
        f.start(after)

    def store_lanes(self, stores: list[Instruction]) -> None:
        """Write stores of all lanes, and of those that exist in the other branch; `add` adds to what is there."""
        f = self.f
        ready = []
        for i in stores:
            b = len(self.program.inputs) + int(i.attribute or 0)
            bits = to_memory(self.values[i.args[0]], self.buffers[b].dtype)
            if self.in_lanes(b):
                ready.append((b, f.splat(bits, self.width), i))
            else:  # a loop of one step
                one = bits.lane(0)
                before = f.load(self.places[b], one.elem, 0, self.itemsize(b)) if i.op == "add" else None
                f.store(one if before is None else self.added(i, before), self.places[b], self.itemsize(b))
        if not ready:
            return
        whole, tail, after = f.new_label("whole"), f.new_label("tail"), f.new_label("stored")
        assert self.full is not None
        f.branch(self.full, whole, tail)
        for label, active in ((whole, None), (tail, self.active)):
            f.start(label, fall=False)
            for b, bits, i in ready:
                if active is None and self.is_streamed(i):
                    self.stream(bits, b)
                    continue
                self.access(b, active, self.added(i, self.access(b, active)) if i.op == "add" else bits)
            f.line(f"br label %{after}")
        f.start(after, fall=False)

    def added(self, i: Instruction, before: V) -> V:
        """Return, as they are stored, the sums `before` with this step's values."""
        dtype, value = self.program.outputs[int(i.attribute or 0)].dtype, self.values[i.args[0]]
        value = self.f.splat(value, self.width) if before.width else value.lane(0)
        return to_memory(from_memory(before, dtype) + value, dtype)

    # -- tables

    def index(self, dimension: int) -> V:
        x = next(x for x in self.plan.loops if x.dimension == dimension)
        if x is self.plan.lanes:
            return self.f.splat(self.indices[id(x)], self.width) + lane_numbers(self.f, I64, self.width)
        return self.indices[id(x)]

    def gather(self, i: Instruction, b: int, indices: list[V]) -> V:
        """Write a load from a table: of one element for all lanes, of neighbours, or of any element for each lane."""
        f = self.f
        sizes, strides = self.tables[b]
        producers = {j.name: j for part in self.program.passes for j in (*part.body, *part.row)}
        walking = [
            k for k, name in enumerate(i.args)
            if indices[k].width and producers[name].op == "index"
        ]  # fmt: skip
        varying = [k for k, x in enumerate(indices) if x.width]
        offset: V = f.const(0, I64)
        for k, (index, size, stride) in enumerate(zip(indices, sizes, strides, strict=True)):
            if varying == walking == [k]:
                lane = self.indices[id(self.plan.lanes)]
                assert self.active is not None
                self.check(lane + self.active > size, size, size)
                offset = offset + lane * stride
                continue
            wrapped = (index < 0).where(index + size, index)
            wrong = wrapped.compare("", "uge", size)
            if index.width:
                wide = self.existing()
                wrong = wrong & wide
            self.check(wrong, index, size)
            offset = offset + wrong.where(0, wrapped) * stride
        elem, dtype = memory_element(self.buffers[b].dtype), self.buffers[b].dtype
        if not varying:
            return from_memory(f.load(f.offset(self.data[b], offset), elem, 0, self.itemsize(b)), dtype)
        if varying == walking:
            assert self.active is not None
            return from_memory(self.neighbours(b, f.offset(self.data[b], offset), strides[walking[0]]), dtype)
        return from_memory(self.scattered(b, elem, offset), dtype)

    def neighbours(self, b: int, address: str, stride: V) -> V:
        """Load lanes from a table along one of its dimensions."""
        f, elem = self.f, memory_element(self.buffers[b].dtype)
        fast, slow, after = f.new_label("neighbours"), f.new_label("strided"), f.new_label("gathered")
        assert self.full is not None and self.active is not None
        f.branch(self.full & stride.equals(self.itemsize(b)), fast, slow)
        f.start(fast, fall=False)
        whole = f.load(address, elem, self.width, self.itemsize(b))
        f.line(f"br label %{after}")
        f.start(slow, fall=False)
        arguments = [(PTR, address), (I64, stride.name), (I64, self.active.name)]
        part = f.call(self.helper(elem, False), vector(elem, self.width), elem, self.width, arguments)
        f.start(after)
        return f.emit(f"phi {whole.type} [ {whole.name}, %{fast} ], [ {part.name}, %{slow} ]", elem, self.width)

    def scattered(self, b: int, elem: str, offsets: V) -> V:
        """Load each lane from its own address."""
        f = self.f
        lanes, places = f.alloca(vector(elem, self.width), 64), f.alloca(offsets.type, 64)
        f.store(f.const(0, elem, self.width), lanes, 64)
        f.store(offsets, places, 64)
        assert self.active is not None

        def one(k: V) -> None:
            place = f.load(f.offset(places, k * 8), I64)
            f.store(f.load(f.offset(self.data[b], place), elem), f.offset(lanes, k * self.itemsize(b)))

        loop(f, f.const(0, I64), self.active, 1, one)
        return f.load(lanes, elem, self.width, 64)

    def check(self, wrong: V, index: V, size: V) -> None:
        """Write what happens when an index is out of range: note it, and return 1 in the end."""
        f = self.f

        def note() -> None:
            f.store(f.const(1, I32), self.bad)
            place = "%geometry"
            shown = index
            if index.width:  # the lane that is wrong
                lanes = f.alloca(index.type, 64)
                f.store(index, lanes, 64)
                bits = f.emit(f"bitcast {wrong.type} {wrong.name} to i{self.width}", f"i{self.width}")
                zeros = f.emit(f"call i{self.width} @llvm.cttz.i{self.width}(i{self.width} {bits.name}, i1 false)", "")
                self.module.declarations.add(f"declare i{self.width} @llvm.cttz.i{self.width}(i{self.width}, i1)")
                lane = f.emit(f"zext i{self.width} {zeros.name} to i64", I64)
                shown = f.load(f.offset(lanes, lane * 8), I64)
            f.store(shown, f.offset(place, 8))
            f.store(size, f.offset(place, 16))

        when(f, wrong.any(), note)
