"""Creation kernels: arrays from sizes and numbers, and the window functions of signal processing.

A periodic window of n samples is the symmetric one of n + 1 without its last sample; windows are computed in float64.
"""

from __future__ import annotations

from math import ceil, isfinite

import numpy as np

from ..memory.ownership import strided_view
from ..types.dtype import TYPE_OF, default
from ._common.errors import CPP_TYPES, negative_size, refuse_float8, type_name
from ._common.fused import fused32, fused64
from ._common.layout import new_array, new_like
from ._common.numbers import is_half, number_as, number_filling
from ._common.tables import number


def _checked(size, name=None):
    for n in size:  # `min` takes longer
        if n < 0:
            raise RuntimeError(f"{name}: Dimension size must be non-negative.") if name else negative_size(size)
    return size


def zeros(size, dtype=None):
    """Return zeros, by default of the default floating dtype."""
    return np.zeros(_checked(size, "zeros"), default.numpy_float if dtype is None else dtype)


def ones(size, dtype=None):
    """Return ones, by default of the default floating dtype."""
    if dtype is None:
        dtype = default.numpy_float
    found = np.empty(_checked(size), dtype)
    found[...] = number(1, dtype)
    return found


def empty(size, dtype=None, memory_format=None):
    """Return memory whose contents are not set."""
    return new_array(_checked(size), default.numpy_float if dtype is None else dtype, memory_format)


def full(size, fill_value, dtype=None):
    """Fill with one value; the value's type determines the default dtype."""
    if dtype is None:
        dtype = number_dtype(fill_value)
    found = np.empty(_checked(size), dtype)
    if dtype.char in "fd" and fill_value.__class__ is float and -_COMMON < fill_value < _COMMON:
        found.fill(fill_value)  # as below, in less time
        return found
    found[...] = number_filling(fill_value, dtype, found.size)
    return found


_COMMON = 1e30  # floats below fit float32


def number_dtype(*values):
    """Return the common dtype of Python numbers."""
    kinds = [type(v) for v in values]
    if complex in kinds:
        return default.numpy_complex
    if float in kinds:
        return default.numpy_float
    return np.dtype(np.bool_ if kinds == [bool] else np.int64)


def scalar_tensor(s, dtype=None):
    """Convert a number to a 0-dim array, by default of the default floating dtype."""
    return number_filling(s, default.numpy_float if dtype is None else dtype)


def empty_strided(size, stride, dtype=None):
    """Return memory whose contents are not set, with strides in elements."""
    size = _checked(size)
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    if min(stride, default=0) < 0:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    span = 1 + sum([(n - 1) * s for n, s in zip(size, stride, strict=True)])
    return strided_view(np.empty(max(span, 1), default.numpy_float if dtype is None else dtype), size, stride, 0)


def empty_permuted(size, physical_layout, dtype=None):
    """Return unset memory; `physical_layout` lists the dimensions from the outermost in memory to the innermost."""
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


def zeros_like(self, dtype=None, memory_format=None):
    """Return zeros in the shape of `self`."""
    return new_like(self, dtype, memory_format, np.zeros_like)


def ones_like(self, dtype=None, memory_format=None):
    """Return ones in the shape of `self`."""
    return new_like(self, dtype, memory_format, np.ones_like)


def empty_like(self, dtype=None, memory_format=None):
    """Return unset memory in the shape of `self`."""
    return new_like(self, dtype, memory_format)


def full_like(self, fill_value, dtype=None, memory_format=None):
    """Fill an array of the shape of `self` with one value."""
    out = new_like(self, dtype, memory_format)
    out[...] = number_filling(fill_value, out.dtype, out.size)
    return out


def new_zeros(self, size, dtype=None):
    """Return zeros, by default of the dtype of `self`."""
    return np.zeros(_checked(size), self.dtype if dtype is None else dtype)


def new_ones(self, size, dtype=None):
    """Return ones, by default of the dtype of `self`."""
    return np.ones(_checked(size), self.dtype if dtype is None else dtype)


def new_empty(self, size, dtype=None):
    """Return unset memory, by default of the dtype of `self`."""
    return np.empty(_checked(size), self.dtype if dtype is None else dtype)


def new_empty_strided(self, size, stride, dtype=None):
    """Return unset memory, by default of the dtype of `self`, with strides in elements."""
    return empty_strided(size, stride, self.dtype if dtype is None else dtype)


def new_full(self, size, fill_value, dtype=None):
    """Fill with one value, by default in the dtype of `self`."""
    return full(size, fill_value, self.dtype if dtype is None else dtype)


def arange(end, dtype=None):
    """Return 0, 1, ... below `end`."""
    return arange_start_step(0, end, 1, dtype)


def arange_start(start, end, dtype=None):
    """Return start, start + 1, ... below `end`."""
    return arange_start_step(start, end, 1, dtype)


def _range_length(start, end, step) -> float:
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (isfinite(start) and isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    length = (end - start) / step
    if length >= 2.0**63:  # NumPy would wrap it around
        raise RuntimeError("invalid size, possible overflow?")
    return length


def _refuse(name, dtype, kinds):
    refuse_float8(f"{name}_cpu", dtype)
    if dtype.kind in kinds:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{type_name(dtype)}'")


_LARGE, _INT64 = 1 << 62, np.dtype(np.int64)


def arange_start_step(start, end, step=1, dtype=None):
    """Return start, start + step, ... below `end`."""
    if dtype is not None:
        _refuse("arange", dtype, "bc")
    elif start.__class__ is end.__class__ is step.__class__ is int and -_LARGE < start <= end < _LARGE and step > 0:
        return np.arange(start, end, step, _INT64)
    if complex in map(type, (start, end, step)):
        raise RuntimeError("value cannot be converted to type double without overflow")
    length = _range_length(start, end, step)
    if dtype is None:
        dtype = number_dtype(start, end, step) if float in map(type, (start, end, step)) else np.dtype(np.int64)
    if dtype.kind in "iu":
        if float not in map(type, (start, end, step)):
            if dtype.itemsize < 8:  # numbers beyond the dtype wrap around
                return np.arange(int(start), int(end), int(step), np.int64).astype(dtype, copy=False)
            return np.arange(int(start), int(end), int(step), dtype)
        return (int(start) + int(step) * np.arange(ceil(length), dtype=np.int64)).astype(dtype)
    return _steps(start, step, ceil(length), dtype)


def _steps(start, step, count, dtype):
    values = np.arange(count, dtype=np.float64)
    values *= step
    values += start
    return values.astype(dtype, copy=False)


def range_end_step(start, end, step=1, dtype=None):
    """Return start, start + step, ... up to `end`, which is included."""
    length = _range_length(start, end, step)
    return _steps(start, step, int(length) + 1, default.numpy_float if dtype is None else dtype)


def range_end(start, end, dtype=None):
    """Return start, start + 1, ... up to `end`, which is included."""
    return range_end_step(start, end, 1, dtype)


def linspace(start, end, steps, dtype=None):
    """Return `steps` values from `start` to `end`, both included."""
    dtype = _space_dtype(start, end, steps, dtype)
    if not steps:
        return np.empty(0, dtype)
    _refuse("linspace", dtype, "b")
    if steps == 1:
        return number_filling(start, dtype).reshape(1)
    return _linspace(start, end, steps, dtype).astype(dtype, copy=False)


_SPLITTABLE = 1e280  # numbers below may be split into halves by a multiplication
_BLOCK = 16384  # numbers computed at a time: their scratch arrays stay in a core's cache


def _linspace(start, end, steps, dtype, work=None):
    """Return the values of at least two steps in the dtype `work`; the second half is counted back from the end. By
    default those in half precision are computed in float32, those of integers in float64, and numbers in single and
    double precision are rounded once."""
    if work is None:
        work = np.dtype(np.float64 if dtype.kind in "iu" else np.float32 if is_half(dtype) else dtype)
    first, last = (work.type(number_as(x, dtype).item()) for x in (start, end))
    step = (last - first) / work.type(steps - 1)
    out = np.empty(steps, work)
    _fill_line(out[: steps // 2], first, step)
    _fill_line(out[steps // 2 :][::-1], last, -step)
    return out


def _fill_line(out, first, step):
    """Write first + step * i to each place i."""
    fused = None
    if out.dtype.kind == "f" and max(abs(first), abs(step)) < _SPLITTABLE:
        fused = {4: fused32, 8: fused64}.get(out.itemsize)
    for i in range(0, out.size, _BLOCK):
        counts = np.arange(i, min(i + _BLOCK, out.size)).astype(out.dtype)
        out[i : i + _BLOCK] = fused(counts, step, first) if fused else first + step * counts


def _space_dtype(start, end, steps, dtype):
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if dtype is not None:
        if complex in (type(start), type(end)) and dtype.kind != "c":
            raise RuntimeError(
                f"torch.linspace(): inferred dtype {CPP_TYPES[default.numpy_complex.name]} can't be safely cast to "
                f"passed dtype {type_name(dtype)}"
            )
        return dtype
    return default.numpy_complex if complex in (type(start), type(end)) else default.numpy_float


def logspace(start, end, steps, base=10.0, dtype=None):
    """Return `steps` values from base**start to base**end whose logarithms are evenly spaced, and rounded to `dtype` at
    both ends unless there is only one."""
    dtype = _space_dtype(start, end, steps, dtype)
    if not steps:
        return np.empty(0, dtype)
    work = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
    base = np.asarray(base, work)
    if steps == 1:
        return number_filling((base**start).item(), dtype).reshape(1)
    if dtype.kind == "b":
        raise NotImplementedError("\"logspace_cpu\" not implemented for 'Bool'")
    return (base ** _linspace(start, end, steps, dtype, work)).astype(dtype)


def linspace_tensors(start, end, steps, dtype=None):
    """Compute `linspace`, with either end a number or a 0-dim array."""
    return linspace(_number(start, "start"), _number(end, "end"), steps, dtype)


def logspace_tensors(start, end, steps, base=10.0, dtype=None):
    """Compute `logspace`, with either end a number or a 0-dim array."""
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


def eye(n, dtype=None):
    """Return the identity matrix."""
    return eye_m(n, n, dtype)


def eye_m(n, m, dtype=None):
    """Return ones on the main diagonal of an n x m matrix, zeros elsewhere."""
    for name, value in (("n", n), ("m", m)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    return np.eye(n, m, dtype=default.numpy_float if dtype is None else dtype)


def tril_indices(row, col, offset=0, dtype=None):
    """Return row and column numbers, as a 2 x n array, of the lower triangle of a row x col matrix."""
    return _triangle(np.tril_indices, row, col, offset, dtype)


def triu_indices(row, col, offset=0, dtype=None):
    """Return row and column numbers, as a 2 x n array, of the upper triangle of a row x col matrix."""
    return _triangle(np.triu_indices, row, col, offset, dtype)


def _triangle(find, row, col, offset, dtype):
    for name, value in (("row", row), ("col", col)):
        if value < 0:
            raise RuntimeError(f"{name} must be non-negative, got{value}")
    found = np.stack(find(row, max(-row - 1, min(offset, col)), col))
    return found.astype(np.int64 if dtype is None else dtype, copy=False)


def _window(name, length, periodic, dtype, shape):
    """Evaluate `shape(t)` at evenly spaced t in [0, 1]."""
    dtype = np.dtype(default.numpy_float if dtype is None else dtype)
    if dtype.kind not in "fcV":
        raise RuntimeError(f"{name} expects floating point dtypes, got: {_type_name(dtype)}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    if length < 2:
        return np.ones(length, dtype)
    steps = length if periodic else length - 1
    return shape(np.arange(length) / steps).astype(dtype)


def _type_name(dtype):
    return f"TensorOptions(dtype={TYPE_OF[dtype]})"


def hann_window(window_length, dtype=None):
    """sin(pi t)^2, periodic."""
    return hann_window_periodic(window_length, True, dtype)


def hann_window_periodic(window_length, periodic, dtype=None):
    """sin(pi t)^2."""
    return _raised_cosine("hann_window", window_length, periodic, 0.5, 0.5, dtype)


def hamming_window(window_length, dtype=None):
    """0.54 - 0.46 cos(2 pi t), periodic."""
    return hamming_window_periodic(window_length, True, dtype)


def hamming_window_periodic(window_length, periodic, dtype=None):
    """0.54 - 0.46 cos(2 pi t)."""
    return hamming_window_alpha_beta(window_length, periodic, 0.54, 0.46, dtype)


def hamming_window_alpha(window_length, periodic, alpha, dtype=None):
    """alpha - 0.46 cos(2 pi t)."""
    return hamming_window_alpha_beta(window_length, periodic, alpha, 0.46, dtype)


def hamming_window_alpha_beta(window_length, periodic, alpha, beta, dtype=None):
    """alpha - beta cos(2 pi t)."""
    return _raised_cosine("hamming_window", window_length, periodic, alpha, beta, dtype)


def _raised_cosine(name, length, periodic, alpha, beta, dtype):
    return _window(name, length, periodic, dtype, lambda t: alpha - beta * np.cos(2 * np.pi * t))


def bartlett_window(window_length, dtype=None):
    """Return a triangle, periodic."""
    return bartlett_window_periodic(window_length, True, dtype)


def bartlett_window_periodic(window_length, periodic, dtype=None):
    """Return a triangle: 1 - |2 t - 1|."""
    return _window("bartlett_window", window_length, periodic, dtype, lambda t: 1 - np.abs(2 * t - 1))


def blackman_window(window_length, dtype=None):
    """0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t), periodic."""
    return blackman_window_periodic(window_length, True, dtype)


def blackman_window_periodic(window_length, periodic, dtype=None):
    """0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t)."""

    def shape(t):
        return 0.42 - 0.5 * np.cos(2 * np.pi * t) + 0.08 * np.cos(4 * np.pi * t)

    return _window("blackman_window", window_length, periodic, dtype, shape)


def kaiser_window(window_length, dtype=None):
    """`kaiser_window_beta` with beta = 12, periodic."""
    return kaiser_window_beta(window_length, True, 12.0, dtype)


def kaiser_window_periodic(window_length, periodic, dtype=None):
    """`kaiser_window_beta` with beta = 12."""
    return kaiser_window_beta(window_length, periodic, 12.0, dtype)


def kaiser_window_beta(window_length, periodic, beta, dtype=None):
    """I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta), with the modified Bessel function of order 0."""

    def shape(t):
        with np.errstate(all="ignore"):  # np.i0 is written in Python
            return np.i0(beta * np.sqrt(np.maximum(1 - (2 * t - 1) ** 2, 0))) / np.i0(beta)

    return _window("kaiser_window", window_length, periodic, dtype, shape)
