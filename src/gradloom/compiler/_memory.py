"""Memory of compiled programs: views by geometry, and new buffers in a layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory.ownership import address, owner


def size_of(shape: tuple[int, ...]) -> int:
    """Return the number of elements."""
    size = 1
    for n in shape:
        size *= n
    return size


def same_layout(
    shape: tuple[int, ...], strides: tuple[int, ...], other: tuple[int, ...], other_strides: tuple[int, ...]
) -> bool:
    """Return whether two geometries are equal, but for strides of dimensions of one element."""
    if shape != other:
        return False
    if strides == other_strides:
        return True
    return all(n == 1 or a == b for n, a, b in zip(shape, strides, other_strides, strict=True)) or not size_of(shape)


def strided(base: np.ndarray, shape: Any, strides: Any, offset: int, dtype: Any) -> np.ndarray:
    """Return a view of the memory of an array: offset from its first element, and strides, in bytes."""
    if base.dtype.isbuiltin == 2:  # one of ml_dtypes, which has no buffer
        base = base.view(f"u{base.itemsize}")
    if base.flags.c_contiguous:
        return np.ndarray(shape, dtype, base, offset, strides)
    order = sorted(range(base.ndim), key=lambda d: -base.strides[d])
    packed = base.transpose(order)
    if packed.flags.c_contiguous:
        return np.ndarray(shape, dtype, packed, offset, strides)
    seen = np.asarray(_Place(base, shape, strides, offset, dtype))
    return seen if seen.dtype == dtype else seen.view(dtype)


class _Place:
    """Exposes elements in the memory of an array to NumPy, and keeps that alive."""

    def __init__(self, base: np.ndarray, shape: Any, strides: Any, offset: int, dtype: Any) -> None:
        self.kept = base
        code = np.dtype(f"u{dtype.itemsize}") if dtype.isbuiltin == 2 else dtype
        self.__array_interface__ = {
            "data": (base.__array_interface__["data"][0] + offset, not base.flags.writeable),
            "shape": shape,
            "strides": strides,
            "typestr": code.str,
            "version": 3,
        }


def new(shape: Any, strides: Any, dtype: Any) -> np.ndarray:
    """Return new memory with the given strides, which are those of a dense array in some order of its dimensions."""
    order = sorted(range(len(shape)), key=lambda d: (-strides[d], -shape[d]))
    back = [0] * len(shape)
    for i, d in enumerate(order):
        back[d] = i
    out = np.empty([shape[d] for d in order], dtype).transpose(back)
    return out if same_layout(shape, out.strides, shape, strides) else np.empty(shape, dtype)


def placed(
    array: np.ndarray, shape: Any, strides: Any, dtype: Any, view: Any, view_strides: Any, offset: int
) -> np.ndarray:
    """Return memory of the given geometry that has an array at a place in it: the array's own, or a copy.

    Args:
        shape, strides, dtype: of the memory's owner.
        view, view_strides, offset: sizes and strides of the array in it, and its distance from the start, in bytes.
    """
    own = owner(array)
    if own.dtype == dtype and same_layout(own.shape, own.strides, shape, strides):
        if same_layout(array.shape, array.strides, view, view_strides) and address(array) - address(own) == offset:
            return own
    out = new(shape, strides, dtype)
    strided(out, view, view_strides, offset, array.dtype)[...] = array
    return out


def laid(array: np.ndarray, shape: Any, strides: Any) -> np.ndarray:
    """Return the array in the layout that the program expects, copied if a kernel chose another one."""
    if array.strides == strides or same_layout(array.shape, array.strides, shape, strides):
        return array
    out = new(shape, strides, array.dtype)
    out[...] = array
    return out
