"""The check at the entry of machine code: that its arrays are what it relies on.

Note [Arrays that fit]
A loop program declares of each buffer the dtype, and by its space and strides the bytes that it reads or writes; so do
products by their matrices, and routines by their integers. Machine code computes addresses from that alone. So each
entry to it first calls `fits`, which compares the arrays that were passed with what is declared, the `Walk`s:

- an array of NumPy's own type (a subclass, by Python), of that very dtype, aligned, and writable if it is written to;
- its elements begin and end where the walk does, counted in bytes from its first element; where a walk needs not be
  of the whole array, they may reach further;
- the walk has no byte of a gap between its elements. Arrays without gaps have none; of others, each dimension of the
  walk is made up of dimensions of the array.

This takes some nanoseconds for each array. `fits` refuses also some that fit, of unusual strides; where it does,
`misfit` decides by marking elements, and keeps what it found. Machine code that is called by `call` returns MISFIT
before it has written anything, and the caller has NumPy's kernel compute, or raise, what it always does. All else
raises `MisfitError`. Arrays stay as they were checked: their sizes and addresses change only by NumPy's `resize` and by
assignments to `shape`, `strides` or `data`, which nothing of gradloom does to an array that others see.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .host import Unsupported

ndarray = np.ndarray
CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400  # NumPy's flags
DATA, NDIM, SIZES, STRIDES, BASE, DTYPE, FLAGS = 0, 8, 16, 24, 32, 40, 48  # places in NumPy's struct, after its header
MISFIT = "the arrays are not those that the machine code takes"  # what `call` returns then: it is true, but not True
_MOST_DIMS = 16  # of a walk that machine code compares


class MisfitError(RuntimeError):
    """Machine code was called with an array that it would leave, or misread."""


class Walk(NamedTuple):
    """What machine code reads or writes of an array.

    Attributes:
        shape, strides: of the elements, in bytes; without dimensions in which it does not move.
        offset: of the first one from that of the array, in bytes.
        is_written: whether it writes to them.
        is_whole: whether the array has no other elements.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    is_written: bool = False
    is_whole: bool = True

    @property
    def edges(self) -> tuple[int, int]:
        return edges_of(self.shape, self.strides, self.dtype.itemsize, self.offset)


def walk(
    dtype: Any, shape: Sequence[int], strides: Sequence[int], offset: int = 0, is_written: bool = False,
    is_whole: bool = True,
) -> Walk:  # fmt: skip
    """Return the walk over an array, or a part of it; strides are in bytes."""
    moves = [(n, s) for n, s in zip(shape, strides, strict=True) if s and n != 1]
    if 0 in shape:
        moves = [(0, np.dtype(dtype).itemsize)]
    return Walk(
        np.dtype(dtype), tuple([n for n, _ in moves]), tuple([s for _, s in moves]), offset, is_written, is_whole
    )


def contiguous(dtype: Any, *shape: int, is_written: bool = False) -> Walk:
    """Return the walk over all of a contiguous array."""
    item = np.dtype(dtype).itemsize
    strides = [item * int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return walk(dtype, shape, strides, 0, is_written)


def edges_of(shape: Sequence[int], strides: Sequence[int], item: int, offset: int = 0) -> tuple[int, int]:
    """Return where the first byte of some elements is, and where the last one ends; (0, 0) if there are none."""
    if 0 in shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return offset + sum(r for r in reach if r < 0), offset + sum(r for r in reach if r > 0) + item


def merged(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return the dimensions as (stride, size) from small strides to large ones, those that follow each other as one;
    None if elements are walked over twice."""
    found: list[tuple[int, int]] = []
    for s, n in sorted(zip(strides, shape, strict=True), key=lambda x: abs(x[0])):
        if found and s == found[-1][0] * found[-1][1]:
            found[-1] = found[-1][0], found[-1][1] * n
        elif found and abs(s) < abs(found[-1][0]) * found[-1][1]:
            return None
        else:
            found.append((s, n))
    return found if len(found) <= _MOST_DIMS else None


def misfit(w: Walk, x: np.ndarray) -> str | None:
    """Return why an array does not fit a walk; None if it does."""
    if x.dtype != w.dtype:
        return f"has dtype {x.dtype}, not {w.dtype}"
    if not x.flags.aligned:
        return "is not aligned"
    if w.is_written and not x.flags.writeable:
        return "is read-only"
    if not _covers(w.shape, w.strides, w.offset, w.is_whole, w.dtype.itemsize, x.shape, x.strides):
        how = "" if w.is_whole else f"{w.offset} bytes after the first and "
        return (
            f"has {list(x.shape)} elements with strides {x.strides}, which are not those of {list(w.shape)} "
            f"{how}with strides {w.strides}"
        )
    return None


@lru_cache(1024)
def _covers(shape: Any, strides: Any, offset: int, is_whole: bool, item: int, own: Any, own_strides: Any) -> bool:
    """Return whether each element of a walk is one of the array's."""
    (low, high), (first, last) = edges_of(shape, strides, item, offset), edges_of(own, own_strides, item)
    if is_whole and (low, high) != (first, last) or low < first or high > last:
        return low == high
    if low == high:
        return True
    marks = np.zeros(last - first, np.bool_)
    as_strided(marks[-first:], (*own, item), (*own_strides, 1))[...] = True
    return bool(as_strided(marks[offset - first :], (*shape, item), (*strides, 1)).all())


@cache
def header_size() -> int:
    """Return how many bytes of an array object precede the address of its elements: Note [Calls]."""
    size = object.__basicsize__
    probe = np.empty(1)
    if ctypes.c_void_p.from_address(id(probe) + size).value != probe.ctypes.data:
        raise Unsupported("the llvm backend does not know where this NumPy keeps the address of an array's elements")
    _check_struct(size)
    return size


def _check_struct(header: int) -> None:
    """Raise Unsupported if NumPy's struct of an array is not as `fits` reads it."""
    probe = np.empty((3, 5, 7), np.float32)[:, ::-1, 1:]
    probe.flags.writeable = False
    at = id(probe) + header

    def word(place: int) -> int:
        return ctypes.c_int64.from_address(at + place).value

    def three(place: int) -> tuple[int, ...]:
        return tuple((ctypes.c_int64 * 3).from_address(word(place)))

    def flags() -> int:
        return ctypes.c_int32.from_address(at + FLAGS).value & (CONTIGUOUS | ALIGNED | WRITABLE)

    known = ctypes.c_int32.from_address(at + NDIM).value == 3 and word(BASE) == id(probe.base)
    known = known and word(DTYPE) == id(np.dtype(np.float32)) and flags() == ALIGNED
    if known:
        known = three(SIZES) == probe.shape and three(STRIDES) == probe.strides
    if not known:
        raise Unsupported("the llvm backend does not know where this NumPy keeps the sizes and strides of an array")
