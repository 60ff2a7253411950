"""Precision within kernels: halves computed in float32, and Python numbers as array elements by PyTorch's rules."""

from __future__ import annotations

from functools import cache, wraps
from math import isinf
from sys import modules
from threading import local

import numpy as np

from ...types.silence import warn_user
from .errors import CPP_TYPES, TOO_BIG, TOO_SMALL, not_implemented
from .layout import as_type
from .threads import share

_FLOAT32 = np.dtype(np.float32)
_VECTOR = 16


def is_half(dtype: np.dtype) -> bool:
    """Return whether a dtype is float16 or bfloat16 (to NumPy a void type of two bytes)."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def is_short_half(array: np.ndarray) -> bool:
    """Return whether an array of half precision has fewer elements than one of PyTorch's vectors. Some of its operators
    round whole vectors once but the remaining elements after each step. These kernels do so for arrays that consist of
    such a remainder only."""
    return is_half(array.dtype) and array.size < _VECTOR


def widen(a: np.ndarray) -> np.ndarray:
    """Convert halves to float32; return any other array unchanged."""
    dtype = a.dtype
    return as_type(a, _FLOAT32) if dtype.itemsize == 2 and dtype.kind in "fV" else a


class Asked(local):
    """What this thread wants of kernels.

    Attributes:
        geometry: only shapes, strides and dtypes; values do not matter.
    """

    geometry = False


asked = Asked()


def from_scipy(name: str):
    """Return a function of one floating array from scipy.special, which is imported when values are first needed."""
    if asked.geometry and "scipy.special" not in modules:
        return np.positive  # the import takes longer than compiling a network
    return _from_scipy(name)


@cache
def _from_scipy(name: str):
    from scipy import special

    return getattr(special, name)


class Wide:
    """A float32 operand beside arrays of half precision. NumPy functions applied to it compute in float32 and round
    once to the half type, as PyTorch does for a scalar factor and for `x + alpha * y`.

    Args:
        value: an array, which is converted to float32.
        dtype: the half type.
    """

    __slots__ = ("dtype", "value")

    def __init__(self, value: np.ndarray, dtype: np.dtype) -> None:
        self.value, self.dtype = value.astype(_FLOAT32, copy=False), dtype

    ndim = property(lambda self: self.value.ndim)
    shape = property(lambda self: self.value.shape)
    size = property(lambda self: self.value.size)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        wide = [x.value if x.__class__ is Wide else as_type(x, _FLOAT32) for x in inputs]
        found = getattr(ufunc, method)(*wide, **options)
        if out is None:
            return found.astype(self.dtype)
        out[0][...] = found
        return out[0]


def floating(name: str, kinds: str = "f"):
    """Decorate an elementwise kernel written for float32 and float64 arrays with at least one dimension. The kernel may
    pass its own temporaries as `out=`. All arrays and the result have the dtype of the first one.

    Args:
        name: PyTorch's name of the kernel, for the NotImplementedError about other dtypes.
        kinds: the `dtype.kind`s that the kernel takes.
    """

    def decorate(kernel):
        @wraps(kernel)
        def checked(self, *rest):
            dtype = self.dtype
            if dtype.kind in kinds and dtype.itemsize > 2 and self.ndim:
                if self.size >= LARGE and are_alike(self, rest):
                    return in_blocks(kernel, self, rest)
                try:
                    return kernel(self, *rest)
                except TypeError:  # NumPy's functions return scalars for 0-dim arrays; `out=` takes none
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

        return checked

    return decorate


LARGE = 1 << 17  # elements, from which on a kernel runs block by block, on all threads
_BLOCK = 1 << 15  # elements whose temporaries stay in a core's cache


def are_alike(first, rest) -> bool:
    """Return whether all arrays are contiguous, of one shape and one dtype."""
    for a in (first, *rest):
        if isinstance(a, np.ndarray):
            if type(a) is not np.ndarray or a.shape != first.shape or a.dtype is not first.dtype:
                return False
            if not a.flags.c_contiguous:
                return False
    return True


def in_blocks(kernel, first, rest=()) -> np.ndarray:
    """Run an elementwise kernel on blocks of its arrays, so that memory is read and written once."""
    out = np.empty_like(first)
    flat = [a.reshape(-1) if a.__class__ is np.ndarray else a for a in (out, first, *rest)]

    def work(part) -> None:
        target, *given = [a[part] if a.__class__ is np.ndarray else a for a in flat]
        target[...] = kernel(*given)

    share(work, [slice(i, i + _BLOCK) for i in range(0, first.size, _BLOCK)])
    return out


def _prepared(value, half: bool):
    if value.__class__ is not np.ndarray:
        return value
    if half:
        value = widen(value)
    return value if value.ndim else value.reshape(1)


def convertible(array, dtype):
    """Return an array as `dtype` can hold it: for a real dtype, the real parts of complex numbers, with a warning.

    Two 8-bit floats have PyTorch's numbers at the ends, where NumPy's conversion gives NaN: float8_e4m3fn saturates;
    float8_e8m0fnu, which has powers of two only, takes the magnitude, and its smallest number for zero.
    """
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        warn_user("Casting complex values to real discards the imaginary part")
        array = array.real
    if dtype.itemsize == 1 and dtype.isbuiltin == 2:
        name = dtype.name
        if name in ("float8_e4m3fn", "float8_e8m0fnu"):
            wide = array if array.dtype.char in "fd" else array.astype(np.float32)
            return np.clip(wide, -448, 448) if name == "float8_e4m3fn" else np.maximum(np.abs(wide), 2.0**-127)
    return array


_GREATEST = {
    "e": 65504.0,
    "E": 3.3895313892515355e38,
    "f": 3.4028234663852886e38,
    "d": 1.7976931348623157e308,
    # float8_e4m3fn, e4m3fnuz, e5m2, e5m2fnuz and e8m0fnu
    "4": 448.0,
    "G": 240.0,
    "5": 57344.0,
    "C": 57344.0,
    "W": 2.0**127,
}
_WITHOUT_INFINITY = "4GCW"


def greatest(dtype: np.dtype) -> float:
    """Return the greatest finite number of a floating dtype."""
    return _GREATEST[dtype.char]


_SMALL = 9e18  # a number that all float32 and wider types hold, and 64 bits
_REAL = frozenset((int, float))


def check_whole(value: int) -> int:
    """Return an int that is an operand or Scalar, and has at most 64 bits, with or without a sign.

    Raises OverflowError for others, although a floating dtype would hold them.
    """
    if value >= 1 << 64:
        raise OverflowError(TOO_BIG)
    if value < -1 << 63:
        raise OverflowError(TOO_SMALL)
    return value


def real_number(value, dtype: np.dtype):
    """Return a number for a comparison or a real dtype: the real part of a complex number.

    Raises RuntimeError if the imaginary part is not 0.
    """
    if value.__class__ is complex:
        if value.imag:
            raise _overflow(dtype)
        return value.real
    return value


def number_as(value, dtype: np.dtype) -> np.ndarray:
    """Convert a Python number to a 0-dim array; floats are truncated to integers, negative integers wrap around for
    unsigned dtypes. Raises RuntimeError if the number is out of range, or complex for a real dtype; OverflowError for
    an int of more than 64 bits."""
    kind = dtype.kind
    if (dtype.char == "f" or dtype.char == "d") and -_SMALL <= value.real <= _SMALL and value.__class__ in _REAL:
        return np.array(value, dtype)
    if value.__class__ is int:
        check_whole(value)
    if kind == "b":
        return np.array(value).astype(dtype)
    if kind == "c":
        return _complex_number(complex(value), dtype)
    value = real_number(value, dtype)
    if kind in "iu":
        if isinstance(value, float):
            least, most = limits(dtype)
            if not least <= value < most + 1:  # also refuses NaN
                raise _overflow(dtype)
            value = min(int(value), most)
        least, most = limits(dtype)
        if value > most or value < (least if kind == "i" else -most):
            raise _overflow(dtype)
        return np.array(value & most if value < 0 and kind == "u" else value, dtype)
    most = _GREATEST[dtype.char]
    if not -most <= value <= most and value == value and not isinf(value):  # checked before rounding
        raise _overflow(dtype)
    if isinf(value) and dtype.char in _WITHOUT_INFINITY or value <= 0 and _GREATEST[dtype.char] == 2.0**127:
        raise _overflow(dtype)
    return np.array(float(value), dtype)  # ml_dtypes takes no integer of more than 63 bits


def number_filling(value, dtype: np.dtype, count: int = 1) -> np.ndarray:
    """Convert a number like `number_as`, to fill `count` elements. In half precision PyTorch stores infinity for a
    number that is too large if `count` is 1."""
    if count == 1 and dtype.kind in "fV" and dtype.itemsize == 2:
        value = real_number(value, np.dtype(np.float64))
        with np.errstate(over="ignore"):
            return np.array(value, np.float64).astype(dtype)
    return number_as(value, dtype)


@cache
def limits(dtype: np.dtype) -> tuple[int, int]:
    found = np.iinfo(dtype)
    return int(found.min), int(found.max)


def _complex_number(value, dtype):
    with np.errstate(over="ignore"):
        out = np.array(value).astype(dtype)
    if np.isinf(out) and not isinf(value.real) and not isinf(value.imag):
        raise _overflow(dtype)
    return out


def _overflow(dtype):
    return RuntimeError(f"value cannot be converted to type {CPP_TYPES[dtype.name]} without overflow")
