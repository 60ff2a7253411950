"""Parameter and Buffer: the tensors that a module registers when they are assigned to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.dispatch import disabled_torch_function
from gradloom.tensor import Tensor

if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Parameter", "Buffer"]


class _ParameterMeta(type(Tensor)):
    """Lets a tensor of another class be a parameter, which carries a mark."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or (
            cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False))


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module lists among its parameters when it is assigned as an attribute.

    Args:
        data: tensor of any shape whose values are shared, not copied; None makes an empty one-dimensional
            tensor.
        requires_grad: whether gradients are recorded, True by default. Raises RuntimeError for a dtype that
            is neither floating point nor complex.

    Of a tensor of a subclass it makes another tensor of that subclass, which carries a mark, by which isinstance and
    modules know it.
    """

    __torch_function__: Any = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        if data is None:
            data = gl.empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter needs a Tensor to wrap, got {type(data).__name__}; wrap it in tensor(...) first"
            )
        if requires_grad and data._array.dtype.kind not in "fcV":
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        if type(data) is Tensor or type(data) is Parameter or cls is not Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        marked: Any = data.detach().requires_grad_(requires_grad)
        if type(marked) is not type(data):
            raise RuntimeError(
                f"Parameter needs a tensor whose detach() is of its own class, but that of a {type(data).__name__} is "
                f"a {type(marked).__name__}: let its __torch_function__ return results of its class"
            )
        marked._is_param = True
        return marked  # type: ignore[return-value]

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

    __torch_function__: Any = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        data = gl.empty(0) if data is None else data
        buffer: Any = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer
