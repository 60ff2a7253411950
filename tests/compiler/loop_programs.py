"""Random loop programs, with arrays to run them on.

An *exact* value is computed by operations that have one right result, in any order; a backend must give the
interpreter's bits. Values of functions and of sums are not, and are only used where a small error stays small.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import prod

import numpy as np

from gradloom.compiler._interpreter import half_dtype
from gradloom.compiler._loops import FLOATS, HALVES, INTEGERS, Buffer, Instruction, LoopProgram, Pass, const, widened

SIZES = (1, 2, 3, 5, 8, 16, 17, 33, 40)
FUNCTIONS = "exp exp2 expm1 log1p sin cos tanh erf erfc arctan arcsinh sqrt sinh cosh tan log log2 log10".split()
STORED = ("float32", "float32", "float64", "int64", "int32", "uint8", "int16", "bool", "float16", "bfloat16", "uint32")


@dataclass
class Case:
    """A program, its arrays (inputs, then outputs filled with a pattern), its numbers, and which outputs are exact."""

    program: LoopProgram
    arrays: list
    numbers: list
    exact: list[bool]
    scale: float


@dataclass
class _Value:
    name: str
    dtype: str
    exact: bool


@dataclass
class _Maker:
    choose: random.Random
    rng: np.random.Generator
    shape: tuple[int, ...]
    inner: int
    inputs: list[Buffer] = field(default_factory=list)
    arrays: list = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    given: list = field(default_factory=list)
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    # -- arrays

    def values(self, dtype: str, sizes: tuple[int, ...]) -> np.ndarray:
        if dtype == "bool":
            return np.asarray(self.rng.random(sizes) < 0.5)
        if dtype in INTEGERS:
            limits = np.iinfo(dtype)
            small = self.rng.integers(max(-9, limits.min), 9, sizes)
            large = self.rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
            return np.where(self.rng.random(sizes) < 0.7, small, large).astype(dtype)
        x = np.asarray(self.rng.standard_normal(sizes) * 2)
        if self.choose.random() < 0.3:
            special = self.rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], sizes)
            x = np.where(self.rng.random(sizes) < 0.1, special, x)
        return x.astype(half_dtype(dtype))

    def layout(self, sizes: tuple[int, ...], dtype: str, may_repeat: bool) -> tuple[np.ndarray, tuple[int, ...]]:
        """Return an array of these sizes in some order of memory, and its strides in elements."""
        order = list(range(len(sizes)))
        if self.choose.random() < 0.4:
            self.choose.shuffle(order)
        repeated = {d for d in order if may_repeat and self.choose.random() < 0.2}
        stored = [1 if d in repeated else sizes[d] * self.choose.choice((1, 1, 1, 2)) for d in order]
        array = np.array(self.values(dtype, tuple(stored)), order="C")
        view = array.transpose(np.argsort(order)) if order else array
        for d in range(len(sizes)):
            if d in repeated:
                view = np.broadcast_to(view, [*view.shape[:d], sizes[d], *view.shape[d + 1 :]])
                continue
            step = 2 if view.shape[d] != sizes[d] else 1
            cut = view[(slice(None),) * d + (slice(None, None, step),)]
            view = np.flip(cut, d) if may_repeat and self.choose.random() < 0.15 else cut
        return view, tuple(s // view.itemsize for s in view.strides)

    def new_input(self, dtype: str, along_row: bool = True) -> int:
        outer = len(self.shape) - self.inner
        sizes = self.shape if along_row else self.shape[:outer]
        view, strides = self.layout(sizes, dtype, True)
        if not along_row:
            strides = (*strides, *(0,) * self.inner)
        self.inputs.append(Buffer(dtype, strides))
        self.arrays.append(view)
        return len(self.inputs) - 1

    # -- instructions

    def leaf(self, in_row: bool) -> tuple[list[Instruction], _Value]:
        kind = self.choose.random()
        name = self.name()
        if kind < 0.65 or not self.shape:
            dtype = self.choose.choice(STORED)
            b = self.new_input(dtype, along_row=not in_row and self.choose.random() < 0.85)
            return [Instruction(name, "load", (), widened(dtype), b)], _Value(name, widened(dtype), True)
        if kind < 0.75:
            dtype = self.choose.choice(("float32", "int32", "float64", "bool"))
            value = {"bool": True, "int32": self.choose.randrange(-5, 6)}.get(dtype, self.choose.uniform(-2, 2))
            return [const(name, value, dtype)], _Value(name, dtype, True)
        if kind < 0.85:
            dtype = self.choose.choice(("float64", "int64", "bool"))
            self.numbers.append(dtype)
            self.given.append(
                {"bool": True, "int64": self.choose.randrange(-9, 9)}.get(dtype, self.choose.uniform(-2, 2))
            )
            return [Instruction(name, "number", (), dtype, len(self.numbers) - 1)], _Value(name, dtype, True)
        limit = len(self.shape) - (self.inner if in_row else 0)
        if limit and kind < 0.92:
            dim = self.choose.randrange(limit)
            return [Instruction(name, "index", (), "int64", dim)], _Value(name, "int64", True)
        return self.gather(in_row) if limit else self.leaf(in_row)

    def gather(self, in_row: bool) -> tuple[list[Instruction], _Value]:
        """Make a load from a table of two dimensions: one index from memory or the loop, one from the loop."""
        limit = len(self.shape) - (self.inner if in_row else 0)
        dim, dtype = self.choose.randrange(limit), self.choose.choice(STORED)
        sizes = (self.choose.choice((1, 4, 9)), max(1, self.shape[dim]))
        view, strides = self.layout(sizes, dtype, False)
        b, t = self.new_input("int64", along_row=not in_row), len(self.inputs)
        array = np.empty(self.arrays[b].shape, "int64")
        array[...] = self.rng.integers(-sizes[0], sizes[0], array.shape)
        self.arrays[b] = array
        self.inputs[b] = Buffer("int64", (*(s // 8 for s in array.strides), *(0,) * (len(self.shape) - array.ndim)))
        self.inputs.append(Buffer(dtype, strides, sizes))
        self.arrays.append(view)
        at, along, name = self.name(), self.name(), self.name()
        return [
            Instruction(at, "load", (), "int64", b),
            Instruction(along, "index", (), "int64", dim),
            Instruction(name, "gather", (at, along), widened(dtype), t),
        ], _Value(name, widened(dtype), True)

    def cast(self, value: _Value, dtype: str) -> tuple[list[Instruction], _Value]:
        """Convert; floats that become integers are cut to a range in which that is defined."""
        made, name = [], value.name
        if value.dtype == dtype:
            return [], value
        if value.dtype in FLOATS and dtype in INTEGERS:
            size, limit, fits, zero, cut = (self.name() for _ in range(5))
            made = [
                Instruction(size, "abs", (name,), value.dtype),
                const(limit, 100.0, value.dtype),
                Instruction(fits, "<", (size, limit), "bool"),
                const(zero, 3.0, value.dtype),
                Instruction(cut, "where", (fits, name, zero), value.dtype),
            ]
            if dtype[0] == "u":
                last = self.name()
                made.append(Instruction(last, "abs", (cut,), value.dtype))
                cut = last
            name = cut
        result = self.name()
        return [*made, Instruction(result, "cast", (name,), dtype)], _Value(result, dtype, value.exact)

    def step(self, values: list[_Value]) -> tuple[list[Instruction], _Value]:
        """Make an operation on values that exist."""
        a = self.choose.choice(values)
        same = [v for v in values if v.dtype == a.dtype]
        b, name = self.choose.choice(same), self.name()
        exact = a.exact and b.exact
        kind = self.choose.random()
        if kind < 0.2:
            targets = (
                ["float32", "float64", "int64", "int32", "uint8", "int16", "bool", "uint32"] if a.exact else [*FLOATS]
            )
            return self.cast(a, self.choose.choice(targets))
        if kind < 0.4 and a.dtype in FLOATS and a.exact:
            op = self.choose.choice(FUNCTIONS)
            bounded, limit = self.name(), self.name()
            made = [const(limit, self.choose.choice((0.75, 1.0, 3.0)), a.dtype)]
            made.append(Instruction(bounded, "minimum", (a.name, limit), a.dtype))
            return [*made, Instruction(name, op, (bounded,), a.dtype)], _Value(name, a.dtype, False)
        if kind < 0.5 and any(v.dtype == "bool" and v.exact for v in values):
            c = self.choose.choice([v for v in values if v.dtype == "bool" and v.exact])
            return [Instruction(name, "where", (c.name, a.name, b.name), a.dtype)], _Value(name, a.dtype, exact)
        if a.dtype == "bool":
            op = self.choose.choice(("&", "|", "^", "==", "maximum", "<="))
            return [Instruction(name, op, (a.name, b.name), "bool")], _Value(name, "bool", exact)
        if not exact:
            op = self.choose.choice(("+", "-", "maximum", "minimum", "neg", "abs"))
        elif a.dtype in FLOATS:
            op = self.choose.choice(
                "+ - * / maximum minimum fmax fmin < >= == % // floor ceil trunc rint sign isnan copysign fmod".split()
            )
        else:
            op = self.choose.choice("+ - * // % & | ^ << >> < <= != maximum minimum neg abs sign ~".split())
        one = op in "floor ceil trunc rint sign isnan neg abs ~".split()
        dtype = "bool" if op in "< <= >= == != isnan".split() else a.dtype
        operands = (a.name,) if one else (a.name, b.name)
        return [Instruction(name, op, operands, dtype)], _Value(name, dtype, exact)

    def block(self, known: list[_Value], in_row: bool, steps: int) -> tuple[list[Instruction], list[_Value]]:
        made: list[Instruction] = []
        values = list(known)
        for i in range(steps):
            fresh = i < 2 or not values or self.choose.random() < 0.3
            instructions, value = self.leaf(in_row) if fresh else self.step(values)
            made += instructions
            values.append(value)
        return made, values

    def reduction(self, values: list[_Value]) -> tuple[list[Instruction], _Value]:
        a, name = self.choose.choice(values), self.name()
        if a.dtype == "bool":
            kind = self.choose.choice(("any", "all", "max"))
        elif a.exact:
            kind = self.choose.choice(("sum", "sum", "max", "min", "argmax", "argmin", "prod"))
        else:
            kind = self.choose.choice(("sum", "max", "min"))
        kind = "max" if kind == "prod" and a.dtype in FLOATS else kind
        dtype = "int64" if kind.startswith("arg") else a.dtype
        exact = a.exact and not (kind == "sum" and a.dtype in FLOATS)
        return [Instruction(name, "reduce", (a.name,), dtype, kind)], _Value(name, dtype, exact)


def random_case(seed: int) -> Case:
    choose = random.Random(seed)
    dims = choose.randrange(1, 5)
    shape = tuple(choose.choice(SIZES if dims < 4 else SIZES[:4]) for _ in range(dims))
    inner = 0 if choose.random() < 0.4 else choose.randrange(1, dims + 1)
    m = _Maker(choose, np.random.default_rng(seed), shape, inner)
    outputs: list[Buffer] = []
    targets: list[np.ndarray] = []
    exact: list[bool] = []
    outer = dims - inner

    def store(value: _Value, in_row: bool) -> list[Instruction]:
        choices = [d for d in (*STORED, value.dtype) if widened(d) == value.dtype]
        dtype = choose.choice(choices or [value.dtype])
        if not value.exact and dtype in HALVES:
            dtype = value.dtype
        sizes = shape[:outer] if in_row else shape
        view, strides = m.layout(sizes, dtype, False)
        outputs.append(Buffer(dtype, (*strides, *(0,) * inner) if in_row else strides))
        targets.append(view)
        exact.append(value.exact)
        return [Instruction("", "store", (value.name,), "", len(outputs) - 1)]

    passes, known = [], []
    for _ in range(1 if inner == 0 else choose.randrange(1, 4)):
        body, values = m.block(known, False, choose.randrange(3, 9))
        row: list[Instruction] = []
        if inner:
            kept = list(known)
            for _ in range(choose.randrange(1, 3)):
                made, value = m.reduction(values)
                body += made
                kept.append(value)
            row, known = m.block(kept, True, choose.randrange(0, 4))
            if choose.random() < 0.7:
                row = row + store(choose.choice(known), True)
        if not inner or choose.random() < 0.5:
            body += store(choose.choice(values[-3:]), False)
        passes.append(Pass(tuple(body), tuple(row)))
    if not outputs:
        passes[-1] = Pass(passes[-1].body, (*passes[-1].row, *store(known[-1], True)))
    program = LoopProgram(shape, inner, tuple(m.inputs), tuple(outputs), tuple(passes), tuple(m.numbers))
    return Case(program, [*m.arrays, *targets], m.given, exact, float(prod(shape[outer:] or (1,))))


def difference(case: Case, found: list[np.ndarray], expected: list[np.ndarray]) -> str:
    """Return which output differs from the interpreter's, and where; "" if none does."""
    for k, (a, b, exact) in enumerate(zip(found, expected, case.exact, strict=True)):
        dtype = case.program.outputs[k].dtype
        a, b = (x.astype("float64") if dtype in HALVES | FLOATS else x for x in (a, b))
        if exact or dtype not in HALVES | FLOATS:
            same = (a == b) | ((a != a) & (b != b))
        else:
            finite = np.isfinite(b)
            largest = np.abs(b[finite]).max(initial=1.0)
            single = dtype != "float64" or "float32" in case.program.dtypes.values()
            epsilon = 2.0**-23 if single else 2.0**-52
            near = np.zeros(b.shape, bool)
            near[finite] = np.abs(a[finite] - b[finite]) <= 1000 * epsilon * case.scale * max(largest, 30.0)
            same = near | (~finite & ((a == b) | ((a != a) & (b != b))))
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            return f"output {k} at {at}: {a[at]!r}, not {b[at]!r}"
    return ""
