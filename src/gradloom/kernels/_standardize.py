"""What kernels of normalisation share: layouts in which a set to normalise is a row, or a channel; and their sums.

Sums are products with ones, which BLAS computes at the speed of memory; float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ._filling import scalar_name
from ._layout import suggested_format

_BLOCK = 1 << 16  # elements worked on at a time, so that temporaries stay in cache


def work_dtype(array, name):
    """The dtype to compute in. Raises NotImplementedError for what is not floating."""
    dtype = array.dtype
    if dtype.char in "fd":
        return dtype
    if dtype.char == "e" or dtype.kind == "V" or dtype.name == "bfloat16":
        return np.dtype(np.float32)
    raise NotImplementedError(f"\"{name}\" not implemented for '{scalar_name(dtype)}'")


def cast(array, dtype):
    """`array` in `dtype`, not copied where it has it; None stays None."""
    return None if array is None else array.astype(dtype, copy=False)


# --- rows: (sets, elements of a set) ------------------------------------------------------------------------------


def row_sum(rows):
    """The sums of the rows of a matrix."""
    return rows @ np.ones(rows.shape[1], rows.dtype)


def column_sum(rows):
    """The sums of the columns of a matrix."""
    return np.ones(rows.shape[0], rows.dtype) @ rows


def row_dot(a, b):
    """The inner products of the rows of two matrices."""
    return np.einsum("rl,rl->r", a, b)


def row_blocks(count, size, multiple=1):
    """Slices of `count` rows of `size` elements that fit in cache; each holds a multiple of `multiple` rows."""
    step = max(_BLOCK // max(size * multiple, 1), 1) * multiple
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def standardize_rows(rows, eps):
    """The rows of a matrix standardised, block by block.

    Returns:
        A new matrix that is filled as the iterator is used up, the means, 1 / sqrt(variance + eps); and an iterator
        of (slice, the block of standardised rows), in which a caller may go on computing while it is in cache.
    """
    count = rows.shape[1]
    result, mean, deviation = np.empty_like(rows), row_sum(rows), np.empty(rows.shape[0], rows.dtype)
    mean /= count

    def blocks():
        for part in row_blocks(*rows.shape):
            block = result[part]
            np.subtract(rows[part], mean[part, None], out=block)
            deviation[part] = inverse_deviation(row_dot(block, block) / count, eps)
            block *= deviation[part, None]
            yield part, block

    return result, mean, deviation, blocks()


def inverse_deviation(variance, eps):
    """1 / sqrt(variance + eps)."""
    variance = variance + variance.dtype.type(eps)
    np.sqrt(variance, out=variance)
    return np.reciprocal(variance, out=variance)


def project(h, standardized, scale):
    """scale * (h - M(h) - n M(h n)) row by row, with M the mean of a row and n the standardised rows.

    That is the derivative of standardising, which is its own transpose. Overwrites `standardized`.
    """
    count = h.shape[1]
    inner = row_dot(h, standardized)
    inner /= -count
    mean = row_sum(h)
    mean /= count
    standardized *= inner[:, None]
    standardized += h
    standardized -= mean[:, None]
    standardized *= scale[:, None]
    return standardized


# --- channels: (batch, channels, positions) -----------------------------------------------------------------------


def is_channels_last(array):
    """Whether the channels of images or volumes, dimension 1, lie innermost in memory."""
    return suggested_format(array) is not None


def to_channels(array, last):
    """(batch, channels, *) as a contiguous (batch, channels, positions); for channels that lie innermost as
    (batch * positions, channels, 1). A view where possible."""
    shape = array.shape
    if last:
        moved = np.ascontiguousarray(np.moveaxis(array, 1, -1))
        return moved.reshape(prod(shape) // max(shape[1], 1), shape[1], 1)
    return np.ascontiguousarray(array).reshape(shape[0], shape[1], prod(shape[2:]))


def from_channels(values, shape, last):
    """The inverse of `to_channels`."""
    if last:
        return np.moveaxis(values.reshape(shape[0], *shape[2:], shape[1]), -1, 1)
    return values.reshape(shape)


def channel_sum(values):
    """The sums of the channels of (batch, channels, positions)."""
    batch, channels, positions = values.shape
    if positions == 1:
        return column_sum(values[:, :, 0])
    return row_sum(values.reshape(batch * channels, positions)).reshape(batch, channels).sum(0)


def channel_dot(a, b):
    """The inner products of the channels of two arrays (batch, channels, positions)."""
    batch, channels, positions = a.shape
    if positions == 1:
        return np.einsum("nc,nc->c", a[:, :, 0], b[:, :, 0])
    rows = (batch * channels, positions)
    return row_dot(a.reshape(rows), b.reshape(rows)).reshape(batch, channels).sum(0)
