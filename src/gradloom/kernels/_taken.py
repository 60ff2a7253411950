"""Reading from and writing to an array as if it had one dimension."""

from __future__ import annotations

import numpy as np

from ._accumulate import update
from ._copies import clone
from ._index_checks import type_name, writable


def take(self, index):
    """The elements at the indices; negative ones count from the end. The result has the shape of the index.

    Raises:
        RuntimeError: for an index that is not int64.
        IndexError: for one that points outside.
    """
    if index.dtype != np.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {type_name(index)}")
    if index.size and not self.size:
        raise IndexError("take(): tried to take from an empty tensor")
    _check_range(index, self.size)
    return self.take(index) if index.size else np.empty(index.shape, self.dtype)


def put(self, index, source, accumulate=False):
    """A copy of `self` with `source` at the indices, or added there."""
    return put_(clone(self), index, source, accumulate)


def put_(self, index, source, accumulate=False):
    """`put` in place.

    Raises:
        RuntimeError: for an index that is not int64, and for different dtypes.
        IndexError: for an index that points outside, or has not as many elements as `source`.
    """
    if index.dtype != np.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {type_name(index)}")
    if source.dtype is not self.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{type_name(self)} and source.dtype = {type_name(source)}"
        )
    if source.size != index.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.size}, index.numel() = {index.size}"
        )
    if index.size and not self.size:
        raise IndexError("put_(): Tried to put elements into an empty tensor")
    _check_range(index, self.size)
    if not index.size:
        return self
    writable(self, index, source)
    if accumulate:
        update(np.add, self, np.where(index < 0, index + self.size, index), source)
    elif self.flags.c_contiguous:
        self.reshape(-1)[index.reshape(-1)] = source.reshape(-1)
    else:
        places = np.unravel_index(np.where(index < 0, index + self.size, index).reshape(-1), self.shape)
        self[places] = source.reshape(-1)
    return self


def _check_range(index, n) -> None:
    if index.size:
        bad = index[(index < -n) | (index >= n)]
        if bad.size:
            raise IndexError(f"out of range: tried to access index {bad[0]} on a tensor of {n} elements.")
