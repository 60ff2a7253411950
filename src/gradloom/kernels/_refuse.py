"""Errors of kernels in PyTorch's words: which dtypes an operator does not take, and divisions of integers by zero."""

from __future__ import annotations

import numpy as np

from ..types.dtype import TYPE_OF, scalar_type_name


def not_implemented(name: str, array: np.ndarray) -> NotImplementedError:
    """The error of an operator that has no kernel for a dtype."""
    return NotImplementedError(f"\"{name}\" not implemented for '{scalar_type_name(TYPE_OF[array.dtype])}'")


def refuse(name: str, array: np.ndarray, kinds: str) -> None:
    """Raises NotImplementedError if the array's `dtype.kind` is one of `kinds`."""
    if array.dtype.kind in kinds:
        raise not_implemented(name, array)


def check_divisor(divisor: np.ndarray) -> None:
    """Raises RuntimeError if an integer array contains zero."""
    if divisor.dtype.kind in "iu" and not divisor.all():
        raise RuntimeError("ZeroDivisionError")
