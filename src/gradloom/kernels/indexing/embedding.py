"""Look-up tables: rows of a matrix; sums, means and maxima of bags of rows; and their gradients."""

from __future__ import annotations

import numpy as np

from ...types.dtype import TYPE_OF, type_text
from .._common.errors import type_name
from .._common.tables import starts
from .places import add_rows, check_range, private, workspace, writable


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """Return the rows of `weight` (rows, features) at the indices.

    Returns:
        The shape of the indices, and features.
    """
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    check_rows("embedding", indices, weight.shape[0])
    return weight.take(indices, 0, None, "clip")  # the indices are valid: no further check, and no buffer for it


def check_rows(name, indices, rows) -> None:
    """Raise IndexError unless every index is a valid row number."""
    check_dtype(name, indices, "indices", 1)
    if indices.size:
        try:
            check_range(indices, rows, 0)
        except RuntimeError:
            raise IndexError("index out of range in self") from None


def check_dtype(name, array, argument, position) -> None:
    """Raise RuntimeError unless an array is int32 or int64."""
    if array.dtype not in (np.int64, np.int32):
        raise RuntimeError(
            f"Expected tensor for argument #{position} '{argument}' to have one of the following scalar "
            f"types: Long, Int; but got {type_text(TYPE_OF[array.dtype])} instead (while "
            f"checking arguments for {name})"
        )


def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    """Return the gradient of the table (num_weights, features): each gradient added to the row that was read.

    Args:
        padding_idx: row excluded from the gradient; -1 for none.
        scale_grad_by_freq: divide each row's gradient by the number of times it was read.
    """
    indices = private(indices)
    check_rows("embedding_backward", indices, num_weights)
    width = grad_output.shape[-1]
    places, values = indices.reshape(-1), grad_output.reshape(indices.size, width)
    if padding_idx >= 0:
        kept = places != padding_idx
        if not kept.all():
            places, values = places[kept], values[kept]
    out = np.zeros((num_weights, width), grad_output.dtype)
    work = workspace(out)
    values = values.astype(work.dtype, copy=False)
    if scale_grad_by_freq and places.size:
        values = values / np.bincount(places)[places, None].astype(work.dtype)
    add_rows(work, places, values)
    return work if work is out else work.astype(out.dtype)


def embedding_renorm_(self, indices, max_norm, norm_type):
    """Scale the rows at the indices down to `max_norm`, where their `norm_type`-norm exceeds it, in place."""
    if self.ndim != 2:
        raise RuntimeError("'self' must be 2-D")
    check_rows("embedding_renorm_", indices, self.shape[0])
    found = np.unique(indices)
    rows = self[found].astype(np.float64)
    if norm_type == 2:
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    elif np.isinf(norm_type):
        norms = np.maximum.reduce(np.abs(rows), 1, initial=0)
    else:
        norms = np.add.reduce(np.abs(rows) ** norm_type, 1) ** (1 / norm_type)
    large = norms > max_norm
    if large.any():
        scale = max_norm / (norms[large] + 1e-7)
        writable(self)[found[large]] = (rows[large] * scale[:, None]).astype(self.dtype)
    return self


def one_hot(self, num_classes=-1):
    """Return, for each class number, a row of zeros with a one at that position: int64 (..., num_classes)."""
    if self.dtype != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not self.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return np.zeros((*self.shape, num_classes), np.int64)
    if self.item(self.argmin()) < 0:  # argmin takes less than min
        raise RuntimeError("Class values must be non-negative.")
    largest = self.item(self.argmax())
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes <= largest:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return (self[..., None] == starts[num_classes, 1]).astype(np.int64, order="C")


SUM, MEAN, MAX = range(3)


def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=SUM,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=-1,
):
    """Return the rows of `weight` (rows, features) at the indices (n), reduced over bags that begin at the offsets.
    Raises RuntimeError for indices or offsets of a wrong dtype or out of range, for a weight that is complex or not
    a matrix, and for factors of the rows of a mean or maximum.

    Args:
        mode: 0 for sums, 1 for means, 2 for maxima; an empty bag gives zeros.
        per_sample_weights: (n), factors of the rows in a sum.
        include_last_offset: the last offset is the end of the last bag. As in PyTorch, indices after it are in no bag,
            but count in the size by which the last mean is divided.
        padding_idx: row excluded from the reduction; -1 for none.

    Returns:
        (bags, features); the bag of each index; the number of rows of each bag (zeros for sums); and for maxima the row
        that attains each (otherwise the sizes again).
    """
    _check(weight, indices, offsets)
    if per_sample_weights is not None and mode != SUM:
        raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    ends = offsets[1:] if include_last_offset else np.append(offsets[1:], indices.size)
    starts = offsets[:-1] if include_last_offset else offsets
    bags = starts.size
    bag_of = np.repeat(np.arange(bags), ends - starts)
    taken, bag = indices[: bag_of.size], bag_of
    if padding_idx >= 0:
        kept = taken != padding_idx
        taken, bag = taken[kept], bag[kept]
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights[: bag_of.size][kept]
    sizes = np.bincount(bag, minlength=bags)
    if mode == MEAN and bags:
        sizes[-1] += np.count_nonzero(indices[bag_of.size :] != padding_idx)
    rows = weight.take(taken, axis=0)
    out = np.zeros((bags, weight.shape[1]), weight.dtype)
    if mode == MAX:
        return out, bag_of, sizes, _maxima(out, rows, taken, sizes)
    work = workspace(out)
    rows = rows.astype(work.dtype, copy=False)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None].astype(work.dtype)
    add_rows(work, bag, rows)
    if mode == MEAN:
        work /= np.maximum(sizes, 1)[:, None].astype(work.dtype)
    else:
        sizes = np.zeros_like(sizes)
    return work if work is out else work.astype(out.dtype), bag_of, sizes, sizes.copy()


def _maxima(out, rows, taken, sizes):
    """Write the maxima of neighbouring rows to `out`; return the table's row that attains each.

    As in PyTorch's loop of comparisons, a NaN is the maximum if it comes first, and counts for nothing elsewhere.
    """
    places = np.zeros(out.shape, np.int64)
    filled = sizes > 0
    if filled.any():
        starts = (np.cumsum(sizes) - sizes)[filled]
        first = rows[starts]
        found = np.where(np.isnan(first), first, np.fmax.reduceat(rows, starts, axis=0))
        is_found = rows == np.repeat(found, sizes[filled], axis=0)
        is_found[starts] |= np.isnan(first)
        order = np.where(is_found, np.arange(taken.size)[:, None], taken.size)
        first = np.minimum(np.minimum.reduceat(order, starts, axis=0), taken.size - 1)
        out[filled], places[filled] = found, taken[first]
    return places


def _check(weight, indices, offsets):
    check_dtype("embedding_bag", indices, "indices", 1)
    check_dtype("embedding_bag", offsets, "offsets", 1)
    if weight.dtype.kind == "c":
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "
            f"BFloat16, Float, Double; but got {type_name(weight.dtype)} instead"
        )
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if offsets.size and offsets[0]:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {offsets[0]}"
        )
    if offsets.size and offsets[-1] > indices.size:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {indices.size} but got offsets[-1] of {offsets[-1]}"
        )
    outside = np.flatnonzero((indices < 0) | (indices >= weight.shape[0]))
    if outside.size:
        raise RuntimeError(
            f"Index {outside[0]} of input takes value {indices[outside[0]]} which is not in the valid "
            f"range [0, {weight.shape[0]})"
        )
