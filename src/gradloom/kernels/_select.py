"""Choices between two arrays, and bounds, without a branch at every element.

Note [Branches]
`np.where` and `np.maximum` with a number are loops with a branch or a single element at a time, which costs
five to twenty times a vector loop once an array's mask is irregular. The same is had from arithmetic on the
bits of the numbers, which is exact for infinities and NaNs too, and from a row of equal numbers instead of
one number.
"""

from __future__ import annotations

import numpy as np

_FEW = 4096  # elements, below which one NumPy call is better than three
_ROW = 512  # elements: a row that stays in the first-level cache


def keep_where(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """`values` where `mask` holds, 0 elsewhere, also instead of infinities and NaNs; shapes broadcast."""
    width = values.dtype.itemsize
    if width > 8:
        return np.where(mask, values, values.dtype.type(0))
    bits = values.view(_BITS[width])
    return np.multiply(bits, mask, dtype=bits.dtype).view(values.dtype)


def select(mask: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a` where `mask` holds, `b` elsewhere, for arrays of one dtype; shapes broadcast."""
    if mask.size < _FEW or a.dtype.itemsize > 8:
        return np.where(mask, a, b)
    bits = _BITS[a.dtype.itemsize]
    kept = b.view(bits)
    found = np.subtract(a.view(bits), kept)  # wraps around, and back again
    found = np.multiply(found, mask, dtype=bits)
    found += kept
    return found.view(a.dtype)


def bounded(ufunc: np.ufunc, self: np.ndarray, bound: np.generic, out: np.ndarray | None = None) -> np.ndarray:
    """`ufunc(self, bound)` for np.maximum or np.minimum and a number of self's dtype.

    Args:
        out: None, or an array of self's shape and strides, which may be `self`.
    """
    if self.size < _FEW or not self.flags.forc:
        return ufunc(self, bound) if out is None else ufunc(self, bound, out=out)
    if out is None:
        out = np.empty_like(self)
    source, target = self.ravel("K"), out.ravel("K")  # contiguous: no copies
    rows = source.size // _ROW * _ROW
    ufunc(source[:rows].reshape(-1, _ROW), np.full(_ROW, bound), out=target[:rows].reshape(-1, _ROW))
    if rows < source.size:
        ufunc(source[rows:], bound, out=target[rows:])
    return out


_BITS = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}
