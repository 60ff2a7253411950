"""Details of a recorded call: the operator's name, its arguments, its floating-point operations, its memory."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..dispatch import _operators
from ..dispatch.records import name_of, package_of, record_of

if TYPE_CHECKING:
    from .recorder import Record, Recorder

# dtype -> C++ type name, as in PyTorch's traces.
_TYPE_NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long",
    "bool": "bool",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def operator_name(wrapper: Any) -> tuple[str, str]:
    """Return an operator's qualified name and its overload, such as (`aten::add`, `Tensor`)."""
    name, _, overload = name_of(wrapper).partition(".")
    if record_of(wrapper) is not None:  # the name of a library's operator has the namespace: `mylib::twice.overload`
        name = f"{_namespace(package_of(wrapper))}::{name}"
    return name, overload


def _namespace(package: str) -> str:
    """Return the namespace in gradloom.ops of a package of generated code."""
    if package == "gradloom.generated":
        return "aten"
    if package.startswith("gradloom.ops."):  # defined by gradloom.ops.define
        return package.split(".")[2]
    return getattr(sys.modules.get(package), "NAMESPACE", package)


class Arguments:
    """The shapes, strides (in elements), types and values of the arguments of one call."""

    __slots__ = ("shapes", "strides", "types", "values")

    def __init__(self, values: Any) -> None:
        self.shapes: list[Any] = []
        self.strides: list[Any] = []
        self.types: list[str] = []
        self.values: list[Any] = []
        for value in values:
            self._add(value)

    def _add(self, value) -> None:
        shape: list[Any] = []
        strides: list[Any] = []
        concrete = None
        if isinstance(value, _operators.Tensor):
            array = value._array
            shape, strides, kind = list(array.shape), _strides(array), _type_name(array)
        elif isinstance(value, (tuple, list)) and any(isinstance(v, _operators.Tensor) for v in value):
            arrays = [v._array for v in value if isinstance(v, _operators.Tensor)]
            shape, strides, kind = [list(a.shape) for a in arrays], [_strides(a) for a in arrays], "TensorList"
        elif isinstance(value, (tuple, list)):
            kind, concrete = "ScalarList", list(value)
        elif value is None:
            kind = ""
        else:
            kind, concrete = "Scalar", _plain(value)
        self.shapes.append(shape)
        self.strides.append(strides)
        self.types.append(kind)
        self.values.append(concrete)

    @property
    def flat_shapes(self) -> list[list[int]]:
        """The shapes as in `FunctionEvent.input_shapes`: `[]` for a list of tensors."""
        return [[] if kind == "TensorList" else shape for shape, kind in zip(self.shapes, self.types, strict=True)]


def _strides(array) -> list[int]:
    return [stride // array.dtype.itemsize for stride in array.strides]


def _type_name(array) -> str:
    return _TYPE_NAMES.get(array.dtype.name, array.dtype.name)


def _plain(value):
    """Return a value that JSON can hold; anything unusual as text."""
    return value if isinstance(value, (bool, int, float, complex, str)) else str(value)


# Estimates for the operators that PyTorch's profiler estimates. A multiplication and an addition are two operations.


def _shape(value: Any) -> tuple[int, ...]:
    return value._array.shape if isinstance(value, _operators.Tensor) else ()


def _matrix_product(first: int) -> Callable[[Sequence[Any]], int]:
    def count(args: Sequence[Any]) -> int:
        return 2 * prod(_shape(args[first])) * _shape(args[first + 1])[-1]

    return count


def _elementwise(args: Sequence[Any]) -> int:
    return prod(_shape(args[0]))


def _conv2d(args: Sequence[Any]) -> int:
    """Count two operations per element of a filter, for each element of the result."""
    batch, _, *size = _shape(args[0])
    outputs, *of_filter = _shape(args[1])
    stride, padding, dilation = (_pair(args, place) for place in (3, 4, 5))
    for i in range(2):
        size[i] = (size[i] + 2 * padding[i] - dilation[i] * (of_filter[i + 1] - 1) - 1) // stride[i] + 1
    return 2 * batch * outputs * prod(size) * prod(of_filter)


def _pair(args: Sequence[Any], place: int) -> Sequence[int]:
    value = args[place]
    return (value, value) if isinstance(value, int) else tuple(value) * (2 if len(value) == 1 else 1)


_FORMULAS: dict[str, Callable[[Sequence[Any]], int]] = {
    "aten::mm": _matrix_product(0),
    "aten::bmm": _matrix_product(0),
    "aten::addmm": _matrix_product(1),
    "aten::baddbmm": _matrix_product(1),
    "aten::conv2d": _conv2d,
    "aten::mul": _elementwise,
    "aten::add": _elementwise,
}


def estimate_flops(name: str, args: Sequence[Any]) -> int:
    """Estimate the floating-point operations of a call such as `aten::mm`; 0 if there is no formula."""
    formula = _FORMULAS.get(name)
    if formula is None or not all(isinstance(a, _operators.Tensor) for a in args[:2]):
        return 0
    try:
        return formula(args)
    except (IndexError, TypeError, ValueError):  # arguments that the formula does not cover, such as padding="same"
        return 0


# NumPy does not report allocations. An operator allocates the arrays it returns that own their memory and are new;
# memory that a kernel allocates and frees itself is not seen. A weak reference reports when such an array is freed.


class MemoryChange(NamedTuple):
    """An allocation; a negative number of bytes is freed memory."""

    time: int
    thread: int
    address: int
    bytes: int
    total: int


class Allocations:
    """Tracks the arrays that results own, and adds their bytes to the records of `recorder`."""

    def __init__(self, recorder: Recorder) -> None:
        self.changes: list[MemoryChange] = []
        self._recorder = recorder
        self._live: dict[int, weakref.ref] = {}  # id of an array -> a weak reference that reports when it is freed
        self._total = 0

    def note(self, record: Record, arguments: Any, result: Any) -> None:
        """Add to a record the memory of its result, unless it is an argument's or already tracked."""
        known: set[int] | None = None
        for array in _owners(result):
            if id(array) in self._live:
                continue
            if known is None:
                known = {id(owner) for owner in _owners(arguments)}
            if id(array) not in known:
                self._watch(array)
                self._change(record, array.ctypes.data, array.nbytes)

    def _watch(self, array: np.ndarray) -> None:
        key, address, count = id(array), array.ctypes.data, array.nbytes

        def freed(_: object) -> None:
            self._live.pop(key, None)
            self._freed(address, count)

        self._live[key] = weakref.ref(array, freed)

    def _freed(self, address: int, count: int) -> None:
        record = self._recorder.memory_record()
        if record is not None:
            self._change(record, address, -count)

    def _change(self, record: Record, address: int, count: int) -> None:
        record.allocated += count
        self._total += count
        self.changes.append(MemoryChange(time.perf_counter_ns(), record.thread, address, count, self._total))

    def close(self) -> None:
        """Stop tracking."""
        self._live.clear()


def _owners(values: Any) -> Iterator[np.ndarray]:
    """Yield the arrays that own the memory of the tensors in a value, or in a tuple or list of values."""
    if isinstance(values, (tuple, list)):
        for value in values:
            yield from _owners(value)
    elif isinstance(values, _operators.Tensor):
        array = values._array
        while isinstance(array, np.ndarray) and array.base is not None:
            array = array.base
        if isinstance(array, np.ndarray):
            yield array
