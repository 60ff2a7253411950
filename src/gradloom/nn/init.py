"""Initialisation of parameters in place, with the same random numbers as PyTorch for the same seed.

Every function takes a tensor, fills it outside of autograd and returns it. `generator` is the source of
random numbers, the default generator when it is None.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

import gradloom as gl

if TYPE_CHECKING:
    from gradloom import Generator, Tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

# Gains that do not depend on a parameter: sqrt(second moment kept) for unit-variance input (Glorot and Bengio
# 2010, He et al. 2015, Klambauer et al. 2017 for selu).
_GAINS = {
    "linear": 1,
    "conv1d": 1,
    "conv2d": 1,
    "conv3d": 1,
    "conv_transpose1d": 1,
    "conv_transpose2d": 1,
    "conv_transpose3d": 1,
    "sigmoid": 1,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 0.75,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain after `nonlinearity`.

    `param` is the negative slope of "leaky_relu" (0.01 by default).

    Raises ValueError for an unknown nonlinearity or a slope that is not a number.
    """
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, (int, float)):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn uniformly from [a, b).

    Args:
        tensor: what is filled, in place, and returned.
        generator: the source of random numbers; by default the default generator.
    """
    with gl.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn from the normal distribution with the given mean and standard deviation.

    Args:
        tensor: what is filled, in place, and returned.
        std: standard deviation of the distribution.
        generator: the source of random numbers; by default the default generator.
    """
    with gl.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill from the normal distribution cut off to [a, b], by drawing again what falls outside.

    Warns when mean is more than two standard deviations away from the interval.

    Args:
        tensor: what is filled, in place, and returned.
        std: standard deviation of the distribution.
        generator: the source of random numbers; by default the default generator.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    below_a, below_b = ((1 + math.erf((bound - mean) / (std * math.sqrt(2.0)))) / 2 for bound in (a, b))
    with gl.no_grad():
        # Where much of the bell lies inside, its own samples mostly do; else uniform ones are accepted more
        # often.
        propose = _normal_proposal if below_b - below_a > 0.3 else _uniform_proposal
        values, refused = propose(tensor, mean, std, a, b, generator)
        while refused.any():
            again, refused_again = propose(tensor, mean, std, a, b, generator)
            values = gl.where(refused, again, values)
            refused = refused & refused_again
        return tensor.copy_(values)


def _normal_proposal(like, mean, std, a, b, generator):
    """Normal samples, and which of them lie outside of [a, b] as numbers of their dtype."""
    low, high = (gl.tensor(bound, dtype=like.dtype).item() for bound in (a, b))
    values = gl.empty_like(like).normal_(mean, std, generator=generator)
    return values, (values < low) | (values > high)


def _uniform_proposal(like, mean, std, a, b, generator):
    """Samples uniform in [a, b), each refused with a probability that leaves the bell's shape."""
    top = min(max(mean, a), b)
    log_peak = -0.5 * ((top - mean) / std) ** 2
    values = gl.empty_like(like).uniform_(a, b, generator=generator)
    log_density = ((values - mean) / std) ** 2 * -0.5 - log_peak
    return values, gl.empty_like(like).uniform_(generator=generator).log_() > log_density


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with the number `val`.

    Args:
        tensor: what is filled, in place, and returned.
    """
    with gl.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    Args:
        tensor: what is filled, in place, and returned.
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    Args:
        tensor: what is filled, in place, and returned.
    """
    with gl.no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with ones on its diagonal and zeros elsewhere.

    ValueError unless it has two dimensions.

    Args:
        tensor: what is filled, in place, and returned.
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with gl.no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight so that it passes as many channels of each group through as it can.

    Args:
        tensor: (out_channels, in_channels, *kernel) with one to three kernel dimensions.
        groups: number of groups; ValueError unless it divides out_channels.
    """
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with gl.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.shape[1])):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor) -> tuple[int, int]:
    """How many inputs feed one output element, and how many outputs one input element feeds.

    For a weight of shape (outputs, inputs, *kernel). Raises ValueError for fewer than two dimensions.
    """
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    outputs, inputs, *kernel = tensor.shape
    receptive_field = math.prod(kernel)
    return inputs * receptive_field, outputs * receptive_field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill uniformly from +-gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).

    Args:
        tensor: what is filled, in place, and returned.
        generator: the source of random numbers; by default the default generator.
    """
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill from the normal distribution of deviation gain * sqrt(2 / (fan_in + fan_out)) (Glorot 2010).

    Args:
        tensor: what is filled, in place, and returned.
        generator: the source of random numbers; by default the default generator.
    """
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill uniformly from +-gain * sqrt(3 / fan), the gain being that of `nonlinearity` (He et al. 2015).

    Args:
        a: negative slope, for "leaky_relu".
        mode: "fan_in" keeps the variance in the forward pass, "fan_out" in the backward pass.
        tensor: what is filled, in place, and returned.
        generator: the source of random numbers; by default the default generator.
    """
    if _nothing_to_fill(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    std = calculate_gain(nonlinearity, a) / math.sqrt(fan)
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill from the normal distribution of deviation gain / sqrt(fan) (He et al. 2015).

    See `kaiming_uniform_`.

    Args:
        tensor: what is filled, in place, and returned.
        a: the negative slope of the leaky ReLU that follows; only used with "leaky_relu".
        mode: "fan_in" keeps the scale of the forward pass, "fan_out" that of the backward pass.
        nonlinearity: name of the function that follows, as for `calculate_gain`.
        generator: the source of random numbers; by default the default generator.
    """
    if _nothing_to_fill(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    std = calculate_gain(nonlinearity, a) / math.sqrt(fan)
    return normal_(tensor, 0.0, std, generator)


def _nothing_to_fill(tensor):
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix times `gain` (Saxe et al. 2013).

    Dimensions after the first count as one. Raises ValueError for fewer than two dimensions.

    Args:
        tensor: what is filled, in place, and returned.
        generator: the source of random numbers; by default the default generator.
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with gl.no_grad():
        drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        tall = drawn.t() if rows < columns else drawn
        q, r = np.linalg.qr(tall.numpy())
        # The signs of R's diagonal make the factorisation unique, and with it the distribution uniform.
        q *= np.sign(np.diagonal(r))
        tensor.view(rows, columns).copy_(gl.from_numpy(q.T if rows < columns else q))
        return tensor.mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix from a normal distribution, then set a fraction `sparsity` of each column to zero.

    Raises ValueError unless the tensor has two dimensions.

    Args:
        std: standard deviation of the distribution.
        generator: the source of random numbers; by default the default generator.
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with gl.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[gl.randperm(rows)[:zeros], column] = 0
    return tensor
