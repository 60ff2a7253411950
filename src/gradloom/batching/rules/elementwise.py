"""Rules of pointwise operators whose operands do not broadcast."""

from __future__ import annotations

from typing import Any

from ...dispatch import _operators as ops
from ..call import Call
from .general import pointwise, written


def fill(call: Call) -> Any:
    """Fill with a 0-dimensional tensor, which may be batched."""
    written(call)
    if not call.is_batched("value"):
        return pointwise(call)
    value, target = call["value"], call[call.first]
    if value._array.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value._array.ndim} dimensions."
        )
    if call.operator.is_inplace:
        return ops.copy_(target, value)
    return ops.clone(ops.expand(ops.to(value, target.dtype), target._array.shape))
