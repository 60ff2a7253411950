"""Arrays in place of those without data: of the same layout without memory for views, and small ones for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..memory.conjugation import with_bits
from ..memory.metadata import ImaginaryBytes, MetaArray
from ..memory.ownership import address
from .tensor import meta_like

_PAGE = np.zeros(64, np.uint8)
_START = address(_PAGE)
_EMPTY = np.zeros(())
KEPT = 4  # sizes up to this are not renamed


def seen(array: MetaArray) -> Any:
    """Return an array of the same geometry that must not be read."""
    if array.size:
        memory = np.asarray(ImaginaryBytes(_START, max(array.memory.nbytes, array.offset + array.itemsize)))
        found = np.ndarray(array.shape, array.dtype, memory, array.offset, array.strides)
    else:
        found = np.ndarray(array.shape, array.dtype)
    return with_bits(found, array.conj_bit, array.neg_bit)


def unseen(found: Any, source: MetaArray) -> MetaArray:
    """Return the view of the memory of `source` that a function found in `seen(source)`."""
    bits = (False, False)
    if type(found) is not np.ndarray:
        bits = found.conj_bit, found.neg_bit
        found = found.memory
    offset = address(found) - _START if found.size else source.offset
    return MetaArray(found.shape, found.dtype, found.strides if found.size else None, source.memory, offset, *bits)


def wrap_any(array: Any) -> Tensor:
    """Return a tensor on an array that may have a conjugate or negative bit."""
    out = wrap(_EMPTY)
    out._array = array
    return out


class Renamed:
    """Small sizes in place of a call's, in the same order: sizes up to KEPT stay, larger ones become numbers above it.

    A function whose result has only sizes of its arguments gives the same result for small sizes, up to their names.

    Args:
        sizes: those of the call; none for the true sizes.
        step: distance of the small sizes.
        avoided: numbers among the arguments, which are no small sizes.
        computed: sizes of the result that a rule has computed, by dimension.
        kept: how many dimensions, counted from the last, keep their sizes.
        most: largest of the kept sizes; those above it become it.
    """

    def __init__(
        self,
        sizes: Any,
        step: int = 1,
        avoided: Any = (),
        computed: dict[int, int] | None = None,
        kept: int = 0,
        most: int | None = None,
    ) -> None:
        self.small: dict[int, int] = {}
        self.computed, self.kept, self.most = computed or {}, kept, most
        label = KEPT
        for n in sorted({n for n in sizes if n > KEPT}):
            label += step
            while label in avoided:
                label += 1
            self.small[n] = label
        self.large = {small: n for n, small in self.small.items()}

    def shrink(self, shape: Any) -> tuple[int, ...]:
        """Return the small sizes."""
        renamed = len(shape) - self.kept
        if self.most is not None:
            shape = [*shape[:renamed], *[min(n, self.most) for n in shape[renamed:]]]
        return tuple([self.small.get(n, n) if d < renamed else n for d, n in enumerate(shape)])

    def grow(self, shape: Any) -> tuple[int, ...]:
        """Return the sizes that small ones stand for.

        Raises ForeignSizeError for one that stands for none.
        """
        found = []
        for d, n in enumerate(shape):
            if d in self.computed:
                found.append(self.computed[d])
            elif d >= len(shape) - self.kept or not self.large or n <= KEPT:
                found.append(n)
            elif n in self.large:
                found.append(self.large[n])
            else:
                raise ForeignSizeError(shape)
        return tuple(found)


class ForeignSizeError(Exception):
    """A result has a size that is none of the arguments'."""


class UnannouncedWriteError(Exception):
    """A kernel writes to an argument that its schema does not mark as written to."""


def resized_strides(shape: Any, strides: Any, to: Any, item: int) -> tuple[int, ...]:
    """Return the strides, in bytes, of an array of another shape laid out as one of `shape` and `strides` is: in the
    same order, with gaps where that has gaps, and expanded dimensions where that has them."""
    if tuple(shape) == tuple(to):
        return tuple(strides)
    found = [0] * len(shape)
    old, new = item, item
    for d in sorted(range(len(shape)), key=lambda d: (strides[d], shape[d], -d)):
        if not strides[d]:
            continue
        gap = max(-(-strides[d] // old), 1) if strides[d] > old else 1
        found[d] = new * gap
        old, new = max(strides[d], old) * max(shape[d], 1), found[d] * max(to[d], 1)
    return tuple(found)


def stand_in(array: Any, sizes: Renamed, fill: str) -> Any:
    """Return a small ndarray laid out like an array without data.

    Args:
        array: MetaArray, or an ndarray, whose values are ignored.
        sizes: the small sizes.
        fill: "ones", "zeros"; or "data": ones, identity matrices, and indices that are in range; or "pivots": the same,
            with ones as integers, which LAPACK trusts to be pivots.
    """
    array = meta_like(array)
    shape, item = sizes.shrink(array.shape), array.itemsize
    count = 1
    for n in shape:
        count *= n
    if not count:
        found = np.empty(shape, array.dtype)
    else:
        strides = resized_strides(array.shape, array.strides, shape, item)
        reach = sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)]) + item
        found = np.ndarray(shape, array.dtype, np.zeros(reach, np.uint8), 0, strides)
        if fill in ("ones", "pivots") or fill == "data" and array.dtype.kind in "fcV":
            if fill != "ones" and len(shape) > 1 and 0 not in strides and array.dtype.kind in "fcV":
                found[...] = np.eye(shape[-2], shape[-1]).astype(array.dtype)
            else:
                found[...] = np.ones((), array.dtype)
    return with_bits(found, array.conj_bit, array.neg_bit)


def result(found: Any, sizes: Renamed) -> MetaArray:
    """Return the array without data that a small result stands for."""
    bits = (False, False)
    if type(found) is not np.ndarray:
        bits = found.conj_bit, found.neg_bit
        found = found.memory
    shape = sizes.grow(found.shape)
    strides = resized_strides(found.shape, found.strides, shape, found.itemsize) if found.size else None
    return MetaArray(shape, found.dtype, strides, None, 0, *bits)
