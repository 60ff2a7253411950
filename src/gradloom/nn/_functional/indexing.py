"""Lookup tables: checks, and the renormalisation of the rows used."""

from __future__ import annotations

import gradloom as gl
from gradloom import Tensor
from gradloom.autograd.grad_mode import untracked
from gradloom.nn._functional import operators as ops

_MODES = {"sum": 0, "mean": 1, "max": 2}


def _padding_row(padding_idx, rows):
    """Return a row index counted from the beginning; -1 for None."""
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx + rows if padding_idx < 0 else padding_idx


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table at given indices.

    Args:
        input: (*), int32 or int64 indices.
        weight: (V, H), the table.
        padding_idx: row that gets no gradient; `Embedding` starts it at zero.
        max_norm: rows used whose `norm_type`-norm exceeds it are scaled down to it, in place.
        norm_type: order of the norm.
        scale_grad_by_freq: divide each row's gradient by the row's number of uses in the batch.
        sparse: whether the gradient of the table is sparse.

    Shape:
        output: (*, H).

    Raises:
        AssertionError: for a padding_idx outside the table.
    """
    padding = -1 if padding_idx is None else _padding_row(padding_idx, weight.shape[0])
    if max_norm is not None:
        input = input.contiguous()
        with untracked():
            ops.embedding_renorm_(weight, input, max_norm, norm_type)
    return ops.embedding(weight, input, padding, scale_grad_by_freq, sparse)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of bags of rows of a table, without an intermediate of all rows.

    Args:
        input: (B, length), or (total,) with offsets; int32 or int64 indices.
        weight: (V, H), the table.
        offsets: (B,), the start of each bag, or (B + 1,) with include_last_offset.
        max_norm: rows used whose `norm_type`-norm exceeds it are scaled down to it, in place.
        norm_type: order of the norm.
        scale_grad_by_freq: divide each row's gradient by the row's number of uses in the batch.
        mode: "sum", "mean" or "max".
        sparse: whether the gradient of the table is sparse.
        per_sample_weights: factors of the rows in a sum, of the shape of `input`.
        include_last_offset: the last offset is the length of the input, not the start of a bag.
        padding_idx: row excluded from the reduction and from the gradient.

    Shape:
        output: (B, H).

    Raises:
        RuntimeError: for a padding_idx outside the table.
        ValueError: for offsets, weights or a mode that do not match the input.
        NotImplementedError: for per_sample_weights with another mode than "sum".
    """
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must "
            f"have the same shape as the input ({input.shape})"
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated as a mini-batch of fixed "
                "length sequences."
            )
        offsets = gl.arange(0, input.numel(), input.shape[1], dtype=input.dtype, device=input.device)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
        if include_last_offset:
            raise ValueError("include_last_offset is only meant for flat input with offsets")
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if mode not in tuple(_MODES):  # a list has no hash
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max":
        if scale_grad_by_freq:
            raise ValueError("max mode does not support scaling the gradient by the frequency")
        if sparse:
            raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
            f"mode='sum' (got mode='{mode}')."
        )
    if max_norm is not None:
        with untracked():
            ops.embedding_renorm_(weight, input, max_norm, norm_type)
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, but got {padding_idx}"
        )
    row = _padding_row(padding_idx, rows)
    padding = None if row < 0 else row
    options = scale_grad_by_freq, _MODES[mode], sparse, per_sample_weights, include_last_offset, padding
    return ops.embedding_bag(weight, input, offsets, *options)[0]
