"""Refusing writes whose outcome would depend on their order: memory that several elements share.

Errors are raised only where it is cheap to be certain, as in PyTorch: for expanded dimensions, and for two dense views
of one memory that overlap in part.
"""

from __future__ import annotations

import numpy as np

from ..memory.ownership import address, owner

_CLONE = "Please clone() the tensor before performing the operation."
_INTERNAL = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
    f"location. {_CLONE}"
)
_PARTIAL = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
    f"memory location. {_CLONE}"
)


def check_no_internal_overlap(array) -> None:
    """Raise RuntimeError if a dimension of an array that is to be written was expanded."""
    if 0 in array.strides and array.size:
        for n, s in zip(array.shape, array.strides, strict=True):
            if s == 0 and n > 1:
                raise RuntimeError(_INTERNAL)


def check_no_partial_overlap(array, other) -> None:
    """Raise RuntimeError if an operand shares some, but not all, elements with an array that is to be written.

    An operand with a conjugate or negative bit is resolved before, which makes a copy.
    """
    if other is array or type(array) is not np.ndarray or type(other) is not np.ndarray:
        return
    if owner(array) is not owner(other) or not np.may_share_memory(array, other):
        return
    if is_dense(array) and is_dense(other):
        same = (
            array.shape == other.shape
            and array.strides == other.strides
            and array.itemsize == other.itemsize
            and address(array) == address(other)
        )
        if not same:
            raise RuntimeError(_PARTIAL)


def check_apart(array, other) -> None:
    """Raise RuntimeError if an operand shares elements with an array that is to be written."""
    if type(array) is not np.ndarray or type(other) is not np.ndarray:
        return
    if owner(array) is owner(other) and np.may_share_memory(array, other) and is_dense(array) and is_dense(other):
        raise RuntimeError(_PARTIAL)


def is_dense(array) -> bool:
    """Whether the elements fill their memory without gaps, in whatever order."""
    if array.flags.forc:
        return True
    expected = array.itemsize
    for s, n in sorted([(s, n) for n, s in zip(array.shape, array.strides, strict=True) if n != 1]):
        if s != expected:
            return False
        expected *= n
    return True
