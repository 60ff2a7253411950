"""Memory formats: in which order the elements of a new array lie."""

from __future__ import annotations

import numpy as np

from ..device import channels_last, channels_last_3d, preserve_format

_LAST = {channels_last: (4, (0, 3, 1, 2), (0, 2, 3, 1)), channels_last_3d: (5, (0, 4, 1, 2, 3), (0, 2, 3, 4, 1))}


def new_array(shape, dtype, memory_format=None, make=np.empty) -> np.ndarray:
    """A new array whose elements lie in the order of a memory format.

    Args:
        make: np.empty, np.zeros or np.ones.

    Raises:
        RuntimeError: if the number of dimensions does not fit the format.
    """
    if memory_format not in _LAST:
        return make(shape, dtype)
    ndim, to_first, to_last = _LAST[memory_format]
    if len(shape) != ndim:
        raise RuntimeError(f"required rank {ndim} tensor to use {str(memory_format)[6:]} format")
    return make([shape[i] for i in to_last], dtype).transpose(to_first)


def new_like(array, dtype=None, memory_format=None, make=np.empty_like) -> np.ndarray:
    """A new array of the shape of another; by default the elements lie in the same order, too.

    Args:
        make: np.empty_like, np.zeros_like or np.ones_like.
    """
    if memory_format is None or memory_format is preserve_format:
        if 0 not in array.strides or not array.size:
            return make(array, dtype, order="K")
        order = memory_order(array)
        made = _PLAIN[make]([array.shape[d] for d in order], dtype or array.dtype)
        return made.transpose([order.index(d) for d in range(array.ndim)])
    return new_array(array.shape, dtype or array.dtype, memory_format, _PLAIN[make])


_PLAIN = {np.empty_like: np.empty, np.zeros_like: np.zeros, np.ones_like: np.ones}


def memory_order(array) -> list[int]:
    """The dimensions from the outermost in memory to the innermost; expanded ones stay between their neighbours."""
    order: list[int] = []
    for d in range(array.ndim - 1, -1, -1):  # `order` is from the innermost on until the end
        place = i = len(order)
        while i:
            i -= 1
            ours, theirs = array.strides[d], array.strides[order[i]]
            if not ours or not theirs:
                continue
            if theirs > ours or theirs == ours and array.shape[order[i]] > array.shape[d]:
                place = i
            else:
                break
        order.insert(place, d)
    return order[::-1]


def is_in_format(array, memory_format) -> bool:
    """Whether the elements lie in the order of a memory format, without gaps."""
    if memory_format not in _LAST:
        return array.flags.c_contiguous
    ndim, _, to_last = _LAST[memory_format]
    if array.ndim != ndim:
        return False
    return array.transpose(to_last).flags.c_contiguous
