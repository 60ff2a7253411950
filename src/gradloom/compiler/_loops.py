"""Loop programs: what the fuser hands to a backend, as frozen and checked data.

`_interpreter.run` defines what they mean.

A LoopProgram computes its outputs from its inputs in one nest of loops over `shape`. The last `inner` dimensions are
the inner loops; one step of the outer loops is a *row*. Each pass walks over the row once, executing its `body` for
every element, and then executes its `row` instructions once. What `reduce` and `row` instructions compute can be used
by everything after them. Softmax over the last of two dimensions:

    loop [8, 100] inner 1
    input 0: float32 strides [100, 1]
    output 0: float32 strides [100, 1]
    pass 0:
      x = load 0: float32
      m = reduce max x: float32
    pass 1:
      y = load 0: float32
      shifted = - y m: float32
      e = exp shifted: float32
      s = reduce sum e: float32
    pass 2:
      z = load 0: float32
      again = - z m: float32
      e2 = exp again: float32
      r = / e2 s: float32
      store 0 r

Strides count elements, one for each dimension of the space: 0 where a buffer is broadcast, and 0 along the inner
dimensions for an output that is written once a row. `add` adds a value to an output with strides 0 along the outer
dimensions: that is the sum over all rows, such as the gradient of a weight. A *table* has sizes and strides of its own
and is read by `gather`, with an index for each of its dimensions; negative indices count from the end, as in Python.

Values have the dtypes of `VALUE_DTYPES`. The half types exist in buffers only: `load` widens them to float32, `store`
rounds, and `round` rounds a float32 value to a half type in between. Instructions do not convert: both operands of
`+` have the dtype of the result, `cast` converts, and `bitcast` keeps the bits. `fma a b c` is a * b + c, rounded once
if the processor can, else as the product and the sum. float32 is computed in float32, as NumPy does. Operators and
functions are those of the scalar language (`codegen/language/scalars.py`), with NumPy's meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

HALVES = frozenset(("float16", "bfloat16"))
FLOATS = frozenset(("float32", "float64"))
COMPLEX = frozenset(("complex64", "complex128"))
INTEGERS = frozenset("int8 int16 int32 int64 uint8 uint16 uint32 uint64".split())
VALUE_DTYPES = FLOATS | COMPLEX | INTEGERS | {"bool"}
NUMBER_DTYPES = frozenset(("float64", "int64", "bool", "complex128"))
REDUCTIONS = frozenset("sum prod max min any all argmax argmin".split())

_ARITHMETIC = VALUE_DTYPES - {"bool"}
_REAL = FLOATS | INTEGERS
_BITS = INTEGERS | {"bool"}
_INEXACT = FLOATS | COMPLEX
# For each operator and function: how many operands, of which dtypes, and the dtype of the result ("" is the operands').
OPERATORS: dict[str, tuple[int, frozenset[str], str]] = {
    **dict.fromkeys("+ - *".split(), (2, _ARITHMETIC, "")),
    **dict.fromkeys(("/",), (2, _INEXACT, "")),
    **dict.fromkeys(("**",), (2, _ARITHMETIC, "")),
    **dict.fromkeys("// %".split(), (2, _REAL, "")),
    **dict.fromkeys("== !=".split(), (2, VALUE_DTYPES, "bool")),
    **dict.fromkeys("< <= > >=".split(), (2, _REAL | {"bool"}, "bool")),
    **dict.fromkeys("& | ^".split(), (2, _BITS, "")),
    **dict.fromkeys("<< >> gcd lcm".split(), (2, INTEGERS, "")),
    **dict.fromkeys("maximum minimum fmax fmin".split(), (2, _REAL | {"bool"}, "")),
    **dict.fromkeys(("fmod",), (2, _REAL, "")),
    **dict.fromkeys(("fma",), (3, FLOATS, "")),
    **dict.fromkeys("arctan2 hypot copysign nextafter logaddexp logaddexp2".split(), (2, FLOATS, "")),
    **dict.fromkeys(("neg",), (1, _ARITHMETIC, "")),
    **dict.fromkeys(("~",), (1, _BITS, "")),
    **dict.fromkeys("isnan isinf isfinite".split(), (1, _INEXACT, "bool")),
    **dict.fromkeys(("signbit",), (1, FLOATS, "bool")),
    **dict.fromkeys(("sign",), (1, _REAL, "")),
    **dict.fromkeys("floor ceil trunc rint erf erfc erfinv lgamma digamma".split(), (1, FLOATS, "")),
    **dict.fromkeys(
        """exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
        arctanh""".split(),
        (1, _INEXACT, ""),
    ),
    **dict.fromkeys(("conj",), (1, _ARITHMETIC, "")),
    **dict.fromkeys("abs real imag angle".split(), (1, _ARITHMETIC, "part")),
}
# Forms that are not functions of operands alone; `_Checker` has a method for each.
FORMS = frozenset("load gather number const index cast bitcast round where reduce store add".split())
_SAME_BITS = ({"float32", "int32", "uint32"}, {"float64", "int64", "uint64"})


class LoopError(ValueError):
    """A loop program that has no meaning: says which instruction is wrong, and why."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array that a program reads or writes.

    dtype: a NumPy dtype name, half types included.
    strides: in elements, for each dimension of the space; of a table, for each of its own dimensions.
    sizes: of a table; None for a buffer that is walked along the space.
    """

    dtype: str
    strides: tuple[int, ...]
    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.dtype not in VALUE_DTYPES | HALVES:
            raise LoopError(f"a buffer of dtype {self.dtype!r}; known: {', '.join(sorted(VALUE_DTYPES | HALVES))}")
        if self.sizes is not None and len(self.sizes) != len(self.strides):
            raise LoopError(f"a table with {len(self.sizes)} sizes and {len(self.strides)} strides")

    def __str__(self) -> str:
        sizes = "" if self.sizes is None else f" sizes {list(self.sizes)}"
        return f"{self.dtype}{sizes} strides {list(self.strides)}"


class Instruction(NamedTuple):
    """One SSA instruction: `name = op attribute args: dtype`.

    attribute: the buffer of load, gather, store and add; the number of `number`; the dimension of `index`; the kind of
    `reduce`; the half type of `round`; the value of `const` as text (use the function `const`).
    `store` and `add` have no name and no dtype. `-` with one operand is `neg`.
    """

    name: str
    op: str
    args: tuple[str, ...] = ()
    dtype: str = ""
    attribute: int | str | None = None

    def __str__(self) -> str:
        words = [self.op, *([] if self.attribute is None else [str(self.attribute)]), *self.args]
        if self.op in ("store", "add"):
            return " ".join(words)
        return f"{self.name} = {' '.join(words)}: {self.dtype}"


def const(name: str, value: Any, dtype: str) -> Instruction:
    """Return a `const` instruction; its text distinguishes -0.0 from 0.0 and equals itself for NaN."""
    kind = bool if dtype == "bool" else int if dtype in INTEGERS else float if dtype in FLOATS else complex
    return Instruction(name, "const", (), dtype, repr(kind(value)))


class Pass(NamedTuple):
    """One walk over a row: `body` for every element, then `row` once. An empty body walks over nothing."""

    body: tuple[Instruction, ...] = ()
    row: tuple[Instruction, ...] = ()


@dataclass(frozen=True)
class LoopProgram:
    """A checked loop program; see the module's docstring. Raises LoopError where it has no meaning.

    shape: the space; inner: how many of its last dimensions a row has (0: pointwise, exactly one pass).
    numbers: dtypes of the scalars passed at each call.
    aliases: pairs (output, input) that may be the same memory; strides and dtypes are equal.
    """

    shape: tuple[int, ...]
    inner: int
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    passes: tuple[Pass, ...]
    numbers: tuple[str, ...] = ()
    aliases: tuple[tuple[int, int], ...] = ()
    # dtype of every value, for backends
    dtypes: dict[str, str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtypes", _Checker(self).check())

    def __hash__(self) -> int:
        return hash((self.shape, self.inner, self.inputs, self.outputs, self.passes, self.numbers, self.aliases))

    def __str__(self) -> str:
        lines = [f"loop {list(self.shape)} inner {self.inner}"]
        lines += [f"input {i}: {buffer}" for i, buffer in enumerate(self.inputs)]
        lines += [f"output {i}: {buffer}" for i, buffer in enumerate(self.outputs)]
        lines += [f"number {i}: {dtype}" for i, dtype in enumerate(self.numbers)]
        lines += [f"alias {output} {input}" for output, input in self.aliases]
        for i, part in enumerate(self.passes):
            lines += [f"pass {i}:", *(f"  {instruction}" for instruction in part.body)]
            lines += ["row:"] * bool(part.row) + [f"  {instruction}" for instruction in part.row]
        return "\n".join(lines)

    @staticmethod
    def parse(text: str) -> LoopProgram:
        """Return the program that `str` wrote: str(parse(s)) == s. Raises LoopError with the line."""
        return _parse(text)

    @property
    def rows(self) -> int:
        """Return the number of steps of the outer loops."""
        return prod(self.shape[: len(self.shape) - self.inner])


class _Checker:
    """Checks one program, instruction by instruction, and collects the dtypes of its values."""

    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        self.outer = len(program.shape) - program.inner
        self.dtypes: dict[str, str] = {}
        self.visible: set[str] = set()
        self.stored: dict[int, int] = {}
        self.in_row = False

    def check(self) -> dict[str, str]:
        p = self.program
        if any(size < 0 for size in p.shape) or not 0 <= p.inner <= len(p.shape):
            raise LoopError(f"a space of shape {p.shape} with {p.inner} inner dimensions")
        for buffer in (*p.inputs, *p.outputs):
            if buffer.sizes is None and len(buffer.strides) != len(p.shape):
                raise LoopError(f"buffer ({buffer}) has {len(buffer.strides)} strides; the space is {list(p.shape)}")
        if any(buffer.sizes is not None for buffer in p.outputs):
            raise LoopError("an output is not a table: programs do not scatter")
        for dtype in p.numbers:
            if dtype not in NUMBER_DTYPES:
                raise LoopError(f"a number of dtype {dtype!r}; known: {', '.join(sorted(NUMBER_DTYPES))}")
        for output, input in p.aliases:
            if (
                not (0 <= output < len(p.outputs) and 0 <= input < len(p.inputs))
                or p.outputs[output] != p.inputs[input]
            ):
                raise LoopError(f"output {output} and input {input} cannot be one array: dtype or strides differ")
        if not p.passes or (p.inner == 0 and (len(p.passes) != 1 or p.passes[0].row)):
            raise LoopError("a pointwise program has one pass and no row instructions; another has at least one pass")
        for part in p.passes:
            before = set(self.visible)
            self.in_row, kept = False, set()
            for instruction in part.body:
                self.instruction(instruction)
                if instruction.op == "reduce":
                    kept.add(instruction.name)
                    self.visible.discard(instruction.name)  # complete only after the loop
            self.visible, self.in_row = before | kept, True
            for instruction in part.row:
                self.instruction(instruction)
        for i in range(len(p.outputs)):
            if self.stored.get(i) != 1:
                raise LoopError(f"output {i} is stored {self.stored.get(i, 0)} times, not once")
        return self.dtypes

    def instruction(self, i: Instruction) -> None:
        for name in i.args:
            if name not in self.visible:
                raise self.error(i, f"`{name}` is not defined before it, or belongs to the body of another pass")
        if i.op in FORMS:
            getattr(self, f"_{i.op}")(i)
        elif i.op in OPERATORS:
            self.operator(i)
        else:
            raise self.error(i, f"there is no operation {i.op!r}")
        if i.op in ("store", "add"):
            return
        if not (i.name.isidentifier() and i.name.isascii()) or i.name in self.dtypes:
            raise self.error(i, f"{i.name!r} is not a new name")
        if i.dtype not in VALUE_DTYPES:
            raise self.error(i, f"no value has dtype {i.dtype!r}")
        self.dtypes[i.name] = i.dtype
        self.visible.add(i.name)

    def error(self, i: Instruction, what: str) -> LoopError:
        return LoopError(f"{i}\n    {what}")

    def expect(self, i: Instruction, right: bool, what: str) -> None:
        if not right:
            raise self.error(i, what)

    def operands(self, i: Instruction, count: int) -> list[str]:
        self.expect(i, len(i.args) == count, f"takes {count} operand(s)")
        return [self.dtypes[name] for name in i.args]

    def operator(self, i: Instruction) -> None:
        count, allowed, result = OPERATORS[i.op]
        operands = self.operands(i, count)
        self.expect(i, i.attribute is None, "takes no attribute")
        self.expect(i, len(set(operands)) == 1, f"operands of different dtypes: {', '.join(operands)}")
        self.expect(i, operands[0] in allowed, f"not defined for {operands[0]}")
        if result == "part":
            result = {"complex64": "float32", "complex128": "float64"}.get(operands[0], operands[0])
            self.expect(i, i.op != "angle" or result in FLOATS, f"not defined for {operands[0]}")
        self.expect(i, i.dtype == (result or operands[0]), f"gives {result or operands[0]}")

    def buffer(self, i: Instruction, buffers: tuple[Buffer, ...]) -> Buffer:
        number = i.attribute
        self.expect(i, isinstance(number, int) and 0 <= number < len(buffers), "there is no such buffer")
        return buffers[number]  # type: ignore[index]

    def constant_along_row(self, buffer: Buffer) -> bool:
        return all(stride == 0 for stride in buffer.strides[self.outer :])

    def _load(self, i: Instruction) -> None:
        self.operands(i, 0)
        buffer = self.buffer(i, self.program.inputs)
        self.expect(i, buffer.sizes is None, "a table is read by `gather`")
        self.expect(i, not self.in_row or self.constant_along_row(buffer), "varies along the row")
        self.expect(i, i.dtype == widened(buffer.dtype), f"gives {widened(buffer.dtype)}")

    def _gather(self, i: Instruction) -> None:
        buffer = self.buffer(i, self.program.inputs)
        self.expect(i, buffer.sizes is not None, "only a table is read by `gather`")
        self.expect(i, set(self.operands(i, len(buffer.strides))) <= {"int64"}, "indices are int64")
        self.expect(i, i.dtype == widened(buffer.dtype), f"gives {widened(buffer.dtype)}")

    def _number(self, i: Instruction) -> None:
        self.operands(i, 0)
        numbers = self.program.numbers
        valid = isinstance(i.attribute, int) and 0 <= i.attribute < len(numbers)
        self.expect(i, valid, "there is no such number")
        self.expect(i, i.dtype == numbers[i.attribute], f"gives {numbers[i.attribute]}")  # type: ignore[index]

    def _const(self, i: Instruction) -> None:
        self.operands(i, 0)
        try:
            same = const(i.name, const_value(i), i.dtype) == i
        except (TypeError, ValueError, OverflowError):
            same = False
        self.expect(i, same, f"not the text of a constant of dtype {i.dtype}; make it by `const`")

    def _index(self, i: Instruction) -> None:
        self.operands(i, 0)
        limit = self.outer if self.in_row else len(self.program.shape)
        self.expect(i, isinstance(i.attribute, int) and 0 <= i.attribute < limit, "there is no such loop here")
        self.expect(i, i.dtype == "int64", "gives int64")

    def _cast(self, i: Instruction) -> None:
        source = self.operands(i, 1)[0]
        bad = source in COMPLEX and i.dtype not in COMPLEX | {"bool"}
        self.expect(i, not bad, "take the real part first")

    def _bitcast(self, i: Instruction) -> None:
        pair = {self.operands(i, 1)[0], i.dtype}
        self.expect(
            i, any(pair <= same for same in _SAME_BITS), "takes a float and gives an integer of its size, or back"
        )

    def _round(self, i: Instruction) -> None:
        self.expect(i, i.attribute in HALVES, "rounds to float16 or bfloat16")
        self.expect(i, self.operands(i, 1) == ["float32"] and i.dtype == "float32", "takes and gives float32")

    def _where(self, i: Instruction) -> None:
        condition, yes, no = self.operands(i, 3)
        self.expect(
            i, condition == "bool" and yes == no == i.dtype, "takes a bool and two values of the result's dtype"
        )

    def _reduce(self, i: Instruction) -> None:
        self.expect(i, not self.in_row and self.program.inner > 0, "only the body of a pass over a row reduces")
        self.expect(i, i.attribute in REDUCTIONS, f"combines by one of {', '.join(sorted(REDUCTIONS))}")
        source = self.operands(i, 1)[0]
        if i.attribute in ("any", "all"):
            self.expect(i, source == i.dtype == "bool", "takes and gives bool")
        elif i.attribute in ("argmax", "argmin"):
            self.expect(i, source in _REAL | {"bool"} and i.dtype == "int64", "takes a real value and gives int64")
        else:
            allowed = _ARITHMETIC if i.attribute in ("sum", "prod") else _REAL | {"bool"}
            self.expect(
                i, source in allowed and i.dtype == source, "accumulates in its operand's dtype; cast before it"
            )

    def _add(self, i: Instruction) -> None:
        buffer = self.buffer(i, self.program.outputs)
        self.expect(i, not self.in_row and self.program.inner > 0, "only the body of a pass over a row adds")
        self.expect(i, buffer.dtype in FLOATS, "adds float32 or float64")
        self.expect(i, self.operands(i, 1) == [buffer.dtype], f"adds {buffer.dtype}")
        self.expect(i, i.name == "" and i.dtype == "", "has no name and no dtype")
        along = zip(self.program.shape, buffer.strides, strict=True)
        moves = [stride != 0 for size, stride in along if size > 1]
        fixed = sum(size > 1 for size in self.program.shape[: self.outer])
        self.expect(i, not any(moves[:fixed]) and all(moves[fixed:]), "has an element for each one of a row")
        self.stored[i.attribute] = self.stored.get(i.attribute, 0) + 1  # type: ignore[index, arg-type]

    def _store(self, i: Instruction) -> None:
        buffer = self.buffer(i, self.program.outputs)
        self.expect(i, self.operands(i, 1) == [widened(buffer.dtype)], f"stores {widened(buffer.dtype)}")
        self.expect(i, i.name == "" and i.dtype == "", "has no name and no dtype")
        written = self.program.shape[: self.outer] if self.in_row else self.program.shape
        for size, stride in zip(written, buffer.strides, strict=False):
            self.expect(i, size <= 1 or stride != 0, "writes one element several times")
        self.expect(i, not self.in_row or self.constant_along_row(buffer), "is written once a row, but varies along it")
        self.stored[i.attribute] = self.stored.get(i.attribute, 0) + 1  # type: ignore[index, arg-type]


def widened(dtype: str) -> str:
    """Return the dtype in which elements of a buffer are computed."""
    return "float32" if dtype in HALVES else dtype


def const_value(i: Instruction) -> Any:
    """Return the Python number of a `const` instruction."""
    text = str(i.attribute)
    if i.dtype == "bool":
        return {"True": True, "False": False}[text]
    return int(text) if i.dtype in INTEGERS else float(text) if i.dtype in FLOATS else complex(text)


_LINE = r"(?:(\w+) = )?([^\s:]+)((?: [^\s:]+)*)(?:: (\w+))?"
_BUFFER = r"(\w+)(?: sizes (\[[-\d, ]*\]))? strides (\[[-\d, ]*\])"
_WITH_ATTRIBUTE = frozenset("load gather number index store add round reduce const".split())


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.strip("[]").split(",") if word.strip())


def _parse(text: str) -> LoopProgram:
    parts: dict[str, list[Any]] = {"input": [], "output": [], "number": [], "alias": [], "pass": []}
    head = re.fullmatch(r"loop (\[.*\]) inner (\d+)", text.strip().split("\n")[0].strip())
    if head is None:
        raise LoopError(f"not the head of a loop program: {text[:60]!r}")
    for line in text.strip().split("\n")[1:]:
        word, _, rest = line.strip().partition(" ")
        buffer = re.fullmatch(_BUFFER, rest.partition(": ")[2])
        if line.startswith("  ") or (parts["pass"] and word not in ("pass", "row:")):
            parts["pass"][-1][-1].append(_parse_instruction(line.strip()))
        elif word in ("input", "output") and buffer:
            sizes = None if buffer[2] is None else _integers(buffer[2])
            parts[word].append(Buffer(buffer[1], _integers(buffer[3]), sizes))
        elif word == "number":
            parts["number"].append(rest.partition(": ")[2])
        elif word == "alias":
            parts["alias"].append(tuple(int(part) for part in rest.split()))
        elif word == "pass":
            parts["pass"].append([[]])
        elif word == "row:" and parts["pass"]:
            parts["pass"][-1].append([])
        else:
            raise LoopError(f"not a line of a loop program: {line.strip()!r}")
    passes = tuple(Pass(*(tuple(block) for block in blocks)) for blocks in parts["pass"])
    return LoopProgram(
        _integers(head[1]), int(head[2]), tuple(parts["input"]), tuple(parts["output"]), passes,
        tuple(parts["number"]), tuple(parts["alias"]),
    )  # fmt: skip


def _parse_instruction(line: str) -> Instruction:
    match = re.fullmatch(_LINE, line)
    if match is None:
        raise LoopError(f"not an instruction: {line!r}")
    name, op, words, dtype = match[1] or "", match[2], match[3].split(), match[4] or ""
    attribute: int | str | None = None
    if op in _WITH_ATTRIBUTE and words:
        text = words.pop(0)
        attribute = int(text) if op not in ("round", "reduce", "const") and text.isdigit() else text
    return Instruction(name, op, tuple(words), dtype, attribute)
