"""Binds the generated operators: into the late-bound namespace, onto Tensor, and onto modules."""

from __future__ import annotations

from . import _operators, conversions
from . import dtype as dtypes
from .device import (channels_last, channels_last_3d, contiguous_format, device, layout, memory_format, preserve_format,
                     strided)
from .overloads import register_types
from .tensor import Tensor, wrapped_number


def bind() -> dict:
    """Bind everything once.

    Returns:
        The functions of the top-level namespace, by name.
    """
    constants = {str(d)[6:]: d for d in dtypes.ALL}
    constants.update({n: getattr(dtypes, n) for n in ("long", "int", "float", "double", "half", "short", "cfloat",
                                                      "cdouble")})
    constants.update(strided=strided, contiguous_format=contiguous_format, preserve_format=preserve_format,
                     channels_last=channels_last, channels_last_3d=channels_last_3d)
    register_types(Tensor=Tensor, dtype=dtypes.dtype, device=device, layout=layout, memory_format=memory_format,
                   python_dtypes=dtypes.PYTHON_TYPES, constants=constants, wrapped_number=wrapped_number)
    from .generated import namespaces

    operators = _operators.__dict__
    operators.update(namespaces.OVERLOADS)
    operators.update(namespaces.OPERATORS)
    for name, method in namespaces.METHODS.items():
        setattr(Tensor, name, method)
    for name, operator in _PROPERTIES.items():
        if operator in operators:
            setattr(Tensor, name, property(operators[operator]))
    conversions.bind(Tensor)
    _bind_python_operators(namespaces.GUARDS)
    return {name: namespaces.OPERATORS[name] for name in namespaces.FUNCTIONS}


# Attribute of tensors -> the operator that computes it.
_PROPERTIES = {"T": "numpy_T", "H": "matrix_H", "mT": "mT", "mH": "mH", "real": "real", "imag": "imag"}
# Python's operator -> the operator of ours, and whether operands swap.
_BINARY = {
    "__add__": ("add", False), "__radd__": ("add", False), "__sub__": ("sub", False), "__rsub__": ("sub", True),
    "__mul__": ("mul", False), "__rmul__": ("mul", False), "__truediv__": ("div", False), "__rtruediv__": ("div", True),
    "__floordiv__": ("floor_divide", False), "__rfloordiv__": ("floor_divide", True),
    "__mod__": ("remainder", False), "__rmod__": ("remainder", True), "__pow__": ("pow", False),
    "__rpow__": ("pow", True), "__matmul__": ("matmul", False), "__rmatmul__": ("matmul", True),
    "__and__": ("bitwise_and", False), "__rand__": ("bitwise_and", True), "__or__": ("bitwise_or", False),
    "__ror__": ("bitwise_or", True), "__xor__": ("bitwise_xor", False), "__rxor__": ("bitwise_xor", True),
    "__lshift__": ("bitwise_left_shift", False), "__rlshift__": ("bitwise_left_shift", True),
    "__rshift__": ("bitwise_right_shift", False), "__rrshift__": ("bitwise_right_shift", True),
    "__eq__": ("eq", False), "__ne__": ("ne", False), "__lt__": ("lt", False), "__le__": ("le", False),
    "__gt__": ("gt", False), "__ge__": ("ge", False),
    "__iadd__": ("add_", False), "__isub__": ("sub_", False), "__imul__": ("mul_", False),
    "__itruediv__": ("div_", False), "__ifloordiv__": ("floor_divide_", False), "__imod__": ("remainder_", False),
    "__ipow__": ("pow_", False), "__iand__": ("bitwise_and_", False), "__ior__": ("bitwise_or_", False),
    "__ixor__": ("bitwise_xor_", False), "__ilshift__": ("bitwise_left_shift_", False),
    "__irshift__": ("bitwise_right_shift_", False),
}
_UNARY = {"__neg__": "neg", "__pos__": "positive", "__abs__": "abs", "__invert__": "bitwise_not"}
_NUMBER = (Tensor, int, float, complex)


def _bind_python_operators(guards) -> None:
    for name, (operator, swapped) in _BINARY.items():
        found = _operators.__dict__.get(operator)
        if found is None:
            continue
        guard = guards.get(operator)
        if swapped:
            setattr(Tensor, name, _swapped(found, name))
        elif guard is not None:  # the wrapper itself: no call in between
            setattr(Tensor, name, found)
            guard.reflected = f"__r{name[2:]}"
        else:
            setattr(Tensor, name, _straight(found, name))
    for name, operator in _UNARY.items():
        found = _operators.__dict__.get(operator)
        if found is not None:
            setattr(Tensor, name, found)


def _straight(function, name):
    def method(self, other):
        try:
            return function(self, other)
        except TypeError:
            if isinstance(other, _NUMBER):
                raise
            return NotImplemented
    method.__name__ = name
    return method


def _swapped(function, name):
    def method(self, other):
        if not isinstance(other, _NUMBER):
            return NotImplemented
        return function(other if isinstance(other, Tensor) else wrapped_number(other, self), self)
    method.__name__ = name
    return method

