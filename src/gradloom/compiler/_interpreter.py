"""The meaning of loop programs: each instruction on whole arrays, by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..kernels.elementwise.arithmetic import modulo
from ..kernels.elementwise.special import digamma, erfinv, lgamma
from ..types.silence import silence
from ._loops import Buffer, Instruction, LoopProgram, const_value


def run(program: LoopProgram, arrays: Sequence[Any], numbers: Sequence[Any] = ()) -> None:
    """Execute a program with NumPy, whole arrays at a time: the definition of what it means.

    Args:
        arrays: the inputs, then the outputs, which are written. Element [0, ..., 0] of the space is the first of each.
        numbers: as many as the program declares.

    Raises:
        IndexError: if an index of a `gather` is out of range; outputs may have been written by then.
    """
    _Interpreter(program, arrays, numbers).run()


class _Interpreter:
    """Runs one program once. Values are arrays that broadcast to the space; those of rows have inner sizes of one."""

    def __init__(self, program: LoopProgram, arrays: Sequence[Any], numbers: Sequence[Any]) -> None:
        count = len(program.inputs) + len(program.outputs)
        if len(arrays) != count or len(numbers) != len(program.numbers):
            raise ValueError(f"takes {count} arrays and {len(program.numbers)} numbers")
        self.program, self.numbers = program, numbers
        self.inputs, self.outputs = arrays[: len(program.inputs)], arrays[len(program.inputs) :]
        self.outer = len(program.shape) - program.inner
        self.axes = tuple(range(self.outer, len(program.shape)))
        self.values: dict[str, Any] = {}

    def run(self) -> None:
        with np.errstate(all="ignore"):
            for part in self.program.passes:
                self.block(part.body, False)
                self.block(part.row, True)

    def block(self, instructions: Sequence[Instruction], in_row: bool) -> None:
        for i in instructions:
            if i.op == "store":
                self.store(i, in_row)
            elif i.op == "add":
                self.add(i)
            else:
                value = getattr(self, f"_{i.op}", self.operator)(i)
                self.values[i.name] = np.asarray(value).astype(i.dtype, copy=False)

    def view(self, buffer: Buffer, array: Any, in_row: bool = False) -> Any:
        """Return the elements of a buffer along the space, or the first of each row with inner sizes of one."""
        sizes = list(self.program.shape if buffer.sizes is None else buffer.sizes)
        if in_row:
            sizes[self.outer :] = [1] * len(self.axes)
        return as_strided(array, sizes, tuple(s * array.itemsize for s in buffer.strides))

    def store(self, i: Instruction, in_row: bool) -> None:
        buffer, array = self.program.outputs[i.attribute], self.outputs[i.attribute]  # type: ignore[index]
        self.view(buffer, array, in_row)[...] = self.values[i.args[0]]

    def add(self, i: Instruction) -> None:
        rows = tuple(range(self.outer))
        value = np.broadcast_to(self.values[i.args[0]], self.program.shape)
        buffer, array = self.program.outputs[i.attribute], self.outputs[i.attribute]  # type: ignore[index]
        sizes = [1] * self.outer + list(self.program.shape[self.outer :])
        target = as_strided(array, sizes, tuple(s * array.itemsize for s in buffer.strides))
        target[...] = np.add.reduce(value, axis=rows, keepdims=True, dtype=np.float64)

    def operator(self, i: Instruction) -> Any:
        return function_of(i.op)(*(self.values[name] for name in i.args))

    def _load(self, i: Instruction) -> Any:
        buffer, array = self.program.inputs[i.attribute], self.inputs[i.attribute]  # type: ignore[index]
        constant = all(buffer.strides[axis] == 0 for axis in self.axes)
        return self.view(buffer, array, constant).copy()  # later stores may write to the same memory

    def _gather(self, i: Instruction) -> Any:
        buffer = self.program.inputs[i.attribute]  # type: ignore[index]
        assert buffer.sizes is not None
        indices = []
        for name, size in zip(i.args, buffer.sizes, strict=True):
            index = self.values[name]
            if np.any((index < -size) | (index >= size)):
                wrong = index[(index < -size) | (index >= size)].flat[0]
                raise IndexError(f"index {wrong} is out of bounds for dimension with size {size}")
            indices.append(np.where(index < 0, index + size, index))
        return self.view(buffer, self.inputs[i.attribute])[tuple(indices)]  # type: ignore[index]

    def _number(self, i: Instruction) -> Any:
        return np.asarray(self.numbers[i.attribute], i.dtype)  # type: ignore[index]

    def _const(self, i: Instruction) -> Any:
        return np.asarray(const_value(i), i.dtype)

    def _index(self, i: Instruction) -> Any:
        dim: int = i.attribute  # type: ignore[assignment]
        sizes = [1] * len(self.program.shape)
        sizes[dim] = -1
        return np.arange(self.program.shape[dim]).reshape(sizes)

    def _cast(self, i: Instruction) -> Any:
        return self.values[i.args[0]].astype(i.dtype)

    def _bitcast(self, i: Instruction) -> Any:
        return np.ascontiguousarray(self.values[i.args[0]]).view(i.dtype).reshape(self.values[i.args[0]].shape)

    def _round(self, i: Instruction) -> Any:
        return self.values[i.args[0]].astype(half_dtype(str(i.attribute))).astype("float32")

    def _where(self, i: Instruction) -> Any:
        return np.where(*(self.values[name] for name in i.args))

    def _reduce(self, i: Instruction) -> Any:
        value = self.values[i.args[0]]
        row = (1,) * self.outer + self.program.shape[self.outer :]
        value = np.broadcast_to(value, np.broadcast_shapes(value.shape, row))
        if i.attribute in ("argmax", "argmin"):
            flat = value.reshape(*value.shape[: self.outer], -1)
            found = getattr(np, str(i.attribute))(flat, axis=-1)
            return found.reshape(*value.shape[: self.outer], *(1 for _ in self.axes))
        if i.attribute in ("any", "all"):
            return getattr(np, str(i.attribute))(value, axis=self.axes, keepdims=True)
        function = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[str(i.attribute)]
        if i.attribute in ("sum", "prod"):
            return function.reduce(value, axis=self.axes, keepdims=True, dtype=i.dtype)
        return function.reduce(value, axis=self.axes, keepdims=True)


def half_dtype(name: str) -> Any:
    """Return the NumPy dtype of a buffer's dtype name."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


_SYMBOLS: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide, "%": modulo,
    "**": np.power, "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "~": np.invert,
    "<<": np.left_shift, ">>": np.right_shift, "neg": np.negative,
    "fma": lambda a, b, c: _fused(a, b, c),
}  # fmt: skip
_SCIPY = {"erf": "erf", "erfc": "erfc"}
_KERNELS = {"erfinv": erfinv, "lgamma": lgamma, "digamma": digamma}  # which differ from SciPy's at special values


def _fused(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c; float32 by float64, in which the product is exact."""
    if c.dtype == np.float32:
        return (a.astype(np.float64) * b + c).astype(np.float32)
    return a * b + c


def function_of(op: str) -> Callable[..., Any]:
    if op in _SYMBOLS:
        return _SYMBOLS[op]  # type: ignore[no-any-return]
    if op in _SCIPY:
        import scipy.special

        return getattr(scipy.special, _SCIPY[op])  # type: ignore[no-any-return]
    if op in _KERNELS:
        return _KERNELS[op]
    return getattr(np, op)  # type: ignore[no-any-return]


silence(globals())
