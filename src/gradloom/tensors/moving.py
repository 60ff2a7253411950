"""Moving memory: other memory for all tensors and storages that have some, since NumPy cannot move an array's own."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from ..core.tensor_base import TensorBase
from ..dispatch.overloads.registry import types
from ..memory.metadata import MetaArray, Metadata
from ..memory.ownership import address, extent, flat, is_resizable, owner


def move(moved: dict[int, tuple[np.ndarray, np.ndarray]]) -> None:
    """Let all tensors and storages of some owners of memory have other memory.

    Owners do not know their views, so this searches all objects.

    Args:
        moved: by id of the old owner: it, and the new one.
    """
    storages = types.storages
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, TensorBase):
            array = getattr(thing, "_array", None)
            if isinstance(array, Metadata):
                continue  # it has no memory
            array = array if type(array) is np.ndarray else getattr(array, "memory", None)
            if type(array) is np.ndarray and (found := moved.get(id(owner(array)))):
                thing._array = at(thing._array, *found)
        elif issubclass(kind, storages) and (found := moved.get(id(getattr(thing, "_owner", None)))):
            thing._owner = found[1]


def at(array: Any, base: np.ndarray, memory: np.ndarray) -> Any:
    """Return the array of the same layout and place in other memory."""
    if type(array) is not np.ndarray:  # an array with a conjugate or negative bit
        return array.through(lambda inner: at(inner, base, memory))
    offset = address(array) - extent(base)[0] if array.size else 0
    return np.ndarray(array.shape, array.dtype, memory, offset, array.strides)


def enlarge(base: np.ndarray, nbytes: int) -> np.ndarray:
    """Move the memory of an owner to the beginning of larger memory, with all its tensors and storages.

    Args:
        base: the owner.
        nbytes: size of the new memory, which is not initialised behind the old elements.

    Returns:
        The new owner, uint8 (nbytes,).

    Raises:
        RuntimeError: if the memory belongs to a file, another process or another library, and if there is no more.
    """
    if not is_resizable(base):
        raise RuntimeError("Trying to resize storage that is not resizable")
    start, end = extent(base)
    try:
        memory = np.empty(nbytes, np.uint8)
    except (MemoryError, ValueError):
        raise RuntimeError(
            f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes. "
            "Error code 12 (Cannot allocate memory)"
        ) from None
    if end > start:
        memory[: end - start] = flat(base).view(np.uint8)
    move({id(base): (base, memory)})
    return memory


def with_room(array: Any, shape: Any, strides: Any, offset: int) -> Any:
    """Return an array, without elements, on the memory of `array`, enlarged if a view would reach beyond its end.

    Args:
        array: any array on that memory.
        shape, strides, offset: of the view, in elements, from the start of the memory.

    Raises:
        RuntimeError: for a negative offset, size or stride, and if the memory cannot be enlarged.
    """
    if min(shape, default=0) < 0:
        raise RuntimeError(f"numel: integer multiplication overflow: sizes={list(shape)} must not be negative")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if min(strides, default=0) < 0:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(strides)}: "
            "strides must not be negative"
        )
    reach = offset + sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)]) + 1 if 0 not in shape else 0
    needed = reach * array.itemsize
    if isinstance(array, MetaArray):
        array.memory.nbytes = max(array.memory.nbytes, needed)
        return array
    memory: Any = array if type(array) is np.ndarray else array.memory  # without conjugate and negative bits
    base = owner(memory)
    start, end = extent(base)
    return memory if needed <= end - start else enlarge(base, needed)[:0].view(memory.dtype)
