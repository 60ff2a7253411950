"""The methods that convert a tensor to one type, such as `x.float()`: PyTorch's short forms of `to`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dispatch import _operators
from ..types.device import no_gpu
from ..types.dtype import BY_NAME, bfloat16, int8, uint8

if TYPE_CHECKING:
    from typing import Any

    from ..core.tensor import Tensor

_TYPES = {"byte": uint8, "char": int8, "bfloat16": bfloat16} | {
    name: BY_NAME[name] for name in ("bool", "short", "int", "long", "half", "float", "double", "cfloat", "cdouble")
}


def _conversion(name, dtype):
    def convert(self, memory_format=None):
        return _operators.to_dtype(self, dtype, False, False, memory_format)

    convert.__name__ = name
    convert.__qualname__ = f"Tensor.{name}"
    convert.__doc__ = f"The tensor itself if it is of type {dtype}, else a copy that is."
    return convert


def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """Return the tensor itself: every tensor is on the CPU."""
    return self if memory_format is None else _operators.to_dtype(self, self.dtype, False, False, memory_format)


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> None:
    """Raises AssertionError: gradloom computes on the CPU only."""
    raise no_gpu()


def bind(tensor_class: Any) -> None:
    """Make the conversions methods of Tensor."""
    for name, dtype in _TYPES.items():
        setattr(tensor_class, name, _conversion(name, dtype))
    tensor_class.cpu = cpu
    tensor_class.cuda = cuda
