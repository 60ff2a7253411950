"""In-place initialisation of parameters, with PyTorch's random numbers for the same seed.

Every function fills a tensor outside of autograd and returns it.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import gradloom as gl
from gradloom import Generator, Tensor
from gradloom.utils._documentation import completed

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

# Gains without a parameter (Glorot and Bengio 2010, He et al. 2015, Klambauer et al. 2017 for selu).
_GAINS = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "sigmoid"), 1),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1),
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 0.75,
}


_filling = completed(
    tensor="tensor to fill in place; returned.",
    std="standard deviation of the distribution.",
    gain="factor of the standard deviation.",
    a='negative slope for "leaky_relu".',
    nonlinearity="function that follows, as for `calculate_gain`.",
    generator="source of random numbers, the default generator if None.",
)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended gain after `nonlinearity`.

    Args:
        nonlinearity: name of a function, such as "relu".
        param: negative slope of "leaky_relu", 0.01 by default.

    Raises:
        ValueError: for an unknown nonlinearity or a slope that is not a number.
    """
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, (int, float)):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


@_filling
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw from the uniform distribution on [a, b).

    Args:
        a: lower bound.
        b: upper bound.
    """
    with gl.no_grad():
        return tensor.uniform_(a, b, generator=generator)


@_filling
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw from the normal distribution.

    Args:
        mean: mean of the distribution.
    """
    with gl.no_grad():
        return tensor.normal_(mean, std, generator=generator)


@_filling
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Draw from the normal distribution truncated to [a, b], by redrawing values outside.

    Warns if the mean is more than two standard deviations outside the interval.

    Args:
        mean: mean of the normal distribution.
        a: lower bound.
        b: upper bound.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    below_a, below_b = ((1 + math.erf((bound - mean) / (std * math.sqrt(2.0)))) / 2 for bound in (a, b))
    with gl.no_grad():
        # Normal samples if the interval has much of the probability; else uniform ones are accepted more often.
        propose = _normal_proposal if below_b - below_a > 0.3 else _uniform_proposal
        values, refused = propose(tensor, mean, std, a, b, generator)
        while refused.any():
            again, refused_again = propose(tensor, mean, std, a, b, generator)
            values = gl.where(refused, again, values)
            refused = refused & refused_again
        return tensor.copy_(values)


def _normal_proposal(like, mean, std, a, b, generator):
    """Return normal samples, and a mask of those outside [a, b] in their dtype."""
    low, high = (gl.tensor(bound, dtype=like.dtype).item() for bound in (a, b))
    values = gl.empty_like(like).normal_(mean, std, generator=generator)
    return values, (values < low) | (values > high)


def _uniform_proposal(like, mean, std, a, b, generator):
    """Return uniform samples in [a, b), and a mask that rejects so many that a normal density remains."""
    top = min(max(mean, a), b)
    log_peak = -0.5 * ((top - mean) / std) ** 2
    values = gl.empty_like(like).uniform_(a, b, generator=generator)
    log_density = ((values - mean) / std) ** 2 * -0.5 - log_peak
    return values, gl.empty_like(like).uniform_(generator=generator).log_() > log_density


@_filling
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with a number.

    Args:
        val: number to fill with.
    """
    with gl.no_grad():
        return tensor.fill_(val)


@_filling
def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


@_filling
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    with gl.no_grad():
        return tensor.zero_()


@_filling
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity.

    Shape:
        tensor: (M, N).

    Raises:
        ValueError: unless the tensor has two dimensions.
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with gl.no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


@_filling
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight so that it preserves as many channels of each group as it can.

    Args:
        groups: number of groups of output channels.

    Shape:
        tensor: (C_out, C_in, *kernel_size), with one to three spatial dimensions.

    Raises:
        ValueError: for another number of dimensions, or if groups does not divide C_out.
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
    """Return the numbers of inputs per output element and of outputs per input element of a weight (out, in, *kernel).

    Raises ValueError for fewer than two dimensions.
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


@_filling
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw uniformly from +-gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


@_filling
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw from the normal distribution with std gain * sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    return normal_(tensor, 0.0, std, generator)


@_filling
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Draw uniformly from +-gain * sqrt(3 / fan), with the gain of `nonlinearity` (He et al. 2015).

    Args:
        mode: "fan_in" keeps the variance in the forward pass, "fan_out" in the backward pass.
    """
    if _nothing_to_fill(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    std = calculate_gain(nonlinearity, a) / math.sqrt(fan)
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


@_filling
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Draw from the normal distribution with std gain / sqrt(fan), with the gain of `nonlinearity` (He et al. 2015).

    Args:
        mode: "fan_in" keeps the variance in the forward pass, "fan_out" in the backward pass.
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


@_filling
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix times `gain` (Saxe et al. 2013); dimensions after the first count as one.

    Raises:
        ValueError: for fewer than two dimensions.
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


@_filling
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Draw from the normal distribution, then set a fraction of each column to zero (Martens 2010).

    Args:
        sparsity: fraction of zeros in each column.

    Shape:
        tensor: (M, N).

    Raises:
        ValueError: unless the tensor has two dimensions.
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


def _old_name(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function with the name that a function had before it got its underscore; it warns and calls that one."""
    name = function.__name__[:-1]

    @functools.wraps(function)
    def renamed(*args, **kwargs):
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = name
    return renamed


uniform: Callable[..., Tensor] = _old_name(uniform_)
normal: Callable[..., Tensor] = _old_name(normal_)
constant: Callable[..., Tensor] = _old_name(constant_)
eye: Callable[..., Tensor] = _old_name(eye_)
dirac: Callable[..., Tensor] = _old_name(dirac_)
xavier_uniform: Callable[..., Tensor] = _old_name(xavier_uniform_)
xavier_normal: Callable[..., Tensor] = _old_name(xavier_normal_)
kaiming_uniform: Callable[..., Tensor] = _old_name(kaiming_uniform_)
kaiming_normal: Callable[..., Tensor] = _old_name(kaiming_normal_)
orthogonal: Callable[..., Tensor] = _old_name(orthogonal_)
sparse: Callable[..., Tensor] = _old_name(sparse_)

if not TYPE_CHECKING:
    from gradloom.types.absent import getattr_of as _getattr_of

    __getattr__ = _getattr_of(__name__)
