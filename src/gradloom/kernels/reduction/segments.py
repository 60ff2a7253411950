"""Reductions of consecutive segments along a dimension: `torch.segment_reduce`."""

from __future__ import annotations

import math

import numpy as np

from .._common.dims import wrap_dims
from .._common.errors import not_implemented, refuse
from .._common.numbers import widen

# The ufunc of a reduction and its value for a segment without elements.
_REDUCTIONS = {
    "sum": (np.add, 0.0),
    "mean": (np.add, 0.0),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
    "prod": (np.multiply, 1.0),
}
_ALIASES = {"amax": "max", "amin": "min"}


def segment_reduce(
    data, reduce: str, lengths=None, indices=None, offsets=None, axis: int = 0, unsafe: bool = False, initial=None
):
    """Reduce segments of `data` along `axis`, given by their lengths or by the offsets of their ends.

    Args:
        data: floating, (*batch, n, *rest) with n at `axis`.
        reduce: sum, mean, max, min or prod.
        lengths: integers, (*batch, k).
        offsets: integers, (*batch, k + 1): segment i is offsets[i] to offsets[i + 1]. Takes precedence over `lengths`.
        unsafe: do not check that the lengths of each row sum to n.
        initial: first value of each reduction; by default its identity, and NaN for the mean of no elements.

    Returns:
        (*batch, k, *rest) of the dtype of `data`.
    """
    kind = _ALIASES.get(reduce, reduce)
    if kind not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    (axis,) = wrap_dims((axis,), data.ndim)
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    starts, counts = _starts_and_counts(data, lengths, offsets, axis, unsafe)
    refuse("_segment_reduce_cpu", data, "biuc")
    ufunc, identity = _REDUCTIONS[kind]
    wide = widen(data)
    shape = (*counts.shape, *data.shape[axis + 1 :])
    width = math.prod(data.shape[axis + 1 :])
    starts, counts = starts.reshape(-1), counts.reshape(-1)
    result = np.full((counts.size, width), identity if initial is None else initial, wide.dtype)
    total = counts.sum()
    with np.errstate(all="ignore"):
        if total and width:
            begin = np.cumsum(counts) - counts  # of each segment among the rows that belong to one
            rows = np.repeat(starts - begin, counts) + np.arange(total)
            elements = wide.reshape(-1, width)[rows]
            filled = counts > 0
            result[filled] = ufunc(result[filled], ufunc.reduceat(elements, begin[filled], axis=0))
        if kind == "mean":
            # Without `initial`, no elements give 0 / 0.
            counts = counts.astype(wide.dtype)[:, None]
            result /= counts if initial is None else np.maximum(counts, 1)
        return result.reshape(shape).astype(data.dtype, copy=False)


def _starts_and_counts(data, lengths, offsets, axis, unsafe):
    """Return the first row of each segment in the matrix of all positions, and the number of its rows: (*batch, k)."""
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given, name = (offsets, "offsets") if offsets is not None else (lengths, "lengths")
    if given.dtype.kind not in "iu":
        raise not_implemented(f"_segment_reduce_{name}_cpu_kernel1", given)
    if axis != given.ndim - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}.")
    if not data.ndim or given.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): {name} of shape {list(given.shape)} do not match data of shape {list(data.shape)} "
            f"in the dimensions before {axis}"
        )
    n = data.shape[axis]
    given = given.astype(np.int64)
    if offsets is not None:
        starts, counts = given[..., :-1], np.diff(given)
    else:
        counts, starts = given, np.cumsum(given, axis=-1) - given
        if not unsafe and (counts < 0).any():
            raise RuntimeError("lengths contains negative value!")
        if not unsafe and (counts.sum(-1) != n).any():
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    if (counts < 0).any() or (starts < 0).any() or ((starts + counts > n) & (counts > 0)).any():
        raise RuntimeError(
            f"segment_reduce(): {name} give a segment of negative length, or outside of the {n} elements"
        )
    rows = np.arange(math.prod(data.shape[:axis])).reshape(*data.shape[:axis], 1)
    return starts + n * rows, counts
