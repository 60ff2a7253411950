"""Methods of tensors that few programs call; `_bind` imports them on first use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Never

import numpy as np

from ..core import late
from ..core.tensor import Tensor
from ..dispatch import _operators
from ..dispatch.overloads import parsed
from ..kernels._common.layout import is_dense
from ..memory.ownership import offset_in_elements
from ..types.dtype import legacy_type_name
from ..types.silence import warn_user
from . import sharing
from .removed import eig as eig, lstsq as lstsq, solve as solve, symeig as symeig


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by `callable(element)`, in place. Slow: for initial values and tests.

    Raises RuntimeError if the tensor requires grad.
    """
    return _each("apply_", self, (), callable)


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by `callable(element, other)`, in place, with the elements of a tensor that broadcasts.

    Args:
        tensor: of this tensor's dtype.

    Raises:
        RuntimeError: if a tensor requires grad, or the shapes do not fit.
        TypeError: if `tensor` is not a Tensor of this dtype.
    """
    return _each("map_", self, (tensor,), callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace each element by `callable(element, x, y)`, in place, with the elements of two tensors.

    Args:
        x, y: of this tensor's dtype.
    """
    return _each("map2_", self, (x, y), callable)


def _each(name, self, others, function):
    for i, other in enumerate(others):
        if not isinstance(other, _operators.Tensor):
            raise TypeError(f"{name}(): argument {i + 1} must be Tensor, not {type(other).__name__}")
    if any(t.requires_grad for t in (self, *others)):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    for other in others:
        if other.dtype is not self.dtype:
            raise TypeError(f"{name}: expected {self.type()} for 'other' (got {other.type()})")
    array = self._array
    arrays = [_operators.expand(other, array.shape)._array for other in others]
    for index in np.ndindex(array.shape):
        value = function(array[index].item(), *[a[index].item() for a in arrays])
        array[index] = int(value) if array.dtype.kind in "iu" else value
    return self


def const_data_ptr(self: Tensor) -> int:
    """Return `data_ptr()`."""
    return self.data_ptr()


def is_shared(self: Tensor) -> bool:
    """Return whether the storage is in memory that processes share."""
    return sharing.is_shared(self)


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Return False: there is no accelerator to pin memory for.

    Args:
        device: the accelerator.
    """
    return False


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Raise RuntimeError: memory is pinned for accelerators, of which there is none.

    Args:
        device: the accelerator.

    Raises RuntimeError always.
    """
    raise RuntimeError("Cannot access accelerator device when none is available.")


def share_memory_(self: Tensor) -> Tensor:
    """Move the storage to shared memory, unless it is there, and return the tensor itself.

    All tensors of this storage move along. NumPy arrays of the old memory, such as that of an earlier `numpy()`, keep
    it. Processes that are forked, or that get the tensor in a message or as an argument, then use the same memory.

    Raises RuntimeError if there is no memory left.
    """
    sharing.share((self,))
    return self


def storage_type(self: Tensor) -> type:
    """Return PyTorch's class for storages of this tensor's dtype, such as FloatStorage."""
    return late.storage_type(legacy_type_name(self.dtype)[6:].replace("Tensor", "Storage"))


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """Return the same elements in another shape; PyTorch's older `view`.

    Args:
        sizes: the shape, as ints or as one list.

    Raises RuntimeError if it has another number of elements.
    """
    return _resized(self, sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes, "resize")


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """Return the same elements in the shape of another tensor; see `resize`.

    Args:
        tensor: the Tensor with that shape.
    """
    return _resized(self, tensor.shape, "resize_as")


def _resized(self, sizes, name):
    warn_user(f"non-inplace {name} is deprecated")
    count = math.prod(sizes)
    if count != self.numel():
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, sizes))} ({count} elements in total), but the "
            f"given tensor has a size of {'x'.join(map(str, self.shape))} ({self.numel()} elements). "
            f"{name} keeps the number of elements: use resize_ to change it"
        )
    return self.reshape(sizes)


def lu(self: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """Return L and U of each matrix in one matrix, and the pivots, counted from 1.

    Args:
        pivot: must be True.
        get_infos: whether to return a third tensor, with the number of the first zero pivot of each matrix, or 0.
    """
    LU, pivots, info = _operators._lu_with_info(self, pivot, not get_infos)
    return (LU, pivots, info) if get_infos else (LU, pivots)


def is_distributed(self: Tensor) -> bool:
    """Return False; kept for programs written for PyTorch."""
    return False


def dim_order(self: Tensor, *, ambiguity_check: bool | list[Any] = False) -> tuple[int, ...]:
    """Return the dimensions in the order of their strides, the outermost first.

    Args:
        ambiguity_check: raise if the strides allow another order.

    Raises RuntimeError if the check is requested and the order is not unique.
    """
    array = self._array
    strides = self.stride()
    if array.flags.c_contiguous or not is_dense(array):
        order = tuple(range(array.ndim)) if array.flags.c_contiguous or 0 in strides else _by_stride(strides)
    else:
        order = _by_stride(strides)
    if ambiguity_check and (len(set(strides)) < array.ndim or 1 in array.shape):
        raise RuntimeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
        )
    return order


def _by_stride(strides) -> tuple[int, ...]:
    return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))


def __dlpack__(self: Tensor, **options: Any) -> Any:
    """Return a DLPack capsule of the memory; the options are NumPy's, and `read_only=True`.

    Raises BufferError if the tensor requires grad, or its conjugate or negative bit is set, and for `read_only` without
    a `max_version` of (1, 0) or later, the first in which a capsule says so.
    """
    from .interchange import check_shareable

    check_shareable(self)
    array = self._array
    if options.pop("read_only", False):
        version = options.get("max_version")
        if version is None or version[0] < 1:
            raise BufferError(
                "read_only export requires the versioned DLPack protocol; pass max_version=(1, 0) or higher"
            )
        array = array[...]
        array.flags.writeable = False
    if options.pop("stream", None) not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    return array.__dlpack__(**options)


def __dlpack_device__(self: Tensor) -> tuple[Any, int]:
    """Return (1, 0): the CPU. Raises ValueError for a meta tensor."""
    from .interchange import DLDeviceType

    if self.device.type == "meta":
        raise ValueError("Unknown device type meta for Dlpack")
    return DLDeviceType.kDLCPU, 0


def __array_namespace__(self: Tensor, *, api_version: str | None = None) -> Any:
    """Return the functions of the array API standard, for packages that work on any array.

    Args:
        api_version: a version of the standard, such as "2024.12".

    Raises ValueError for a version before 2021.12 or after 2024.12.
    """
    return late.array_namespace(api_version)


def _view_func(self: Tensor, new_base: Tensor) -> Tensor | None:
    """Return the same view of another base, differentiably; None for no view or a base of another layout."""
    if self._view is None:
        return None
    old, new = self._view.base._array, new_base._array
    if old.shape != new.shape or old.strides != new.strides or old.dtype != new.dtype:
        return None
    return _view_func_unsafe(self, new_base)


def _view_func_unsafe(self: Tensor, new_base: Tensor) -> Tensor | None:
    """Return the same view of another base, differentiably, whatever the base's layout; None for no view."""
    view = self._view
    if view is None:
        return None
    if view.replay is not None:
        return view.replay(new_base)
    old, new = view.base._array, new_base._array
    offset = offset_in_elements(self._array) - offset_in_elements(old) + offset_in_elements(new)
    return _operators.as_strided(new_base, self._array.shape, self.stride(), offset)


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return what `load_state_dict` exchanges this parameter or buffer for, while
    `torch.__future__.get_swap_module_params_on_conversion()` is True. Subclasses may override it; the result is neither
    of the two tensors.

    Args:
        other: the tensor of the state dict.
        assign: whether the result has the properties of `other` rather than of this tensor.
    """
    return other.detach() if assign else self.copy_(other).detach()


def reinforce(self: Tensor, reward: Any) -> Never:
    """Raise RuntimeError: `torch.distributions` replaces it.

    Raises RuntimeError always.
    """
    raise RuntimeError(
        "reinforce() was removed. Use torch.distributions: m = Categorical(probs), action = m.sample(), "
        "loss = -m.log_prob(action) * reward."
    )


@parsed(
    ("self", "Tensor"),
    ("src", "Tensor"),
    ("dim", "int", 0),
    ("start", "int?", None),
    ("end", "int?", None),
    ("step", "int", 1),
    method=True,
)
def slice_inverse(
    self: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Return the tensor that this one is a slice of, as a view: of the sizes and strides of `src`.

    Args:
        src: gives sizes, strides and offset.
        dim, start, end, step: the slice.
    """
    return _operators.as_strided(self, src.shape, src.stride(), src.storage_offset())


def dequantize(self: Tensor) -> Tensor:
    """Return the values as float32: there are no quantized tensors."""
    return self.float()


def ipu(self: Tensor, *args: Any, **kwargs: Any) -> Never:
    """Raise RuntimeError: there is no such device.

    Raises RuntimeError always.
    """
    raise RuntimeError("PyTorch is not linked with support for ipu devices")


def mtia(self: Tensor, *args: Any, **kwargs: Any) -> Never:
    """Raise AssertionError: there is no such device.

    Raises AssertionError always.
    """
    raise AssertionError("Torch not compiled with MTIA enabled")


def xpu(self: Tensor, *args: Any, **kwargs: Any) -> Never:
    """Raise AssertionError: there is no such device.

    Raises AssertionError always.
    """
    raise AssertionError("Torch not compiled with XPU enabled")


def _of_compressed(name: str, kind: str) -> Callable[[Tensor], Never]:
    def refused(self: Tensor) -> Never:
        raise RuntimeError(f"{name} expected sparse {kind} compressed tensor layout but got Strided")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"Raise RuntimeError: there are no tensors in a sparse {kind} compressed layout."
    return refused


ccol_indices: Callable[[Tensor], Never] = _of_compressed("ccol_indices", "column")
row_indices: Callable[[Tensor], Never] = _of_compressed("row_indices", "column")
crow_indices: Callable[[Tensor], Never] = _of_compressed("crow_indices", "row")
col_indices: Callable[[Tensor], Never] = _of_compressed("col_indices", "row")
