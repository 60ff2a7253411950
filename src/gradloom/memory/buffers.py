"""Arrays of the bytes of other objects, such as `bytes` and `bytearray`, in either byte order."""

from __future__ import annotations

from sys import byteorder
from typing import Any

import numpy as np


def decoded(buffer: Any, byte_order: str | None, count: int, offset: int, kind: np.dtype) -> np.ndarray:
    """Return a copy of elements in a buffer, in this machine's byte order.

    Args:
        buffer: an object with Python's buffer protocol.
        byte_order: "big", "little" or "native"; None for elements of one byte.
        count: number of elements; negative for all.
        offset: where they begin, in bytes.
        kind: their NumPy dtype.

    Raises:
        TypeError: if `buffer` has no bytes, or `byte_order` is no str.
        ValueError: for another byte order, and if the buffer ends before the elements do, or within one.
    """
    if byte_order is not None and not isinstance(byte_order, str):
        raise TypeError(f"argument 2 must be str, not {type(byte_order).__name__}")
    data = memoryview(buffer).tobytes()
    size = kind.itemsize
    if byte_order not in ("big", "little", "native", None):
        raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
    if not 0 <= offset <= len(data):
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({len(data)}) , but got {offset}"
        )
    there = len(data) - offset
    if count < 0:
        if there % size:
            raise ValueError(f"buffer size ({len(data)}) must be a multiple of element size ({size})")
        count = there // size
    elif count * size > there:
        raise ValueError(f"buffer has only {there} elements after offset {offset}, but specified a size of {count}")
    found = np.frombuffer(data, np.uint8, count * size, offset).copy()
    part = size // 2 if kind.kind == "c" else size
    if byte_order not in (byteorder, "native", None) and part > 1:
        found = found.reshape(-1, part)[:, ::-1].flatten()
    return found.astype(np.bool_) if kind.kind == "b" else found.view(kind)
