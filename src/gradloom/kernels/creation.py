"""Creation kernels: arrays from sizes and numbers."""

from __future__ import annotations

from math import ceil

import numpy as np

from ..dtype import default
from ._layout import new_array, new_like


def zeros(size, dtype=None):
    """Zeros, of the default floating type unless told."""
    return np.zeros(_checked(size), default.numpy_float if dtype is None else dtype)


def ones(size, dtype=None):
    """Ones, of the default floating type unless told."""
    return np.ones(_checked(size), default.numpy_float if dtype is None else dtype)


def empty(size, dtype=None, memory_format=None):
    """Memory whose contents are not set."""
    return new_array(_checked(size), default.numpy_float if dtype is None else dtype, memory_format)


def full(size, fill_value, dtype=None):
    """One value everywhere; its type decides the dtype unless told."""
    return np.full(_checked(size), fill_value, number_dtype(fill_value) if dtype is None else dtype)


def number_dtype(*values):
    """The dtype that Python numbers together stand for."""
    kinds = [type(v) for v in values]
    if complex in kinds:
        return default.numpy_complex
    if float in kinds:
        return default.numpy_float
    return np.dtype(np.bool_ if kinds == [bool] else np.int64)


def _checked(size):
    if min(size, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    return size


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
    out.fill(fill_value)
    return out


def new_zeros(self, size, dtype=None):
    """Zeros of the dtype of `self` unless told."""
    return np.zeros(_checked(size), self.dtype if dtype is None else dtype)


def new_ones(self, size, dtype=None):
    """Ones of the dtype of `self` unless told."""
    return np.ones(_checked(size), self.dtype if dtype is None else dtype)


def new_empty(self, size, dtype=None):
    """Unset memory of the dtype of `self` unless told."""
    return np.empty(_checked(size), self.dtype if dtype is None else dtype)


def new_full(self, size, fill_value, dtype=None):
    """One value, in the dtype of `self` unless told."""
    return np.full(_checked(size), fill_value, self.dtype if dtype is None else dtype)


# --- ranges ----------------------------------------------------------------------------------------------------------

def arange(end, dtype=None):
    """0, 1, ... below `end`."""
    return arange_start_step(0, end, 1, dtype)


def arange_start(start, end, dtype=None):
    """start, start + 1, ... below `end`."""
    return arange_start_step(start, end, 1, dtype)


def arange_start_step(start, end, step=1, dtype=None):
    """start, start + step, ... below `end`."""
    if step == 0:
        raise RuntimeError("step must be nonzero")
    length = (end - start) / step
    if not abs(length) < float("inf"):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if length < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        dtype = number_dtype(start, end, step) if float in (type(start), type(end), type(step)) else np.dtype(np.int64)
    if dtype.kind in "iu":
        start, step = int(start), int(step)
        count = -((int(end) - start) // -step) if type(end) is int else ceil(length)
        return np.arange(start, start + count * step, step, dtype)
    return (start + step * np.arange(ceil(length), dtype=np.float64)).astype(dtype)


def linspace(start, end, steps, dtype=None):
    """`steps` values from `start` to `end`, both included, the second half counted back from the end."""
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if dtype is None:
        dtype = default.numpy_complex if complex in (type(start), type(end)) else default.numpy_float
    work = dtype if dtype.kind in "fc" and dtype.itemsize >= 4 else np.dtype(np.float32)
    if steps == 1:
        return np.full((1,), start, dtype)
    first, last = work.type(start), work.type(end)
    step = (last - first) / work.type(max(steps - 1, 1))
    counts = np.arange(steps, dtype=work)
    values = np.where(counts < steps // 2, first + step * counts, last - step * (steps - 1 - counts))
    return values.astype(dtype, copy=False)


def eye(n, dtype=None):
    """The identity matrix."""
    return eye_m(n, n, dtype)


def eye_m(n, m, dtype=None):
    """Ones on the main diagonal of an n x m matrix, zeros elsewhere."""
    if n < 0 or m < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {n}" if n < 0 else
                           f"m must be greater or equal to 0, got {m}")
    return np.eye(n, m, dtype=default.numpy_float if dtype is None else dtype)
