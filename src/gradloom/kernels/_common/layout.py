"""Memory layout: the order of a new array's elements in memory, and elements that share memory.

As in PyTorch, a write whose result would depend on the order of writes is refused only where that is cheap to detect:
for expanded dimensions, and for two dense views that overlap in part.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...memory.ownership import address, owner
from ...types.device import channels_last, channels_last_3d, preserve_format
from .direct import empty_like

_LAST = {channels_last: (4, (0, 3, 1, 2), (0, 2, 3, 1)), channels_last_3d: (5, (0, 4, 1, 2, 3), (0, 2, 3, 4, 1))}


def new_array(shape, dtype, memory_format=None, make=np.empty) -> np.ndarray:
    """Make an array whose elements lie in the order of a memory format. `make` is np.empty, np.zeros or np.ones."""
    if memory_format not in _LAST:
        return make(shape, dtype)
    ndim, to_first, to_last = _LAST[memory_format]
    if len(shape) != ndim:
        raise RuntimeError(f"required rank {ndim} tensor to use {str(memory_format)[6:]} format")
    return make([shape[i] for i in to_last], dtype).transpose(to_first)


def new_like(array, dtype=None, memory_format=None, make=np.empty_like) -> np.ndarray:
    """Make an array like another by np.empty_like, np.zeros_like or np.ones_like, by default in its memory order."""
    if memory_format is not None and memory_format is not preserve_format:
        return new_array(array.shape, dtype or array.dtype, memory_format, _PLAIN[make])
    if not array.size or array.flags.c_contiguous and 1 not in array.shape:
        if make is np.zeros_like:  # NumPy makes it in two steps
            return np.zeros(array.shape, dtype or array.dtype)
        return (empty_like if make is np.empty_like else make)(array, dtype, "K")
    dtype = np.dtype(dtype or array.dtype)
    made = np.ndarray(array.shape, dtype, strides=[s * dtype.itemsize for s in strides_like(array)])
    if make is not np.empty_like:
        made.fill(make is np.ones_like)
    return made


_PLAIN = {np.empty_like: np.empty, np.zeros_like: np.zeros, np.ones_like: np.ones}


def suggested_format(array):
    """Return the channels-last format if the strides of images or volumes are in its order, with or without gaps; else
    None. Convolution, pooling and padding lay their results out by it. Strides of a single channel or pixel fit both
    orders; they are compared like all others."""
    return order_of_strides(array.shape, array.strides) if array.ndim in (4, 5) else None


def suggested_format_of_row(array):
    """Return `suggested_format` of (batch, channels, width), taken as images of height 1; None for other ranks."""
    if array.ndim != 3:
        return None
    (batch, channels, width), (s, t, u) = array.shape, array.strides
    return order_of_strides((batch, channels, 1, width), (s, t, u * width, u))


def order_of_strides(shape, strides):
    """Return `suggested_format` for four or five sizes and strides."""
    ndim, least = len(shape), strides[1]
    if strides[-1] < least or not least:  # most arrays: the width lies inside the channels
        return None
    reach = 0
    for d in (1, *range(ndim - 1, 1, -1), 0):
        n, stride = shape[d], strides[d]
        if not n or stride < reach or not d and reach == least:
            return None
        reach = stride * n
    return channels_last if ndim == 4 else channels_last_3d


def in_format(array, memory_format) -> np.ndarray:
    """Copy a row-major array to a memory format (None: return it); (batch, channels, width) has images of height 1."""
    if memory_format is None:
        return array
    if array.ndim == 3:
        return in_format(array[:, :, None], memory_format)[:, :, 0]
    out = new_array(array.shape, array.dtype, memory_format)
    out[...] = array
    return out


def row_major(array) -> np.ndarray:
    """Return the array, or a copy, with row-major strides, also for dimensions of size 1. Used where PyTorch's results
    are row-major regardless of the inputs, and NumPy's follow the inputs."""
    if array.ndim < 2 or array.flags.c_contiguous and 1 not in array.shape:
        return array
    return array.reshape(-1).reshape(array.shape) if array.flags.c_contiguous else array.copy()


def is_plain(array) -> bool:
    """Return whether the strides are those of a new array, also for size-1 dimensions, which NumPy's copies ignore."""
    return array.strides == _plain_strides(array.shape, array.itemsize)


@lru_cache(4096)
def _plain_strides(shape, step):
    strides = []
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return (*reversed(strides),)


def strides_like(array) -> list[int]:
    """Return the strides, in elements, of a dense result whose dimensions have the memory order of its input. If the
    input is dense, they are its strides, also for dimensions of size 1."""
    if is_dense(array):
        return [s // array.itemsize for s in array.strides]
    return strides_in_order(array.shape, memory_order(array))


def strides_in_order(shape, order) -> list[int]:
    """Return the strides, in elements, of a dense array whose dimensions lie in memory in `order`, outermost first."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= shape[d]
    return strides


def as_type(array, dtype) -> np.ndarray:
    """Convert an array to another dtype. An expanded one is laid out as PyTorch does: `astype` would put its expanded
    dimensions innermost."""
    if 0 not in array.strides:
        return array.astype(dtype)
    out = new_like(array, dtype)
    out[...] = array
    return out


def empty_result(dtype, *operands) -> np.ndarray:
    """Return an empty array for the result of an elementwise function; see `as_operands`."""
    shape = operands[0].shape
    if any(a.shape != shape for a in operands):
        shape = np.broadcast_shapes(*[a.shape for a in operands])
    return as_operands(np.empty(shape, dtype), *operands, copy=False)


def as_operands(found, *operands, copy=True) -> np.ndarray:
    """Lay the result of an elementwise function out as PyTorch does: in the memory order of the first operand; where
    that is undetermined (a broadcast dimension), of the second, and so on. NumPy prefers row-major order. The check is
    cheap if all arrays are row-major."""
    first = operands[0]
    if found.flags.c_contiguous and (
        first.flags.c_contiguous and first.shape == found.shape or all(a.flags.c_contiguous for a in operands)
    ):
        return found
    if found.ndim < 2 or not found.size:
        return found
    strides = strides_in_order(found.shape, memory_order(*[_Broadcast(a, found.shape) for a in operands]))
    strides = tuple([s * found.itemsize for s in strides])
    if strides == found.strides:
        return found
    out = np.ndarray(found.shape, found.dtype, strides=strides)
    if copy:
        out[...] = found
    return out


class _Broadcast:
    """The shape and the strides of an array that is broadcast to a shape."""

    __slots__ = ("shape", "strides", "ndim")

    def __init__(self, array, shape):
        lead = len(shape) - array.ndim
        pairs = zip(array.shape, array.strides, shape[lead:], strict=True)
        self.shape, self.ndim = shape, len(shape)
        self.strides = (*(0,) * lead, *[s if n == m else 0 for n, s, m in pairs])


def memory_order(*arrays) -> list[int]:
    """Return the dimensions from the outermost to the innermost in memory, for arrays of one shape. Two dimensions are
    ordered by the first array in which neither is expanded; dimensions that are expanded in all arrays keep their
    neighbours."""
    shape = arrays[0].shape
    order = list(range(arrays[0].ndim - 1, -1, -1))  # innermost first; reversed at the end
    for i in range(1, len(order)):
        place = i
        for j in range(i - 1, -1, -1):
            compared = _inside(order[place], order[j], arrays, shape)
            if compared > 0:
                order[place], order[j] = order[j], order[place]
                place = j
            elif compared < 0:
                break
    return order[::-1]


def _inside(d, other, arrays, shape) -> int:
    """Return 1 if dimension `d` lies inside of `other` in memory, -1 if outside, 0 if no array tells."""
    for array in arrays:
        ours, theirs = array.strides[d], array.strides[other]
        if not ours or not theirs:
            continue
        if ours != theirs:
            return 1 if ours < theirs else -1
        if shape[other] > shape[d]:
            return 1
    return 0


def inverse(order) -> list[int]:
    """Return the permutation that undoes another."""
    return sorted(range(len(order)), key=order.__getitem__)


def is_in_format(array, memory_format) -> bool:
    """Return whether the array is dense and its elements lie in the order of a memory format."""
    if memory_format not in _LAST:
        return array.flags.c_contiguous
    ndim, _, to_last = _LAST[memory_format]
    if array.ndim != ndim:
        return False
    return array.transpose(to_last).flags.c_contiguous


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
    """Raise RuntimeError if an array to be written has an expanded dimension."""
    if 0 in array.strides and array.size:
        for n, s in zip(array.shape, array.strides, strict=True):
            if s == 0 and n > 1:
                raise RuntimeError(_INTERNAL)


def check_no_partial_overlap(array, other) -> None:
    """Raise RuntimeError if an operand shares some, but not all, elements with an array to be written. Operands with a
    conjugate or negative bit have been resolved to copies before."""
    if other is array or type(array) is not np.ndarray or type(other) is not np.ndarray:
        return
    if owner(array) is not owner(other) or not np.may_share_memory(array, other):
        return
    if is_dense(array) and is_dense(other) and not is_same_view(array, other):
        raise RuntimeError(_PARTIAL)


def is_same_view(array, other) -> bool:
    """Return whether two arrays have the same elements at the same places."""
    return (
        type(array) is type(other) is np.ndarray
        and array.shape == other.shape
        and array.strides == other.strides
        and array.itemsize == other.itemsize
        and address(array) == address(other)
    )


def check_apart(array, other) -> None:
    """Raise RuntimeError if an operand shares elements with an array to be written."""
    if overlap(array, other):
        raise RuntimeError(_PARTIAL)


def overlap(array, other) -> bool:
    """Return whether two arrays without gaps share elements; False for arrays with gaps, as in PyTorch."""
    if type(array) is not np.ndarray or type(other) is not np.ndarray:
        return False
    return owner(array) is owner(other) and np.may_share_memory(array, other) and is_dense(array) and is_dense(other)


def check_other_tensor(array, result) -> None:
    """Raise RuntimeError for an operand that is itself to be written, even if it is empty until it gets the size of the
    result. Where the operator extends it to more dimensions first, it is another tensor."""
    if result.size and (not array.size or array.ndim == result.ndim):
        raise RuntimeError(_PARTIAL)


def is_dense(array) -> bool:
    """Return whether the elements fill their memory without gaps, in any order."""
    if array.flags.forc:
        return True
    expected = array.itemsize
    for s, n in sorted([(s, n) for n, s in zip(array.shape, array.strides, strict=True) if n != 1]):
        if s != expected:
            return False
        expected *= n
    return True
