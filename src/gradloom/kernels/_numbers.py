"""Python numbers as array elements, with PyTorch's rules about what fits."""

from __future__ import annotations

from functools import cache
from math import isinf

import numpy as np

_C_NAMES = {
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
_GREATEST = {"e": 65504.0, "E": 3.3895313892515355e38, "f": 3.4028234663852886e38, "d": 1.7976931348623157e308}


def number_as(value, dtype: np.dtype) -> np.ndarray:
    """A Python number as a 0-dim array; floats are truncated to integers, negative integers wrap to unsigned ones.

    Raises:
        RuntimeError: if the number is beyond the range of the type, or complex and the type is not.
    """
    kind = dtype.kind
    if kind == "b":
        return np.array(value).astype(dtype)
    if kind == "c":
        return _complex_number(complex(value), dtype)
    if value.__class__ is complex:
        if value.imag:
            raise _overflow(dtype)
        value = value.real
    if kind in "iu":
        if isinstance(value, float):
            least, most = _limits(dtype)
            if not least <= value <= most:  # before it is truncated; NaN is not, either
                raise _overflow(dtype)
            value = min(int(value), most)
        least, most = _limits(dtype)
        if value > most or value < (least if kind == "i" else -most):
            raise _overflow(dtype)
        return np.array(value & most if value < 0 and kind == "u" else value, dtype)
    most = _GREATEST[dtype.char]
    if not -most <= value <= most and value == value and not isinf(value):  # before it is rounded
        raise _overflow(dtype)
    return np.array(value, dtype)


def number_filling(value, dtype: np.dtype, count: int = 1) -> np.ndarray:
    """As `number_as`, for functions that fill `count` elements: PyTorch fills one element in half precision with
    infinity where the number is too large for it."""
    if count == 1 and dtype.kind in "fV" and dtype.itemsize == 2 and value.__class__ is not complex:
        with np.errstate(over="ignore"):
            return np.array(value, np.float64).astype(dtype)
    return number_as(value, dtype)


@cache
def _limits(dtype: np.dtype) -> tuple[int, int]:
    found = np.iinfo(dtype)
    return int(found.min), int(found.max)


def _complex_number(value, dtype):
    with np.errstate(over="ignore"):
        out = np.array(value).astype(dtype)
    if np.isinf(out) and not isinf(value.real) and not isinf(value.imag):
        raise _overflow(dtype)
    return out


def _overflow(dtype):
    return RuntimeError(f"value cannot be converted to type {_C_NAMES[dtype.name]} without overflow")
