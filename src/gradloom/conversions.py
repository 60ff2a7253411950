"""The methods that convert a tensor to one type, such as `x.float()`: PyTorch's short forms of `to`."""

from __future__ import annotations

from . import _operators
from . import dtype as dtypes

_TYPES = {"bool": dtypes.bool, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16, "int": dtypes.int32,
          "long": dtypes.int64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "float": dtypes.float32,
          "double": dtypes.float64, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128}


def _conversion(name, dtype):
    def convert(self, memory_format=None):
        return _operators.to_dtype(self, dtype, False, False, memory_format)
    convert.__name__ = name
    convert.__qualname__ = f"Tensor.{name}"
    convert.__doc__ = f"The tensor itself if it is of type {dtype}, else a copy that is."
    return convert


def cpu(self, memory_format=None):
    """The tensor itself: every tensor is on the CPU."""
    return self if memory_format is None else _operators.to_dtype(self, self.dtype, False, False, memory_format)


def cuda(self, device=None, non_blocking=False, memory_format=None):
    """Raises RuntimeError: gradloom computes on the CPU only."""
    raise RuntimeError("gradloom computes on the CPU only; there is no CUDA device. Use .cpu() or device='cpu'.")


def bind(tensor_class) -> None:
    """Make the conversions methods of Tensor."""
    for name, dtype in _TYPES.items():
        setattr(tensor_class, name, _conversion(name, dtype))
    tensor_class.cpu = cpu
    tensor_class.cuda = cuda
