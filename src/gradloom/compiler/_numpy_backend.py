"""The backend `numpy` for pointwise loop programs: blocked NumPy.

The space is cut into blocks whose values fit the processor's cache; within a block every instruction is one call of
NumPy with `out=` into a scratch buffer. Large programs share their blocks among threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..kernels._common.numbers import from_scipy
from ..kernels._common.threads import chunks, get_num_threads, share
from ..kernels.elementwise.arithmetic import modulo
from ..kernels.elementwise.erf import error_function
from ..kernels.elementwise.special import digamma, erfinv, lgamma
from ..types.dtype import bfloat16
from ..types.silence import silence
from ._loops import HALVES, Instruction, LoopProgram, const_value
from ._memory import strided

BLOCK = 1 << 14  # elements of a block, or more
BLOCK_BYTES = 3 << 17  # of the buffers and scratch memory of a block, that fit the processor's cache
SHARED = 1 << 17  # elements from which threads share a program

_UFUNCS = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "true_divide", "//": "floor_divide",
    "**": "power", "==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater",
    ">=": "greater_equal", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "<<": "left_shift",
    ">>": "right_shift", "neg": "negative", "~": "invert", "abs": "absolute", "conj": "conjugate",
}  # fmt: skip
# Dtypes whose values are chosen by bits, and integers of their size.
_BITS = {"float32": "int32", "float64": "int64", "int32": "int32", "int64": "int64"}
_KERNELS = {"erfinv": erfinv, "lgamma": lgamma, "digamma": digamma}


def numpy_type(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a buffer."""
    return bfloat16.numpy if name == "bfloat16" else np.dtype(name)


def compile_pointwise(program: LoopProgram) -> Callable[..., None]:
    """Return `run(arrays, numbers=())` for a pointwise program."""
    blocked = Blocked(program, program.passes[0].body)
    return _Runner(program, blocked.function(), [np.dtype(d) for d in blocked.scratch], blocked.source())


class Blocked:
    """Writes the source of a block: a function of the views of its buffers, of scratch memory and of numbers.

    Args:
        body: its instructions.
        known: values that exist before, and the expressions for them.

    Attributes:
        scratch: the dtypes of the scratch buffers.
        names: what the source refers to.
    """

    def __init__(self, program: LoopProgram, body: Sequence[Instruction], known: dict[str, str] | None = None) -> None:
        self.program = program
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []
        self.where: dict[str, str] = dict(known or ())  # value -> expression of its array
        self.scratch: list[str] = []  # dtypes of the scratch buffers
        self.free: dict[str, list[int]] = {}
        self.held: dict[str, int] = {}  # value -> its scratch buffer
        self.last = {name: i for i, instruction in enumerate(body) for name in instruction.args}
        for i, instruction in enumerate(body):
            self.write(instruction, i, body)
            for name in instruction.args:
                if self.last[name] == i and name in self.held:
                    number = self.held.pop(name)
                    self.free.setdefault(self.scratch[number], []).append(number)

    def out(self, instruction: Instruction, i: int, body: Sequence[Instruction], apart: str = "") -> str:
        """Return where the result of an instruction goes: the output that it is stored to at once, or scratch, but not
        where its operand `apart` is."""
        following = body[i + 1] if i + 1 < len(body) else None
        if following is not None and following.op == "store" and following.args == (instruction.name,):
            if self._can_hold(following.attribute, instruction, i, body, apart):
                self.where[instruction.name] = f"o{following.attribute}"
                return f"o{following.attribute}"
        reused = next(
            (
                a
                for a in instruction.args
                if self.last[a] == i
                and a in self.held
                and a != apart
                and self.scratch[self.held[a]] == instruction.dtype
            ),
            None,
        )
        if reused is not None:
            number = self.held.pop(reused)
        else:
            number = self._unused(instruction.dtype)
        self.held[instruction.name] = number
        self.where[instruction.name] = f"s{number}"
        return f"s{number}"

    def _can_hold(self, number: Any, instruction: Instruction, i: int, body: Sequence[Instruction], apart: str) -> bool:
        """Whether an output may be written now: nothing that is read later, nor `apart`, is in the same memory."""
        buffer = self.program.outputs[number]
        if buffer.dtype != instruction.dtype:
            return False
        aliased = {f"i{a}" for o, a in self.program.aliases if o == number}
        later = {apart, *(a for following in body[i + 2 :] for a in following.args)}
        loads_later = {f"i{b.attribute}" for b in body[i + 2 :] if b.op == "load"}
        return not aliased & (loads_later | {self.where.get(a, "") for a in later})

    def write(self, instruction: Instruction, i: int, body: Sequence[Instruction]) -> None:
        op, name = instruction.op, instruction.name
        args = [self.where.get(a, "") for a in instruction.args]
        if op == "load":
            buffer = self.program.inputs[instruction.attribute]  # type: ignore[index]
            self.where[name] = f"i{instruction.attribute}"
            if buffer.dtype in HALVES:
                out = self.out(instruction, i, body)
                self.lines.append(f"{out}[...] = i{instruction.attribute}")
        elif op == "const":
            value = const_value(instruction)
            self.names[f"k{len(self.names)}"] = np.dtype(instruction.dtype).type(value)
            self.where[name] = f"k{len(self.names) - 1}"
        elif op == "number":
            self.where[name] = f"numbers[{instruction.attribute}]"
        elif op == "index":
            self.where[name] = f"d{instruction.attribute}"
        elif op == "gather":
            self.names["gathered"] = gathered
            index = "".join(f"{a}, " for a in args)
            self.lines.append(f"{self.out(instruction, i, body)}[...] = gathered(i{instruction.attribute}, ({index}))")
        elif op == "reduce":
            self.lines.append(f"parts.append(reduce_{instruction.attribute}({args[0]}, shape))")
        elif op == "store":
            target = f"o{instruction.attribute}"
            if args[0] != target:
                self.lines.append(f"{target}[...] = {args[0]}")
        elif op == "cast":
            self.lines.append(f"{self.out(instruction, i, body)}[...] = {args[0]}")
        elif op == "round":
            half = self._named(numpy_type(str(instruction.attribute)))
            self.lines.append(f"{self.out(instruction, i, body)}[...] = {args[0]}.astype({half})")
        elif op == "where":
            self._where(instruction, args, i, body)
        else:
            out = self.out(instruction, i, body)
            self.lines.append(f"{self._function(op)}({', '.join(args)}, out={out})")

    def _where(self, instruction: Instruction, args: list[str], i: int, body: Sequence[Instruction]) -> None:
        """Write a choice. By bits, it takes a third of the time of np.where, and a quarter of a masked copy's."""
        condition, yes, no = args
        integer = _BITS.get(instruction.dtype)
        out = self.out(instruction, i, body, apart=instruction.args[2])
        if integer is None or any(a.startswith("numbers") for a in args):
            self.names["where"] = np.where
            self.lines.append(f"{out}[...] = where({condition}, {yes}, {no})")
            return
        number = self._unused(integer)
        mask = f"s{number}"
        bits = self._named(np.dtype(integer))
        self.lines.append(f"{mask}[...] = {condition}")
        if self._is_zero(no):
            self.lines.append(f"{self._function('neg')}({mask}, out={mask})")
            self.lines.append(f"{self._function('&')}({yes}.view({bits}), {mask}, out={out}.view({bits}))")
        elif self._is_zero(yes):
            self.lines.append(f"{self._function('-')}({mask}, 1, out={mask})")
            self.lines.append(f"{self._function('&')}({no}.view({bits}), {mask}, out={out}.view({bits}))")
        else:
            self.lines.append(f"{self._function('neg')}({mask}, out={mask})")
            whole = self._named(np.bitwise_xor)
            self.lines.append(f"b, c = {out}.view({bits}), {no}.view({bits})")
            self.lines.append(f"{whole}({yes}.view({bits}), c, out=b)")
            self.lines.append(f"{self._function('&')}(b, {mask}, out=b)")
            self.lines.append(f"{whole}(b, c, out=b)")
        self.free.setdefault(integer, []).append(number)

    def _is_zero(self, value: str) -> bool:
        """Whether an operand is the constant 0.0 or 0; -0.0 has other bits."""
        constant = self.names.get(value)
        return isinstance(constant, np.generic) and not any(constant.tobytes())

    def _unused(self, dtype: str) -> int:
        """Return the number of a scratch buffer that holds nothing."""
        free = self.free.get(dtype)
        if free:
            return free.pop()
        self.scratch.append(dtype)
        return len(self.scratch) - 1

    def _named(self, value: Any) -> str:
        self.names[f"k{len(self.names)}"] = value
        return f"k{len(self.names) - 1}"

    def _function(self, op: str) -> str:
        if op == "erf":
            self.names[op] = _erf  # faster than SciPy's
            return op
        if op == "%":
            self.names["modulo"] = modulo
            return "modulo"
        if op == "erfc":
            self.names[op] = from_scipy("erfc")
            return op
        if op in _KERNELS:
            self.names[op] = partial(_filled, _KERNELS[op])
            return op
        name = _UFUNCS.get(op, op)
        self.names[name] = getattr(np, name)
        return name

    def source(self) -> str:
        """Return the source of `block(buffers, scratch, numbers, rows, parts)`; the last two in programs with rows."""
        program = self.program
        words = [f"i{n}" for n in range(len(program.inputs))] + [f"o{n}" for n in range(len(program.outputs))]
        words += [*(f"d{n}" for n in range(len(program.shape))), "shape"] if program.inner else []
        scratch = [f"s{n}" for n in range(len(self.scratch))]
        source = "def block(buffers, scratch, numbers, rows=None, parts=None):\n"
        source += f"    {''.join(f'{w}, ' for w in words)}= buffers\n"
        if scratch:
            source += f"    {''.join(f'{w}, ' for w in scratch)}= scratch\n"
        return source + "    " + ("\n    ".join(self.lines) or "pass") + "\n"

    def function(self) -> Callable[..., None]:
        """Return that function."""
        names = dict(self.names)
        silence(names)
        exec(compile(self.source(), "<numpy kernel>", "exec"), names)
        return names["block"]  # type: ignore[no-any-return]


def _erf(x: Any, out: Any) -> None:
    out[...] = error_function(x)


def _filled(kernel: Any, x: Any, out: Any) -> None:
    """Write what a kernel returns, which differs from SciPy's function at special values."""
    out[...] = kernel(x)


def gathered(table: Any, indices: tuple[Any, ...]) -> Any:
    """Return elements of a table. Raises IndexError for an index outside of it."""
    indices = tuple([index.copy() for index in indices])  # Note [Private indices]
    for index, size in zip(indices, table.shape, strict=True):
        outside = (index < -size) | (index >= size)
        if outside.any():
            wrong = int(index[outside].flat[0])
            raise IndexError(f"index {wrong} is out of bounds for dimension with size {size}")
    return table[indices]


class _Runner:
    """Runs a block function over the whole space.

    Attributes:
        source: the source of the block function.
    """

    def __init__(self, program: LoopProgram, function: Any, scratch: list[Any], source: str) -> None:
        self.block, self.scratch, self.source = function, scratch, source
        self.shape = program.shape
        buffers = (*program.inputs, *program.outputs)
        self.buffers = [
            (numpy_type(b.dtype), tuple([s * numpy_type(b.dtype).itemsize for s in b.strides])) for b in buffers
        ]
        widths = [d.itemsize for d in (*(dtype for dtype, _ in self.buffers), *scratch)]
        block = max(BLOCK, BLOCK_BYTES // sum(widths))
        size = 1
        self.split = 0  # the dimension that is cut; those before it are walked one by one
        for d in reversed(range(len(self.shape))):
            if size * self.shape[d] > block or d == 0:
                self.split = d
                break
            size *= self.shape[d]
        self.rest = self.shape[self.split + 1 :]
        self.step = max(1, block // max(1, size))
        total = 1
        for n in self.shape:
            total *= n
        self.total = total

    def __call__(self, arrays: Sequence[Any], numbers: Sequence[Any] = ()) -> None:
        if not self.total:
            return
        views = [
            a if a.shape == self.shape and a.strides == strides else seen(a, self.shape, strides, dtype)
            for a, (dtype, strides) in zip(arrays, self.buffers, strict=True)
        ]
        lengths = self.shape[self.split]
        outer = int(np.prod(self.shape[: self.split], dtype=np.int64)) if self.split else 1
        with np.errstate(all="ignore"):
            if self.total < SHARED or get_num_threads() == 1:
                self._walk(views, numbers, range(outer), range(lengths))
            elif outer == 1:
                share(
                    lambda part: self._walk(views, numbers, range(1), part),
                    [range(c.start, c.stop) for c in chunks(lengths)],
                )
            else:
                share(
                    lambda part: self._walk(views, numbers, part, range(lengths)),
                    [range(c.start, c.stop) for c in chunks(outer)],
                )

    def _walk(self, views: list[Any], numbers: Any, outer: range, part: range) -> None:
        step = min(self.step, len(part))
        scratch = [np.empty((step, *self.rest), d) for d in self.scratch]
        block = self.block
        for number in outer:
            if self.split:
                index = np.unravel_index(number, self.shape[: self.split])
                rows = [v[index] for v in views]
            else:
                rows = views
            for start in range(part.start, part.stop, step):
                stop = min(start + step, part.stop)
                own = scratch if stop - start == step else [s[: stop - start] for s in scratch]
                block([r[start:stop] for r in rows], own, numbers)


def seen(array: Any, shape: Any, strides: Any, dtype: Any) -> Any:
    """Return a view of an array's memory from its first element."""
    return strided(array, shape, strides, 0, dtype)


silence(globals())
