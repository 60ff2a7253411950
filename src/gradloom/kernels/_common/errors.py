"""PyTorch's errors for kernels: shapes, dtypes, numbers out of range, integer division by zero."""

from __future__ import annotations

from math import prod

import numpy as np

from ...types.dtype import FLOAT8, TYPE_OF, scalar_type_name

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
    **{str(d)[6:]: f"c10::{scalar_type_name(d)}" for d in FLOAT8},
}


class LinAlgError(RuntimeError):
    """Raised by an operator of linear algebra if a matrix is singular, or an algorithm does not converge."""

    __module__ = "gradloom._C"


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"


TOO_BIG, TOO_SMALL = "int too big to convert", "can't convert negative int to unsigned"  # integers beyond 64 bits
_MANY = 1 << 24  # views of about 400 bytes
_ITEM = 8  # bytes of an element, where they are not known
BOOL_DIFFERENCE = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
    "instead."
)
BOOL_NEGATION = (
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
    "`logical_not()` operator instead."
)
OF_BOOLS = {"subtract": BOOL_DIFFERENCE, "negative": BOOL_NEGATION}


def refusal(error: Exception, operator: str, /, *arguments, **integers) -> Exception:
    """Translate an error that a kernel raised to PyTorch's.

    Args:
        error: the exception from the kernel.
        operator: the operator's name.
        arguments: its arrays; None for those that are undefined.
        integers: its integers and lists of integers by name; None for those that are not given.

    Returns:
        ValueError for a size or position of more than 64 bits, TypeError for one among several; OverflowError for a
        Scalar of more than 64 bits; IndexError for a dimension out of range; RuntimeError for shapes that do not
        broadcast, numbers out of a dtype's range, sizes out of range and memory that cannot be allocated;
        NotImplementedError for a dtype that the operator does not support; `error` itself in all other cases.
    """
    arrays = tuple([a for a in arguments if isinstance(a, np.ndarray)])
    lists = {name: value if isinstance(value, tuple) else (value,) for name, value in integers.items() if value}
    for name, values in lists.items():
        for position, n in enumerate(values, 1):
            if not -(1 << 63) <= n < 1 << 63:
                text = "Overflow when unpacking long long"
                if len(values) == 1:  # an integer by itself, most likely
                    return ValueError(text)
                where = f"{operator}(): argument '{name}' failed to unpack the object at pos {position}"
                return TypeError(f'{where} with error "{text}"')
    words = str(error)
    if "to unpack" in words or "cannot unpack" in words:
        raised_in = error.__traceback__
        if raised_in is not None and raised_in.tb_next is None:  # by the wrapper, which unpacks the kernel's results
            return RuntimeError(f"{operator}(): the kernel does not return what the schema says: {words}")
    if isinstance(error, np.exceptions.AxisError) and error.ndim is not None:
        return dim_error(error.axis, error.ndim)
    if "C int" in words and arrays:  # of an axis
        return dim_error(next((n for sizes in lists.values() for n in sizes if abs(n) >> 31), 0), arrays[0].ndim)
    if isinstance(error, OverflowError):
        if words in (TOO_BIG, TOO_SMALL):
            return error
        dtype = words.rpartition(" ")[2]
        return RuntimeError(f"value cannot be converted to type {CPP_TYPES.get(dtype, 'int64_t')} without overflow")
    if isinstance(error, MemoryError):
        return RuntimeError(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate "
            f"{getattr(error, '_total_size', 'too many')} bytes. Error code 12 (Cannot allocate memory)"
        )
    if isinstance(error, ValueError):
        if "too big" in words or words.startswith("Maximum allowed"):
            return size_overflow(*[sizes for sizes in lists.values() if prod(sizes) * _ITEM >= 1 << 63][:1])
        if words == "negative dimensions are not allowed":
            return RuntimeError("zeros: Dimension size must be non-negative.")
        text = size_mismatch([a.shape for a in arrays]) if "broadcast" in words else None
        return RuntimeError(text) if text else error
    if not isinstance(error, TypeError):
        return error
    if words.startswith(("numpy boolean ", "The numpy boolean ")):
        return NotImplementedError(OF_BOOLS.get(words.removeprefix("The ").split()[2].rstrip(","), words))
    if "ufunc '" in words and arrays:
        wide = np.result_type(*arrays) if all(a.dtype.kind != "V" for a in arrays) else arrays[0].dtype
        return NotImplementedError(f"\"{operator}_cpu\" not implemented for '{type_name(wide)}'")
    return error


def pointwise_refusal(error: Exception, operator: str, /, *arguments, **integers) -> Exception:
    """Translate an error as `refusal` does, for a pointwise operator. As in PyTorch, shapes that do not broadcast are
    reported before a dtype that the operator does not support, except bool in differences."""
    found = refusal(error, operator, *arguments, **integers)
    if isinstance(found, NotImplementedError) and str(found) not in OF_BOOLS.values():
        text = size_mismatch([a.shape for a in arguments if isinstance(a, np.ndarray)])
        if text is not None:
            return RuntimeError(text)
    return found


def dim_error(dim, ndim: int) -> IndexError:
    """Return PyTorch's error for a dimension that is out of range."""
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    return IndexError(f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})")


def size_overflow(sizes=None) -> RuntimeError:
    """Return the error for sizes whose memory has more bytes than 64 bits can count."""
    return RuntimeError(f"Storage size calculation overflowed{'' if sizes is None else f' with sizes={list(sizes)}'}")


def negative_size(sizes) -> RuntimeError:
    """Return the error for the first size that is negative."""
    first = next(n for n in sizes if n < 0)
    return RuntimeError(f"Trying to create tensor with negative dimension {first}: {list(sizes)}")


def check_sizes(sizes, itemsize: int = 1) -> None:
    """Raise RuntimeError if an array of these sizes has more bytes than 64 bits can count. NumPy's `repeat`, `tile`
    and `bincount` do not check it: they write beyond the memory that they allocate."""
    if prod(sizes) * itemsize >= 1 << 63:
        raise size_overflow(sizes)


def check_count(count: int, array: np.ndarray) -> None:
    """Raise RuntimeError if `array` is to be cut into more views than memory could hold, before the first is made."""
    if count > _MANY and (count > array.size or 0 in array.strides):
        raise RuntimeError(f"{count} parts of a tensor are refused: more than {_MANY} must each have an element")


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
    """Return the name of a dtype in most of PyTorch's messages, such as Float or Long."""
    return scalar_type_name(TYPE_OF[dtype])


def not_implemented(name: str, array: np.ndarray) -> NotImplementedError:
    """Return the error of an operator that has no kernel for an array's dtype."""
    return NotImplementedError(f"\"{name}\" not implemented for '{type_name(array.dtype)}'")


def refuse(name: str, array: np.ndarray, kinds: str) -> None:
    """Raise NotImplementedError if the array's `dtype.kind` is one of `kinds`."""
    if array.dtype.kind in kinds:
        raise not_implemented(name, array)


def refuse_float8(name: str, dtype: np.dtype) -> None:
    """Raise NotImplementedError if `dtype` is a float of 8 bits, which hardly any operator computes."""
    if dtype.itemsize == 1 and dtype.isbuiltin == 2:
        raise NotImplementedError(f"\"{name}\" not implemented for '{type_name(dtype)}'")


def integer_quotient() -> RuntimeError:
    """Return the error of `addcdiv` for a quotient of integers."""
    return RuntimeError(
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv "
        "will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be "
        "implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for "
        "integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future "
        "addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), "
        "for all dtypes."
    )


def check_divisor(divisor: np.ndarray, dividend: np.ndarray) -> None:
    """Raise RuntimeError if elements are divided by an integer array that contains zero."""
    if divisor.dtype.kind in "iu" and not divisor.all() and dividend.size:
        raise RuntimeError("ZeroDivisionError")
