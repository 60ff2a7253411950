"""Dropout of elements and of whole channels, and the randomised leaky ReLU."""

from __future__ import annotations

from ..core.tensor import wrapped_number
from ..dispatch import _operators as ops

# Dropout for self-normalising networks (Klambauer et al. 2017): dropped elements become minus this number, where SELU
# saturates.
_SATURATION = 1.7580993408473766


def _plain(input, p, train, multiply, whole_channels=False):
    """Multiply `input` by noise that is 0 with probability `p`, else 1 / (1 - p); `multiply` may work in place. Raises
    RuntimeError unless 0 <= p <= 1."""
    if _keeps_all(input, p, train):
        return input
    if p == 1:
        return multiply(input, ops.zeros((), dtype=input.dtype))
    noise = _kept(input, p, whole_channels)
    return multiply(input, ops.exact.div__Tensor(noise, wrapped_number(1 - p, noise)))


def _alpha(input, p, train, multiply, add, whole_channels=False):
    """Drop elements like `_plain`, but to the saturation of SELU, and keep mean and variance."""
    if _keeps_all(input, p, train):
        return input
    if p == 1:
        return multiply(input, ops.zeros((), dtype=input.dtype))
    noise = _kept(input, p, whole_channels)
    scale = 1 / ((_SATURATION**2 * p + 1) * (1 - p)) ** 0.5
    shift = noise.add(-1).mul_(_SATURATION * scale).add_(_SATURATION * scale * p)
    return add(multiply(input, noise.mul_(scale)), shift)


def _keeps_all(input, p, train):
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    return p == 0 or not train or input.numel() == 0


def _kept(input, p, whole_channels):
    """Draw 1 with probability 1 - p, else 0: for every element, or for every channel of (batch, channels, *)."""
    dtype = input.dtype.to_real()
    if not whole_channels:
        return ops.exact.bernoulli__float(ops.empty_like(input, dtype=dtype), 1 - p, None)
    if input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    sizes = [n if d < 2 else 1 for d, n in enumerate(input.shape)]
    return ops.empty(sizes, dtype=dtype, device=input.device).bernoulli_(1 - p)


def dropout(input, p, train):
    """Zero elements with probability `p` and scale the others by 1 / (1 - p), in training only."""
    return _plain(input, p, train, ops.mul)


def dropout_(self, p, train):
    """`dropout` in place."""
    return _plain(self, p, train, ops.mul_)


def feature_dropout(input, p, train):
    """`dropout` of whole channels of (batch, channels, *)."""
    return _plain(input, p, train, ops.mul, True)


def feature_dropout_(self, p, train):
    """`feature_dropout` in place."""
    return _plain(self, p, train, ops.mul_, True)


def alpha_dropout(input, p, train):
    """Drop elements to the value where SELU saturates, and keep mean and variance."""
    return _alpha(input, p, train, ops.mul, ops.add)


def alpha_dropout_(self, p, train):
    """`alpha_dropout` in place."""
    return _alpha(self, p, train, ops.mul_, ops.add_)


def feature_alpha_dropout(input, p, train):
    """`alpha_dropout` of whole channels of (batch, channels, *)."""
    return _alpha(input, p, train, ops.mul, ops.add, True)


def feature_alpha_dropout_(self, p, train):
    """`feature_alpha_dropout` in place."""
    return _alpha(self, p, train, ops.mul_, ops.add_, True)


def rrelu(self, lower, upper, training, generator):
    """self * slope, with slope 1 for positive elements, else uniform in [lower, upper) in training or their mean."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    return ops.rrelu_with_noise(self, ops.empty_like(self), lower, upper, training, generator)


def rrelu_(self, lower, upper, training, generator):
    """`rrelu` in place."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    return ops.rrelu_with_noise_(self, ops.empty_like(self), lower, upper, training, generator)
