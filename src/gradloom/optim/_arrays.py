"""What the update rules share: arrays in blocks, room to work in, and numbers that may be given as tensors.

An update rule is a function of arrays that it changes in place, in several passes. Blocks bound the room it
needs and keep large parameters in the cache between passes; smaller blocks would cost more in calls than they
save.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

import gradloom as gl

if TYPE_CHECKING:
    from gradloom import Tensor

# Elements per block. Measured with SGD on 430,000 and 10,000,000 float32: faster than smaller and larger
# ones.
_BLOCK = 1 << 18


class _Scratch(threading.local):
    """One block to work in for each dtype, kept because fresh pages would cost as much as a pass: at most 2
    MB each."""

    def __init__(self):
        self.by_dtype = {}

    def __call__(self, shape, size, dtype):
        block = self.by_dtype.get(dtype)
        if block is None:
            block = self.by_dtype[dtype] = np.empty(_BLOCK, dtype)
        return block[:size].reshape(shape) if size <= _BLOCK else np.empty(shape, dtype)


_scratch = _Scratch()


def in_blocks(rule, arrays, *numbers) -> None:
    """Call `rule(*arrays, scratch, *numbers)` on corresponding blocks of arrays of one shape.

    Args:
        rule: changes its arrays in place, element by element; `scratch` is an uninitialised array to work in,
            of the type and shape of the first one.
        arrays: ndarrays of one shape, None for one that is not there. Complex ones are handed on as pairs of
            real numbers, and those without dimensions with one. Or what `_answered` has in their place, as a whole.
    """
    first = arrays[0]
    if type(first) is not np.ndarray and not isinstance(first, np.generic):
        if isinstance(first, np.ndarray):  # a parameter with the conjugate or negative bit
            values = np.array(first)
            in_blocks(rule, (values, *arrays[1:]), *numbers)
            first[...] = values
            return
        from gradloom.optim._answered import by_operators

        by_operators(rule, arrays, numbers)
        return
    if first.dtype.kind == "c":
        arrays = [None if array is None else _as_real(array) for array in arrays]
        first = arrays[0]
    elif not first.ndim:
        arrays = [None if array is None else array.reshape(1) for array in arrays]
        first = arrays[0]
    size = first.size
    if size <= _BLOCK or not all(array is None or array.flags.c_contiguous for array in arrays):
        rule(*arrays, _scratch(first.shape, size, first.dtype), *numbers)
        return
    flat = [None if array is None else array.reshape(-1) for array in arrays]
    for start in range(0, size, _BLOCK):
        blocks = [None if array is None else array[start : start + _BLOCK] for array in flat]
        length = blocks[0].size
        rule(*blocks, _scratch(length, length, first.dtype), *numbers)


def _as_real(array):
    """A complex array as real numbers on the same memory; the parts are the last dimension."""
    real = array.real
    return np.lib.stride_tricks.as_strided(real, (*real.shape, 2), (*real.strides, real.itemsize))


def number(value) -> float:
    """A Python number for one that may be a tensor of one element."""
    return value.item() if hasattr(value, "item") else value


def is_tensor_of_many(value) -> bool:
    """Whether `value` is a tensor that does not hold exactly one element."""
    return hasattr(value, "numel") and value.numel() != 1


def arrays(parameter: Tensor, what: str, *kept: Any) -> tuple[Any, ...]:
    """What an update rule works on: the arrays of a parameter, of its gradient, and of what is kept for it.

    Args:
        parameter: a parameter with a gradient.
        what: the optimizer's name.
        kept: tensors of the parameter's shape, None for one that is not there.

    Raises:
        RuntimeError: for a sparse gradient.
    """
    gradient = parameter.grad
    if gradient.is_sparse:
        raise RuntimeError(f"{what} does not support sparse gradients")
    try:
        values, array = parameter._operand, gradient._operand
    except AttributeError:  # Note [Torch dispatch]
        from gradloom.optim._answered import answered

        return answered(parameter, gradient, kept)
    if type(array) is not np.ndarray or values.flags.c_contiguous and not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)  # so that both can be gone through in blocks
    return (values, array, *[None if tensor is None else tensor._array for tensor in kept])


def new_step() -> Any:
    """A step count of zero."""
    return gl.tensor(0.0, dtype=gl.float32)


def advance(state: dict[str, Any]) -> float:
    """Count one step and return the number."""
    array = state["step"]._array
    array += 1
    return float(array)
