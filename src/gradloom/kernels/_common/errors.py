"""Errors of kernels in PyTorch's words: shapes, dtypes, numbers out of range, divisions of integers by zero."""

from __future__ import annotations

import numpy as np

from ...types.dtype import TYPE_OF, scalar_type_name

# What a wrapper of a pointwise operator catches; nothing else in it raises these.
REFUSALS = (TypeError, ValueError, OverflowError)
CPP_TYPES = {
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
_OF_BOOLS = {
    "subtract": "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
    "`logical_xor()` operator instead.",
    "negative": "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
    "use the `~` or `logical_not()` operator instead.",
}


def refusal(error: Exception, name: str, *arrays) -> Exception:
    """Return the error to raise for one that NumPy raised in a kernel.

    Args:
        error: what NumPy raised.
        name: the operator's name.
        arrays: its array arguments; None for those that are undefined.

    Returns:
        RuntimeError for shapes that do not broadcast and numbers out of a dtype's range, NotImplementedError for a
        dtype that the operator does not take; `error` itself if it says anything else.
    """
    arrays = tuple([a for a in arrays if isinstance(a, np.ndarray)])
    if isinstance(error, OverflowError):
        dtype = str(error).rpartition(" ")[2]
        return RuntimeError(f"value cannot be converted to type {CPP_TYPES.get(dtype, dtype)} without overflow")
    if isinstance(error, ValueError):
        text = size_mismatch([a.shape for a in arrays])
        return RuntimeError(text) if text else error
    words = str(error)
    if words.startswith(("numpy boolean ", "The numpy boolean ")):
        return RuntimeError(_OF_BOOLS.get(words.removeprefix("The ").split()[2].rstrip(","), words))
    if "ufunc '" in words and arrays:
        wide = np.result_type(*arrays) if all(a.dtype.kind != "V" for a in arrays) else arrays[0].dtype
        return NotImplementedError(f"\"{name}_cpu\" not implemented for '{type_name(wide)}'")
    return error


def size_mismatch(shapes) -> str | None:
    """Return PyTorch's message for shapes that do not broadcast together; None if they do."""
    common = ()
    for shape in shapes:
        long, short = (common, shape) if len(common) >= len(shape) else (shape, common)
        lead = len(long) - len(short)
        merged = list(long)
        for i in range(len(short) - 1, -1, -1):
            n, m = short[i], long[lead + i]
            if n != m and n != 1 and m != 1:
                a, b = (m, n) if long is common else (n, m)
                return (
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension "
                    f"{lead + i}"
                )
            merged[lead + i] = m if n == 1 else n
        common = tuple(merged)
    return None


def type_name(dtype: np.dtype) -> str:
    """Return PyTorch's name of a dtype in most of its messages, such as Float or Long."""
    return scalar_type_name(TYPE_OF[dtype])


def not_implemented(name: str, array: np.ndarray) -> NotImplementedError:
    """Return the error of an operator that has no kernel for an array's dtype."""
    return NotImplementedError(f"\"{name}\" not implemented for '{type_name(array.dtype)}'")


def refuse(name: str, array: np.ndarray, kinds: str) -> None:
    """Raise NotImplementedError if the array's `dtype.kind` is one of `kinds`."""
    if array.dtype.kind in kinds:
        raise not_implemented(name, array)


def check_divisor(divisor: np.ndarray) -> None:
    """Raise RuntimeError if an integer array contains zero."""
    if divisor.dtype.kind in "iu" and not divisor.all():
        raise RuntimeError("ZeroDivisionError")
