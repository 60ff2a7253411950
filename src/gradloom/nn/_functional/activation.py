"""Activations: the in-place forms by keyword, and softmax with its optional dimension."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.nn._functional import operators as ops

if TYPE_CHECKING:
    from gradloom import Tensor
    from gradloom.types import DType

__all__ = [
    "celu",
    "elu",
    "glu",
    "gumbel_softmax",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "rrelu",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0), element by element.

    Args:
        inplace: write the result into `input` and return that.
    """
    return ops.relu_(input) if inplace else ops.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(input, 0), 6), element by element.

    Args:
        inplace: write the result into `input` and return that.
    """
    return ops.relu6_(input) if inplace else ops.relu6(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` clipped to [min_val, max_val]; ValueError when the bounds are in the wrong order.

    Args:
        inplace: write the result into `input` and return that.
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return ops.hardtanh_(input, min_val, max_val) if inplace else ops.hardtanh(input, min_val, max_val)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`input` where it exceeds `threshold`, `value` elsewhere.

    Args:
        inplace: write the result into `input` and return that.
    """
    return ops.threshold_(input, threshold, value) if inplace else ops.threshold(input, threshold, value)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x for x > 0, alpha * (exp(x) - 1) elsewhere.

    Args:
        inplace: write the result into `input` and return that.
    """
    return ops.elu_(input, alpha) if inplace else ops.elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The self-normalising ELU of Klambauer et al. 2017.

    Args:
        inplace: write the result into `input` and return that.
    """
    return ops.selu_(input) if inplace else ops.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    Args:
        inplace: write the result into `input` and return that.
    """
    return ops.celu_(input, alpha) if inplace else ops.celu(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x for x > 0, negative_slope * x elsewhere.

    Args:
        inplace: write the result into `input` and return that.
    """
    return ops.leaky_relu_(input, negative_slope) if inplace else ops.leaky_relu(input, negative_slope)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Leaky ReLU with slopes drawn uniformly from [lower, upper] in training, their mean otherwise.

    Args:
        inplace: write the result into `input` and return that.
    """
    return (ops.rrelu_ if inplace else ops.rrelu)(input, lower, upper, training)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b) for the halves a, b of `input` along `dim`; RuntimeError for a scalar or an odd size."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return ops.glu(input, dim)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x).

    Args:
        inplace: write the result into `input` and return that.
    """
    return ops.silu_(input) if inplace else ops.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)).

    Args:
        inplace: write the result into `input` and return that.
    """
    return ops.mish_(input) if inplace else ops.mish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """clip(x / 6 + 1 / 2, 0, 1).

    Args:
        inplace: write the result into `input` and return that.
    """
    return ops.hardsigmoid_(input) if inplace else ops.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * clip(x / 6 + 1 / 2, 0, 1).

    Args:
        inplace: write the result into `input` and return that.
    """
    return ops.hardswish_(input) if inplace else ops.hardswish(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent.

    Args:
        input: any shape, floating.
    """
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)).

    Args:
        input: any shape, floating.
    """
    return input.sigmoid()


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x).

    Args:
        input: any shape, floating.
    """
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|).

    Args:
        input: any shape, floating.
    """
    return input / (input.abs() + 1)


def _softmax_dim(name, ndim):
    """The dimension that softmax took in its earliest versions when none was given; warns."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`; with `dtype`, computed and returned in that type.

    Args:
        input: any shape, floating.
    """
    if dim is None:
        dim = _softmax_dim("softmax", input.dim())
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """The softmax of -input.

    Args:
        dim: the dimension whose elements sum to 1.
    """
    if dim is None:
        dim = _softmax_dim("softmin", input.dim())
    return softmax(-input, dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """x - log(sum(exp(x))) along `dim`; with `dtype`, computed and returned in that type.

    Args:
        input: any shape, floating.
    """
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim())
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample of the Gumbel-softmax distribution of temperature `tau` (Jang et al. 2017).

    With `hard` it is one-hot, with the gradient of the soft sample.

    Args:
        logits: unnormalised log-probabilities, floating.
        eps: deprecated, without effect; warns.
        dim: the dimension of the classes.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = gl.empty_like(logits, memory_format=gl.contiguous_format)  # drawn in the order of the indices
    gumbels = -noise.exponential_().log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    winner = soft.max(dim, keepdim=True)[1]
    one_hot = gl.zeros_like(logits).scatter_(dim, winner, 1.0)
    # The value is one_hot's, the gradient is soft's.
    return one_hot - soft.detach() + soft
