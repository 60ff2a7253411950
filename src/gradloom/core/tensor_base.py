"""TensorBase: the slots of a tensor and the properties of its array: sizes, strides, dtype, memory, values.

Nothing here makes or changes history. Note [Tensor layout] in tensor.py describes the slots. As in PyTorch, users have
a `Tensor`, which derives from `TensorBase`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy import ndarray

from ..dispatch.state import GRAD_OFF, state
from ..kernels._common.dims import dim_error
from ..kernels._common.layout import is_in_format
from ..memory.ownership import address, offset_in_elements
from ..types.absent import add_absent_members
from ..types.dtype import FLOATING, TYPE_OF, scalar_type_name
from ..types.public import found_in
from ..types.silence import warn_user
from ..types.size import Size, new_size
from . import attributes, late
from .node import NO_EDGE

if TYPE_CHECKING:
    from ..storage import TypedStorage, UntypedStorage
    from ..tensors._members import TensorMembers
    from ..types.device import memory_format as _memory_format
    from ..types.dtype import dtype as _dtype
    from .tensor import Tensor
else:
    TensorMembers = object


@lru_cache(1024)
def _in_elements(strides: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Convert strides in bytes to elements. Nodes of matrix products keep strides: a lookup is three times as fast."""
    return tuple([s // item for s in strides])


class TensorBase(TensorMembers):
    """The slots of a tensor, and the properties of its array."""

    # `__dict__` has cold fields and users' attributes, of which Tensor shows only the latter. `_cold` is not set but in
    # instances of some subclasses; see attributes.py.
    __slots__ = ("_array", "_edge", "_vc", "_cold", "__weakref__", "__dict__")

    if TYPE_CHECKING:  # private, and typing would look the names up in `gradloom`
        _array: ndarray
        _edge: Any
        _vc: list[int] | None
        _cold: dict[str, Any]

    @property
    def shape(self) -> Size:
        """The extents of the dimensions, a tuple of ints."""
        return new_size(Size, self._array.shape)

    @property
    def dtype(self) -> _dtype:
        """The type of the elements."""
        return TYPE_OF[self._array.dtype]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.nbytes

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements."""
        return self._array.size

    nelement = numel

    def element_size(self) -> int:
        """Return the size of one element in bytes."""
        return self._array.itemsize

    @overload
    def size(self, dim: None = None) -> Size: ...

    @overload
    def size(self, dim: int) -> int: ...

    def size(self, dim: int | None = None) -> Size | int:
        """Return the shape, or the extent of one dimension (negative counts from the end).

        Args:
            dim: which dimension; None for all.
        """
        shape = self._array.shape
        if dim is None:
            return new_size(Size, shape)
        if dim.__class__ is bool:
            raise _not_an_int("size", dim)
        try:
            return shape[dim]
        except IndexError:
            raise _no_such_dim(dim, len(shape)) from None

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...

    @overload
    def stride(self, dim: int) -> int: ...

    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Return the strides in elements: a tuple, or that of one dimension.

        Args:
            dim: which dimension; None for all.
        """
        array = self._array
        item = array.itemsize
        strides = array.strides if array.size else tuple(_strides_without_elements(array))
        if dim is None:
            return _in_elements(strides, item)
        if dim.__class__ is bool:
            raise _not_an_int("stride", dim)
        try:
            return strides[dim] // item
        except IndexError:
            raise _no_such_dim(dim, array.ndim) from None

    def is_contiguous(self, *, memory_format: _memory_format | None = None) -> bool:
        """Return whether the elements are in memory in the order of a memory format, without gaps.

        Args:
            memory_format: the memory format; contiguous_format by default.
        """
        return is_in_format(self._array, memory_format)

    def is_set_to(self, tensor: Tensor) -> bool:
        """Return whether both tensors are the same view of the same memory.

        Args:
            tensor: the Tensor to compare with.
        """
        if not isinstance(tensor, TensorBase):
            kind = type(tensor).__name__
            raise TypeError(f"is_set_to(): argument 'tensor' (position 1) must be Tensor, not {kind}")
        a, b = self._array, tensor._array
        return address(a) == address(b) and a.shape == b.shape and a.strides == b.strides

    def get_device(self) -> int:
        """Return the index of the device; -1 for the CPU."""
        return -1

    def storage_offset(self) -> int:
        """Return the number of elements between the start of the storage and the first element."""
        return offset_in_elements(self._array)

    def data_ptr(self) -> int:
        """Return the memory address of the first element; 0 if there is none."""
        array = self._array
        return address(array) if array.size and array.__class__ is ndarray else 0

    def untyped_storage(self) -> UntypedStorage:
        """Return the bytes that this tensor shares with its views."""
        return late.untyped_storage(self._array)

    def storage(self) -> TypedStorage:
        """Return the same memory as `untyped_storage`, as elements of this tensor's dtype."""
        warn_of_typed_storage()
        return late.typed_storage(self._array, self.dtype)

    def _typed_storage(self) -> TypedStorage:
        return late.typed_storage(self._array, self.dtype)

    def is_floating_point(self) -> bool:
        """Return whether the dtype is a real floating-point one."""
        return self.dtype.category == FLOATING

    def is_complex(self) -> bool:
        """Return whether the dtype is complex."""
        return self._array.dtype.kind == "c"

    def is_signed(self) -> bool:
        """Return whether the dtype has negative numbers."""
        return self.dtype.is_signed

    def is_conj(self) -> bool:
        """Return whether the values are the conjugates of those in memory; see Note [Conjugate and negative bits]."""
        array: Any = self._array
        return type(array) is not ndarray and array.conj_bit

    def is_neg(self) -> bool:
        """Return whether the values are the negatives of those in memory."""
        array: Any = self._array
        return type(array) is not ndarray and array.neg_bit

    def _is_zerotensor(self) -> bool:
        """Return False: tensors never have the bit; see Note [Zero tangents]."""
        return False

    # --- the values, as numbers, lists and arrays -----------------------------------------------------------------

    def item(self) -> Any:
        """Return the value of a tensor of one element, as a Python number."""
        array = self._array
        if array.size != 1:
            raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        if array.__class__ is not ndarray or state.dispatch_modes:
            return late.local_scalar(self)
        found = array.item()
        return float(found) if array.dtype.kind == "V" else found

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers."""
        array = self._array
        if array.__class__ is not ndarray:
            raise RuntimeError(
                f".tolist() is not supported for tensor subclasses, got {type(self).__name__}: it has "
                "no values of its own, but stands for other tensors."
            )
        return array.astype(np.float32).tolist() if array.dtype.kind == "V" else array.tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Return the ndarray on the same memory.

        Args:
            force: return a copy if no ndarray can share the memory.

        Raises:
            RuntimeError: unless `force`, if the tensor requires grad in grad mode, or has a conjugate or negative bit.
            TypeError: for bfloat16, which NumPy does not have.
        """
        if self.requires_grad and not force and not state.flags & GRAD_OFF:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self.is_conj() or self.is_neg():
            return self._resolved_array(force)
        if self._array.__class__ is not ndarray:
            raise RuntimeError(
                ".numpy() is not supported for tensor subclasses: this one has no values of its own, "
                "but stands for other tensors."
            )
        if self._array.dtype.isbuiltin == 2:
            name = scalar_type_name(self.dtype)
            raise TypeError(f"Got unsupported ScalarType {name}: NumPy has no such type. Use x.float().numpy()")
        return self._array

    def _resolved_array(self, force: bool) -> np.ndarray[Any, Any]:
        """Return the values of a tensor with a conjugate or negative bit; refuse unless `force`."""
        if not force:
            bit, method = ("conjugate", "resolve_conj") if self.is_conj() else ("negative", "resolve_neg")
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.{method}().numpy() instead."
            )
        return np.asarray(self._array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if copy:
            return array.astype(dtype or array.dtype, copy=True)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __bool__(self) -> bool:
        array = self._array
        if array.size != 1:
            raise RuntimeError(
                "Boolean value of Tensor with no values is ambiguous"
                if not array.size
                else "Boolean value of Tensor with more than one value is ambiguous"
            )
        if array.__class__ is not ndarray or state.dispatch_modes:
            return bool(self.item())
        return bool(array.item())

    def __float__(self) -> float:
        self._check_scalar()
        return float(_real_number(self.item(), "double"))

    def __int__(self) -> int:
        self._check_scalar()
        return int(_real_number(self.item(), "int64_t"))

    def __complex__(self) -> complex:
        self._check_scalar()
        return complex(self.item())

    def _check_scalar(self) -> None:
        """Refuse several elements; warn once if the tensor requires grad, since the number does not."""
        if self._array.size != 1:
            raise ValueError(
                f"only one element tensors can be converted to Python scalars, but this one has {self._array.size}"
            )
        if self._edge is not NO_EDGE and not state.flags & GRAD_OFF and self.requires_grad:
            from .user_stack import warn_once

            warn_once(
                "scalar",
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
                "behavior: no gradient goes through the number. Consider using tensor.detach() first.",
            )

    def __index__(self) -> int:
        if self._array.dtype.kind not in "iub" or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())


def _not_an_int(method: str, dim: object) -> TypeError:
    return TypeError(f"{method}(): argument 'dim' (position 1) must be int, not {type(dim).__name__}")


def _no_such_dim(dim: int, ndim: int) -> IndexError:
    return dim_error(dim, ndim) if ndim else IndexError(f"Dimension specified as {dim} but tensor has no dimensions")


add_absent_members(TensorBase)
found_in("gradloom._C", TensorBase)


def _strides_without_elements(array) -> list[int]:
    """Return the strides in bytes that PyTorch gives an empty tensor, as if sizes of 0 were 1; NumPy's are zeros."""
    strides: list[int] = []
    step = array.itemsize
    for n in reversed(array.shape):
        strides.insert(0, step)
        step *= max(n, 1)
    return strides


_warned: list[bool] = []


def warn_of_typed_storage() -> None:
    """Warn once that typed storages are deprecated."""
    if not _warned:
        _warned.append(True)
        warn_user(
            "TypedStorage is deprecated: in PyTorch, UntypedStorage will be the only class. To get one, use "
            "tensor.untyped_storage() instead of tensor.storage()"
        )


def _real_number(value, kind):
    """Return a number's real part; raise RuntimeError if the imaginary part is not zero."""
    if value.__class__ is complex:
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {kind} without overflow: {value} is not real")
        return value.real
    return value


attributes.provide(TensorBase.__dict__["__dict__"])
