"""Type promotion of operator inputs: PyTorch's result_type, and the conversion of arrays to it.

Note [Type promotion]
Wrappers ask `a.dtype is b.dtype` and come here only if not. Operands count in three tiers: tensors with dimensions,
0-dim tensors, Python numbers. A lower tier widens the result only if its category (bool < integral < floating <
complex) is higher, and then only to that tier's type; Python numbers mean int64, the default float or complex type.

The product or quotient of a half-precision tensor and a number (`half_numbers: exact` in native_functions.yaml) is
computed in float32 and rounded once, so that `x * 0.1` does not multiply by float16's 0.09998: the number is a `Wide`
operand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels._common.errors import integer_quotient
from ..kernels._common.layout import as_type
from ..kernels._common.numbers import Wide, is_half, number_filling
from ..types.dtype import COMPLEX, FLOATING, TYPE_OF, bool as bool_, default, dtype, int64, promote_types
from ..types.public import found_in as _found_in
from ..types.silence import silence
from . import _operators

if TYPE_CHECKING:
    from ..core.tensor import Tensor
    from ..types import Number

_FLOAT_KINDS = "fcV"


def number_type(value) -> dtype:
    """Return the dtype that a Python number stands for."""
    kind = value.__class__
    if kind is bool:
        return bool_
    if kind is int:
        return int64
    if kind is float:
        return default.float
    if kind is complex:
        return default.complex
    if isinstance(value, bool):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating, np.bool_)):  # PyTorch, too, takes NumPy's bool for a float
        return default.float
    return default.complex


def result_type_of(tensors, scalars=()) -> dtype:
    """Return the common dtype of Tensors (None is skipped) and Python numbers."""
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
    """Add a lower tier, which counts only if its category is higher."""
    if high is None:
        return low
    if low is None or low.category <= high.category:
        return high
    if low.category == COMPLEX and high.category == FLOATING:
        return high.to_complex()
    return low


def promote(tensors, scalars=()):
    """Return the arrays of `tensors` in their common dtype, in a list with an ndarray or None for each.

    Args:
        tensors: Tensors and None.
        scalars: Python numbers and None, which take part in the promotion.
    """
    target = result_type_of(tensors, scalars).numpy
    out = []
    for t in tensors:
        if t is None:
            out.append(None)
            continue
        array = t._array
        if array.dtype is not target:
            array = as_type(array, target)
        out.append(array)
    return out


def promote_fitting(tensors, scalars=()):
    """Promote like `promote`. Raises RuntimeError for a Python number that the common dtype does not hold."""
    target = result_type_of(tensors, scalars).numpy
    arrays = [t._array if t._wrapped_number is None else number_filling(t._wrapped_number, target) for t in tensors]
    return [a if a.dtype is target else as_type(a, target) for a in arrays]


def promote_exact(tensors, scalars=()):
    """Promote two tensors like `promote`; a number as the second operand of a half-precision tensor is a `Wide`."""
    return _exact(tensors, promote(tensors, scalars))


def promote_to_float_exact(tensors, scalars=()):
    """Promote two tensors like `promote_to_float`; a number as the second operand of a half-precision tensor is a
    `Wide`."""
    return _exact(tensors, promote_to_float(tensors, scalars))


def _exact(tensors, arrays):
    kind, array = arrays[0].dtype, tensors[1]._array
    if is_half(kind) and not array.ndim and array.dtype is not kind:
        arrays[1] = Wide(array, kind)
    return arrays


def promote_numbers(tensors, scalars=()):
    """Promote like `promote`.

    Raises RuntimeError if one of the tensors has dtype bool.
    """
    if any(t._array.dtype.kind == "b" for t in tensors):
        raise NotImplementedError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return promote(tensors, scalars)


def promote_quotient(tensors, scalars=()):
    """Promote like `promote` the three tensors of `addcdiv`: the summand, the dividend and the divisor.

    Raises RuntimeError if dividend and divisor are integers or bools.
    """
    if all(t._array.dtype.kind in "iub" for t in tensors[1:]):
        raise integer_quotient()
    return promote(tensors, scalars)


def promote_to_float(tensors, scalars=()):
    """Promote like `promote`, and convert integers and bools to the default floating dtype."""
    found = result_type_of(tensors, scalars)
    target = found.numpy if found.category >= FLOATING else default.numpy_float
    arrays = [None if t is None else t._array for t in tensors]
    return [a if a is None or a.dtype is target else as_type(a, target) for a in arrays]


def to_float(array: np.ndarray) -> np.ndarray:
    """Convert an integer or bool array to the default floating dtype; return others unchanged."""
    return array if array.dtype.kind in _FLOAT_KINDS else as_type(array, default.numpy_float)


def to_integer(array: np.ndarray) -> np.ndarray:
    """Convert a bool array to int64; return others unchanged."""
    return as_type(array, np.int64) if array.dtype.kind == "b" else array


def default_float(result, *arrays: Any):
    """Convert NumPy's float64 (complex128) result for integers to the default floating (complex) dtype."""
    if all(a is None or a.dtype.kind in "iub" for a in arrays):
        kind = result.dtype
        if kind == np.float64 and default.numpy_float != np.float64:
            return result.astype(default.numpy_float)
        if kind == np.complex128 and default.numpy_complex != np.complex128:
            return result.astype(default.numpy_complex)
    return result


_RESULT_TYPE = (
    (("tensor", "Tensor"), ("other", "Tensor")),
    (("scalar", "Scalar"), ("tensor", "Tensor")),
    (("tensor", "Tensor"), ("other", "Scalar")),
    (("scalar1", "Scalar"), ("scalar2", "Scalar")),
)


def _no_result_type(*operands) -> Exception:
    from .overloads.parser import Overloads

    return Overloads("result_type", [(entry, result_type) for entry in _RESULT_TYPE]).complaint(operands, {})


def result_type(first: Tensor | Number, second: Tensor | Number) -> dtype:
    """Return the dtype of an arithmetic operation on two tensors or numbers.

    Args:
        first, second: Tensor or Python number.

    Raises TypeError for anything else.
    """
    for one in (first, second):
        if not isinstance(one, (_operators.Tensor, int, float, complex, np.number, np.bool_)):
            raise _no_result_type(first, second)
    tensors = [t for t in (first, second) if isinstance(t, _operators.Tensor)]
    return result_type_of(tensors, [s for s in (first, second) if not isinstance(s, _operators.Tensor)])


__all__ = [
    "default_float",
    "promote",
    "promote_fitting",
    "promote_numbers",
    "promote_to_float",
    "result_type",
    "result_type_of",
    "to_float",
    "to_integer",
]

_found_in("gradloom", result_type)


silence(globals())
