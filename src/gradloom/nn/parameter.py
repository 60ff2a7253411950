"""Parameter and Buffer: the tensors that a module registers when they are assigned to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.tensor import Tensor

if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Parameter", "Buffer"]


class Parameter(Tensor):
    """A tensor that a module lists among its parameters when it is assigned as an attribute.

    Args:
        data: tensor of any shape whose values are shared, not copied; None makes an empty one-dimensional
            tensor.
        requires_grad: whether gradients are recorded, True by default. Raises RuntimeError for a dtype that
            is neither floating point nor complex.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        if data is None:
            data = gl.empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter needs a Tensor to wrap, got {type(data).__name__}; wrap it in tensor(...) first"
            )
        if requires_grad and not (data.is_floating_point() or data.is_complex()):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # As PyTorch does: the values alone, without the gradient.
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]


class _BufferMeta(type(Tensor)):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a module registers as a buffer when it is assigned as an attribute.

    It is a plain tensor that only carries a mark, so that operators take their common path.

    Args:
        data: tensor of any shape whose values are shared; None makes an empty one-dimensional tensor.
        persistent: whether the buffer is part of the module's state_dict.
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        data = gl.empty(0) if data is None else data
        buffer: Any = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer
