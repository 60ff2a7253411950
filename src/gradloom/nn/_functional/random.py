"""Dropout: probabilities checked, the in-place forms by keyword, and whole channels at a time."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from gradloom.nn._functional import operators as ops

if TYPE_CHECKING:
    from gradloom import Tensor

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


def _check(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zero elements with probability `p` and scale the others by 1 / (1 - p).

    Raises ValueError for a probability outside [0, 1].

    Args:
        inplace: write the result into `input` and return that.
    """
    _check(p)
    return ops.dropout_(input, p, training) if inplace else ops.dropout(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of self-normalising networks (Klambauer et al. 2017).

    Args:
        p: probability with which an element (or channel) is dropped.
        training: False returns the input as it is.
        inplace: write the result into `input` and return that.
    """
    _check(p)
    return (ops.alpha_dropout_ if inplace else ops.alpha_dropout)(input, p, training)


def _channels(input, p, training, inplace, dims, name):
    """Drop whole channels of (batch, channels, *dims).

    An input without the batch dimension gets one meanwhile.
    """
    _check(p)
    if input.dim() not in (dims + 1, dims + 2):
        message = (
            f"{name}: Received a {input.dim()}-D input to {name}, which is deprecated and will result in an "
            "error in a future release. To retain the behavior and silence this warning, please use dropout "
            f"instead. Note that {name} exists to provide channel-wise dropout on inputs with {dims} "
            "spatial dimensions."
        )
        warnings.warn(message, stacklevel=3)
    batched = input.dim() != dims + 1
    values = input if batched else (input.unsqueeze_(0) if inplace else input.unsqueeze(0))
    result = (ops.feature_dropout_ if inplace else ops.feature_dropout)(values, p, training)
    return result if batched else (result.squeeze_(0) if inplace else result.squeeze(0))


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (batch, channels, length) or (channels, length) with probability `p`.

    Args:
        training: False returns the input as it is.
        inplace: write the result into `input` and return that.
    """
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input.")
    return _channels(input, p, training, inplace, 1, "dropout1d")


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (batch, channels, height, width) with probability `p`.

    Args:
        training: False returns the input as it is.
        inplace: write the result into `input` and return that.
    """
    _check(p)
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior "
            "is desired - input is interpreted as shape (N, C, L), where C is the channel dim. Please use "
            "dropout1d instead.",
            stacklevel=2,
        )
        return (ops.feature_dropout_ if inplace else ops.feature_dropout)(input, p, training)
    return _channels(input, p, training, inplace, 2, "dropout2d")


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (batch, channels, depth, height, width) with probability `p`.

    Args:
        training: False returns the input as it is.
        inplace: write the result into `input` and return that.
    """
    return _channels(input, p, training, inplace, 3, "dropout3d")


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels.

    Args:
        p: probability with which an element (or channel) is dropped.
        training: False returns the input as it is.
        inplace: write the result into `input` and return that.
    """
    _check(p)
    return (ops.feature_alpha_dropout_ if inplace else ops.feature_alpha_dropout)(input, p, training)
