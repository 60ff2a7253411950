"""Filling an array with random numbers in the order of its memory, and refusing dtypes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

BLOCK = 32768  # numbers drawn at a time, so that temporaries stay in cache; a multiple of 16
HALF = ("float16", "bfloat16")
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # of the significand, the leading one included
LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
# How PyTorch's messages call a dtype: the first form for what is not implemented, the second for what does
# not fit.
_NAMES = {
    "bool": ("Bool", "bool"),
    "uint8": ("Byte", "unsigned char"),
    "int8": ("Char", "signed char"),
    "int16": ("Short", "short int"),
    "int32": ("Int", "int"),
    "int64": ("Long", "long int"),
    "uint16": ("UInt16", "short unsigned int"),
    "uint32": ("UInt32", "unsigned int"),
    "uint64": ("UInt64", "long unsigned int"),
    "float16": ("Half", "c10::Half"),
    "bfloat16": ("BFloat16", "c10::BFloat16"),
    "float32": ("Float", "float"),
    "float64": ("Double", "double"),
    "complex64": ("ComplexFloat", "c10::complex<float>"),
    "complex128": ("ComplexDouble", "c10::complex<double>"),
}


_BY_CODE = {"f": "float32", "d": "float64", "e": "float16", "E": "bfloat16"}  # `dtype.name` is slow to compute


def name_of(dtype: np.dtype) -> str:
    """The name of a dtype, such as float32."""
    return _BY_CODE.get(dtype.char) or dtype.name


def scalar_name(dtype: np.dtype) -> str:
    """PyTorch's name of a dtype in "not implemented for" messages, such as Long."""
    return _NAMES.get(dtype.name, (dtype.name,))[0]


def c_name(dtype: np.dtype) -> str:
    """PyTorch's name of a dtype in "out of bounds for" messages, such as unsigned char."""
    return _NAMES.get(dtype.name, (dtype.name,))[-1]


def require(out: np.ndarray, operation: str, kinds: str, even_if_empty: bool = False) -> None:
    """Raise NotImplementedError unless the dtype is of one of `kinds`: f(loating), i(nteger), b(ool).

    Arrays without elements pass, as nothing is drawn for them; but not if `even_if_empty`.
    """
    kind = "f" if name_of(out.dtype) in DIGITS else out.dtype.kind.replace("u", "i")
    if kind not in kinds and (out.size or even_if_empty):
        raise NotImplementedError(f"\"{operation}\" not implemented for '{scalar_name(out.dtype)}'")


def real_parts(out: np.ndarray) -> np.ndarray:
    """A complex array as a real one with a last axis of 2 (a view); any other array as it is."""
    if out.dtype.kind != "c":
        return out
    real = out.real
    return np.lib.stride_tricks.as_strided(real, (*out.shape, 2), (*out.strides, real.itemsize))


def memory_axes(out: np.ndarray) -> list[int]:
    """The axes of `out` in the order of its memory, the largest stride first."""
    if out.flags.c_contiguous:
        return list(range(out.ndim))
    return sorted(range(out.ndim), key=lambda axis: -abs(out.strides[axis]))


def narrowed(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`values` on their way to `dtype`: float32 if that is a half type, since C++ converts in two steps."""
    if dtype.char in "eE" and values.dtype.char not in "?f":
        return values.astype(np.float32)
    return values


def fill(out: np.ndarray, draw: Callable[[int], np.ndarray]) -> np.ndarray:
    """Fill `out` in the order of its memory with what `draw(n)` gives, block by block. Returns `out`.

    PyTorch does the same: a transposed array receives the transposed numbers.
    """
    whole = out.flags.c_contiguous
    view = out if whole else out.transpose(memory_axes(out))
    whole = whole or view.flags.c_contiguous
    flat = view.reshape(-1) if whole else np.empty(view.size, view.dtype)
    with np.errstate(over="ignore"):  # what a narrow dtype cannot hold becomes an infinity
        for start in range(0, flat.size, BLOCK):
            stop = min(start + BLOCK, flat.size)
            flat[start:stop] = narrowed(draw(stop - start), flat.dtype)
    if not whole:
        view[...] = flat.reshape(view.shape)
    return out
