"""Creation kernels: arrays from sizes and numbers."""

from __future__ import annotations

from math import ceil, isfinite, prod

import numpy as np

from ..memory.ownership import strided_view
from ..types.dtype import default
from ._layout import new_array, new_like
from ._numbers import number_filling
from ._precision import is_half
from ._tapers import (
    bartlett_window,
    bartlett_window_periodic,
    blackman_window,
    blackman_window_periodic,
    hamming_window,
    hamming_window_alpha,
    hamming_window_alpha_beta,
    hamming_window_periodic,
    hann_window,
    hann_window_periodic,
    kaiser_window,
    kaiser_window_beta,
    kaiser_window_periodic,
)

__all__ = [
    "arange",
    "arange_start",
    "arange_start_step",
    "bartlett_window",
    "bartlett_window_periodic",
    "blackman_window",
    "blackman_window_periodic",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eye",
    "eye_m",
    "full",
    "full_like",
    "hamming_window",
    "hamming_window_alpha",
    "hamming_window_alpha_beta",
    "hamming_window_periodic",
    "hann_window",
    "hann_window_periodic",
    "kaiser_window",
    "kaiser_window_beta",
    "kaiser_window_periodic",
    "linspace",
    "linspace_tensors",
    "logspace",
    "logspace_tensors",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_zeros",
    "ones",
    "ones_like",
    "range_end",
    "range_end_step",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]


def _checked(size, name=None):
    if min(size, default=0) < 0:
        raise RuntimeError(
            f"{name}: Dimension size must be non-negative."
            if name
            else f"Trying to create tensor with negative dimension {min(size)}: {list(size)}"
        )
    return size


# --- of a given size --------------------------------------------------------------------------------------


def zeros(size, dtype=None):
    """Zeros, of the default floating type unless told."""
    return np.zeros(_checked(size, "zeros"), default.numpy_float if dtype is None else dtype)


def ones(size, dtype=None):
    """Ones, of the default floating type unless told."""
    return np.ones(_checked(size), default.numpy_float if dtype is None else dtype)


def empty(size, dtype=None, memory_format=None):
    """Memory whose contents are not set."""
    return new_array(_checked(size), default.numpy_float if dtype is None else dtype, memory_format)


def full(size, fill_value, dtype=None):
    """One value everywhere; its type decides the dtype unless told."""
    if dtype is None:
        dtype = number_dtype(fill_value)
    return np.full(_checked(size), number_filling(fill_value, dtype, prod(size)))


def number_dtype(*values):
    """The dtype that Python numbers together stand for."""
    kinds = [type(v) for v in values]
    if complex in kinds:
        return default.numpy_complex
    if float in kinds:
        return default.numpy_float
    return np.dtype(np.bool_ if kinds == [bool] else np.int64)


def scalar_tensor(s, dtype=None):
    """A number as a 0-dim array, of the default floating type unless told."""
    return number_filling(s, default.numpy_float if dtype is None else dtype)


def empty_strided(size, stride, dtype=None):
    """Memory whose contents are not set, with strides in elements."""
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    if min(stride, default=0) < 0:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    span = 1 + sum([(n - 1) * s for n, s in zip(_checked(size), stride, strict=True)])
    return strided_view(np.empty(max(span, 1), default.numpy_float if dtype is None else dtype), size, stride, 0)


def empty_permuted(size, physical_layout, dtype=None):
    """Memory whose contents are not set; `physical_layout` lists the dimensions from the outermost in memory on."""
    if len(physical_layout) != len(size):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(size)} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    for i, d in enumerate(physical_layout):
        if not 0 <= d < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d} at "
                f"index {i}).  NB: negative dims not currently supported; file an issue if you want it."
            )
        if d in physical_layout[:i]:
            raise RuntimeError("Duplicate dim not allowed")
    made = np.empty([size[d] for d in physical_layout], default.numpy_float if dtype is None else dtype)
    return made.transpose([physical_layout.index(d) for d in range(len(size))])


# --- like another array -----------------------------------------------------------------------------------


def zeros_like(self, dtype=None, memory_format=None):
    """Zeros in the shape of `self`."""
    return new_like(self, dtype, memory_format, np.zeros_like)


def ones_like(self, dtype=None, memory_format=None):
    """Ones in the shape of `self`."""
    return new_like(self, dtype, memory_format, np.ones_like)


def empty_like(self, dtype=None, memory_format=None):
    """Unset memory in the shape of `self`."""
    return new_like(self, dtype, memory_format)


def full_like(self, fill_value, dtype=None, memory_format=None):
    """One value in the shape of `self`."""
    out = new_like(self, dtype, memory_format)
    out[...] = number_filling(fill_value, out.dtype, out.size)
    return out


def new_zeros(self, size, dtype=None):
    """Zeros of the dtype of `self` unless told."""
    return np.zeros(_checked(size, "zeros"), self.dtype if dtype is None else dtype)


def new_ones(self, size, dtype=None):
    """Ones of the dtype of `self` unless told."""
    return np.ones(_checked(size), self.dtype if dtype is None else dtype)


def new_empty(self, size, dtype=None):
    """Unset memory of the dtype of `self` unless told."""
    return np.empty(_checked(size), self.dtype if dtype is None else dtype)


def new_empty_strided(self, size, stride, dtype=None):
    """Unset memory of the dtype of `self` unless told, with strides in elements."""
    return empty_strided(size, stride, self.dtype if dtype is None else dtype)


def new_full(self, size, fill_value, dtype=None):
    """One value, in the dtype of `self` unless told."""
    return full(size, fill_value, self.dtype if dtype is None else dtype)


# --- ranges -----------------------------------------------------------------------------------------------


def arange(end, dtype=None):
    """0, 1, ... below `end`."""
    return arange_start_step(0, end, 1, dtype)


def arange_start(start, end, dtype=None):
    """start, start + 1, ... below `end`."""
    return arange_start_step(start, end, 1, dtype)


def _range_length(start, end, step) -> float:
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (isfinite(start) and isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    return (end - start) / step


def _refuse(name, dtype, kinds):
    if dtype.kind in kinds:
        from ..types.dtype import TYPE_OF, scalar_type_name

        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{scalar_type_name(TYPE_OF[dtype])}'")


def arange_start_step(start, end, step=1, dtype=None):
    """start, start + step, ... below `end`."""
    length = _range_length(start, end, step)
    if dtype is not None:
        _refuse("arange", dtype, "bc")
    else:
        dtype = number_dtype(start, end, step) if float in map(type, (start, end, step)) else np.dtype(np.int64)
    if dtype.kind in "iu":
        if not int(step):
            raise ValueError("step must be nonzero")
        if float not in map(type, (start, end, step)):
            return np.arange(int(start), int(end), int(step), dtype)
        count = ceil(length) if dtype.itemsize < 8 else -((int(end) - int(start)) // -int(step))
        return (int(start) + int(step) * np.arange(count, dtype=np.int64)).astype(dtype)
    return _steps(start, step, ceil(length), dtype)


def _steps(start, step, count, dtype):
    values = np.arange(count, dtype=np.float64)
    values *= step
    values += start
    return values.astype(dtype, copy=False)


def range_end_step(start, end, step=1, dtype=None):
    """start, start + step, ... up to `end`, which is included."""
    length = _range_length(start, end, step)
    return _steps(start, step, int(length) + 1, default.numpy_float if dtype is None else dtype)


def range_end(start, end, dtype=None):
    """start, start + 1, ... up to `end`, which is included."""
    return range_end_step(start, end, 1, dtype)


def linspace(start, end, steps, dtype=None):
    """`steps` values from `start` to `end`, both included."""
    dtype = _space_dtype(start, end, steps, dtype)
    _refuse("linspace", dtype, "b")
    return _linspace(start, end, steps, dtype).astype(dtype, copy=False)


def _linspace(start, end, steps, dtype):
    """The values in a type to compute in; the second half is counted back from the end."""
    if dtype.kind in "iu":
        start, end, work = int(start), int(end), np.dtype(np.float64)
    else:
        work = dtype  # in half precision each step is rounded
    if steps < 2:
        return np.full((steps,), start, work)
    first, last = work.type(start), work.type(end)
    step = (last - first) / work.type(steps - 1)
    counts = np.arange(steps)
    back = (steps - 1 - counts).astype(work)
    return np.where(counts < steps // 2, first + step * counts.astype(work), last - step * back)


def _space_dtype(start, end, steps, dtype):
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if dtype is not None:
        return dtype
    return default.numpy_complex if complex in (type(start), type(end)) else default.numpy_float


def logspace(start, end, steps, base=10.0, dtype=None):
    """`steps` values from base**start to base**end whose logarithms are evenly spaced."""
    dtype = _space_dtype(start, end, steps, dtype)
    if dtype.kind in "iu":
        start, end = int(start), int(end)
    elif is_half(dtype):
        start, end = (float(dtype.type(x)) for x in (start, end))
    work = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
    return (np.asarray(base, work) ** _linspace(start, end, steps, work)).astype(dtype)


def linspace_tensors(start, end, steps, dtype=None):
    """As `linspace`, with either end a number or a 0-dim array."""
    return linspace(_number(start, "start"), _number(end, "end"), steps, dtype)


def logspace_tensors(start, end, steps, base=10.0, dtype=None):
    """As `logspace`, with either end a number or a 0-dim array."""
    return logspace(_number(start, "start"), _number(end, "end"), steps, base, dtype)


def _number(value, name):
    if not isinstance(value, np.ndarray):
        return value
    if value.ndim:
        raise RuntimeError(
            f"linspace only supports 0-dimensional start and end tensors, but got {name} with "
            f"{value.ndim} dimension(s)."
        )
    return value.item()


# --- matrices ---------------------------------------------------------------------------------------------


def eye(n, dtype=None):
    """The identity matrix."""
    return eye_m(n, n, dtype)


def eye_m(n, m, dtype=None):
    """Ones on the main diagonal of an n x m matrix, zeros elsewhere."""
    for name, value in (("n", n), ("m", m)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    return np.eye(n, m, dtype=default.numpy_float if dtype is None else dtype)


def tril_indices(row, col, offset=0, dtype=None):
    """Row and column numbers, as a 2 x n array, of the lower triangle of a row x col matrix."""
    return _triangle(np.tril_indices, row, col, offset, dtype)


def triu_indices(row, col, offset=0, dtype=None):
    """Row and column numbers, as a 2 x n array, of the upper triangle of a row x col matrix."""
    return _triangle(np.triu_indices, row, col, offset, dtype)


def _triangle(find, row, col, offset, dtype):
    for name, value in (("row", row), ("col", col)):
        if value < 0:
            raise RuntimeError(f"{name} must be non-negative, got{value}")
    found = np.stack(find(row, offset, col))
    return found.astype(np.int64 if dtype is None else dtype, copy=False)
