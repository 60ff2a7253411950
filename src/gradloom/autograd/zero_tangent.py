"""Zeros in place of a missing tangent.

Note [Zero tangents]
One input of a product may have a tangent and the other not. The formula `self_t * other_p + self_p * other_t` then gets
zeros for the missing one. But zero times infinity is NaN, which would spoil the existing tangent. So these zeros have a
class that overrides operators (Note [Interception]): a product or quotient with a ZeroTensor is a ZeroTensor, and a sum
with one is the other summand. All other operators receive ordinary zeros. A result's tangent is always an ordinary
tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.edge import NO_EDGE, gradient_edge
from ..core.tensor import Tensor
from ..dispatch import _operators, interception
from ..dispatch.state import GRAD_OFF, disabled_torch_function, state

_MANY = 4096  # elements, from which on the zeros are one number, expanded


class ZeroTensor(Tensor):
    """A tensor known to be zero; see Note [Zero tangents]. `_array` has the zeros."""

    __module__ = "gradloom"
    __torch_function__: Any = disabled_torch_function  # results are ordinary tensors unless a rule decides

    _operand = property(interception.operand_of)

    def _is_zerotensor(self) -> bool:
        """Return True."""
        return True

    def _dense(self) -> Tensor:
        """Return the same zeros as an ordinary tensor."""
        return _operators.wrap(_zeros(self._array.shape, self._array.dtype))


def zero_tensor(shape: tuple[int, ...], numpy_type: np.dtype) -> ZeroTensor:
    """Return a ZeroTensor of a shape and NumPy dtype."""
    interception.register(interception.ZEROS, _handle_call)
    out = object.__new__(ZeroTensor)
    out._array, out._edge, out._vc = _zeros(shape, numpy_type), NO_EDGE, None
    return out


def _zeros(shape, numpy_type) -> np.ndarray:
    size = 1
    for n in shape:
        size *= n
    if size < _MANY:
        return np.zeros(shape, numpy_type)
    found = np.ndarray(shape, numpy_type, np.zeros((), numpy_type), 0, (0,) * len(shape))
    found.flags.writeable = False
    return found


def _handle_call(call):
    """Handle a call with a ZeroTensor among its arguments."""
    args = call.args
    if not any(t.__class__ is ZeroTensor for t in call.tensors()):
        return NotImplemented
    rule = _RULES.get(call.wrapper.__name__) if call.out is None else None
    found = None if rule is None else _by_rule(rule, args)
    if found is not None:
        if state.flags & GRAD_OFF or not any(t.requires_grad for t in call.tensors()):
            return found
        return interception.record(call.wrapper, lambda: found, tuple([_plain(a) for a in args]))
    if args and args[0].__class__ is ZeroTensor and call.wrapper.__name__.endswith("_"):
        raise RuntimeError(
            "ZeroTensors are immutable. Please use the materialized zero tensor obtained using .clone() "
            "if you want a mutable tensor."
        )
    out = call.with_args(tuple([_plain(a) for a in args]), call.out).run()
    if out.__class__ is Tensor and out._view is not None and args[0].__class__ is ZeroTensor:
        view = zero_tensor(out._array.shape, out._array.dtype)  # a view of zeros
        view._edge = gradient_edge(out)
        return view
    return out


def _by_rule(rule, args):
    flags = state.flags
    state.flags = flags | GRAD_OFF
    try:
        return rule([a.__class__ is ZeroTensor for a in args[:2]], *args)
    finally:
        state.flags = flags


def _plain(value):
    if value.__class__ is ZeroTensor:
        out = value._dense()
        out._edge = value._edge
        return out
    if value.__class__ in (tuple, list):
        return tuple([_plain(v) for v in value])
    return value


def _like_result(operation, *args):
    """Return zeros with the shape and dtype of the operator's result, found by calling it without values."""
    with np.errstate(all="ignore"):
        found = operation(*[_empty_like(a) for a in args])
    shape = np.broadcast_shapes(*[a._array.shape for a in args if isinstance(a, Tensor)])
    return zero_tensor(shape, found._array.dtype)


def _empty_like(value):
    """Return ones with a tensor's dtype and number of dimensions, which decide type promotion."""
    if not isinstance(value, Tensor):
        return value
    out = _operators.wrap(np.ones((1,) * value._array.ndim, value._array.dtype))
    out._wrapped_number = value._wrapped_number
    return out


def _product(zero, self, other):
    return _like_result(_operators.mul, self, other)


def _quotient(zero, self, other):
    return _like_result(_operators.div_Tensor, self, other) if zero[0] else None


def _sum(zero, self, other, alpha):
    return _added(zero, self, other, alpha, _operators.add)


def _difference(zero, self, other, alpha):
    return _added(zero, self, other, alpha, _operators.sub)


def _added(zero, self, other, alpha, operation):
    result = _like_result(operation, self, other)
    if all(zero):
        return result
    found = self if zero[1] else other
    if zero[0] and operation is _operators.sub:
        alpha = -alpha
    if zero[0] and alpha != 1:
        found = _operators.mul(found, alpha)
    shape, target = result._array.shape, result.dtype
    if found._array.shape != shape:
        found = _operators.expand(found, shape)
    return found.to(target) if found.dtype is not target else _operators.clone(found)


def _dot(zero, self, tensor):
    return zero_tensor((), self._array.dtype)


def _cross(zero, self, other, dim):
    return _like_result(_operators.mul, self, other)


_RULES = {
    "mul": _product,
    "div_Tensor": _quotient,
    "add": _sum,
    "sub": _difference,
    "dot": _dot,
    "vdot": _dot,
    "linalg_cross": _cross,
}


def _efficientzerotensor(*size, dtype=None, device=None, requires_grad: bool = False) -> ZeroTensor:
    """Return a ZeroTensor; PyTorch's name.

    Args:
        size: ints, or one sequence of them.
        dtype: the default dtype by default.
    """
    like = _operators.empty(*size, dtype=dtype, device=device)._array
    return zero_tensor(like.shape, like.dtype).requires_grad_(requires_grad)
