"""Normalisation: checks of statistics and sizes before the operators are called."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.functional import norm as _norm
from gradloom.nn._functional import operators as ops
from gradloom.types import IntList


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
    """Batch normalisation (Ioffe and Szegedy 2015); see `BatchNorm1d`.

    Args:
        input: (N, C, *), floating.
        running_mean, running_var: (C,) or None; in training updated with weight `momentum`.
        weight, bias: (C,) or None, the affine map.
        training: use the batch's statistics.
        momentum: weight of the batch in the running statistics.
        eps: added to the variance.

    Shape:
        output: as the input.

    Raises:
        ValueError: in training for one value per channel or an eps of 0; for a negative eps.
    """
    if training:
        size = input.size()
        values = 1
        for d, n in enumerate(size):
            if d != 1:
                values *= n
        if values == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")
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
    """Instance normalisation (Ulyanov et al. 2016); see `InstanceNorm1d`.

    Args:
        input: (N, C, *), floating.
        running_mean, running_var: (C,) or None; used unless `use_input_stats`, else updated with weight `momentum`.
        weight, bias: (C,) or None, the affine map.
        use_input_stats: use the statistics of each batch element.
        momentum: weight of the new statistics in the running ones.
        eps: added to the variance.

    Shape:
        output: as the input.

    Raises:
        ValueError: for the statistics of a single spatial element.
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
    """Layer normalisation (Ba et al. 2016); see `LayerNorm`.

    Args:
        input: (*, *normalized_shape), floating.
        normalized_shape: sizes of the last dimensions, over which to normalise.
        weight, bias: normalized_shape or None, the affine map.
        eps: added to the variance.

    Shape:
        output: as the input.
    """
    return ops.layer_norm(input, normalized_shape, weight, bias, eps, True)


def rms_norm(
    input: Tensor, normalized_shape: IntList, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Root mean square normalisation (Zhang and Sennrich 2019); see `RMSNorm`.

    Args:
        input: (*, *normalized_shape), floating.
        normalized_shape: sizes of the last dimensions, over which to normalise.
        weight: normalized_shape or None.
        eps: added to the mean square; by default the dtype's machine epsilon.

    Shape:
        output: as the input.
    """
    return ops.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Group normalisation (Wu and He 2018); see `GroupNorm`.

    Args:
        input: (N, C, *), floating.
        num_groups: number of groups of channels, a divisor of C.
        weight, bias: (C,) or None, the affine map.
        eps: added to the variance.

    Shape:
        output: as the input.

    Raises:
        RuntimeError: for fewer than two dimensions.
        ValueError: for one value per group.
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
    """Local response normalisation across channels (Krizhevsky et al. 2012).

    output = input / (k + alpha * mean of input ** 2 over `size` neighbouring channels) ** beta.

    Args:
        input: (N, C, *), of 3 or more dimensions; floating.
        size: number of neighbouring channels.
        alpha: factor of the mean square.
        beta: exponent.
        k: summand.

    Shape:
        output: as the input.

    Raises:
        ValueError: for fewer than three dimensions.
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
    """input / max(p-norm of the input along `dim`, eps).

    Args:
        input: (*), floating.
        p: order of the norm.
        dim: dimension or dimensions of the norm.
        eps: lower bound of the norm.
        out: tensor to write the result to.

    Shape:
        output: as the input.
    """
    divisor = _norm(input, p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / divisor if out is None else ops.div(input, divisor, out=out)
