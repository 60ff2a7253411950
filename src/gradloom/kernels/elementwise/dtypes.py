"""Dtypes within elementwise kernels: half precision, numbers beside arrays, integers to floats."""

from __future__ import annotations

import numpy as np

from ...types.dtype import default
from .._common.layout import as_type
from .._common.numbers import LARGE, are_alike, check_whole, in_blocks
from .._common.threads import chunks, get_num_threads, share


def widened(function):
    """Decorate a kernel of floating arrays: float16 and bfloat16 inputs are computed in float32 and rounded once, as
    PyTorch does where a formula has several steps. The result is rounded to the dtype of the first array if that is
    floating. Large arrays are computed block by block, on all threads."""

    def kernel(first, *rest):
        kind = first.dtype
        if kind.itemsize != 2 or kind.kind not in "fV":
            if first.size >= LARGE and kind.kind == "f" and are_alike(first, rest):
                return in_blocks(function, first, rest)
            return function(first, *rest) if rest else function(first)
        wide = [as_type(x, np.float32) if x.__class__ is np.ndarray and x.dtype is kind else x for x in rest]
        return function(as_type(first, np.float32), *wide).astype(kind)

    kernel.__name__ = function.__name__
    kernel.__doc__ = function.__doc__
    return kernel


def to_float(array: np.ndarray) -> np.ndarray:
    """Convert an integer or bool array to the default floating dtype; return others unchanged."""
    return array if array.dtype.kind in "fcV" else as_type(array, default.numpy_float)


def widened_for(array: np.ndarray, value) -> np.ndarray:
    """Convert the array to its common dtype with a Python number; see Note [Type promotion]."""
    kind, number_kind = array.dtype.kind, value.__class__
    if number_kind is complex and kind != "c":
        return as_type(
            array,
            np.complex128 if array.dtype == np.float64 else default.numpy_complex if kind in "iub" else np.complex64,
        )
    if number_kind is float and kind in "iub":
        return as_type(array, default.numpy_float)
    return as_type(array, np.int64) if number_kind is int and kind == "b" else array


def like(value, array: np.ndarray) -> np.ndarray:
    """Convert a Python number to a 0-dim array of another array's dtype. It cannot promote that array, and ufuncs take
    it faster than a Python number. Integers out of range wrap around; those of more than 64 bits are refused."""
    if value.__class__ is int:
        check_whole(value)
    try:
        return np.array(value, array.dtype)
    except OverflowError:
        return np.array(value).astype(array.dtype)
    except TypeError:
        name = {"f": "float", "d": "double", "e": "at::Half"}.get(array.dtype.char, array.dtype.name)
        raise RuntimeError(f"value cannot be converted to type {name} without overflow") from None


def own(result, *others):
    """Return the temporary `result` for use as `out=` if it has the shape of the result with `others`; else None."""
    if result.__class__ is not np.ndarray:
        return None
    for other in others:
        if other.ndim and other.shape != result.shape:
            return None
    return result


def shared(ufunc, first, *rest):
    """Call a ufunc on an array and others of its shape or 0-dim; large results are shared among the threads."""
    if not rest:
        found = by_code(ufunc, first)
        if found is not None:
            return found
    if first.size < LARGE or get_num_threads() == 1 or not all(_lines_up(first, x) for x in (first, *rest)):
        return ufunc(first, *rest)
    flat = [x.reshape(-1) if x.ndim else x for x in (first, *rest)]
    out = np.empty(first.size, ufunc.resolve_dtypes((*(x.dtype for x in flat), None))[-1])

    def work(part):
        ufunc(*[x[part] if x.ndim else x for x in flat], out=out[part])

    share(work, chunks(first.size))
    return out.reshape(first.shape)


def by_code(ufunc, array):
    """Return a ufunc's values for a large array if machine code computes them, else None; see `set_kernels`."""
    return None


def _lines_up(first, other):
    return not other.ndim or type(other) is np.ndarray and other.shape == first.shape and other.flags.c_contiguous
