"""TensorBase: the slots of a tensor and the properties of its array: sizes, strides, dtype, memory.

Nothing here concerns autograd. Note [Tensor layout] in tensor.py describes the slots. As in PyTorch, users have a
`Tensor`, which derives from `TensorBase`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from numpy import ndarray

from ..kernels._common.dims import dim_error
from ..kernels._common.layout import is_in_format
from ..memory.ownership import address, offset_in_elements
from ..types.absent import add_absent_members
from ..types.dtype import FLOATING, TYPE_OF
from ..types.size import Size
from . import late

if TYPE_CHECKING:
    from ..storage import TypedStorage, UntypedStorage
    from ..tensors._members import TensorMembers
    from ..types.device import memory_format as _memory_format
    from ..types.dtype import dtype as _dtype
    from .tensor import Tensor
else:
    TensorMembers = object


class TensorBase(TensorMembers):
    """The slots of a tensor, and the properties of its array."""

    __slots__ = ("_array", "_edge", "_vc", "__weakref__")
    __module__ = "gradloom"

    _array: ndarray
    _edge: Any
    _vc: list[int] | None

    @property
    def shape(self) -> Size:
        """The extents of the dimensions, a tuple of ints."""
        return Size(self._array.shape)

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
            return Size(shape)
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
        strides = array.strides if array.size else _strides_without_elements(array)
        if dim is None:
            return tuple([s // item for s in strides])
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


def _no_such_dim(dim: int, ndim: int) -> IndexError:
    return dim_error(dim, ndim) if ndim else IndexError(f"Dimension specified as {dim} but tensor has no dimensions")


add_absent_members(TensorBase)


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
        import warnings

        _warned.append(True)
        warnings.warn(
            "TypedStorage is deprecated: in PyTorch, UntypedStorage will be the only class. To get one, use "
            "tensor.untyped_storage() instead of tensor.storage()",
            UserWarning,
            stacklevel=3,
        )
