"""Sums, means and maxima of bags of rows of a matrix."""

from __future__ import annotations

import numpy as np

from ..types.dtype import TYPE_OF, scalar_type_name
from ._accumulate import add_rows, workspace
from ._embedding import check_dtype

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
    """The rows of `weight` (rows, features) at the indices (n), reduced over bags that begin at the offsets.

    Args:
        mode: 0 for sums, 1 for means, 2 for maxima; an empty bag gives zeros.
        per_sample_weights: (n), factors of the rows of a sum.
        include_last_offset: whether the last offset ends the last bag, and begins none.
        padding_idx: a row that takes no part; -1 for none.

    Returns:
        (bags, features); the bag of each index; how many rows each bag has (zeros for sums); and for maxima the row
        that each comes from (otherwise the sizes again).

    Raises:
        RuntimeError: for indices or offsets of another dtype or out of range, and a weight that is no matrix, or
            complex.
    """
    _check(weight, indices, offsets)
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
    """Write the maxima of neighbouring rows to `out`, and return the row of the table that each comes from."""
    places = np.zeros(out.shape, np.int64)
    filled = sizes > 0
    if filled.any():
        starts = (np.cumsum(sizes) - sizes)[filled]
        found = np.maximum.reduceat(rows, starts, axis=0)
        is_found = rows == np.repeat(found, sizes[filled], axis=0)
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
            f"BFloat16, Float, Double; but got {scalar_type_name(TYPE_OF[weight.dtype])} instead"
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
