"""Tensors of the meta device: the classes of tensors that have no data.

Note [Meta tensors]
A tensor of the meta device has a shape, a dtype, strides, a storage offset and an autograd graph, but no data. Its
`_array` is a MetaArray, and its class is a twin of Tensor (or Parameter, or a user's class), derived from it, in which
reading `_operand` raises AttributeError. So wrappers recognise it on the path that they take for everything that is not
a plain tensor, and pass the call on to `intercept`: tensors of the CPU pay nothing (Note [Interception]). The handler
of META (handler.py) computes shapes, dtypes and strides in place of the kernel; the wrapper records the history.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..core.node import NO_EDGE
from ..core.tensor import Tensor
from ..dispatch.interception import META as KEY, operand_of, prepare
from ..dispatch.state import disabled_torch_function
from ..memory.metadata import MetaArray, NoDataError
from ..types.device import META

ITEM = "Tensor.item() cannot be called on meta tensors"


class OnMeta:
    """What the twins override: everything that would read values."""

    __slots__ = ()
    device = META
    is_meta = True
    is_cpu = False
    _plain: type

    _operand = property(operand_of)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if cls._plain is Tensor:
            cls.__torch_function__ = disabled_torch_function  # type: ignore[attr-defined]
        else:
            super().__init_subclass__(**kwargs)

    def _detached_alias(self: Any) -> Tensor:
        if self._vc is None:
            self._vc = [0]
        out = wrap_meta(self._array)
        out._vc = self._vc
        return out

    def item(self: Any) -> NoReturn:
        """Raise RuntimeError: there is no data."""
        if self._array.size != 1:
            raise RuntimeError(f"a Tensor with {self._array.size} elements cannot be converted to Scalar")
        raise RuntimeError(ITEM)

    def __contains__(self, element: Any) -> NoReturn:
        raise RuntimeError(ITEM)

    def tolist(self) -> NoReturn:
        """Raise NotImplementedError: there is no data."""
        raise NoDataError(MetaArray.message)

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raise TypeError, or NotImplementedError with `force`: there is no data."""
        if force:
            raise NoDataError(MetaArray.message)
        raise TypeError(
            "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        self.numpy()

    def data_ptr(self) -> int:
        """Return 0: there is no memory."""
        return 0

    def is_set_to(self: Any, tensor: Any) -> bool:
        """Return whether both tensors are the same view of the same memory."""
        a, b = self._array, tensor._array
        return (
            isinstance(b, MetaArray)
            and a.memory is b.memory
            and (a.offset, a.shape, a.strides) == (b.offset, b.shape, b.strides)
        )

    def share_memory_(self) -> NoReturn:
        """Raise RuntimeError: there is no memory."""
        raise RuntimeError("_share_fd_: only available on CPU")

    def type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the legacy type name, or a copy converted to `dtype`."""
        found = Tensor.type(self, dtype, non_blocking)
        return found.replace("torch.", "torch.meta.") if dtype is None else found

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def _reduced(self: Any) -> tuple[Any, ...]:
        extra = {n: v for n, v in self.__dict__.items() if n not in Tensor.__dict__}
        a = self._array
        place = (a.shape, a.dtype, a.strides, a.memory, a.offset, a.conj_bit, a.neg_bit)
        return rebuild, (self._plain, place, self.requires_grad, extra)


def on_meta(cls: Any) -> Any:
    """Return the twin of a class of tensors for the meta device; a twin itself is returned as it is."""
    if issubclass(cls, OnMeta):
        return cls
    found = cls.__dict__.get("_on_meta")
    if found is None:
        names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__, "_plain": cls}
        found = cls._on_meta = type(cls)(cls.__name__, (OnMeta, cls), names)
        prepare(KEY)
    return found


def plain_class(cls: Any) -> Any:
    """Return the class that a class is the twin of, or the class itself."""
    return getattr(cls, "_plain", cls)


def class_for(cls: Any, data: Tensor) -> Any:
    """Return the class of a tensor that a program calls `cls` and that has the data of another; `cls` may be a twin,
    the type of a tensor of the meta device."""
    return on_meta(cls) if data.is_meta else plain_class(cls)


def wrap_meta(array: MetaArray, cls: Any = Tensor) -> Any:
    """Return a tensor of the meta device without history."""
    out = object.__new__(on_meta(cls))
    out._array, out._edge, out._vc = array, NO_EDGE, None
    return out


def rebuild(cls: Any, place: tuple[Any, ...], requires_grad: bool, extra: dict[str, Any]) -> Any:
    """Return the tensor of the meta device that was pickled."""
    out = wrap_meta(MetaArray(*place), cls)
    if requires_grad:
        out.requires_grad = True
    out.__dict__.update(extra)
    return out


def meta_like(array: Any) -> MetaArray:
    """Return the metadata of an ndarray, as an array of the meta device with memory of its own."""
    if isinstance(array, MetaArray):
        return array
    bits: dict[str, Any] = {}
    if type(array) is not np.ndarray:
        bits = {"conj_bit": array.conj_bit, "neg_bit": array.neg_bit}
    return MetaArray(array.shape, array.dtype, array.strides if array.size else None, **bits)
