"""Running sums, products, extrema and logsumexps along one dimension."""

from __future__ import annotations

import numpy as np

from ...types.dtype import c_name
from .._common.blas import FEW, dot
from .._common.dims import axes, cast
from .._common.errors import not_implemented, refuse, refuse_float8
from .._common.layout import check_no_internal_overlap, row_major
from .._common.numbers import is_half
from .._common.tables import number, triangle
from .._common.threads import share
from .sums import sum_type

_WIDER = {"f": np.float64, "F": np.complex128}  # accumulation dtypes, as in PyTorch


def cumsum(self, dim, dtype=None):
    """Return running sums along a dimension; integers add up in int64."""
    return _accumulate(np.add, self, dim, dtype, "cumsum_out_cpu")


def cumprod(self, dim, dtype=None):
    """Return running products along a dimension; integers multiply in int64."""
    return _accumulate(np.multiply, self, dim, dtype, "cumprod_out_cpu")


def cumsum_(self, dim, dtype=None):
    """`cumsum` in place, in the array's own dtype; raises RuntimeError if another is asked for."""
    _accumulate_in_place(np.add, self, dim, dtype, "cumsum_out_cpu")


def cumprod_(self, dim, dtype=None):
    """`cumprod` in place, in the array's own dtype; raises RuntimeError if another is asked for."""
    _accumulate_in_place(np.multiply, self, dim, dtype, "cumprod_out_cpu")


def _accumulate_in_place(ufunc, array, dim, dtype, name):
    if dtype is not None and dtype != array.dtype:
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {c_name(array.dtype)} and output tensor dtype {c_name(dtype)} "
            "should match"
        )
    check_no_internal_overlap(array)
    array[...] = _accumulate(ufunc, array, dim, array.dtype, name)


def _accumulate(ufunc, array, dim, dtype, name):
    last = array.ndim - 1
    if array.dtype.char == "f" and ufunc is np.add and (dtype is None or dtype is array.dtype) and last >= 0:
        found = _short_sums(array) if dim in (last, -1) and array.size and array.shape[last] <= _SHORT else None
        if found is not None:
            return found
    axis = axes(dim, array.ndim)
    kind = sum_type(array) if dtype is None else dtype
    if kind.kind == "b" and array.size and axis is not None:
        raise not_implemented(name, np.empty(0, kind))
    if dtype is not None and axis is not None:
        refuse_float8(name, dtype)
    array = array.copy() if array.dtype == kind and axis is None else cast(array, kind)
    if axis is None:
        return array
    wide = np.float32 if is_half(kind) else _WIDER.get(kind.char, kind)
    found = ufunc.accumulate(array, axis, wide)
    found = found if found.dtype is kind else found.astype(kind)
    if ufunc is np.add and kind.kind in "fVc":
        found += number(0, kind)  # sums begin with 0, so that none is -0
    return row_major(found)


_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_SHORT = 32  # elements, up to which a row's running sums are a product
_BLOCK = 1 << 14  # elements whose temporaries stay in a core's cache


def _short_sums(array):
    """Return the running sums of float32 rows as products with a triangle of ones, in double precision; None if a
    number is not finite. `accumulate` would run one loop for each row."""
    n = array.shape[-1]
    rows = array if array.ndim == 2 else array.reshape(-1, n)
    if rows.size <= FEW:
        wide = rows.astype(_FLOAT64, "C")
        flat = wide.reshape(-1)
        squares = flat.dot(flat)
        if squares - squares != 0:
            return None
        wide = wide.dot(triangle(n))
        wide += number(0, wide.dtype)  # as below
        found = wide.astype(_FLOAT32)
        return found if rows is array else found.reshape(array.shape)
    out, zero = np.empty(rows.shape, array.dtype), number(0, array.dtype)

    def work(part) -> bool:
        wide = rows[part].astype(np.float64, order="C")
        flat = wide.reshape(-1)
        squares = dot(flat, flat)
        if squares - squares != 0:
            return False
        out[part] = dot(wide, triangle(n))
        out[part] += zero  # as below
        return True

    step = _BLOCK // n
    if len(rows) <= step:
        found = work(slice(None))
    else:
        found = all(share(work, [slice(i, i + step) for i in range(0, len(rows), step)]))
    return out.reshape(array.shape) if found else None


def cummax(self, dim):
    """Return the running maximum, and the index of its last occurrence; NaN from the first one on."""
    return _running(np.maximum, "cummax_cpu", self, dim)


def cummin(self, dim):
    """Return the running minimum, and the index of its last occurrence; NaN from the first one on."""
    return _running(np.minimum, "cummin_cpu", self, dim)


def _running(ufunc, name, array, dim):
    if not array.size:
        return array.copy(), np.zeros(array.shape, np.int64)
    axis = axes(dim, array.ndim)
    if axis is None:
        return array.copy(), np.zeros((), np.int64)
    refuse(name, array, "c")
    array = row_major(array)
    values = ufunc.accumulate(array, axis)
    new = array == values
    if array.dtype.kind in "fV":
        new |= np.isnan(array)
    shape = [1] * array.ndim
    shape[axis] = -1
    positions = np.arange(array.shape[axis]).reshape(shape)
    indices = np.maximum.accumulate(np.where(new, positions, 0), axis)
    if is_half(array.dtype):  # the last of 0 and -0, as in the wider types
        values = np.take_along_axis(array, indices, axis)
    return values, indices


def logcumsumexp(self, dim):
    """Return running log(sum(exp(x))) along a dimension."""
    axis = axes(dim, self.ndim)
    refuse("logcumsumexp_out_cpu", self, "iub")
    if axis is None or not self.size:
        return self.copy()
    kind, self = self.dtype, row_major(self)
    if kind.kind == "c":
        return _complex_logcumsumexp(self, axis)
    x = self.astype(np.float32) if is_half(kind) else self
    return (np.logaddexp.accumulate(x, axis) + x.dtype.type(0)).astype(kind, copy=False)


def _complex_logcumsumexp(x, axis):
    """Add one element at a time: log(e^a + e^b) = a + log(1 + e^(b - a)) where a has the greater real part."""
    out = np.empty_like(x)
    source, target = np.moveaxis(x, axis, 0), np.moveaxis(out, axis, 0)
    target[0] = total = source[0]
    for i in range(1, len(source)):
        new = source[i]
        new_is_greater = new.real > total.real
        high, low = np.where(new_is_greater, new, total), np.where(new_is_greater, total, new)
        same = np.isinf(high.real) & (high.real == low.real)
        total = high + np.log1p(np.exp(np.where(same, -np.inf, low - high)))
        target[i] = total
    return out
