"""The memory of arrays: its owner, where it begins and ends, and views of it.

NumPy tracks ownership: every view's `.base` chain ends at the array that owns the memory. So storages (storage.py) are
made on demand, and two tensors share memory exactly when their owners are the same array.
"""

from __future__ import annotations

import ctypes
import sys
from os import PathLike
from typing import Any

import numpy as np

from .metadata import MetaArray


def owner(array: np.ndarray) -> np.ndarray:
    """Return the ndarray that owns (or wraps) the memory of `array`."""
    while True:
        base = array.base
        if not isinstance(base, np.ndarray):  # None, a buffer, or an object that NumPy's as_strided inserts
            base = getattr(base, "base", None)
            if not isinstance(base, np.ndarray):
                return array
        array = base


def address(array: np.ndarray) -> int:
    """Return the memory address of the first element."""
    if type(array) is np.ndarray and _ADDRESS_FOLLOWS_HEADER:  # not an array with a conjugate or negative bit
        return _integer_at(id(array) + _HEADER).value
    memory: Any = array
    try:
        return memory.__array_interface__["data"][0]
    except AttributeError:
        return memory.base.__array_interface__["data"][0]


# NumPy's struct of an array begins with a Python object's header and the address of the elements. Reading it there
# takes a seventh of the time of `__array_interface__`, which has it, too.
_HEADER, _integer_at = object.__basicsize__, ctypes.c_size_t.from_address
_ADDRESS_FOLLOWS_HEADER = False
_probe = np.empty(1)
if sys.implementation.name == "cpython":
    _ADDRESS_FOLLOWS_HEADER = _integer_at(id(_probe) + _HEADER).value == address(_probe)


def extent(base: np.ndarray) -> tuple[int, int]:
    """Return the addresses of the first byte and past the last byte of an owner's memory."""
    if isinstance(base, MetaArray):
        return 0, base.memory.nbytes
    if base.flags.c_contiguous or base.flags.f_contiguous:
        start = address(base)
        return start, start + base.nbytes
    return np.lib.array_utils.byte_bounds(base)


def rooted(array: np.ndarray) -> np.ndarray:
    """Return an array of the same elements that owns its memory: a storage that begins with them."""
    if array.base is None:
        return array
    kind = array.dtype
    code = np.dtype(f"u{kind.itemsize}") if kind.isbuiltin == 2 else kind  # one of ml_dtypes, which has no code
    return np.asarray(_Elements(array, code.str)).view(kind)


class _Elements:
    """Exposes an array to NumPy and keeps it alive, without becoming its base."""

    def __init__(self, array, code) -> None:
        self.kept = array
        self.__array_interface__ = {**array.__array_interface__, "typestr": code, "descr": [("", code)]}


def offset_in_elements(array: np.ndarray) -> int:
    """Return PyTorch's storage_offset(): the elements between the start of the memory and the first element."""
    base = array.base
    if base is None:
        return getattr(array, "offset", 0) // array.itemsize
    return (address(array) - extent(owner(array))[0]) // array.itemsize


def flat(base: np.ndarray) -> np.ndarray:
    """Return a one-dimensional view of all the memory of an owner, in address order."""
    if base.flags.c_contiguous:
        return base.reshape(-1)
    if base.flags.f_contiguous:
        return base.T.reshape(-1)
    return base.reshape(-1, order="A") if base.size < 2 else _flat_in_gaps(base)


def _flat_in_gaps(base):
    order = sorted(range(base.ndim), key=lambda i: -base.strides[i])
    laid = base.transpose(order)
    return laid.reshape(-1) if laid.flags.c_contiguous else np.asarray(_Extent(base))


class _Extent:
    """Exposes all bytes between the first and the last element of an array, gaps included, to NumPy."""

    def __init__(self, base) -> None:
        self.base = base
        start, end = extent(base)
        self.__array_interface__ = {
            "data": (start, not base.flags.writeable),
            "shape": (end - start,),
            "typestr": "|u1",
            "version": 3,
        }


def negative_strides(strides) -> RuntimeError:
    return RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}")


def strided_view(array: np.ndarray, shape, strides, offset: int) -> np.ndarray:
    """Return a view of the memory that `array` belongs to.

    Args:
        array: any array on that memory.
        shape, strides, offset: in elements, from the start of the memory.

    Raises RuntimeError if the view would reach beyond the memory.
    """
    is_meta = isinstance(array, MetaArray)
    if type(array) is not np.ndarray and not is_meta:  # an array with a conjugate or negative bit
        deferred: Any = array
        return deferred.through(lambda memory: strided_view(memory, shape, strides, offset))
    memory: Any = array.memory if is_meta else flat(owner(array))  # type: ignore[attr-defined]
    item = array.itemsize
    if min(strides, default=0) < 0:
        raise negative_strides(strides)
    if min(shape, default=0) < 0:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(strides)}: "
            "sizes must not be negative"
        )
    reach = offset + sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)]) + 1 if 0 not in shape else 0
    if offset < 0 or reach * item > memory.nbytes:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and "
            f"itemsize {item} requiring a storage size of {reach * item} are out of bounds for storage "
            f"of size {memory.nbytes}"
        )
    if is_meta:
        found: Any = MetaArray(tuple(shape), array.dtype, tuple([s * item for s in strides]), memory, offset * item)
        return found
    if 0 in shape and offset * item > memory.nbytes:  # as PyTorch allows for no elements, but NumPy does not
        return np.ndarray(shape, array.dtype)
    return np.ndarray(shape, array.dtype, memory.view(np.uint8), offset * item, [s * item for s in strides])


def is_resizable(base: np.ndarray) -> bool:
    """Return whether an owner's memory may be replaced: not if a file, another process or an array looks at it."""
    return type(base.base).__module__ not in ("mmap", f"{__package__}.shared") and not isinstance(base.base, _Elements)


def resized(array: np.ndarray, layout: np.ndarray) -> np.ndarray:
    """Return an array with the shape and strides of `layout` that begins where `array` does.

    It uses the memory of `array` if that is large enough, else new memory that begins with the same elements. Raises
    RuntimeError if the memory belongs to another library and is too small.
    """
    if isinstance(array, MetaArray):
        array.memory.nbytes = max(array.memory.nbytes, array.offset + layout.size * array.itemsize)
        found: Any = MetaArray(layout.shape, array.dtype, layout.strides, array.memory, array.offset)
        return found
    if type(array) is not np.ndarray:  # an array with a conjugate or negative bit
        deferred: Any = array
        return deferred.through(lambda memory: resized(memory, layout))
    offset = offset_in_elements(array)
    whole = owner(array)
    start, end = extent(whole)
    memory = array
    if layout.size and (offset + layout.size) * array.itemsize > end - start:
        if not is_resizable(whole):
            raise RuntimeError("Trying to resize storage that is not resizable")
        memory = np.empty(offset + layout.size, array.dtype)
        old = flat(whole).view(array.dtype)
        memory[: min(old.size, memory.size)] = old[: memory.size]
    return strided_view(memory, layout.shape, [s // layout.itemsize for s in layout.strides], offset)


def file_of(base: np.ndarray) -> str | None:
    """Return the path of the file that writes to an owner's memory change; None if there is none."""
    found = owner(base.base.kept) if isinstance(base.base, _Elements) else base
    return str(found.filename) if isinstance(found, np.memmap) and found.mode != "c" else None


def map_file(filename: str | PathLike[str], shared: bool, nbytes: int) -> np.ndarray:
    """Return the first bytes of a file as an array on its pages; see UntypedStorage.from_file."""
    from os.path import exists, getsize

    if nbytes < 0:
        raise RuntimeError(f"unable to mmap {nbytes} bytes from file <{filename}>")
    there = getsize(filename) if exists(filename) else 0
    if there < nbytes and not shared:
        raise RuntimeError(
            f"from_file(): file {filename} has {there} bytes, fewer than the requested {nbytes}; "
            "shared=True extends the file"
        )
    if not nbytes:
        return np.empty(0, np.uint8)
    mode: Any = "r+" if shared and there else "w+" if shared else "c"
    try:
        return np.memmap(filename, np.uint8, mode, shape=(nbytes,)).view(np.ndarray)
    except OSError as error:
        raise RuntimeError(f"unable to open file <{filename}>: {error.strerror} ({error.errno})") from error
