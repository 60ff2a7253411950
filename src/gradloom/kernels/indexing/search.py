"""Search in sorted boundaries and in sets."""

from __future__ import annotations

import numpy as np

from .._common.errors import refuse, type_name
from .places import private


def searchsorted(sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None):
    """Return the insertion positions of values in the sorted last dimension of `sorted_sequence`.

    Args:
        sorted_sequence: a vector, or an array with the shape of `self` except in the last dimension.
        self: values, an array or a number.
        out_int32: return int32 instead of int64.
        right: insert after equal elements rather than before; `side` expresses the same as "left" or "right".
        sorter: indices that sort the last dimension.
    """
    name = "torch.searchsorted()"
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"{name}: side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(f"{name}: side and right can't be set to opposites, got side of left while right was True")
    values = self if self.__class__ is np.ndarray else np.asarray(self)
    if sorter is not None:
        sorter = private(sorter)
    _check_shapes(name, sorted_sequence, values, sorter)
    if sorter is not None:
        sorted_sequence = np.take_along_axis(sorted_sequence, sorter, -1)
    return _found(sorted_sequence, values, out_int32, "right" if right or side == "right" else "left")


def bucketize(self, boundaries, out_int32=False, right=False):
    """Return, for each value, the number of its bucket between the sorted boundaries."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return _found(
        boundaries, self if self.__class__ is np.ndarray else np.asarray(self), out_int32, "right" if right else "left"
    )


def coo_to_csr(self, size, out_int32=False):
    """Return the positions at which rows begin in their sorted numbers; (size + 1,), of which the last is the end."""
    if self.ndim > 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {self.ndim} dimensional tensor.")
    refuse("convert_indices_from_coo_to_csr_cpu", self, "bcfV")
    starts = np.searchsorted(self.reshape(-1), np.arange(size + 1))
    return starts.astype(np.int32 if out_int32 else np.int64)


def csr_to_coo(crow_indices, col_indices, out_int32=False, transpose=False):
    """Return the row and column numbers, (2, nnz), of a matrix in the CSR format: the inverse of `coo_to_csr`.

    Args:
        crow_indices: positions at which the rows begin, (rows + 1,) or, of a batch of matrices, (..., rows + 1).
        col_indices: columns, (nnz,) or (..., nnz). Numbers of the batch's dimensions come first in the result.
        out_int32: return int32 instead of int64.
        transpose: give columns before rows.
    """
    refuse("convert_indices_from_csr_to_coo_cpu", crow_indices, "bcfV")
    counts = np.diff(crow_indices).reshape(-1)
    places = np.repeat(np.arange(counts.size), counts)
    shape = (*crow_indices.shape[:-1], crow_indices.shape[-1] - 1)
    *batch, rows = np.unravel_index(places, shape) if counts.size else [places] * len(shape)
    matrix = [col_indices.reshape(-1), rows] if transpose else [rows, col_indices.reshape(-1)]
    return np.stack([*batch, *matrix]).astype(np.int32 if out_int32 else np.int64)


def _check_shapes(name, sequence, values, sorter):
    if not sequence.ndim:
        raise RuntimeError(
            f"{name}: input value can be a scalar only when boundaries tensor dimension is 1, but we "
            f"got boundaries tensor dim(0) and input value's dim({values.ndim}) numel({values.size})"
            if not values.ndim
            else f"{name}: boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if not values.ndim and sequence.ndim != 1:
        raise RuntimeError(
            f"{name}: input value can be a scalar only when boundaries tensor dimension is 1, but we "
            f"got boundaries tensor dim({sequence.ndim}) and input value's dim({values.ndim}) "
            f"numel({values.size})"
        )
    if sequence.ndim != 1 and sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            f"{name}: boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(sequence.shape)} and input value tensor {list(values.shape)}"
        )
    if sorter is not None:
        if sorter.shape != sequence.shape:
            raise RuntimeError(
                f"{name}: boundary and sorter must have the same size, but got boundary tensor "
                f"{list(sequence.shape)}and got sorter tensor {list(sorter.shape)}"
            )
        if sorter.dtype != np.int64:
            raise RuntimeError(f"{name}: sorter must be a tensor of long dtype but got dtype {type_name(sorter.dtype)}")
        if sorter.size and (sorter.min() < 0 or sorter.max() >= sequence.shape[-1]):
            raise RuntimeError(f"{name}: sorter index out of range")


def _found(sequence, values, out_int32, side):
    kind = np.int32 if out_int32 else np.int64
    if values.size:
        for array, other in ((values, sequence), (sequence, values)):
            refuse("searchsorted_out_cpu", array, "bc" if other.dtype.kind == "b" else "c")
    sequence, values = (a.astype(np.float32) if a.dtype.kind == "V" else a for a in (sequence, values))
    if sequence.ndim == 1:
        return np.asarray(_searched(sequence, values, side)).astype(kind)
    out = np.empty(values.shape, kind)
    for place in np.ndindex(values.shape[:-1]):
        out[place] = _searched(sequence[place], values[place], side)
    return out


def _searched(sequence, values, side):
    """Return positions in a sequence, which PyTorch bisects by comparisons: NaN among the boundaries is above all."""
    if sequence.size <= values.size and (sequence[1:] >= sequence[:-1]).all() and not np.isnan(sequence[-1:]).any():
        return np.searchsorted(sequence, values, side)
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, sequence.size)
    within = (np.greater_equal if side == "left" else np.greater, sequence.size - 1)
    while (open_ := low < high).any():
        middle = low + (high - low) // 2
        right = ~within[0](sequence[np.minimum(middle, within[1])], values)
        low, high = np.where(open_ & right, middle + 1, low), np.where(open_ & ~right, middle, high)
    return low


def isin(elements, test_elements, assume_unique=False, invert=False):
    """Return whether each element is among the test elements. Raises RuntimeError for bool and complex arrays."""
    arrays = []
    for a in (elements, test_elements):
        a = np.asarray(a)
        if a.dtype.kind in "bc":
            raise NotImplementedError(f"Unsupported input type encountered for isin(): {type_name(a.dtype)}")
        arrays.append(a.astype(np.float32) if a.dtype.kind == "V" else a)
    return np.asarray(np.isin(*arrays, assume_unique=assume_unique, invert=invert))
