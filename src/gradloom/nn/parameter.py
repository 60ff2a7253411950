"""Parameter and Buffer, the tensors that a module registers when they are assigned; and those without a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

import gradloom as gl
from gradloom.core.tensor import Tensor
from gradloom.core.tensor_base import TensorBase
from gradloom.dispatch.state import disabled_torch_function
from gradloom.meta.tensor import plain_class
from gradloom.types import Device, DType

__all__ = ["Parameter", "Buffer", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _ParameterMeta(type(Tensor)):
    """Let a marked tensor of another class be an instance of Parameter."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or (
            cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)
        )


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module registers as a parameter when it is assigned as an attribute.

    A parameter made from a tensor of a subclass is of that subclass and carries a mark, by which isinstance and modules
    recognise it.

    Args:
        data: tensor of any shape, whose memory is shared; None makes an empty 1-d tensor.
        requires_grad: whether gradients are recorded.

    Raises:
        TypeError: if `data` is not a tensor.
        RuntimeError: with requires_grad, for a dtype that is neither floating point nor complex.
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
        if plain_class(type(data)) in (Tensor, Parameter) or cls is not Parameter:
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

    It is a plain tensor with a mark, so that operators take their common path.

    Args:
        data: tensor of any shape, whose memory is shared; None makes an empty 1-d tensor.
        persistent: whether the buffer is part of the module's state_dict.
    """

    __torch_function__: Any = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        data = gl.empty(0) if data is None else data
        buffer: Any = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


def is_lazy(param: Any) -> bool:
    """Return whether a parameter or buffer has no shape yet.

    Args:
        param: anything.
    """
    return isinstance(param, UninitializedTensorMixin)


_values: Any = TensorBase._array  # the slot of a tensor's array, which the classes below hide


class UninitializedTensorMixin:
    """Base of parameters and buffers that have a dtype but no shape until `materialize`.

    Reading their array raises, so that no operator needs to know of them.
    """

    if TYPE_CHECKING:  # typing would take `type` for the method of tensors
        cls_to_become: type[Tensor]

    @property
    def _array(self) -> NoReturn:
        raise ValueError(
            "Attempted to use an uninitialized parameter: it has no shape and no values yet. A lazy "
            "module gets them from its first input: call `forward` with one before you use its "
            "parameters, or call `materialize` yourself"
        )

    _operand = _array

    @property
    def shape(self) -> NoReturn:
        """Raise RuntimeError: there is no shape."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. If this happens in "
            "`load_state_dict`, an uninitialized parameter would be loaded into an initialized one: "
            "call `forward` of the lazy module first"
        )

    @property
    def dtype(self) -> Any:
        """The elements' dtype."""
        return self.data.dtype

    @property
    def data(self) -> Tensor:
        """An empty tensor of the dtype; assigning one sets the dtype."""
        out: Any = gl.empty(0)
        out._array = _values.__get__(self)
        return out

    @data.setter
    def data(self, value: Tensor) -> None:
        _values.__set__(self, value._array[:0])

    def materialize(self, shape: Sequence[int], device: Device | None = None, dtype: DType | None = None) -> None:
        """Take a shape, with uninitialised values, and become an ordinary parameter or buffer.

        Args:
            shape: sizes.
            device: the CPU.
            dtype: dtype of the elements, by default the current one.
        """
        _values.__set__(self, gl.empty(tuple(shape), device=device, dtype=dtype or self.dtype)._array)
        self.__class__ = self.cls_to_become  # type: ignore[assignment]

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return an empty tensor of another dtype; arguments as for `Tensor.to`."""
        return self.data.to(*args, **kwargs)

    def type(self, dtype: Any) -> Tensor:
        """Return an empty tensor of `dtype`."""
        return self.data.to(dtype)

    def double(self) -> Tensor:
        """Return an empty tensor of float64."""
        return self.data.double()

    def float(self) -> Tensor:
        """Return an empty tensor of float32."""
        return self.data.float()

    def half(self) -> Tensor:
        """Return an empty tensor of float16."""
        return self.data.half()

    def bfloat16(self) -> Tensor:
        """Return an empty tensor of bfloat16."""
        return self.data.bfloat16()

    def cpu(self) -> Self:
        """Return the tensor itself."""
        return self

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self._again()(*self._again_with())
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self._again(), self._again_with()

    def _again(self) -> Any:
        return self.__class__

    def _again_with(self) -> tuple[Any, ...]:
        return self.requires_grad, None, self.dtype  # type: ignore[attr-defined]


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter without a shape, which `materialize` sets.

    Args:
        requires_grad: whether gradients will be recorded.
        device: the CPU.
        dtype: dtype of the elements, by default the default dtype.
    """

    cls_to_become = Parameter
    __torch_function__: Any = disabled_torch_function

    def __new__(cls, requires_grad: bool = True, device: Device | None = None, dtype: DType | None = None) -> Self:
        empty: Any = gl.empty(0, device=device, dtype=dtype)
        out = Tensor._make_subclass(Parameter, empty, requires_grad)
        out.__class__ = cls  # type: ignore[assignment]
        return out  # type: ignore[return-value]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]
    """A buffer without a shape, which `materialize` sets.

    Args:
        requires_grad: False, for buffers.
        device: the CPU.
        dtype: dtype of the elements, by default the default dtype.
        persistent: whether the buffer is part of the module's state_dict.
    """

    cls_to_become = Tensor
    __torch_function__: Any = disabled_torch_function

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> Self:
        out: Any = gl.empty(0, device=device, dtype=dtype).requires_grad_(requires_grad)
        out.persistent, out._is_buffer = persistent, True
        out.__class__ = cls
        return out

    def _again_with(self) -> tuple[Any, ...]:
        return (*super()._again_with(), self.persistent)  # type: ignore[attr-defined]
