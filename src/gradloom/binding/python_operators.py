"""Python's operators on tensors: `+`, `<`, `**=` and the others, as methods of Tensor.

Note [Python's operators]
A binary operator must return NotImplemented for an operand of an unknown class, so that Python tries the other operand
and raises the TypeError itself; the function of the same name raises. If a wrapper is itself the public function, the
operator is a copy of the wrapper (Note [Function code]) whose guard is an `_OperatorGuard`, so that the usual path is
the same. If a name has several overloads, the operator calls one of two directly, one for tensors and one for numbers,
and leaves other cases to the function.
"""

from __future__ import annotations

import numpy as np

from ..core.tensor import Tensor, wrap, wrapped_number
from ..dispatch import _operators
from ..dispatch.function_code import copy_of
from ..dispatch.python_operators import BINARY, COMPARISONS, UNARY

# For names with several overloads: the overload for two tensors, and the one for a number (None: wrapped as a tensor).
_OVERLOADS = {
    "div": ("div_Tensor", None),
    "pow": ("pow_Tensor_Tensor", "pow_Tensor_Scalar"),
    "remainder": ("remainder_Tensor", "remainder_Scalar"),
    "bitwise_and": ("bitwise_and_Tensor", None),
    "bitwise_or": ("bitwise_or_Tensor", None),
    "bitwise_xor": ("bitwise_xor_Tensor", None),
}
_NUMBERS = frozenset((int, float, bool, complex))
_OPERANDS = (Tensor, int, float, complex, np.number, np.bool_)
_ONLY_TENSORS = ("__matmul__", "__rmatmul__")  # a number is not an operand of these


def bind_python_operators(guards) -> None:
    """Give Tensor Python's operators.

    Args:
        guards: {name: the guard of the wrapper that is the public function of that name}.
    """
    forward = {f"__{name}__": function for name, function in BINARY.items()}
    forward |= {f"__i{name}__": f"{function}_" for name, function in BINARY.items() if name != "matmul"}
    forward |= {f"__{name}__": name for name in COMPARISONS}
    forward |= {f"__r{name}__": BINARY[name] for name in ("add", "mul")}
    for method, name in forward.items():
        if name in guards:
            setattr(Tensor, method, _with_guard(getattr(_operators, name), guards[name], method))
        else:
            setattr(Tensor, method, _choosing(getattr(_operators, name), name, method))
    for name, function in BINARY.items():
        if name not in ("add", "sub", "mul", "truediv"):
            setattr(Tensor, f"__r{name}__", _swapped(getattr(_operators, function), f"__r{name}__"))
    for name, function in UNARY.items():
        setattr(Tensor, f"__{name}__", getattr(_operators, function))
    Tensor.__rsub__, Tensor.__rtruediv__, Tensor.__invert__ = _rsub, _rtruediv, _invert
    for function, name in (
        (_rsub, "__rsub__"),
        (_rtruediv, "__rdiv__"),
        (_invert, "__invert__"),
        (Tensor.__pow__, "pow"),
        (Tensor.__ipow__, "pow_"),
        (Tensor.__itruediv__, "__idiv__"),
    ):
        function.__name__ = name  # PyTorch's name, which a `__torch_function__` may read
    Tensor.__div__, Tensor.__rdiv__, Tensor.__idiv__ = Tensor.__truediv__, _rtruediv, Tensor.__itruediv__


class _OperatorGuard:
    """A guard that returns NotImplemented if it refuses an operand of an unknown class."""

    __slots__ = ("guard", "operands")

    def __init__(self, guard, operands):
        self.guard, self.operands = guard, operands

    def __call__(self, first, second, **keywords):
        try:
            return self.guard(first, second, **keywords)
        except TypeError:
            if isinstance(second, self.operands):
                raise
        return NotImplemented


class _EqualityGuard(_OperatorGuard):
    """A guard that also accepts arrays: in PyTorch, `==` is the only comparison that does, in either order."""

    __slots__ = ()

    def __call__(self, first, second, **keywords):
        if isinstance(second, np.ndarray) and second.dtype.kind in "biufc":
            return _operators.eq(first, wrap(second))
        return super().__call__(first, second, **keywords)


def _with_guard(wrapper, guard, method):
    """Return a copy of `wrapper` that returns NotImplemented where the guard refuses the operand's class."""
    kind = _EqualityGuard if method == "__eq__" else _OperatorGuard
    return copy_of(wrapper, method, {id(guard): kind(guard, Tensor if method in _ONLY_TENSORS else _OPERANDS)})


def _choosing(function, name, method):
    """Return the operator for a name with several overloads."""
    of_tensors, of_number = (found and getattr(_operators, found) for found in _OVERLOADS.get(name, (None, None)))

    def operator(self, other):
        if self.__class__ is Tensor and of_tensors is not None:
            kind = other.__class__
            if kind is Tensor:
                return of_tensors(self, other)
            if kind in _NUMBERS:
                return of_tensors(self, wrapped_number(other, self)) if of_number is None else of_number(self, other)
        return function(self, other) if isinstance(other, _OPERANDS) else _unknown(method, self, other)

    operator.__name__ = method
    return operator


def _swapped(function, method):
    operands = Tensor if method in _ONLY_TENSORS else _OPERANDS

    def operator(self, other):
        if not isinstance(self, Tensor):
            raise TypeError(
                f"descriptor '{method}' for 'Tensor' objects doesn't apply to a '{type(self).__name__}' object"
            )
        return function(other, self) if isinstance(other, operands) else _unknown(method, self, other)

    operator.__name__ = method
    return operator


def _unknown(method, tensor, other):
    """Return NotImplemented, or the result of a `__torch_function__` of the other operand, if its class was unknown."""
    if hasattr(other.__class__, "__torch_function__"):
        from ..python_dispatch.torch_function.unknown_classes import first_operand

        return first_operand(method, tensor, other)
    return NotImplemented


def _rsub(self, other):
    """`other - self`."""
    return _operators.rsub(self, other) if isinstance(other, _OPERANDS) else _unknown("__rsub__", self, other)


def _rtruediv(self, other):
    """`other / self`, computed as in PyTorch: the reciprocal times `other`, which may be a NumPy array."""
    if isinstance(other, (*_OPERANDS, np.ndarray)):
        return self.reciprocal() * other
    return _unknown("__rtruediv__", self, other)


def _invert(self):
    """`~self`.

    Raises TypeError unless the dtype is integral or bool.
    """
    if self._array.dtype.kind not in "iub":
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return _operators.bitwise_not(self)
