"""Look-up tables: embedding and embedding_bag with their checks and the renormalisation of the rows used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.autograd.grad_mode import untracked
from gradloom.nn._functional import operators as ops

if TYPE_CHECKING:
    from gradloom import Tensor

__all__ = ["embedding", "embedding_bag"]

_MODES = {"sum": 0, "mean": 1, "max": 2}


def _padding_row(padding_idx, rows):
    """A row index that may count from the end, as one from the beginning; -1 for none."""
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
    """The rows of `weight` (rows, features) at the indices `input`, of any shape.

    The result appends `features`.

    Args:
        padding_idx: a row that gets no gradient.
        max_norm: rows used whose `norm_type`-norm exceeds it are scaled down to it, in place.
        scale_grad_by_freq: divide each row's gradient by how often it occurs.
        sparse: asks for a sparse gradient.
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
    """Sums, means or maxima of bags of rows of `weight`, without the rows in between.

    `input` is (bags, length), or flat with `offsets` telling where each bag begins. `per_sample_weights`, of
    input's shape, weighs the rows of a sum. Raises ValueError and NotImplementedError for arguments that do
    not fit together.

    Args:
        max_norm: rows that are read and longer than this are shortened to it, in place.
        norm_type: order of the norm for `max_norm`.
        scale_grad_by_freq: divide the gradient of a row by how often it is read.
        mode: "sum", "mean" or "max" of the rows of a bag.
        sparse: accepted; gradients are always dense.
        include_last_offset: whether the last of the offsets is the number of indices.
        padding_idx: the index of a row that counts for nothing and gets no gradient.
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
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ValueError("max mode does not support scaling the gradient by the frequency, nor sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
            f"mode='sum' (got mode='{mode}')."
        )
    if max_norm is not None:
        with untracked():
            ops.embedding_renorm_(weight, input, max_norm, norm_type)
    padding = _padding_row(padding_idx, weight.shape[0])
    return ops.embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        _MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        None if padding < 0 else padding,
    )[0]
