"""What a profile says about an operator: its name, and the shapes, types and values of its arguments."""

from __future__ import annotations

import sys
from typing import Any

from ..dispatch import _operators

# C++'s names for the types of arguments, as traces of PyTorch show them.
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
    """The name of a generated function's operator, such as `aten::add`, and that of its overload, `Tensor`.

    Args:
        wrapper: what an interception.Call calls: a generated function, or an operator of a library.
    """
    full_name = getattr(wrapper, "name", None)
    if full_name is not None:  # a library's: `mylib::twice.overload`
        name, _, overload = full_name.partition(".")
        return name, overload
    schema = (wrapper.__doc__ or wrapper.__name__).partition("(")[0]
    name, _, overload = schema.partition(".")
    package = wrapper.__module__.partition(".variable_type")[0]
    return f"{_namespace(package)}::{name}", overload


def _namespace(package: str) -> str:
    """The namespace of gradloom.ops that has the operators of generated code."""
    if package == "gradloom.generated":
        return "aten"
    if package.startswith("gradloom.ops."):  # made by gradloom.ops.define
        return package.split(".")[2]
    return getattr(sys.modules.get(package), "NAMESPACE", package)


class Arguments:
    """Shapes, strides, types and values of the arguments of one call.

    Args:
        values: the arguments.
    """

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
        """The shapes with `[]` for a list of tensors, as `FunctionEvent.input_shapes` has them."""
        return [[] if kind == "TensorList" else shape for shape, kind in zip(self.shapes, self.types, strict=True)]


def _strides(array) -> list[int]:
    return [stride // array.dtype.itemsize for stride in array.strides]


def _type_name(array) -> str:
    return _TYPE_NAMES.get(array.dtype.name, array.dtype.name)


def _plain(value):
    """A value that JSON and people can read."""
    return value if isinstance(value, (bool, int, float, complex, str)) else str(value)
