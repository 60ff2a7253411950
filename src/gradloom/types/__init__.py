"""What the annotations of gradloom's functions are called: `gradloom.types.Number`, `gradloom.types.Device` ...

For annotations of your own; nothing here is looked at when operators run.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, TypeAlias

from .device import device
from .dtype import dtype

if TYPE_CHECKING:
    from ..core.tensor import Tensor

__all__ = ["DType", "Device", "IntList", "Number", "TensorOrTensors"]

# A Python number; bool is one of int's.
Number: TypeAlias = builtins.int | builtins.float | builtins.complex
# Where a size, a shape or a list of dimensions is asked for; Size is a tuple of ints.
IntList: TypeAlias = list[builtins.int] | tuple[builtins.int, ...]
# A dtype, or the Python type that stands for one: float for float64, int for int64, complex for complex128, bool.
DType: TypeAlias = dtype | type[builtins.int] | type[builtins.float] | type[builtins.complex]
Device: TypeAlias = device | str | builtins.int
# One tensor or several, as the functions of autograd take and give them.
TensorOrTensors: TypeAlias = "Tensor | tuple[Tensor, ...] | list[Tensor]"
