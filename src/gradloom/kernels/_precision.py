"""What floating kernels compute in: halves in float32, 0-dim arrays as arrays, overflow without warnings."""

from __future__ import annotations

from functools import wraps

import numpy as np

from ._refuse import not_implemented

_FLOAT32 = np.dtype(np.float32)
_VECTOR = 16


def is_half(dtype: np.dtype) -> bool:
    """Whether this is float16 or bfloat16 (of which NumPy only knows that it is a void type of two bytes)."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def is_short_half(array: np.ndarray) -> bool:
    """Whether an array of half precision has fewer elements than one of PyTorch's vectors.

    What is left over behind whole vectors is computed by other code there, which rounds each step in some operators
    that round whole vectors once. So do these kernels, for arrays that are no more than such a rest.
    """
    return is_half(array.dtype) and array.size < _VECTOR


def widen(a: np.ndarray) -> np.ndarray:
    """Halves as float32; any other array unchanged."""
    dtype = a.dtype
    return a.astype(_FLOAT32) if dtype.itemsize == 2 and dtype.kind in "fV" else a


class Wide:
    """An operand in float32 beside arrays of half precision. A function of NumPy that meets it computes in float32
    and rounds once, to the half type, as PyTorch does with a number that is a factor, and with `x + alpha * y`.

    Args:
        value: an array, which is brought to float32.
        dtype: the half type.
    """

    __slots__ = ("dtype", "value")

    def __init__(self, value: np.ndarray, dtype: np.dtype) -> None:
        self.value, self.dtype = value.astype(_FLOAT32, copy=False), dtype

    ndim = property(lambda self: self.value.ndim)
    shape = property(lambda self: self.value.shape)
    size = property(lambda self: self.value.size)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        wide = [x.value if x.__class__ is Wide else x.astype(_FLOAT32) for x in inputs]
        found = getattr(ufunc, method)(*wide, **options)
        if out is None:
            return found.astype(self.dtype)
        out[0][...] = found
        return out[0]


def floating(name: str, kinds: str = "f"):
    """Decorates an elementwise kernel that is written for float32 and float64 arrays with dimensions.

    The kernel may write to arrays that it made with `out=`. All arrays have the dtype of the first one; the
    result gets it.

    Args:
        name: PyTorch's name of the kernel, for the NotImplementedError about other dtypes.
        kinds: the `dtype.kind`s that the kernel takes.
    """

    def decorate(kernel):
        @wraps(kernel)
        def checked(self, *rest):
            dtype = self.dtype
            if dtype.kind in kinds and dtype.itemsize > 2 and self.ndim:
                try:
                    return kernel(self, *rest)
                except TypeError:  # NumPy's functions make scalars of arrays without dimensions, which `out=` is not
                    if all(a.ndim for a in rest if a.__class__ is np.ndarray):
                        raise
            half = is_half(dtype)
            if not half and dtype.kind not in kinds:
                raise not_implemented(name, self)
            arrays = [a for a in (self, *rest) if a.__class__ is np.ndarray]
            scalar = all(a.ndim == 0 for a in arrays)
            values = [_prepared(a, half) for a in (self, *rest)]
            found = kernel(*values)
            if scalar:
                found = found.reshape(())
            return found.astype(dtype) if half else found

        return np.errstate(all="ignore")(checked)

    return decorate


def _prepared(value, half: bool):
    if value.__class__ is not np.ndarray:
        return value
    if half:
        value = widen(value)
    return value if value.ndim else value.reshape(1)
