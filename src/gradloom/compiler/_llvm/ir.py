"""LLVM IR as text, written through values with Python's operators, so that mathematics reads as mathematics.

A `V` is a scalar or a vector of `width` lanes. Numbers in an expression become constants of the other operand's type,
and a scalar meets a vector as a splat. Every operation appends one line to its `Function`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

FLOAT, DOUBLE, PTR, I1, I8, I16, I32, I64 = "float", "double", "ptr", "i1", "i8", "i16", "i32", "i64"
BITS = {FLOAT: 32, DOUBLE: 64, I1: 1, I8: 8, I16: 16, I32: 32, I64: 64}


def is_float(elem: str) -> bool:
    return elem in (FLOAT, DOUBLE)


def literal(value: Any, elem: str) -> str:
    """Return a constant as LLVM reads it: floats by their bits, rounded to `elem` first."""
    if elem in (FLOAT, DOUBLE):
        value = float(value)
        if elem == FLOAT and value == value and abs(value) != float("inf"):
            try:
                value = struct.unpack("<f", struct.pack("<f", value))[0]
            except OverflowError:
                value = float("inf") if value > 0 else float("-inf")
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if elem == I1:
        return "true" if value else "false"
    return str(int(value))


class Module:
    """The functions of one program, and the declarations of intrinsics that they use."""

    def __init__(self, fma: bool, scales: bool = False) -> None:
        self.fma = fma  # whether the processor multiplies and adds with one rounding
        self.scales = scales  # whether it multiplies by powers of two: AVX-512
        self.functions: dict[str, str] = {}
        self.declarations: set[str] = set()

    def __str__(self) -> str:
        return "\n".join([*self.functions.values(), *sorted(self.declarations)]) + "\n"


class Function:
    """One function under construction: lines of text, and fresh names."""

    def __init__(
        self,
        module: Module,
        name: str,
        result: str,
        parameters: Sequence[tuple[str, str]],
        linkage: str = "",
        attributes: str = "",
    ) -> None:
        self.module, self.name, self.result = module, name, result
        self.linkage, self.attributes = linkage, attributes
        self.parameters = parameters
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.count = 0
        self.label = "entry"

    def finish(self) -> None:
        """Add the text to the module."""
        parameters = ", ".join(f"{type} %{name}" for type, name in self.parameters)
        head = f"define {self.linkage}{self.result} @{self.name}({parameters}) {self.attributes} nounwind {{"
        self.module.functions[self.name] = "\n".join([head, "entry:", *self.allocas, *self.lines, "}"])

    def fresh(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def emit(self, text: str, elem: str, width: int = 0) -> V:
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return V(self, name, elem, width)

    def alloca(self, type: str, align: int = 0) -> str:
        """Reserve memory for one value for the whole call; return its address."""
        self.count += 1
        name = f"%m{self.count}"
        self.allocas.append(f"  {name} = alloca {type}" + (f", align {align}" if align else ""))
        return name

    def new_label(self, what: str) -> str:
        self.count += 1
        return f"{what}.{self.count}"

    def start(self, label: str, fall: bool = True) -> None:
        """Begin a block; fall into it from the one before."""
        if fall:
            self.line(f"br label %{label}")
        self.lines.append(f"{label}:")
        self.label = label

    def branch(self, condition: V, yes: str, no: str) -> None:
        self.line(f"br i1 {condition.name}, label %{yes}, label %{no}")

    def const(self, value: Any, elem: str, width: int = 0) -> V:
        text = literal(value, elem)
        return V(self, f"splat ({elem} {text})" if width else text, elem, width, value)

    def parameter(self, name: str, elem: str, width: int = 0) -> V:
        return V(self, f"%{name}", elem, width)

    def splat(self, x: V, width: int) -> V:
        if x.width or not width:
            return x
        if x.constant is not None:
            return self.const(x.constant, x.elem, width)
        one = self.emit(f"insertelement {vector(x.elem, width)} poison, {x.elem} {x.name}, i32 0", x.elem, width)
        text = f"shufflevector {one.type} {one.name}, {one.type} poison, <{width} x i32> zeroinitializer"
        return self.emit(text, x.elem, width)

    def load(self, address: str, elem: str, width: int = 0, align: int | None = None) -> V:
        type = vector(elem, width)
        align = align or max(1, BITS.get(elem, 64) // 8)
        return self.emit(f"load {type}, ptr {address}, align {align}", elem, width)

    def store(self, x: V, address: str, align: int | None = None) -> None:
        self.line(f"store {x.type} {x.name}, ptr {address}, align {align or max(1, BITS.get(x.elem, 64) // 8)}")

    def offset(self, address: str, nbytes: V | int) -> str:
        text = nbytes.name if isinstance(nbytes, V) else str(nbytes)
        return self.emit(f"getelementptr i8, ptr {address}, i64 {text}", PTR).name

    def intrinsic(self, name: str, *operands: V, elem: str = "", suffix: str = "", extra: str = "") -> V:
        """Call `llvm.<name>.<type of the first operand>`."""
        x = operands[0]
        elem = elem or x.elem
        short = {FLOAT: "f32", DOUBLE: "f64"}.get(x.elem, x.elem)
        full = f"llvm.{name}.{suffix}{f'v{x.width}' if x.width else ''}{short}"
        result = vector(elem, x.width)
        types = [o.type for o in operands]
        flags = [", i1 false"] if extra else []
        arguments = ", ".join(f"{o.type} {o.name}" for o in operands) + "".join(flags)
        declared = ", ".join(types) + (", i1" if extra else "")
        self.module.declarations.add(f"declare {result} @{full}({declared})")
        return self.emit(f"call {result} @{full}({arguments})", elem, x.width)

    def call(self, name: str, result: str, elem: str, width: int, arguments: Sequence[tuple[str, str]]) -> V:
        text = ", ".join(f"{type} {value}" for type, value in arguments)
        return self.emit(f"call {result} @{name}({text})", elem, width)


def vector(elem: str, width: int) -> str:
    return f"<{width} x {elem}>" if width else elem


def loop(f: Function, start: V, stop: V, step: V | int, body: Callable[[V], None]) -> None:
    """Write a loop over start, start + step, ... below stop."""
    counter = f.alloca(I64)
    f.store(start, counter)
    head, inside, after = f.new_label("head"), f.new_label("body"), f.new_label("after")
    f.start(head)
    i = f.load(counter, I64)
    f.branch(i < stop, inside, after)
    f.start(inside, fall=False)
    body(i)
    f.store(i + step, counter)
    f.line(f"br label %{head}")
    f.start(after, fall=False)


def when(f: Function, condition: V, body: Callable[[], None]) -> None:
    """Write an `if` around what `body` writes."""
    yes, after = f.new_label("then"), f.new_label("after")
    f.branch(condition, yes, after)
    f.start(yes, fall=False)
    body()
    f.start(after)


@dataclass(frozen=True, slots=True, eq=False)
class V:
    """A value in a function: its name in the text, its element type, and its number of lanes (0: a scalar)."""

    f: Function
    name: str
    elem: str
    width: int = 0
    constant: Any = None

    @property
    def type(self) -> str:
        return vector(self.elem, self.width)

    def like(self, other: Any) -> V:
        """Return a number as a constant of this value's type."""
        return other if isinstance(other, V) else self.f.const(other, self.elem, self.width)

    def _pair(self, other: Any) -> tuple[V, V]:
        other = self.like(other)
        width = max(self.width, other.width)
        return self.f.splat(self, width), self.f.splat(other, width)

    def _binary(self, op: str, other: Any, elem: str = "") -> V:
        a, b = self._pair(other)
        return self.f.emit(f"{op} {a.type} {a.name}, {b.name}", elem or a.elem, a.width)

    def _arithmetic(self, op: str, other: Any, reverse: bool = False) -> V:
        op = f"f{op}" if is_float(self.elem) else {"div": "sdiv", "rem": "srem"}.get(op, op)
        return self.like(other)._binary(op, self) if reverse else self._binary(op, other)

    def __add__(self, other: Any) -> V:
        return self._arithmetic("add", other)

    def __radd__(self, other: Any) -> V:
        return self._arithmetic("add", other, True)

    def __sub__(self, other: Any) -> V:
        return self._arithmetic("sub", other)

    def __rsub__(self, other: Any) -> V:
        return self._arithmetic("sub", other, True)

    def __mul__(self, other: Any) -> V:
        return self._arithmetic("mul", other)

    def __rmul__(self, other: Any) -> V:
        return self._arithmetic("mul", other, True)

    def __truediv__(self, other: Any) -> V:
        return self._arithmetic("div", other)

    def __rtruediv__(self, other: Any) -> V:
        return self._arithmetic("div", other, True)

    def __floordiv__(self, other: Any) -> V:
        """Divide integers that are not negative."""
        return self._binary("udiv", other)

    def __neg__(self) -> V:
        if is_float(self.elem):
            return self.f.emit(f"fneg {self.type} {self.name}", self.elem, self.width)
        return self.like(0) - self

    def __and__(self, other: Any) -> V:
        return self._binary("and", other)

    def __or__(self, other: Any) -> V:
        return self._binary("or", other)

    def __xor__(self, other: Any) -> V:
        return self._binary("xor", other)

    def __invert__(self) -> V:
        return self._binary("xor", True if self.elem == I1 else -1)

    def __lshift__(self, other: Any) -> V:
        return self._binary("shl", other)

    def shift_right(self, other: Any, signed: bool = False) -> V:
        return self._binary("ashr" if signed else "lshr", other)

    def compare(self, ordered: str, signed: str, other: Any) -> V:
        op = f"fcmp {ordered}" if is_float(self.elem) else f"icmp {signed}"
        return self._binary(op, other, I1)

    def __lt__(self, other: Any) -> V:
        return self.compare("olt", "slt", other)

    def __le__(self, other: Any) -> V:
        return self.compare("ole", "sle", other)

    def __gt__(self, other: Any) -> V:
        return self.compare("ogt", "sgt", other)

    def __ge__(self, other: Any) -> V:
        return self.compare("oge", "sge", other)

    def equals(self, other: Any) -> V:
        return self.compare("oeq", "eq", other)

    def differs(self, other: Any) -> V:
        return self.compare("une", "ne", other)

    def is_nan(self) -> V:
        return self._binary("fcmp uno", self, I1)

    def convert(self, how: str, elem: str) -> V:
        return self.f.emit(f"{how} {self.type} {self.name} to {vector(elem, self.width)}", elem, self.width)

    def bits(self) -> V:
        """Return the bits of a float as an integer."""
        return self.convert("bitcast", I32 if self.elem == FLOAT else I64)

    def as_float(self) -> V:
        """Return the float that has these bits."""
        return self.convert("bitcast", FLOAT if self.elem == I32 else DOUBLE)

    def where(self, yes: Any, no: Any) -> V:
        """Choose by this condition."""
        typed = yes if isinstance(yes, V) else no
        yes, no = typed.like(yes), typed.like(no)
        width = max(self.width, yes.width, no.width)
        c, a, b = self.f.splat(self, width), self.f.splat(yes, width), self.f.splat(no, width)
        return self.f.emit(f"select {c.type} {c.name}, {a.type} {a.name}, {b.type} {b.name}", a.elem, width)

    def any(self) -> V:
        """Return whether a lane is true."""
        if not self.width:
            return self
        bits = self.f.emit(f"bitcast {self.type} {self.name} to i{self.width}", f"i{self.width}")
        return self.f.emit(f"icmp ne i{self.width} {bits.name}, 0", I1)

    def lane(self, index: int) -> V:
        return self.f.emit(f"extractelement {self.type} {self.name}, i32 {index}", self.elem) if self.width else self


def least(a: V, b: V) -> V:
    return (a < b).where(a, b)


def lane_numbers(f: Function, elem: str, width: int, step: int = 1) -> V:
    """Return the vector 0, step, 2 step, ... of integers."""
    return V(f, f"<{', '.join(f'{elem} {k * step}' for k in range(width))}>", elem, width)


def shuffle(a: V, b: V, lanes: Sequence[int]) -> V:
    """Return lanes of two vectors, those of the second counted from the first's width."""
    numbers = ", ".join(f"i32 {k}" for k in lanes)
    text = f"shufflevector {a.type} {a.name}, {b.type} {b.name}, <{len(lanes)} x i32> <{numbers}>"
    return a.f.emit(text, a.elem, len(lanes))


def transposed(rows: list[V]) -> list[V]:
    """Return the elements of vectors, a power of two of them, lane by lane."""
    width, half = rows[0].width, len(rows) // 2
    for _ in range(len(rows).bit_length() - 1):
        zipped = []
        for x, y in zip(rows[:half], rows[half:], strict=True):
            for first in (0, width // 2):
                order = [lane for i in range(first, first + width // 2) for lane in (i, i + width)]
                zipped.append(shuffle(x, y, order))
        rows = zipped
    return rows


def masked_load(f: Function, address: str, mask: V, elem: str) -> V:
    """Load lanes where `mask` is true, and zeros elsewhere."""
    type, name, align = _masked("load", elem, mask.width)
    f.module.declarations.add(f"declare {type} @{name}(ptr, i32, {mask.type}, {type})")
    text = f"call {type} @{name}(ptr {address}, i32 {align}, {mask.type} {mask.name}, {type} zeroinitializer)"
    return f.emit(text, elem, mask.width)


def masked_store(f: Function, address: str, mask: V, value: V) -> None:
    """Store lanes where `mask` is true."""
    type, name, align = _masked("store", value.elem, mask.width)
    f.module.declarations.add(f"declare void @{name}({type}, ptr, i32, {mask.type})")
    f.line(f"call void @{name}({type} {value.name}, ptr {address}, i32 {align}, {mask.type} {mask.name})")


def _masked(name: str, elem: str, width: int) -> tuple[str, str, int]:
    bits = BITS[elem]
    return vector(elem, width), f"llvm.masked.{name}.v{width}f{bits}.p0", bits // 8


def scaled(x: V, n: V) -> V:
    """Return x * 2^n for floats n that are integers, by AVX-512's instruction: vectors are of whole registers."""
    lanes = 512 // BITS[x.elem]
    type, mask = vector(x.elem, lanes), f"i{lanes}"
    name = f"llvm.x86.avx512.mask.scalef.{'ps' if x.elem == FLOAT else 'pd'}.512"
    x.f.module.declarations.add(f"declare {type} @{name}({type}, {type}, {type}, {mask}, i32)")
    found: list[V] = []
    for first in range(0, x.width, lanes):
        a, b = (shuffle(v, v, range(first, first + lanes)) for v in (x, n))
        arguments = f"{type} {a.name}, {type} {b.name}, {type} {a.name}, {mask} -1, i32 4"
        found.append(x.f.emit(f"call {type} @{name}({arguments})", x.elem, lanes))
    while len(found) > 1:
        found = [shuffle(a, b, range(2 * a.width)) for a, b in zip(found[::2], found[1::2], strict=True)]
    return found[0]


def fma(a: V, b: Any, c: Any) -> V:
    """Return a * b + c, with one rounding where the processor can."""
    b, c = a.like(b), a.like(c)
    width = max(a.width, b.width, c.width)
    a, b, c = (a.f.splat(x, width) for x in (a, b, c))
    if a.f.module.fma:
        return a.f.intrinsic("fma", a, b, c)
    return a * b + c


def polynomial(x: V, coefficients: Sequence[float]) -> V:
    """Return c0 + c1 x + c2 x^2 + ..., by Estrin's scheme: pairs first, so that few operations wait for others."""
    terms: list[Any] = list(coefficients)
    if len(terms) == 1:
        return x.like(terms[0])
    power = x
    while len(terms) > 1:
        paired: list[Any] = []
        for low, high in zip(terms[::2], terms[1::2], strict=False):
            high = high if isinstance(high, V) else x.f.const(high, x.elem, x.width)
            paired.append(fma(high, power, low))
        if len(terms) % 2:
            paired.append(terms[-1])
        terms = paired
        if len(terms) > 1:
            power = power * power
    return terms[0]  # type: ignore[no-any-return]


def horner(x: V, coefficients: Sequence[float]) -> V:
    """Return c0 + c1 x + ..., in the order of least rounding error."""
    result = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = fma(result, x, c)
    return result


def sqrt(x: V) -> V:
    return x.f.intrinsic("sqrt", x)


def fabs(x: V) -> V:
    return x.f.intrinsic("fabs", x)


def rint(x: V) -> V:
    return x.f.intrinsic("rint", x)


def copysign(x: V, sign: V) -> V:
    x, sign = x._pair(sign)
    return x.f.intrinsic("copysign", x, sign)
