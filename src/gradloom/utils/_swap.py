"""Exchange of two tensors, and the module that an object names."""

from __future__ import annotations

from typing import Any

from ..core.attributes import fields
from ..core.tensor import Tensor
from ..types.public import found_in as _found_in

_class = object.__dict__["__class__"]


def set_module(obj: Any, mod: str) -> None:
    """Set the name of the module that an object shows as its own.

    Raises TypeError if `mod` is not a string.
    """
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange two tensors: their data, devices, classes, attributes and gradients. Every reference to one then shows
    what the other was.

    Args:
        t1, t2: leaves, or tensors without a graph that needs them.

    Raises:
        RuntimeError: if a graph, or a weak reference, holds one of them.
    """
    for t in (t1, t2):
        if getattr(t, "__weakref__", None) is not None:
            raise RuntimeError(f"Cannot swap t{1 + (t is t2)} because it has weakref associated with it")
        if t._accumulator is not None and t._accumulator() is not None:
            raise RuntimeError("Expected tensors to have no AccumulateGrad node: a graph holds one of them")
    own, other = t1.__class__, t2.__class__
    attributes = dict(fields(t1)), dict(fields(t2))
    cold = [getattr(t, "_cold", {}) for t in (t1, t2)]
    slots = [(t._array, t._edge, t._vc) for t in (t1, t2)]
    _class.__set__(t1, other)
    _class.__set__(t2, own)
    for t, number in ((t1, 1), (t2, 0)):
        found, slot = attributes[number], slots[number]
        fields(t).clear()
        fields(t).update(found)
        t._array, t._edge, t._vc = slot
        t._cold = cold[number]


_found_in("gradloom.utils", swap_tensors, set_module)
