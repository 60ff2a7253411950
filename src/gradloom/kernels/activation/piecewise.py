"""Piecewise linear and quadratic activations, and their gradients."""

from __future__ import annotations

import numpy as np

from .._common.errors import not_implemented, refuse, type_name
from .._common.layout import check_no_internal_overlap
from .._common.numbers import LARGE, are_alike, floating, greatest, in_blocks, number_as, real_number, widen
from .._common.tables import number
from .._common.threads import get_num_threads
from ..elementwise.choices import bounded, clamp_bound, keep_where, select


def _check_clamp(self: np.ndarray, refusal: str) -> None:
    if self.dtype.kind == "b":
        raise NotImplementedError(refusal)
    if self.dtype.kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")


def relu(self: np.ndarray) -> np.ndarray:
    """max(self, 0); NaN stays."""
    if self.dtype.char in "fd":
        return bounded(np.maximum, self, number(0, self.dtype))
    _check_clamp(self, "Boolean inputs not supported for relu")
    return bounded(np.maximum, self, number(0, self.dtype))


def relu_(self: np.ndarray) -> np.ndarray:
    """`relu` in place."""
    _check_clamp(self, "Boolean inputs not supported for relu")
    check_no_internal_overlap(self)
    return bounded(np.maximum, self, number(0, self.dtype), self)


def threshold(self: np.ndarray, threshold, value) -> np.ndarray:
    """`self` where it is above `threshold` (or NaN), `value` elsewhere."""
    if self.dtype.kind in "bc":
        raise not_implemented("threshold_cpu", self)
    return select(_below(self, threshold), number_as(value, self.dtype), self)


def threshold_backward(grad_output: np.ndarray, self: np.ndarray, threshold) -> np.ndarray:
    """`grad_output` where `self` is above `threshold` (or NaN), 0 elsewhere."""
    if self.dtype.kind in "bc":
        raise not_implemented("threshold_cpu", self)
    if self.size >= LARGE and get_num_threads() > 1 and are_alike(grad_output, (self,)):
        return in_blocks(_above_threshold, grad_output, (self, threshold))
    return _above_threshold(grad_output, self, threshold)


def _above_threshold(grad_output, self, threshold):
    return keep_where(grad_output, ~_below(self, threshold))


def _below(self, threshold):
    """Return whether elements are not above a number; the number keeps its precision beside half precision."""
    wide = widen(self)
    return wide <= number_as(threshold, wide.dtype)


def hardtanh(self: np.ndarray, min_val=-1, max_val=1) -> np.ndarray:
    """`self` clipped to [min_val, max_val]; NaN stays."""
    _check_clamp(self, "Bool inputs not supported for hardtanh")
    min_val, max_val = real_number(min_val, self.dtype), real_number(max_val, self.dtype)
    if self.dtype.kind in "iu":
        min_val, max_val = (int(number_as(value, np.dtype(np.int64))) for value in (min_val, max_val))
    low, high = clamp_bound("min", min_val, self), clamp_bound("max", max_val, self)
    found = bounded(np.maximum, self, low)
    return np.minimum(found, high) if found.__class__ is not np.ndarray else bounded(np.minimum, found, high, found)


@floating("hardtanh_backward_cpu")
def hardtanh_backward(grad_output, self, min_val, max_val):
    """`grad_output` where min_val < self < max_val, 0 elsewhere."""
    low, high = number_as(min_val, self.dtype), number_as(max_val, self.dtype)
    return keep_where(grad_output, ~((self <= low) | (self >= high)))


@floating("leaky_relu_cpu")
def leaky_relu(self, negative_slope=0.01):
    """`self` where it is positive, negative_slope * self elsewhere."""
    below = self * number_as(negative_slope, self.dtype)
    negative_slope = real_number(negative_slope, self.dtype)
    if 1e-30 < negative_slope <= 1:  # 0 times infinity is NaN
        return np.maximum(self, below, out=below)
    return select(self > 0, self, below)


@floating("leaky_relu_backward_cpu")
def leaky_relu_backward(grad_output, self, negative_slope, self_is_result):
    """`grad_output` where `self` (or the result, which has the same sign) is positive, `negative_slope` times it
    elsewhere. Raises RuntimeError for a result and a negative slope, since the result then does not show the input's
    sign."""
    _check_slope(self_is_result, real_number(negative_slope, self.dtype))
    return select(self > 0, grad_output, grad_output * number_as(negative_slope, self.dtype))


def _check_slope(self_is_result, slope) -> None:
    if self_is_result and slope < 0:
        raise RuntimeError(
            "In-place leakyReLu backward calculation is triggered with a negative slope which is not "
            "supported. This is caused by calling in-place forward function with a negative slope, please "
            "call out-of-place version instead. File an issue at https://github.com/pytorch/pytorch if you "
            "do require supporting in-place leakRelu backward calculation with negative slope"
        )


@floating("prelu_cpu")
def prelu(self, weight):
    """`self` where it is positive, weight * self elsewhere; shapes broadcast."""
    return select(self > 0, self, weight * self)


def prelu_backward(grad_output, self, weight) -> tuple:
    """Return the gradients of `prelu` for self and weight, both of self's shape."""
    return _prelu_self(grad_output, self, weight), _prelu_weight(grad_output, self)


@floating("prelu_cpu")
def _prelu_self(grad_output, self, weight):
    return select(self > 0, grad_output, weight * grad_output)


@floating("prelu_cpu")
def _prelu_weight(grad_output, self):
    return keep_where(self * grad_output, ~(self > 0))


@floating("hardsigmoid_cpu")
def hardsigmoid(self):
    """clip(self + 3, 0, 6) / 6."""
    found = self + self.dtype.type(3)
    _clip06(found)
    found /= found.dtype.type(6)
    return found


def _clip06(found) -> None:
    bounded(np.maximum, found, found.dtype.type(0), found)
    bounded(np.minimum, found, found.dtype.type(6), found)


@floating("hardsigmoid_backward_cpu")
def hardsigmoid_backward(grad_output, self):
    """grad_output / 6 where -3 < self < 3, 0 elsewhere."""
    return keep_where(grad_output / self.dtype.type(6), (self > -3) & (self < 3))


@floating("hardswish_cpu")
def hardswish(self):
    """self * clip(self + 3, 0, 6) / 6."""
    found = self + self.dtype.type(3)
    _clip06(found)
    found *= self
    found /= found.dtype.type(6)
    return found


@floating("hardswish_backward_cpu")
def hardswish_backward(grad_output, self):
    """grad_output * (self / 3 + 1 / 2) where -3 < self < 3, grad_output above, 0 below."""
    slope = self / self.dtype.type(3)
    slope += slope.dtype.type(0.5)
    slope = slope * grad_output
    return keep_where(select(self >= 3, grad_output, slope), ~(self <= -3))


def hardshrink(self, lambd=0.5):
    """0 where -lambd <= self <= lambd, `self` elsewhere."""
    refuse("hardshrink_cpu", self, "iubc")
    return keep_where(self, _outside(self, lambd))


def shrink_backward(grad_output, self, lambd):
    """0 where -lambd <= self <= lambd, `grad_output` elsewhere."""
    refuse("shrink_backward_cpu", self, "iubc")
    return keep_where(grad_output, _outside(self, lambd))


def _outside(self, lambd) -> np.ndarray:
    """Return whether elements lie outside [-number, number], with the number rounded to half beside halves."""
    bound = number_as(lambd, self.dtype)
    return ~((self >= -bound) & (self <= bound))


def softshrink(self: np.ndarray, lambd=0.5) -> np.ndarray:
    """`self` moved towards 0 by `lambd`, but not past 0; NaN stays. Raises RuntimeError for a negative `lambd`."""
    if self.dtype.kind in "iubc":
        raise not_implemented("softshrink_check", self)
    lambd = real_number(lambd, self.dtype)
    if not 0 <= lambd <= greatest(self.dtype):
        raise RuntimeError(
            "lambda must be in range [0, "
            f"{greatest(self.dtype):g}] for input "
            f"dtype {type_name(self.dtype)}, but found {lambd:g}"
        )
    return _softshrink(self, float(number_as(lambd, self.dtype)))  # rounded to half beside halves


@floating("softshrink_cpu")
def _softshrink(self, lambd):
    bound = number_as(lambd, self.dtype)
    inner = bounded(np.maximum, self, -bound)
    bounded(np.minimum, inner, bound, inner)
    np.subtract(self, inner, out=inner)
    return np.copysign(inner, self, out=inner)  # -0 between -bound and 0
