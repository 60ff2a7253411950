"""Dtypes within kernels: half precision, numbers that meet arrays, floats from integers."""

from __future__ import annotations

import numpy as np

from ...types.dtype import default
from .._common.threads import chunks, share

SHARED_SIZE = 32768  # elements from which on a slow function is worth several threads


def widened(function):
    """Decorate a kernel of floating arrays: float16 and bfloat16 inputs are computed in float32, as PyTorch does where
    a formula has several steps, and rounded once. The result is rounded to the dtype of the first array, unless it is
    no floating array."""

    def kernel(first, *rest):
        kind = first.dtype
        if kind.itemsize != 2 or kind.kind not in "fV":
            return function(first, *rest)
        wide = [x.astype(np.float32) if x.__class__ is np.ndarray and x.dtype is kind else x for x in rest]
        return function(first.astype(np.float32), *wide).astype(kind)

    kernel.__name__ = function.__name__
    kernel.__doc__ = function.__doc__
    return kernel


def to_float(array: np.ndarray) -> np.ndarray:
    """Convert an integer or bool array to the default floating dtype; return others unchanged."""
    return array if array.dtype.kind in "fcV" else array.astype(default.numpy_float)


def widened_for(array: np.ndarray, value) -> np.ndarray:
    """Return the array in the dtype that it has together with a Python number, by Note [Type promotion]."""
    kind, number_kind = array.dtype.kind, value.__class__
    if number_kind is complex and kind != "c":
        return array.astype(
            np.complex128 if array.dtype == np.float64 else default.numpy_complex if kind in "iub" else np.complex64
        )
    if number_kind is float and kind in "iub":
        return array.astype(default.numpy_float)
    return array.astype(np.int64) if number_kind is int and kind == "b" else array


def like(value, array: np.ndarray) -> np.ndarray:
    """Convert a Python number to a 0-dim array of the dtype of another: it cannot widen that, and ufuncs take it faster
    than a Python number. Integers out of range wrap around."""
    try:
        return np.array(value, array.dtype)
    except OverflowError:
        return np.array(value).astype(array.dtype)
    except TypeError:
        name = {"f": "float", "d": "double", "e": "at::Half"}.get(array.dtype.char, array.dtype.name)
        raise RuntimeError(f"value cannot be converted to type {name} without overflow") from None


def own(result, *others):
    """Return an array for `out=`: the temporary `result`, if that and `others` have room in it; else None."""
    if result.__class__ is not np.ndarray:
        return None
    for other in others:
        if other.ndim and other.shape != result.shape:
            return None
    return result


def shared(ufunc, first, *rest):
    """Call a slow ufunc on an array and others of its shape or 0-dim; all threads compute large results."""
    if first.size < SHARED_SIZE or not all(_lines_up(first, x) for x in (first, *rest)):
        return ufunc(first, *rest)
    flat = [x.reshape(-1) if x.ndim else x for x in (first, *rest)]
    out = np.empty(first.size, ufunc.resolve_dtypes((*(x.dtype for x in flat), None))[-1])

    def work(part):
        ufunc(*[x[part] if x.ndim else x for x in flat], out=out[part])

    share(work, chunks(first.size))
    return out.reshape(first.shape)


def _lines_up(first, other):
    return not other.ndim or other.shape == first.shape and other.flags.c_contiguous
