"""Elementwise losses (squared, Huber, soft margin, binary cross entropy), and helpers of all losses.

Note [Losses in half precision]
PyTorch computes some losses of float16 or bfloat16 in float32 and rounds once; in others it rounds each step. So do
these kernels: the `widens` argument of `loss_inputs` names the types to widen. A mean or a sum is taken in float32,
over rounded losses.
"""

from __future__ import annotations

import numpy as np

from ...types.dtype import TYPE_OF, can_cast, float32, promote_types
from .._common.blas import dot
from .._common.errors import BOOL_DIFFERENCE, BOOL_NEGATION, not_implemented, refuse, type_name
from .._common.numbers import is_half, widen
from ..elementwise.choices import select
from ..elementwise.single import log1p_of_decay
from ..reduction import sums

NONE, MEAN, SUM = range(3)


def loss_inputs(self, target, name, widens="eE") -> tuple:
    """Return the common dtype of a loss's inputs, and the inputs in the compute dtype.

    Args:
        widens: half types to compute in float32: 'e' for float16, 'E' for bfloat16. Others are rounded in each step.
    """
    common_shape(self, target)
    if self.dtype is target.dtype:
        dtype = self.dtype
    else:
        dtype = promote_types(TYPE_OF[self.dtype], TYPE_OF[target.dtype]).numpy
        self, target = self.astype(dtype, copy=False), target.astype(dtype, copy=False)
    if dtype.kind not in "fV":
        raise not_implemented(name, np.empty(0, dtype))
    if dtype.itemsize == 2 and dtype.char in widens:
        return dtype, widen(self), widen(target)
    return dtype, self, target


def _uncastable(found: np.dtype, wanted: np.dtype) -> RuntimeError:
    return RuntimeError(f"result type {type_name(found)} can't be cast to the desired output type {type_name(wanted)}")


def common_shape(self: np.ndarray, target: np.ndarray) -> tuple:
    """Return the shape that two arrays broadcast to. Raises RuntimeError if they do not."""
    if self.shape == target.shape:
        return self.shape
    out = []
    ndim = max(self.ndim, target.ndim)
    for d in range(ndim):
        n, m = (a.shape[d - ndim + a.ndim] if d >= ndim - a.ndim else 1 for a in (self, target))
        if n != m and n != 1 and m != 1:
            raise RuntimeError(
                f"The size of tensor a ({n}) must match the size of tensor b ({m}) at non-singleton dimension {d}"
            )
        out.append(m if n == 1 else n)
    return tuple(out)


def narrow(found, dtype: np.dtype) -> np.ndarray:
    """Convert a computed result to an array of a dtype."""
    if found.__class__ is not np.ndarray:
        found = np.asarray(found)
    return found if found.dtype is dtype else found.astype(dtype)


def mean_of(total, count: int):
    """Return the mean from the sum: NaN for no elements."""
    scalar = total.dtype.type
    return total / scalar(count) if count else scalar(np.nan)


def reduce(losses: np.ndarray, reduction: int, dtype: np.dtype) -> np.ndarray:
    """Return the elementwise losses, their mean or their sum, in a dtype."""
    if reduction == NONE:
        return narrow(losses, dtype)
    if is_half(dtype):
        losses = widen(narrow(losses, dtype))
    total = np.add.reduce(losses, None) if losses.dtype.char not in "fd" else sums.total(losses)
    return narrow(total if reduction == SUM else mean_of(total, losses.size), dtype)


def mse_loss(self: np.ndarray, target: np.ndarray, reduction: int = MEAN) -> np.ndarray:
    """(self - target) ** 2, reduced; shapes broadcast."""
    dtype, x, y = loss_inputs(self, target, "mse_cpu", "")
    d = np.asarray(np.subtract(x, y))
    if reduction == NONE or is_half(dtype):
        return reduce(np.multiply(d, d), reduction, dtype)
    flat = d.reshape(-1)
    total = dot(flat, flat)
    return narrow(total if reduction == SUM else mean_of(total, d.size), dtype)


def mse_loss_backward(grad_output: np.ndarray, self: np.ndarray, target: np.ndarray, reduction: int) -> np.ndarray:
    """Return 2 * (self - target) * grad_output, divided by the number of elements for a mean."""
    dtype, x, y = loss_inputs(self, target, "mse_backward_cpu_out", "")
    d = np.asarray(np.subtract(x, y))
    return _chain(grad_output, d, reduction, dtype, 2.0)


def _chain(grad_output, slope, reduction, dtype, factor=1.0) -> np.ndarray:
    """Return factor * slope * grad_output, divided by the number of elements for a mean; overwrite `slope`."""
    if reduction == MEAN and slope.size:
        factor /= slope.size
    if factor != 1.0:
        slope *= slope.dtype.type(factor)
    grad = grad_output if is_half(slope.dtype) else widen(grad_output)
    if grad.dtype is slope.dtype and grad.shape in ((), slope.shape):
        slope *= grad
        return narrow(slope, dtype)
    return narrow(np.multiply(slope, grad), dtype)


def smooth_l1_loss(self: np.ndarray, target: np.ndarray, reduction: int = MEAN, beta: float = 1.0) -> np.ndarray:
    """Return d ** 2 / (2 * beta) where d = |self - target| is below beta, d - beta / 2 elsewhere; reduced."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    dtype, x, y = loss_inputs(self, target, "smooth_l1_cpu", "E")
    if beta == 0:
        return reduce(np.abs(x - y), reduction, dtype)
    d, half, beta = np.asarray(np.abs(x - y)), x.dtype.type(0.5), x.dtype.type(beta)
    near = half * d
    near *= d
    near /= beta
    return reduce(select(d < beta, near, d - half * beta), reduction, dtype)


def _huber(x, y, delta) -> np.ndarray:
    """m * (d - m / 2) with d = |x - y| and m = min(d, delta)."""
    d = np.asarray(np.subtract(x, y))
    np.abs(d, out=d)
    m = np.asarray(np.minimum(d, d.dtype.type(delta)))
    d -= d.dtype.type(0.5) * m
    d *= m
    return d


def smooth_l1_loss_backward(
    grad_output: np.ndarray, self: np.ndarray, target: np.ndarray, reduction: int, beta: float
) -> np.ndarray:
    """Return grad_output * clip((self - target) / beta, -1, 1), divided by the number of elements for a mean."""
    dtype, x, y = loss_inputs(self, target, "smooth_l1_backward_cpu_out")
    d = np.asarray(np.subtract(x, y))
    if beta == 0:
        d = np.asarray(np.where(d <= 0, d.dtype.type(-1), d.dtype.type(1)))
    else:
        np.clip(d, d.dtype.type(-beta), d.dtype.type(beta), out=d)
        d /= d.dtype.type(beta)
    return _chain(grad_output, d, reduction, dtype)


def huber_loss(self: np.ndarray, target: np.ndarray, reduction: int = MEAN, delta: float = 1.0) -> np.ndarray:
    """Return d ** 2 / 2 where d = |self - target| is at most delta, delta * (d - delta / 2) elsewhere; reduced, in
    self's dtype. Raises RuntimeError unless delta is positive."""
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    common = promote_types(TYPE_OF[self.dtype], TYPE_OF[target.dtype])
    if not can_cast(common, TYPE_OF[self.dtype]):
        raise _uncastable(common.numpy, self.dtype)
    _, x, y = loss_inputs(self, target, "huber_cpu", "e")
    return reduce(_huber(x, y, delta), reduction, self.dtype)


def huber_loss_backward(
    grad_output: np.ndarray, self: np.ndarray, target: np.ndarray, reduction: int, delta: float
) -> np.ndarray:
    """Return grad_output * clip(self - target, -delta, delta), divided by the number of elements for a mean. Raises
    RuntimeError for two dtypes."""
    _check_same_type(self, target)
    dtype, x, y = loss_inputs(self, target, "huber_backward_cpu_out", "")
    d = np.asarray(np.subtract(x, y))
    delta = d.dtype.type(delta)
    if is_half(dtype):  # beyond delta, PyTorch first rounds delta times the factor of the mean
        factor = d.dtype.type(1 / d.size if reduction == MEAN and d.size else 1)
        return np.asarray(np.where(np.abs(d) <= delta, factor * d, np.sign(d) * (factor * delta)) * grad_output)
    np.clip(d, -delta, delta, out=d)
    return _chain(grad_output, d, reduction, dtype)


def soft_margin_loss(self: np.ndarray, target: np.ndarray, reduction: int = MEAN) -> np.ndarray:
    """log(1 + exp(-target * self)), reduced."""
    shape = common_shape(self, target)
    if shape != self.shape:
        raise RuntimeError(f"output with shape {list(self.shape)} doesn't match the broadcast shape {list(shape)}")
    if self.dtype.kind == "b":
        raise NotImplementedError(BOOL_NEGATION)
    if self.dtype.kind in "iu":
        floating = (
            promote_types(TYPE_OF[target.dtype], float32) if target.dtype.kind in "iub" else TYPE_OF[target.dtype]
        )
        raise _uncastable(floating.numpy, self.dtype)
    losses = np.asarray(np.multiply(self, target))
    np.negative(losses, out=losses)
    with np.errstate(all="ignore"):
        np.exp(losses, out=losses)
        np.log1p(losses, out=losses)
    return reduce(losses, reduction, self.dtype)


def soft_margin_loss_backward(
    grad_output: np.ndarray, self: np.ndarray, target: np.ndarray, reduction: int
) -> np.ndarray:
    """Return -target * grad_output / (1 + exp(target * self)), divided by the number of elements for a mean."""
    if target.dtype.kind == "b":
        raise NotImplementedError(BOOL_NEGATION)
    slope = np.asarray(np.multiply(self, target))
    with np.errstate(all="ignore"):
        if is_half(slope.dtype):
            z = np.exp(-slope)
            factor = np.float32(-1 / slope.size if reduction == MEAN and slope.size else -1)
            slope = (widen(target) * factor).astype(z.dtype) * z / (z + z.dtype.type(1))
            return np.asarray(slope * grad_output)
        np.exp(slope, out=slope)
        slope += 1
        np.divide(target, slope, out=slope)
    return _chain(grad_output, slope, reduction, self.dtype, -1.0)


def binary_cross_entropy(self: np.ndarray, target: np.ndarray, weight=None, reduction: int = MEAN) -> np.ndarray:
    """-(t * log(x) + (1 - t) * log(1 - x)) with logarithms not below -100, times the weight; reduced."""
    _check_same_type(self, target)
    if self.dtype.kind not in "fV":
        raise not_implemented("binary_cross_entropy", self)
    for name, values in (("input", widen(self)), ("target", widen(target))):
        if values.size and not (np.minimum.reduce(values, None) >= 0 and np.maximum.reduce(values, None) <= 1):
            raise RuntimeError(f"all elements of {name} should be between 0 and 1")
    one, lowest = self.dtype.type(1), self.dtype.type(-100)
    with np.errstate(all="ignore"):
        losses = np.maximum(np.log1p(-self), lowest) * (target - one)
        losses -= target * np.maximum(np.log(self), lowest)
    if weight is not None:
        losses = losses * weight
    return reduce(losses, reduction, self.dtype)


def _check_same_type(self, target) -> None:
    if self.dtype is not target.dtype:
        raise RuntimeError(f"Found dtype {type_name(target.dtype)} but expected {type_name(self.dtype)}")


def binary_cross_entropy_backward(
    grad_output: np.ndarray, self: np.ndarray, target: np.ndarray, weight=None, reduction: int = MEAN
) -> np.ndarray:
    """Return grad_output * weight * (x - t) / (x * (1 - x)), divided by the number of elements for a mean."""
    refuse("binary_cross_entropy_backward", self, "c")
    kind = self.dtype.type
    slope = np.asarray(np.subtract(self, target))
    variance = np.maximum((kind(1) - self) * self, kind(1e-12))
    if is_half(self.dtype):  # in PyTorch's order of rounding
        with np.errstate(all="ignore"):
            slope = grad_output * slope / variance
        grad_output = np.ones((), self.dtype)
    else:
        slope /= variance
    if weight is not None:
        slope *= weight
    return _chain(grad_output, slope, reduction, self.dtype)


def binary_cross_entropy_with_logits(
    self: np.ndarray, target: np.ndarray, weight=None, pos_weight=None, reduction: int = MEAN
) -> np.ndarray:
    """(1 - t) * x + (1 + (pos_weight - 1) * t) * log(1 + exp(-x)), times the weight; reduced."""
    refuse("log_sigmoid_cpu", self, "iubc")
    if target.dtype.kind == "b":
        raise NotImplementedError(BOOL_DIFFERENCE)
    if target.dtype.kind in "iu":  # PyTorch multiplies 1 - target by the input in place
        raise _uncastable(self.dtype, target.dtype)
    _, x, t = loss_inputs(self, target, "log_sigmoid_cpu", "")
    one, wide = x.dtype.type(1), widen(x)
    losses = log1p_of_decay(wide)
    losses -= np.minimum(wide, wide.dtype.type(0))
    losses = narrow(losses, x.dtype)
    if pos_weight is not None:
        losses = losses * ((pos_weight - one) * t + one)
    losses = losses + (one - t) * x
    if weight is not None:
        losses = losses * weight
    return reduce(np.asarray(losses), reduction, target.dtype)
