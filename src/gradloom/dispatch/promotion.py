"""Type promotion of operator inputs: PyTorch's result_type, and the conversion of arrays to it.

Note [Type promotion]
Wrappers ask `a.dtype is b.dtype` and come here only if not. Operands count in three tiers: tensors with dimensions,
0-dim tensors, Python numbers. A lower tier widens the result only if its category (bool < integral < floating <
complex) is higher, and then only to that tier's type; Python numbers mean int64, the default float or complex type.

A half-precision tensor times or over a number (`half_numbers: exact` in native_functions.yaml) is computed in float32
and rounded once, so that `x * 0.1` does not multiply by float16's 0.09998: the number is a `Wide` operand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..kernels._common.numbers import Wide, is_half
from ..types.dtype import (
    BOOL,
    COMPLEX,
    FLOATING,
    INTEGRAL,
    TYPE_OF,
    bool as bool_,
    default,
    dtype,
    int64,
    promote_types,
)
from . import _operators

if TYPE_CHECKING:
    from typing import Any

    from ..core.tensor import Tensor
    from ..types import Number

_FLOAT_KINDS = "fcV"


def number_type(value) -> dtype:
    """The dtype that a Python number stands for."""
    kind = value.__class__
    if kind is bool:
        return bool_
    if kind is int:
        return int64
    if kind is float:
        return default.float
    if kind is complex:
        return default.complex
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating)):
        return default.float
    return default.complex


def result_type_of(tensors, scalars=()) -> dtype:
    """The common dtype of Tensors (None is skipped) and Python numbers."""
    dims = zeros = numbers = None
    for t in tensors:
        if t is None:
            continue
        found = TYPE_OF[t._array.dtype]
        if t._array.ndim:
            dims = found if dims is None else promote_types(dims, found)
        elif t._wrapped_number is not None:
            found = number_type(t._wrapped_number)
            numbers = found if numbers is None else promote_types(numbers, found)
        else:
            zeros = found if zeros is None else promote_types(zeros, found)
    for s in scalars:
        if s is not None:
            found = number_type(s)
            numbers = found if numbers is None else promote_types(numbers, found)
    return _combine(dims, _combine(zeros, numbers))


def _combine(high, low):
    """Add a lower tier: it counts only if its category is higher."""
    if high is None:
        return low
    if low is None or low.category <= high.category:
        return high
    if low.category == COMPLEX and high.category == FLOATING:
        return high.to_complex()
    return low


def promote(tensors, scalars=()):
    """The arrays of `tensors`, all in their common dtype; a wrapped number that fits stays a Python number.

    Returns:
        A list with an ndarray, a Python number, or None for each tensor.
    """
    target = result_type_of(tensors, scalars).numpy
    out = []
    for t in tensors:
        if t is None:
            out.append(None)
            continue
        array = t._array
        if array.dtype is not target:
            array = array.astype(target)
        out.append(array)
    return out


def promote_exact(tensors, scalars=()):
    """As `promote`, of two tensors; a number beside half precision as the second stays in float32."""
    return _exact(tensors, promote(tensors, scalars))


def promote_to_float_exact(tensors, scalars=()):
    """As `promote_to_float`, of two tensors; a number beside half precision as the second stays in float32."""
    return _exact(tensors, promote_to_float(tensors, scalars))


def _exact(tensors, arrays):
    kind, array = arrays[0].dtype, tensors[1]._array
    if is_half(kind) and not array.ndim and array.dtype is not kind:
        arrays[1] = Wide(array, kind)
    return arrays


def promote_numbers(tensors, scalars=()):
    """As `promote`, of numbers only.

    Raises RuntimeError if one of the tensors is a bool.
    """
    if any(t._array.dtype.kind == "b" for t in tensors):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return promote(tensors, scalars)


def promote_to_float(tensors, scalars=()):
    """As `promote`, with integers and bools made the default floating type."""
    found = result_type_of(tensors, scalars)
    target = found.numpy if found.category >= FLOATING else default.numpy_float
    return [None if t is None else t._array.astype(target, copy=False) for t in tensors]


def to_float(array: np.ndarray) -> np.ndarray:
    """An integer or bool array as the default floating type; others unchanged."""
    return array if array.dtype.kind in _FLOAT_KINDS else array.astype(default.numpy_float)


def to_integer(array: np.ndarray) -> np.ndarray:
    """A bool array as int64; others unchanged."""
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def default_float(result, *arrays: Any):
    """What NumPy computed in float64 (complex128) from integers alone, in the default floating (complex) type."""
    if all(a is None or a.dtype.kind in "iub" for a in arrays):
        kind = result.dtype
        if kind == np.float64 and default.numpy_float != np.float64:
            return result.astype(default.numpy_float)
        if kind == np.complex128 and default.numpy_complex != np.complex128:
            return result.astype(default.numpy_complex)
    return result


def result_type(first: Tensor | Number, second: Tensor | Number) -> dtype:
    """The dtype that an arithmetic operation on two tensors or numbers gives.

    Args:
        first, second: Tensor or Python number.
    """
    tensors = [t for t in (first, second) if isinstance(t, _operators.Tensor)]
    return result_type_of(tensors, [s for s in (first, second) if not isinstance(s, _operators.Tensor)])


__all__ = [
    "BOOL",
    "INTEGRAL",
    "default_float",
    "promote",
    "promote_numbers",
    "promote_to_float",
    "result_type",
    "result_type_of",
    "to_float",
    "to_integer",
]
