"""Sums, means, products and variances.

Note [Sums]
Sums of floating arrays are products with ones: BLAS is several times faster than NumPy's reductions, most of all for
short rows, such as those of a (100000, 2) array. To bound the rounding error, at most a few dozen numbers are added in
sequence: longer dimensions are added in blocks, and the sums of blocks in blocks again (Higham 1993, "The accuracy of
floating point summation"). A product adds a row in eight or more sums at once, but columns in sequence: blocks of rows
are longer.

Note [Variances]
The variance of numbers with a large mean loses their common digits if the mean is rounded before it is subtracted.
Subtracting the first number instead is exact for numbers near each other, and the mean of the differences is as exact
as they are. Equal numbers have the variance 0. Variances of small
arrays are computed in double precision, as PyTorch's.

Note [Narrow reductions]
`ufunc.reduce` runs one inner loop per row of the innermost dimension; starting it costs as much as a hundred elements.
`reduce` works by columns if rows are short.
"""

from __future__ import annotations

from builtins import sum as python_sum
from math import sqrt

import numpy as np

from ...types.silence import warn_user
from .._common.blas import FEW, dot, gemm
from .._common.dims import axes, cast, count, dropped, to_last
from .._common.errors import refuse, refuse_float8, type_name
from .._common.layout import row_major
from .._common.numbers import is_half, widen
from .._common.tables import LONGEST, number, ones

add = np.add.reduce
_BLOCK = 256  # elements of a row summed by one product
_SHORT = 1024  # elements up to which BLAS, with its several partial sums, is as exact as NumPy
_COLUMN = 32  # elements of a column, far from each other, summed by one product
_FEW = 512  # elements, up to which one NumPy call is the fastest way
_EXACT = 1 << 15  # elements, up to which a variance in double precision costs little
_FLAT = LONGEST  # the same for the sum of all elements, which NumPy adds pairwise


def total(array: np.ndarray):
    """Return the sum of all elements of a float32, float64 or complex array, in its dtype."""
    size = array.size
    if size == 1:  # a product would keep the sign of -0.0
        return add(array, None)
    if size <= _BLOCK and array.ndim == 1:
        return array.dot(ones[array.dtype.char, size])
    flags = array.flags
    if size <= _SHORT and flags.c_contiguous:
        return array.reshape(-1).dot(ones[array.dtype.char, size])
    if size <= _FLAT:
        return add(array, None)
    flat = array.reshape(-1, order="C" if flags.c_contiguous or not flags.f_contiguous else "F")
    while flat.size > _FLAT:
        flat = _blocks(flat.reshape(1, -1))[0]
    return add(flat)


def _blocks(rows: np.ndarray) -> np.ndarray:
    """Sum each block of a row: (m, n) becomes (m, n / _BLOCK)."""
    m, n = rows.shape
    blocks = n // _BLOCK
    whole = blocks * _BLOCK
    parts = gemm(rows[:, :whole].reshape(m, blocks, _BLOCK), ones[rows.dtype.char, _BLOCK])
    if whole == n:
        return parts
    rest = gemm(rows[:, whole:], ones[rows.dtype.char, n - whole])
    return np.concatenate((parts, rest[:, None]), 1)


def row_sums(rows: np.ndarray) -> np.ndarray:
    """Sum the rows of a matrix of a floating or complex dtype."""
    if rows.size <= FEW and rows.shape[1] <= _BLOCK:
        return rows.dot(ones[rows.dtype.char, rows.shape[1]])
    while rows.shape[1] > _BLOCK:
        rows = _blocks(rows)
    return dot(rows, ones[rows.dtype.char, rows.shape[1]])


def along(array: np.ndarray, axis, keepdim: bool):
    """Return the sum of a float32, float64 or complex array over some dimensions, in its dtype."""
    if array.size <= _FEW or not array.flags.c_contiguous:
        return _added(array, axis, keepdim)
    shape, ndim = array.shape, array.ndim
    if axis == 0 and ndim == 2 and shape[0] <= 2 * _COLUMN:
        weights = ones[array.dtype.char, shape[0]]
        found = weights.dot(array) if array.size <= FEW else dot(weights, array)
        return found[None] if keepdim else found
    if axis is None:
        return np.asarray(total(array)).reshape((1,) * ndim if keepdim else ())
    if axis == ndim - 1 and shape[axis]:
        found = row_sums(array.reshape(-1, shape[axis]))
        return found.reshape((*shape[:-1], 1) if keepdim else shape[:-1])
    reduced = (axis,) if axis.__class__ is int else sorted(axis)
    found, end = array, ndim
    while end:  # groups of adjacent dimensions, the last group first
        start = end
        while start and (start - 1 in reduced) == (end - 1 in reduced):
            start -= 1
        if end - 1 in reduced:
            outer, n, inner = _product(shape[:start]), _product(shape[start:end]), found.size
            inner = inner // (outer * n) if outer * n else 0
            found = _group(found.reshape(outer, n, inner))
        end = start
    return found.reshape([1 if d in reduced else n for d, n in enumerate(shape) if keepdim or d not in reduced])


def _product(sizes) -> int:
    found = 1
    for n in sizes:
        found *= n
    return found


def _group(array: np.ndarray) -> np.ndarray:
    """Sum (outer, n, inner) over n: (outer, inner)."""
    outer, n, inner = array.shape
    char = array.dtype.char
    if inner == 1:
        return row_sums(array.reshape(outer, n))
    while n > 2 * _COLUMN:
        blocks = n // _COLUMN
        whole = blocks * _COLUMN
        parts = gemm(ones[char, _COLUMN], array[:, :whole].reshape(outer, _COLUMN, blocks * inner))
        parts = parts.reshape(outer, blocks, inner)
        array = parts if whole == n else np.concatenate((parts, array[:, whole:]), 1)
        n = array.shape[1]
    if outer > 64 and n * inner < 256:  # many small products: their number determines the cost
        return reduce(np.add, array, 1, False)
    if outer == 1:
        return dot(ones[char, n], array.reshape(n, inner)).reshape(1, inner)
    return gemm(ones[char, n], array)


def _added(array, axis, keepdim):
    """Add by NumPy, which is pairwise along the innermost dimension only; other long ones are cut into blocks."""
    if array.size > _FEW and array.dtype.char in "fF":
        if array.flags.f_contiguous:
            reduced = range(array.ndim) if axis is None else (axis,) if axis.__class__ is int else axis
            return row_major(along(array.T, tuple([array.ndim - 1 - d for d in reduced]), keepdim).T)
        if axis.__class__ is not int:
            return along(np.ascontiguousarray(array), axis, keepdim)
        if array.shape[axis] > _BLOCK:
            moved = np.moveaxis(array, axis, 0)
            found = along(np.stack([add(moved[i : i + _BLOCK], 0) for i in range(0, len(moved), _BLOCK)]), 0, False)
            return np.expand_dims(found, axis) if keepdim else found
    found = add(array, axis, None, None, keepdim)
    return found if found.ndim < 2 or array.flags.c_contiguous else row_major(found)


def sum_type(array: np.ndarray) -> np.dtype:
    """Return the dtype of a sum or a product: int64 for integers."""
    return np.dtype(np.int64) if array.dtype.kind in "iub" else array.dtype


def sum_over(array: np.ndarray, axis, keepdim: bool, kind: np.dtype):
    """Return the sum in the dtype `kind`; halves stay in float32 until the end."""
    if kind.kind == "b":
        return row_major(np.logical_or.reduce(array, axis, None, None, keepdim))
    half = is_half(kind)
    if array.dtype.kind in "iub" and kind.kind in "iu":
        return reduce(np.add, array if array.dtype == kind else array.astype(kind), axis, keepdim)
    if array.dtype != kind and (half or not is_half(array.dtype)):
        refuse_float8("sum_cpu", kind)
        array = cast(array, kind)
    if is_half(array.dtype):
        array = array.astype(np.float32 if half else kind)
    if array.dtype.kind not in "fc":
        return reduce(np.add, array, axis, keepdim)
    found = total(array) if axis is None and not keepdim else along(array, axis, keepdim)
    return found.astype(kind) if half else found


_SEQUENTIAL = (np.add, np.multiply)  # added in sequence within a row
_NARROW = 8  # columns, up to which rows are reduced column by column
_MANY = 256  # rows, from which on that pays
_WIDTH = 4096  # elements per row after folding a narrow matrix


def reduce(ufunc, array: np.ndarray, axis, keepdim: bool):
    """`ufunc.reduce(array, axis, keepdims=keepdim)`. `axis` is an int, a tuple or None."""
    if axis is None and not keepdim:
        if ufunc in _SEQUENTIAL and array.size > _WIDTH and array.flags.c_contiguous:
            array = _folded(ufunc, array.reshape(-1, 1))
        return ufunc.reduce(array, None, _kept(ufunc, array))
    if axis.__class__ is int and array.size > _MANY:
        n = array.shape[axis]
        if axis == array.ndim - 1:
            if 0 < n <= _NARROW and array.size >= _MANY * n:
                found = _columns(ufunc, array)
                return found[..., None] if keepdim else found
        elif axis == 0 and array.flags.c_contiguous and n > _MANY and array.size <= n * _WIDTH // _MANY:
            found = _folded(ufunc, array.reshape(n, -1)).reshape(array.shape[1:])
            return found[None] if keepdim else found
    found = ufunc.reduce(array, axis, _kept(ufunc, array), None, keepdim)
    return found if found.ndim < 2 or array.flags.c_contiguous else row_major(found)


def _kept(ufunc, array):
    """Return the dtype to reduce in: the array's own, although NumPy would widen small integers."""
    return array.dtype if ufunc in _SEQUENTIAL else None


def _columns(ufunc, array):
    """Reduce the last dimension by whole columns."""
    found = array[..., 0].copy()
    for i in range(1, array.shape[-1]):
        ufunc(found, array[..., i], out=found)
    return found


def _folded(ufunc, matrix):
    """Reduce the rows of a contiguous matrix to one, in two steps: first as rows that hold several of them."""
    n, m = matrix.shape
    together = max(1, _WIDTH // m)
    whole = n // together * together
    kind = _kept(ufunc, matrix)
    if not whole:
        return ufunc.reduce(matrix, 0, kind)
    wide = ufunc.reduce(matrix[:whole].reshape(-1, together * m), 0, kind)
    found = ufunc.reduce(wide.reshape(together, m), 0, kind)
    return found if whole == n else ufunc(found, ufunc.reduce(matrix[whole:], 0, kind))


_TINY = 8  # elements, up to which Python adds faster than NumPy


def sum(self, dtype=None):
    """Return the sum of all elements; integers add up in int64."""
    if dtype is None:
        kind = self.dtype
        if kind.char in "fdFD":
            if self.size <= _TINY and self.ndim == 1:  # twice as fast as one call of a ufunc's reduce
                return np.array(python_sum(self.tolist()), kind)
            return total(self)
        dtype = sum_type(self)
    return sum_over(self, None, False, dtype)


def sum_dim(self, dim=None, keepdim=False, dtype=None):
    """Return the sum over dimensions, all for None or ()."""
    axis = axes(dim, self.ndim)
    if dtype is None and self.dtype.char in "fdFD":
        return along(self, axis, keepdim)
    return sum_over(self, axis, keepdim, sum_type(self) if dtype is None else dtype)


def mean(self, dtype=None):
    """Return the mean of all elements. Raises RuntimeError for integers, unless `dtype` is a floating type."""
    if dtype is None and self.dtype.char in "fdFD":
        return sum(self) / (self.size or np.nan)
    return mean_dim(self, None, False, dtype)


def mean_dim(self, dim=None, keepdim=False, dtype=None):
    """Return the mean over dimensions, all for None or ()."""
    kind = self.dtype if dtype is None else dtype
    if kind.kind not in "fcV":
        what = "Input" if dtype is None else "Optional"
        raise NotImplementedError(
            f"mean(): could not infer output dtype. {what} dtype must be either a floating point or "
            f"complex dtype. Got: {type_name(kind)}"
        )
    axis = axes(dim, self.ndim)
    if dtype is not None:
        refuse_float8("sum_cpu", dtype)
    half = is_half(kind)
    found = sum_over(cast(self, kind), axis, keepdim, np.dtype(np.float32) if half else kind)
    found = found / (count(self, axis) or np.nan)
    return found.astype(kind) if half else found


def nansum(self, dim=None, keepdim=False, dtype=None):
    """Return the sum over dimensions with NaN counted as zero."""
    axes(dim, self.ndim)
    if self.dtype.kind == "c":
        raise NotImplementedError("nansum on CPU does not support complex inputs")
    if self.dtype.kind in "fV":
        self = np.where(np.isnan(self), self.dtype.type(0), self)
    return sum_dim(self, dim, keepdim, dtype)


def prod(self, dtype=None):
    """Return the product of all elements; integers multiply in int64."""
    return _prod(self, None, False, dtype)


def prod_dim(self, dim, keepdim=False, dtype=None):
    """Return the product over one dimension."""
    return _prod(self, axes(dim, self.ndim), keepdim, dtype)


def _prod(self, axis, keepdim, dtype):
    if dtype is None and self.dtype.char in "fdFD":
        return reduce(np.multiply, self, axis, keepdim)
    kind = sum_type(self) if dtype is None else dtype
    if dtype is not None:
        refuse_float8("prod_out_cpu", dtype)
    if kind.kind == "b":
        return row_major(np.logical_and.reduce(self, axis, None, None, keepdim))
    if self.dtype.kind not in "iub" or kind.kind not in "iu":
        self = cast(self, kind)
    if is_half(kind):
        return reduce(np.multiply, self.astype(np.float32), axis, keepdim).astype(kind)
    return reduce(np.multiply, self if self.dtype == kind else self.astype(kind), axis, keepdim)


def logsumexp(self, dim, keepdim=False):
    """Return log(sum(exp(x))) over dimensions, shifted by the greatest real part to avoid overflow."""
    kind = self.dtype
    x = self.astype(np.float32) if is_half(kind) else self
    axis = axes(dim, x.ndim)
    real = x.real if kind.kind == "c" else x
    if not count(x, axis):
        top = np.zeros((), real.dtype)
    else:
        top = np.maximum.reduce(real, axis, None, None, True)
        top = np.where(np.isinf(top), real.dtype.type(0), top)
    if is_half(kind):  # each step is rounded; sums are taken in float32
        top = top.astype(kind)
        terms = np.exp(self - top).astype(np.float32)
        found = np.log(along(terms, axis, True).astype(kind)) + top
    else:
        found = np.log(along(np.exp(x - top), axis, True)) + top
    if not keepdim:
        found = found.reshape(()) if axis is None else np.squeeze(found, axis)
    return found.astype(kind, copy=False)


def trace(self):
    """Return the sum of the diagonal of a matrix; integers add up in int64."""
    if self.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.ndim}")
    refuse("trace", self, "b")
    return sum(np.diagonal(self))


def var(self, dim=None, correction=None, keepdim=False):
    """Return the variance over dimensions, divided by the number of elements less `correction` (1 if None); real."""
    return _moments("var", self, dim, correction, keepdim, "std and var")[0]


def std(self, dim=None, correction=None, keepdim=False):
    """Return the square root of the variance."""
    return _moments("std", self, dim, correction, keepdim, "std and var")[0]


def var_mean(self, dim=None, correction=None, keepdim=False):
    """Return the variance and the mean."""
    return _moments("var_mean", self, dim, correction, keepdim, "var_mean")


def std_mean(self, dim=None, correction=None, keepdim=False):
    """Return the standard deviation and the mean."""
    return _moments("std_mean", self, dim, correction, keepdim, "std_mean")


def _infinite_mean(x, mean, axis, n):
    """Return means as PyTorch updates them with one element after the other: an infinity that is not the last one gives
    NaN. The parts of complex numbers are on their own."""
    if x.dtype.kind == "c":
        found = mean.copy()
        for part, of_x in ((found.real, x.real), (found.imag, x.imag)):
            part[...] = _infinite_mean(of_x, along(of_x, axis, True) / n, axis, n)
        return found
    rows = to_last(x, axis)
    if not rows.shape[-1]:
        return mean
    before = np.isfinite(rows[..., :-1]).all(-1)
    found = np.where(before, mean.reshape(before.shape), rows.dtype.type(np.nan))
    last = rows[..., -1]
    return np.where(before & ~np.isfinite(last), last, found).reshape(mean.shape)


def _firsts(array, axis):
    """Return the index of the first element along some dimensions, which are kept, with size 0 where there is none."""
    reduced = range(array.ndim) if axis is None else (axis,) if axis.__class__ is int else axis
    return tuple([slice(0, 1) if d in reduced else slice(None) for d in range(array.ndim)])


def _are_rows(axis, array) -> bool:
    """Return whether all dimensions, or the last one, of a contiguous array are reduced."""
    return (axis is None or axis.__class__ is int and axis == array.ndim - 1) and array.flags.c_contiguous


def _single_row_moments(row, n: int, free, root: bool):
    """Return what `_row_moments` does for one row."""
    x = row.astype(np.float64).reshape(-1)
    mean = dot(x, ones["d", n]) / n
    if mean - mean != 0:
        return None
    x -= mean
    variance = dot(x, x) / free
    return np.array(sqrt(variance) if root else variance, row.dtype), np.array(mean, row.dtype)


def _row_moments(rows, n: int, free, root: bool):
    """Return (variance or its root, mean) of each row of a float32 matrix, computed in double precision, in which the
    sum of equal numbers is exact; None if a mean may not be finite."""
    x = rows.astype(np.float64)
    weights = ones["d", n]
    mean = dot(x, weights)
    mean /= number(n, x.dtype)
    known = dot(mean, mean)
    if known - known != 0:
        return None
    x -= mean.reshape(-1, 1)
    x *= x
    variance = dot(x, weights)
    variance /= number(free, x.dtype)
    if root:
        np.sqrt(variance, variance)
    return variance.astype(rows.dtype), mean.astype(rows.dtype)


def _moments(name, array, dim, correction, keepdim, refusing):
    """Return (variance or standard deviation, mean). Raises RuntimeError for integers. Note [Variances]."""
    kind = array.dtype
    if kind.kind not in "fcV":
        raise NotImplementedError(f"{refusing} only support floating point and complex dtypes")
    axis = axes(dim, array.ndim)
    n = count(array, axis)
    free = n - (1 if correction is None else correction)
    if free <= 0:
        warn_user(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
            "factor (input numel divided by output numel)."
        )
    if kind.char == "f" and 0 < n <= _FLAT and free > 0 and array.size <= _EXACT and _are_rows(axis, array):
        moments = _single_row_moments if array.size == n else _row_moments
        found = moments(array.reshape(-1, n), n, free, name.startswith("std"))
        if found is not None:
            shape = (1,) * array.ndim if axis is None else (*array.shape[:-1], 1)
            shape = shape if keepdim else () if axis is None else shape[:-1]
            return found[0].reshape(shape), found[1].reshape(shape)
    x, wide = widen(array), kind
    if array.size <= _EXACT or kind.kind == "c":
        wide = np.dtype(np.complex128 if kind.kind == "c" else np.float64)
    elif is_half(kind):
        wide = x.dtype
    first = x[_firsts(x, axis)]
    spread = np.subtract(x, first, dtype=wide)
    mean = np.asarray(along(spread, axis, True) / (n or np.nan))
    if np.isfinite(mean).all():
        spread = np.subtract(spread, mean, out=spread if spread.__class__ is np.ndarray else None)
        mean = mean + first
    else:
        x = x.astype(wide, copy=False)
        mean = np.asarray(along(x, axis, True) / (n or np.nan))
        if not np.isfinite(mean).all():
            mean = _infinite_mean(x, mean, axis, n)
        spread = x - mean
    if kind.kind == "c":
        squares = along(spread.real**2 + spread.imag**2, axis, True)
        kind = array.real.dtype
    else:
        squares = along(np.multiply(spread, spread, out=spread if spread.__class__ is np.ndarray else None), axis, True)
    with np.errstate(all="ignore" if free <= 0 else None):
        found = squares / squares.dtype.type(free if free > 0 else 0)
    if name.startswith("std"):
        found = np.sqrt(found)
    found, mean = found.astype(kind, copy=False), mean.astype(array.dtype, copy=False)
    return (found, mean) if keepdim else (dropped(found, axis), dropped(mean, axis))
