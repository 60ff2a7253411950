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
        return made.transpose(inverse(order))
    return new_array(array.shape, dtype or array.dtype, memory_format, _PLAIN[make])


_PLAIN = {np.empty_like: np.empty, np.zeros_like: np.zeros, np.ones_like: np.ones}


def suggested_format(array):
    """The channels-last format of images or volumes whose strides are in its order, with gaps or without; else None.

    What makes results for images (of convolutions, pools, padding) asks this of its input, and lays them out so.
    Strides of a single channel or a single pixel, which fit both orders, are compared like all others.
    """
    return order_of_strides(array.shape, array.strides) if array.ndim in (4, 5) else None


def suggested_format_of_row(array):
    """`suggested_format` of (batch, channels, width) as images of height 1; None for another number of dimensions."""
    if array.ndim != 3:
        return None
    (batch, channels, width), (s, t, u) = array.shape, array.strides
    return order_of_strides((batch, channels, 1, width), (s, t, u * width, u))


def order_of_strides(shape, strides):
    """`suggested_format` of four or five sizes and strides."""
    ndim, least = len(shape), strides[1]
    if strides[-1] < least or not least:  # nearly always: the width lies inside the channels
        return None
    reach = 0
    for d in (1, *range(ndim - 1, 1, -1), 0):
        n, stride = shape[d], strides[d]
        if not n or stride < reach or (not d and reach == least):
            return None
        reach = stride * n
    return channels_last if ndim == 4 else channels_last_3d


def in_format(array, memory_format) -> np.ndarray:
    """A row-major array in a memory format: itself for None, else a copy. (batch, channels, width) counts as images of
    height 1."""
    if memory_format is None:
        return array
    if array.ndim == 3:
        return in_format(array[:, :, None], memory_format)[:, :, 0]
    out = new_array(array.shape, array.dtype, memory_format)
    out[...] = array
    return out


def row_major(array) -> np.ndarray:
    """The array with strides in the order of its dimensions, those of size 1 included: itself, or a copy.

    For results that PyTorch lays out so whatever their inputs are, where NumPy follows the inputs.
    """
    if array.ndim < 2 or array.flags.c_contiguous and 1 not in array.shape:
        return array
    return array.reshape(-1).reshape(array.shape) if array.flags.c_contiguous else array.copy()


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


def inverse(order) -> list[int]:
    """The permutation that undoes another."""
    return sorted(range(len(order)), key=order.__getitem__)


def is_in_format(array, memory_format) -> bool:
    """Whether the elements lie in the order of a memory format, without gaps."""
    if memory_format not in _LAST:
        return array.flags.c_contiguous
    ndim, _, to_last = _LAST[memory_format]
    if array.ndim != ndim:
        return False
    return array.transpose(to_last).flags.c_contiguous
