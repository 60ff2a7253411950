"""Floats of 8 bits, which few operators take.

Note [Float8 tensors]
PyTorch stores, converts and moves float8 tensors, and refuses nearly all arithmetic: '"add_stub" not implemented for
'Float8_e4m3fn''. Kernels cannot tell, because NumPy's functions compute with the numbers of ml_dtypes. So float8
tensors are intercepted, like tensors of the meta device (Note [Interception]), by the name under which wrappers read
arrays: the first float8 dtype that a program uses replaces the slot `Tensor._operand` by a property, which raises
AttributeError for float8 arrays. A program without float8 tensors pays nothing, and afterwards the operators of other
tensors pay one call for each argument.

The key `float8:` of an operator's entry says what PyTorch does with them; `python -m tests.conformance.float8_keys`
measures it. An operator computes for all numbers of elements, for none or few, or refuses with an error of its own. A
number or a 0-dimensional tensor as the second operand can have another error, and float8_e8m0fnu, which has powers of
two only and computes less, another value. Without the key, a kernel's operator is refused under its own name, and a
composite one runs: the operators that it calls are refused.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..dispatch.interception import FLOAT8, register
from ..dispatch.state import REDISPATCH, state
from .handler import handle


def _operand(self: Any) -> Any:
    array = self._array
    if array.itemsize == 1 and array.dtype.isbuiltin == 2 and not (state.float8 or state.flags & REDISPATCH):
        raise AttributeError(f"operators of {self.dtype} tensors are intercepted; see Note [Float8 tensors]")
    return array


def _classes(cls: Any) -> Any:
    yield cls
    for derived in cls.__subclasses__():
        yield from _classes(derived)


def watch() -> None:
    """Intercept the operators of float8 tensors from now on."""
    slot = Tensor.__dict__["_operand"]
    if not isinstance(slot, property):
        register(FLOAT8, handle)
        for cls in list(_classes(Tensor)):
            if cls.__dict__.get("_operand") is slot:
                cls._operand = _property


_property = property(_operand)
