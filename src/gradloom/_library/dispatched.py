"""Operators that only dispatch modes and `__torch_dispatch__` see: of what tensors do themselves elsewhere."""

from __future__ import annotations

from typing import Any

from . import registry


def _define(schema: str, kernel: Any, key: str) -> Any:
    operator = registry.define("aten", schema)
    operator.kernels[key] = kernel
    return operator


def _item(tensor: Any) -> Any:
    found = tensor._array.item()
    return float(found) if tensor._array.dtype.kind == "V" else found


_LOCAL_SCALAR = _define("_local_scalar_dense(Tensor self) -> Scalar", _item, "CPU")
_LIFT_FRESH = _define("lift_fresh(Tensor(a) self) -> Tensor(a)", lambda tensor: tensor, "CPU")


def local_scalar(tensor: Any) -> Any:
    """The number in a tensor of one element."""
    return _LOCAL_SCALAR(tensor)


def lift_fresh(tensor: Any) -> Any:
    """The tensor."""
    return _LIFT_FRESH(tensor)
