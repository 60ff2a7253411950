"""Dropout: probabilities checked, in-place forms selected by `inplace`, and dropout of whole channels."""

from __future__ import annotations

import warnings

from gradloom import Tensor
from gradloom.nn._functional import operators as ops
from gradloom.utils import _documentation


def _check(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@_documentation.dropout
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements at random and scale the others by 1 / (1 - p) (Hinton et al. 2012)."""
    _check(p)
    return ops.dropout_(input, p, training) if inplace else ops.dropout(input, p, training)


@_documentation.dropout
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Set elements at random to the negative saturation of SELU, keeping mean and variance (Klambauer et al. 2017)."""
    _check(p)
    return (ops.alpha_dropout_ if inplace else ops.alpha_dropout)(input, p, training)


def _channels(input, p, training, inplace, dims, name):
    """Drop whole channels of (N, C, *dims); an input without N gets it temporarily."""
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


@_documentation.dropout
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels at random and scale the others by 1 / (1 - p) (Tompson et al. 2015).

    Shape:
        input: (N, C, L) or (C, L).
        output: as the input.

    Raises:
        ValueError: for p outside [0, 1].
        RuntimeError: for an input with another number of dimensions.
    """
    _check(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input.")
    return _channels(input, p, training, inplace, 1, "dropout1d")


@_documentation.dropout
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels at random and scale the others by 1 / (1 - p) (Tompson et al. 2015).

    Shape:
        input: (N, C, H, W) or, with a warning, (N, C, L).
        output: as the input.
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


@_documentation.dropout
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels at random and scale the others by 1 / (1 - p) (Tompson et al. 2015).

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W).
        output: as the input.
    """
    return _channels(input, p, training, inplace, 3, "dropout3d")


@_documentation.dropout
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels.

    Shape:
        input: (N, C, *).
        output: as the input.
    """
    _check(p)
    return (ops.feature_alpha_dropout_ if inplace else ops.feature_alpha_dropout)(input, p, training)
