"""Smooth activations, and their gradients."""

from __future__ import annotations

import math

import numpy as np

from .._common.layout import row_major
from .._common.numbers import floating, is_half, number_as, real_number, widen
from .._common.tables import number
from ..elementwise.choices import bounded, select
from ..elementwise.erf import MANY_NORMAL, error_function, normal_distribution
from ..elementwise.single import expm1_of_negative, log1p_of_decay, log1p_of_unit


def _below_zero(self) -> np.ndarray:
    return bounded(np.minimum, self, number(0, self.dtype))


@floating("elu_cpu")
def elu(self, alpha=1, scale=1, input_scale=1):
    """scale * self where it is positive, scale * alpha * (exp(input_scale * self) - 1) elsewhere."""
    dtype = self.dtype
    alpha, scale, input_scale = _factors(alpha, scale, input_scale, dtype)
    found = _below_zero(self)
    if input_scale != 1:
        found *= number_as(input_scale, dtype)
    if dtype.char == "f" and input_scale >= 0:
        expm1_of_negative(found)  # 0 where self is positive
    else:
        np.expm1(found, found)
    if alpha * scale != 1:
        found *= dtype.type(alpha * scale)
    above = bounded(np.maximum, self, number(0, dtype))
    if scale != 1:
        above *= number_as(scale, dtype)
    if not _SOME < alpha * scale * input_scale < math.inf:  # the sum would have another sign of zero, or be NaN
        return select(self < 0, found, above)
    found += above
    return found


@floating("elu_backward_cpu")
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    """Return the gradient of `elu`, from its input or, if alpha is not negative, from its result."""
    dtype = self_or_result.dtype
    alpha, scale, input_scale = _factors(alpha, scale, input_scale, dtype)
    if is_result and alpha < 0:
        raise RuntimeError(
            "In-place elu backward calculation is triggered with a negative slope which is not supported. "
            "This is caused by calling in-place forward function with a negative slope, please call "
            "out-of-place version instead."
        )
    below = _below_zero(self_or_result)
    if is_result:
        below += dtype.type(alpha * scale)
        below *= number_as(input_scale, dtype)
    else:
        if input_scale != 1:
            below *= number_as(input_scale, dtype)
        np.exp(below, out=below)
        below *= dtype.type(alpha * scale * input_scale)
    below = below * grad_output
    return select(self_or_result <= 0, below, grad_output * number_as(scale, dtype))


def _factors(alpha, scale, input_scale, dtype: np.dtype) -> tuple:
    """Return the factors of `elu` as real numbers. Raise RuntimeError for one that the dtype does not hold."""
    factors = alpha, scale, input_scale
    if factors == (1, 1, 1) and complex not in (alpha.__class__, scale.__class__, input_scale.__class__):
        return factors
    for factor in factors:
        number_as(factor, dtype)
    return tuple([real_number(factor, dtype) for factor in factors])


def celu(self: np.ndarray, alpha=1.0) -> np.ndarray:
    """max(self, 0) + min(0, alpha * (exp(self / alpha) - 1)). Raises RuntimeError if alpha is 0."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    alpha = real_number(alpha, np.dtype(np.float64))
    return elu(self, alpha, 1.0, 1.0 / alpha)


def gelu(self: np.ndarray, approximate: str = "none") -> np.ndarray:
    """self * Phi(self) with the normal distribution function Phi; with "tanh", an approximation (Hendrycks and Gimpel
    2016). Raises RuntimeError for any other `approximate`."""
    return (_gelu_tanh if _by_tanh(approximate) else _gelu)(self)


def gelu_backward(grad_output: np.ndarray, self: np.ndarray, approximate: str = "none") -> np.ndarray:
    """grad_output times the derivative of `gelu`."""
    return (_gelu_tanh_backward if _by_tanh(approximate) else _gelu_backward)(grad_output, self)


def _by_tanh(approximate) -> bool:
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return approximate == "tanh"


def _phi(self, square=None) -> np.ndarray:
    """Return the normal distribution function of an array, whose square the caller may have."""
    dtype = self.dtype
    if dtype.char == "f" and self.size >= MANY_NORMAL:
        return normal_distribution(self, np.multiply(self, self) if square is None else square)
    found = self * number(math.sqrt(0.5), dtype)
    error_function(found, found)
    found += number(1, dtype)
    found *= number(0.5, dtype)
    return found


@floating("GeluKernelImpl")
def _gelu(self):
    found = _phi(self)
    found *= self
    return found


@floating("GeluBackwardKernelImpl")
def _gelu_backward(grad_output, self):
    square = np.multiply(self, self)
    found = _phi(self, square)
    density = np.multiply(square, number(-0.5, self.dtype), square)
    np.exp(density, density)
    density *= number(1 / math.sqrt(2 * math.pi), self.dtype)
    density *= self
    found += density
    return found * grad_output


_BETA, _KAPPA = math.sqrt(2 / math.pi), 0.044715


def _tanh_inner(self) -> np.ndarray:
    found = np.multiply(self, self)
    found *= found.dtype.type(_KAPPA)
    found += 1
    found *= self
    found *= found.dtype.type(_BETA)
    return np.tanh(found, out=found)


@floating("GeluKernelImpl")
def _gelu_tanh(self):
    found = _tanh_inner(self)
    found += 1
    found *= self
    found *= found.dtype.type(0.5)
    return found


@floating("GeluBackwardKernelImpl")
def _gelu_tanh_backward(grad_output, self):
    t = _tanh_inner(self)
    slope = np.multiply(self, self)
    slope *= slope.dtype.type(3 * _KAPPA * _BETA)
    slope += slope.dtype.type(_BETA)
    slope *= 1 - t * t  # 0 before a large x makes it infinite
    slope *= self
    slope += t
    slope += 1
    slope = slope * grad_output
    slope *= slope.dtype.type(0.5)
    return slope


@floating("silu_cpu", "fc")
def silu(self):
    """self * sigmoid(self)."""
    found = np.negative(self)
    np.exp(found, found)
    found += number(1, self.dtype)
    return np.divide(self, found, found)


@floating("silu_backward_cpu", "fc")
def silu_backward(grad_output, self):
    """grad_output * s * (1 + self * (1 - s)) with s = sigmoid(self)."""
    if self.dtype.kind == "c":
        self = self.conj()
    one = number(1, self.dtype)
    s = np.negative(self)
    np.exp(s, s)
    s += one
    np.reciprocal(s, s)
    found = one - s
    found *= self
    found += one
    found *= s
    found = found * grad_output
    return found


@floating("mish_cpu")
def mish(self):
    """self * tanh(softplus(self))."""
    found = _tanh_softplus(self)
    found *= self
    return found


def _tanh_softplus(self) -> np.ndarray:
    """tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2) with e = exp(self), where e does not overflow; else 1."""
    e = bounded(np.minimum, self, self.dtype.type(20))
    np.exp(e, out=e)
    e *= e + 2
    return np.divide(e, e + 2, out=e)


@floating("mish_backward_cpu")
def mish_backward(grad_output, self):
    """grad_output * (t + self * (1 - t * t) * sigmoid(self)) with t = tanh(softplus(self))."""
    t = _tanh_softplus(self)
    s = np.negative(self)
    np.exp(s, out=s)
    s += 1
    np.divide(self, s, out=s)
    s *= 1 - t * t
    s += t
    s = s * grad_output
    return s


_SOME = 1e-30  # below any factor that programs use, but not 0 in float32
_FINITE = 88  # the largest integer x whose exp(x) is finite in float32
_NEGLIGIBLE = 17  # from which on log(1 + exp(x)) rounds to x in float32


@floating("softplus_cpu")
def softplus(self, beta=1, threshold=20):
    """log(1 + exp(beta * self)) / beta; `self` where beta * self is above `threshold`."""
    dtype = self.dtype
    if beta.__class__ is complex or threshold.__class__ is complex:
        beta, threshold = real_number(beta, dtype), real_number(threshold, dtype)
    if dtype.char == "f" and beta == 1 and _NEGLIGIBLE <= threshold <= _FINITE:
        found = log1p_of_decay(self)
        return np.add(found, bounded(np.maximum, self, number(0, dtype)), found)
    scaled = self if beta == 1 else self * number_as(beta, dtype)
    limit = number_as(threshold if threshold == threshold else math.inf, dtype)  # nothing is above NaN
    linear = None if scaled.size and np.maximum.reduce(scaled, None) <= limit else scaled > limit
    found = np.exp(scaled if linear is None else bounded(np.minimum, scaled, limit))
    np.log1p(found, found)
    if beta != 1:
        found /= number_as(beta, dtype)
    return found if linear is None else select(linear, self, found)


@floating("softplus_backward_cpu")
def softplus_backward(grad_output, self, beta, threshold):
    """grad_output * sigmoid(beta * self); `grad_output` where beta * self is above `threshold`."""
    dtype = self.dtype
    scaled = self if beta == 1 else self * number_as(beta, dtype)
    found = np.negative(scaled)
    np.exp(found, found)
    found += number(1, dtype)
    found = grad_output / found
    limit = number_as(threshold, dtype)
    if scaled.size and np.maximum.reduce(scaled, None) <= limit:
        return found
    return select(scaled > limit, grad_output, found)


def log_sigmoid_forward(self: np.ndarray) -> tuple:
    """log(sigmoid(self)), and exp(-|self|), which PyTorch saves for the gradient."""
    wide = row_major(widen(self))  # the saved buffer is rounded; the result is computed from the unrounded one
    decay = _decay(wide)
    return _log_sigmoid(wide, decay).astype(self.dtype, copy=False), decay.astype(self.dtype, copy=False)


@floating("log_sigmoid_cpu")
def _decay(self):
    found = np.abs(self)
    np.negative(found, out=found)
    return np.exp(found, out=found)


@floating("log_sigmoid_cpu")
def _log_sigmoid(self, decay):
    found = log1p_of_unit(decay.copy()) if decay.dtype.char == "f" else np.log1p(decay)
    return np.subtract(_below_zero(self), found, found)


@floating("log_sigmoid_backward_cpu")
def _log_sigmoid_backward(grad_output, self):
    found = np.exp(self)
    found += 1
    return grad_output / found


@floating("log_sigmoid_backward_cpu")
def _log_sigmoid_backward_of_decay(grad_output, self, decay):
    far = decay / (1 + decay)
    return np.where(self < 0, 1 - far, far) * grad_output


def log_sigmoid_backward(grad_output: np.ndarray, self: np.ndarray, buffer: np.ndarray) -> np.ndarray:
    """grad_output * sigmoid(-self); in half precision from the buffer, which is rounded."""
    if is_half(self.dtype) and buffer.shape == self.shape:
        return _log_sigmoid_backward_of_decay(grad_output, self, buffer)
    return _log_sigmoid_backward(grad_output, self)


def glu(self: np.ndarray, dim: int = -1) -> np.ndarray:
    """a * sigmoid(b) for the halves a and b of `self` along `dim`. Raises RuntimeError for a 0-dim or odd one."""
    a, b = halves(self, dim)
    return _gated(a, b)


@floating("glu_cpu")
def _gated(a, b):
    gate = np.negative(b)
    np.exp(gate, out=gate)
    gate += 1
    return np.divide(a, gate, out=gate)


def glu_backward(grad_output: np.ndarray, self: np.ndarray, dim: int) -> np.ndarray:
    """Return the gradient of `glu`: sigmoid(b) * g for a, and a * sigmoid(b) * (1 - sigmoid(b)) * g for b."""
    a, b = halves(self, dim)
    found = np.empty(self.shape, self.dtype)
    for_a, for_b = halves(found, dim)
    for_a[...] = grad_output * _gated(np.ones_like(b), b) if is_half(self.dtype) else _gated(grad_output, b)
    for_b[...] = _gate_backward(grad_output, a, b, self.dtype if is_half(self.dtype) else None)  # rounds the gate
    return found


@floating("glu_backward_cpu")
def _gate_backward(grad_output, a, b, half):
    s = np.negative(b)
    np.exp(s, out=s)
    s += 1
    np.reciprocal(s, out=s)
    if half is not None:
        s = s.astype(half).astype(s.dtype)
    s *= 1 - s
    s *= a
    s = s * grad_output
    return s


def halves(self: np.ndarray, dim: int) -> tuple:
    """Return the two halves of an array along a dimension, as views."""
    ndim = self.ndim
    if ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    dim %= ndim
    size = self.shape[dim]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    lead = (slice(None),) * dim
    return self[(*lead, slice(size // 2))], self[(*lead, slice(size // 2, None))]
