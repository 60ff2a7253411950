"""Activations: in-place forms selected by `inplace`, and softmax with its optional dimension."""

from __future__ import annotations

import warnings

import gradloom as gl
from gradloom import Tensor
from gradloom.nn._functional import operators as ops
from gradloom.types import DType
from gradloom.utils._documentation import elementwise


@elementwise
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0), element by element."""
    return ops.relu_(input) if inplace else ops.relu(input)


@elementwise
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6), element by element."""
    return ops.relu6_(input) if inplace else ops.relu6(input)


@elementwise
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x clipped to [min_val, max_val].

    Args:
        min_val: lower bound.
        max_val: upper bound.

    Raises:
        ValueError: if min_val exceeds max_val.
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return ops.hardtanh_(input, min_val, max_val) if inplace else ops.hardtanh(input, min_val, max_val)


@elementwise
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it exceeds `threshold`, `value` elsewhere.

    Args:
        threshold: largest number that is replaced.
        value: replacement.
    """
    return ops.threshold_(input, threshold, value) if inplace else ops.threshold(input, threshold, value)


@elementwise
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x for x > 0, alpha * (exp(x) - 1) elsewhere (Clevert et al. 2016).

    Args:
        alpha: negative of the limit at -inf.
    """
    return ops.elu_(input, alpha) if inplace else ops.elu(input, alpha)


@elementwise
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale * (max(x, 0) + min(alpha * (exp(x) - 1), 0)), with the constants of Klambauer et al. 2017."""
    return ops.selu_(input) if inplace else ops.selu(input)


@elementwise
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0), element by element (Barron 2017).

    Args:
        alpha: negative of the limit at -inf.
    """
    return ops.celu_(input, alpha) if inplace else ops.celu(input, alpha)


@elementwise
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x for x > 0, negative_slope * x elsewhere.

    Args:
        negative_slope: slope for negative x.
    """
    return ops.leaky_relu_(input, negative_slope) if inplace else ops.leaky_relu(input, negative_slope)


@elementwise
def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """x for x > 0, slope * x elsewhere, with slopes drawn uniformly from [lower, upper] (Xu et al. 2015).

    Args:
        lower: smallest slope.
        upper: largest slope.
        training: draw slopes; otherwise their mean is used.
    """
    return (ops.rrelu_ if inplace else ops.rrelu)(input, lower, upper, training)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b) for the halves a and b of the input along `dim` (Dauphin et al. 2017).

    Args:
        input: (*, S, *), S even at `dim`; floating.
        dim: dimension to halve.

    Shape:
        output: (*, S / 2, *).

    Raises:
        RuntimeError: for a 0-dim input or an odd size.
    """
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return ops.glu(input, dim)


@elementwise
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x), element by element (Hendrycks and Gimpel 2016)."""
    return ops.silu_(input) if inplace else ops.silu(input)


@elementwise
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)), element by element (Misra 2019)."""
    return ops.mish_(input) if inplace else ops.mish(input)


@elementwise
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """clip(x / 6 + 1 / 2, 0, 1), element by element."""
    return ops.hardsigmoid_(input) if inplace else ops.hardsigmoid(input)


@elementwise
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * clip(x / 6 + 1 / 2, 0, 1), element by element (Howard et al. 2019)."""
    return ops.hardswish_(input) if inplace else ops.hardswish(input)


@elementwise
def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent, element by element."""
    return input.tanh()


@elementwise
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), element by element."""
    return input.sigmoid()


@elementwise
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x), element by element."""
    return input - input.tanh()


@elementwise
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|), element by element."""
    return input / (input.abs() + 1)


def _softmax_dim(name, ndim):
    """Return the dimension that PyTorch's earliest softmax took by default; warn."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if ndim in (0, 1, 3) else 1


@elementwise
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`.

    Args:
        dim: dimension whose elements sum to 1; a deprecated default depends on the number of dimensions.
        dtype: dtype of the computation and the result.
    """
    if dim is None:
        dim = _softmax_dim("softmax", input.dim())
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


@elementwise
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """exp(-x) / sum(exp(-x)) along `dim`.

    Args:
        dim: dimension whose elements sum to 1; a deprecated default depends on the number of dimensions.
        dtype: dtype of the computation and the result.
    """
    if dim is None:
        dim = _softmax_dim("softmin", input.dim())
    return softmax(-input, dim, dtype=dtype)


@elementwise
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """log(exp(x) / sum(exp(x))) along `dim`.

    Args:
        dim: dimension of the sum; a deprecated default depends on the number of dimensions.
        dtype: dtype of the computation and the result.
    """
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim())
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Sample from the Gumbel-softmax distribution (Jang et al. 2017).

    Args:
        logits: (*, C, *), C at `dim`: unnormalised log-probabilities.
        tau: temperature.
        hard: return one-hot samples, with the gradient of the soft ones.
        eps: deprecated, without effect.
        dim: dimension of the classes.

    Shape:
        output: as `logits`.
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
