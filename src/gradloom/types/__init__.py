"""Type aliases of gradloom's annotations, for use in your own: `gradloom.types.Number`, `gradloom.types.Device` ...

The package's modules define dtypes, devices and sizes. Operators do not look at the aliases.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, TypeAlias, Union

from .device import device as _device
from .dtype import dtype as _dtype

if TYPE_CHECKING:
    from ..core.tensor import Tensor

__all__ = ["DType", "Device", "IntList", "Number", "TensorOrTensors"]

# A Python number; bool is a subclass of int.
Number: TypeAlias = builtins.int | builtins.float | builtins.complex
# A shape or a list of dimensions; Size is a tuple of ints.
IntList: TypeAlias = list[builtins.int] | tuple[builtins.int, ...]
# A dtype, or the Python type that stands for one: float is float64, int is int64, complex is complex128, bool is bool.
DType: TypeAlias = _dtype | type[builtins.int] | type[builtins.float] | type[builtins.complex]
Device: TypeAlias = _device | str | builtins.int
# One tensor or several: arguments and results of autograd's functions.
TensorOrTensors: TypeAlias = Union["Tensor", tuple["Tensor", ...], list["Tensor"]]
