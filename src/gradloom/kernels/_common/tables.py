"""Small constant arrays that kernels need at every call, kept read-only."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

LONGEST = 4096  # elements of a kept array
_KEPT = 64  # arrays of a table


class _Table(dict[tuple, np.ndarray]):
    """Arrays by key: looking one up takes a fifth of the time of a call. Long arrays are made anew each time."""

    def __init__(self, make: Callable[..., np.ndarray]) -> None:
        self._make = make

    def __missing__(self, key: tuple) -> np.ndarray:
        found = self._make(*key)
        if found.size <= LONGEST:
            if len(self) >= _KEPT:
                self.clear()
            found.flags.writeable = False
            self[key] = found
        return found


# ones[char, n]: `n` ones of a floating or complex dtype, read-only: vectors that sum rows by a product.
ones = _Table(lambda char, n: np.ones(n, char))
# column[char, n]: the same as a column. Its product with a matrix is the sums of its rows, which broadcast along them.
column = _Table(lambda char, n: np.ones((n, 1), char))


@lru_cache(32)
def triangle(n: int) -> np.ndarray:
    """Return the n x n matrix of float64 with ones on the diagonal and above it, read-only."""
    found = np.triu(np.ones((n, n)))
    found.flags.writeable = False
    return found


# starts[count, step]: 0, step, 2 * step, ...: the places in memory where `count` rows of `step` elements begin,
# read-only. A step of 0 is that of rows without elements.
starts = _Table(lambda count, step: np.arange(count) * step)


@lru_cache(64)
def number(value: float, dtype: np.dtype) -> np.ndarray:
    """Return a Python number as a 0-dim array, which NumPy takes as an operand faster than the number. Read-only. Zeros
    have no sign, because -0.0 and 0.0 share an entry."""
    found = np.array(value or 0, dtype)
    found.flags.writeable = False
    return found


def flat_places(index: np.ndarray, axis: int, shape: tuple) -> np.ndarray:
    """Convert an index along an axis to places in a contiguous array of `shape`, whose first elements it addresses in
    the other dimensions."""
    step = 1
    for n in shape[axis + 1 :]:
        step *= n
    places = index if step == 1 else index * np.int64(step)
    if index.size <= LONGEST:
        offsets = _kept_offsets(index.shape, axis, shape)
        return places if offsets is None else places + offsets
    for offsets in _offsets(index.shape, axis, shape):
        places = np.add(places, offsets, None if places is index else places)
    return places


def _offsets(sizes, axis, shape):
    """Yield the places of the indices of each dimension but `axis`, in the shape in which they are to be added."""
    step = 1
    for d in range(len(shape) - 1, -1, -1):
        if d != axis and sizes[d] > 1:
            yield starts[sizes[d], step].reshape((sizes[d], *(1,) * (len(sizes) - 1 - d)))
        step *= shape[d]


@lru_cache(64)
def _kept_offsets(sizes: tuple, axis: int, shape: tuple) -> np.ndarray | None:
    """Return the sum of `_offsets` in the shape `sizes`, read-only; None if there are none."""
    found = None
    for offsets in _offsets(sizes, axis, shape):
        found = offsets if found is None else found + offsets
    if found is None:
        return None
    found = np.array(np.broadcast_to(found, sizes), order="C")
    found.flags.writeable = False
    return found
