"""Tensors on external memory: other libraries' (DLPack), objects with a buffer, files."""

from __future__ import annotations

from enum import IntEnum
from os import PathLike
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..core.variants import require_gradient
from ..dispatch import _operators
from ..memory.ownership import map_file, rooted
from ..types import Device, DType
from ..types.device import check_device, strided
from ..types.dtype import TYPE_OF, default, dtype as dtype_class, scalar_type_name
from ..types.public import found_in as _found_in
from ..types.silence import warn_user
from .construction import _wanted, as_tensor, from_numpy, made


class DLDeviceType(IntEnum):
    """DLPack's numbers for devices."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def from_dlpack(ext_tensor: Any, *, device: Device | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor on the memory of another library's tensor.

    Args:
        ext_tensor: an object with `__dlpack__` on the CPU, or a capsule that has not been consumed.
        device: the CPU.
        copy: True to copy; the other library may refuse False if it would have to copy.

    Raises RuntimeError if it is neither, and BufferError for memory with negative strides.
    """
    check_device(device)
    if isinstance(ext_tensor, Tensor):
        check_shareable(ext_tensor)
        out = made(wrap(ext_tensor._array))
    elif hasattr(ext_tensor, "__dlpack__"):
        return _made_of(_imported(ext_tensor, copy))
    else:
        if type(ext_tensor).__name__ != "PyCapsule":
            raise _invalid(
                f"Expected an object with a method __dlpack__, or a capsule, got {type(ext_tensor).__name__}"
            )
        try:
            out = _made_of(np.from_dlpack(_Capsule(ext_tensor)))
        except ValueError:
            raise _invalid("DLTensor capsules can be consumed only once, and this one was") from None
    return _operators.clone(out) if copy else out


def _imported(exporter: Any, copy: bool | None) -> np.ndarray:
    if copy is not None and np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        return np.from_dlpack(exporter, copy=copy)
    array = np.from_dlpack(exporter)  # NumPy 2.0 never copies
    return array.copy() if copy else array


def _made_of(array: np.ndarray) -> Tensor:
    if min(array.strides, default=0) < 0:
        raise BufferError("from_dlpack: tensors with negative strides are not supported; copy the array")
    return made(wrap(array))


def check_shareable(tensor: Tensor) -> None:
    """Raise BufferError for a tensor whose memory does not say what it is: one with a graph, a lazy conjugate, or no
    memory of its elements."""
    if tensor.layout is not strided:
        raise BufferError("Can't export tensors with layout other than torch.strided: use tensor.to_dense()")
    if tensor.device.type == "meta":
        raise BufferError("Cannot pack tensors on meta: they have no elements")
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if tensor.is_conj():
        raise BufferError("Can't export tensors with the conjugate bit set: use tensor.resolve_conj()")
    if tensor.is_neg():
        raise BufferError("Can't export tensors with the negative bit set: use tensor.resolve_neg()")


def _invalid(why):
    return RuntimeError(f"from_dlpack received an invalid capsule. {why}")


class _Capsule:
    """Wraps a capsule in the DLPack protocol for NumPy."""

    def __init__(self, capsule: Any) -> None:
        self.capsule: Any = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def to_dlpack(tensor: Tensor) -> Any:
    """Return a DLPack capsule of the tensor's memory; it can be consumed once.

    Args:
        tensor: one that does not require grad.

    Raises BufferError if it does.
    """
    return tensor.__dlpack__()


def frombuffer(buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Return a one-dimensional tensor on the memory of an object with Python's buffer protocol, such as a bytearray.

    Args:
        buffer: the object. If it is read-only, writing to the tensor will raise.
        dtype: dtype of the elements.
        count: number of elements; -1 for all after `offset`.
        offset: bytes to skip at the start.
        requires_grad: whether autograd records operations on it.

    Raises ValueError if there is no buffer, or it is too short.
    """

    kind = _wanted(dtype, "frombuffer")
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    size, item = view.nbytes, kind.itemsize
    if not size or not count:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1"
        )
    if count < 0 and (size - offset) % item:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of "
            f"element size ({item})"
        )
    if count > 0 and offset + count * item > size:
        raise ValueError(
            f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({size} bytes)"
        )
    if view.readonly:
        warn_user(
            "The given buffer is not writable; writing to the tensor will raise. Copy the buffer before "
            "converting it to a tensor."
        )
    end = size if count < 0 else offset + count * item
    out = made(wrap(rooted(np.frombuffer(view.cast("B"), np.uint8)[offset:end].view(kind.numpy))))
    if requires_grad:
        require_gradient(out)
    return out


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Return `obj` as a tensor, like `as_tensor`, with control over copying.

    Args:
        copy: True always copies, False never does (raising if it would have to), None copies if needed.
        obj: a Tensor, an ndarray, an object with a buffer or `__dlpack__`, or nested sequences of numbers.
        requires_grad: whether the result requires grad; by default it does if `obj` does. If the result is `obj` itself
            and a leaf, `obj` is changed; otherwise False detaches.

    Raises ValueError if `copy` is False and the memory cannot be shared.
    """
    check_device(device)
    wanted = _wanted(dtype, "asarray")
    source = from_numpy(obj) if isinstance(obj, np.ndarray) else obj
    if not isinstance(source, (Tensor, list, tuple, int, float, complex, str, np.generic)):
        source = _from_buffer_or_dlpack(obj, wanted)
    if not isinstance(source, Tensor):
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        out = as_tensor(obj, wanted)
    elif wanted is not None and wanted is not source.dtype:
        if copy is False:
            raise ValueError(
                f"can't alias tensor with dtype '{scalar_type_name(source.dtype)}' into dtype "
                f"'{scalar_type_name(wanted)}'."
            )
        out = _operators.to(source, wanted)
    else:
        out = _operators.clone(source) if copy else source
    if requires_grad is None or requires_grad == out.requires_grad:
        return out
    if requires_grad:
        require_gradient(out)
    elif out.is_leaf:
        out.requires_grad = False
    else:
        out = out.detach()
    return out


def _from_buffer_or_dlpack(obj: Any, dtype: dtype_class | None) -> Tensor | None:
    """Return a tensor on the memory of an object with DLPack or a buffer; None if it has neither."""
    if hasattr(obj, "__dlpack__"):
        return from_dlpack(obj)
    try:
        view = memoryview(obj)
    except TypeError:
        return None
    if not view.c_contiguous:
        raise RuntimeError(
            "could not retrieve a contiguous buffer from the given object (non-contiguous buffers are not supported)"
        )
    if dtype is None and view.nbytes:  # that of the elements
        dtype = TYPE_OF[np.dtype(np.uint8) if view.format == "c" else np.asarray(view).dtype]
    return frombuffer(obj, dtype=dtype or default.float)


def from_file(
    filename: str | PathLike[str],
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
) -> Tensor:
    """Return a one-dimensional tensor on a memory-mapped file.

    Args:
        filename: a path. With `shared`, a missing file is created and a short one extended.
        shared: whether writes to the tensor change the file.
        size: number of elements.
        dtype: dtype of the elements; by default the default dtype.
        device: the CPU.

    Raises RuntimeError if the file is too short.
    """

    check_device(device)
    kind = _wanted(dtype, "from_file") or default.float
    return made(wrap(rooted(map_file(filename, bool(shared), (size or 0) * kind.itemsize).view(kind.numpy))))


_found_in("gradloom", asarray, from_file, frombuffer)
_found_in("gradloom.utils.dlpack", DLDeviceType, from_dlpack)
