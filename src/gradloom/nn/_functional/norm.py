"""Normalisation: statistics and sizes checked before the operators are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradloom.nn._functional import operators as ops

if TYPE_CHECKING:
    from gradloom import Tensor
    from gradloom.types import IntList

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of (batch, channels, *) by the batch's statistics or the running ones.

    Args:
        input: (N, C, ...), floating.
        running_mean, running_var: (channels,) or None; updated in training with weight `momentum`.
        weight, bias: (channels,) or None; the affine map applied afterwards.
        training: take the statistics from the batch. ValueError when a channel then has a single value.
        eps: added to the variance. ValueError if it is negative, or zero in training.
    """
    if training:
        values = input.numel() // input.shape[1] if input.dim() > 1 and input.shape[1] else 0
        if values == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    if eps < 0 or training and eps == 0:
        must = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {must}, but got {eps}")
    return ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample of (batch, channels, *) by its own statistics.

    Raises ValueError when there is a single spatial element to take statistics of.

    Args:
        running_mean: (C,), used unless `use_input_stats` and updated if it is; or None.
        running_var: (C,), likewise.
        weight: factor (C,), or None.
        bias: summand (C,), or None.
        use_input_stats: normalise by the statistics of the input instead of the running ones.
        momentum: share of the new statistics in the running ones.
        eps: added to the variance.
    """
    if use_input_stats:
        spatial = 1
        for size in input.shape[2:]:
            spatial *= size
        if spatial == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    return ops.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


def layer_norm(
    input: Tensor,
    normalized_shape: IntList,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise over the last dimensions, whose sizes `normalized_shape` are.

    Weight and bias have that shape.

    Args:
        input: any number of dimensions, then `normalized_shape`; floating.
        weight: factor of the shape `normalized_shape`, or None.
        eps: added to the variance (or the mean square).
    """
    return ops.layer_norm(input, normalized_shape, weight, bias, eps, True)


def rms_norm(
    input: Tensor, normalized_shape: IntList, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root mean square over the last dimensions.

    `eps` defaults to the dtype's machine epsilon.

    Args:
        input: any number of dimensions, then `normalized_shape`; floating.
        normalized_shape: sizes of the last dimensions, over which is normalised.
        weight: factor of the shape `normalized_shape`, or None.
    """
    return ops.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise each of `num_groups` groups of channels of each sample by its own statistics.

    Raises RuntimeError for an input without channels and ValueError when a group has a single value.

    Args:
        weight: factor (C,), or None.
        bias: summand (C,), or None.
        eps: added to the variance.
    """
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    values = input.shape[0] * input.shape[1] // num_groups
    for size in input.shape[2:]:
        values *= size
    if values == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(input.shape)}")
    return ops.group_norm(input, num_groups, weight, bias, eps, True)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide by (k + alpha * mean of squares over `size` adjacent channels) ** beta (Krizhevsky 2012).

    Args:
        input: (N, C, ...), floating.
    """
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if input.numel() == 0:
        return input
    # Channels become the first dimension of a picture or a volume, over which windows of `size` channels are averaged.
    squares, around = input.mul(input), [0, 0, size // 2, (size - 1) // 2]
    if input.dim() == 3:
        padded = ops.constant_pad_nd(squares.unsqueeze(1), around, 0.0)
        mean = ops.avg_pool2d(padded, (size, 1), 1).squeeze(1)
    else:
        volume = squares.reshape(input.shape[0], 1, input.shape[1], input.shape[2], -1)
        padded = ops.constant_pad_nd(volume, [0, 0, *around], 0.0)
        mean = ops.avg_pool3d(padded, (size, 1, 1), 1).squeeze(1).view(input.shape)
    return input / mean.mul(alpha).add(k).pow(beta)


def normalize(
    input: Tensor, p: float = 2.0, dim: int | IntList = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """input / max(its p-norm along `dim`, eps).

    Args:
        out: a Tensor that the result is written to.
    """
    from ...functional import norm

    divisor = norm(input, p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / divisor if out is None else ops.div(input, divisor, out=out)
