"""Elementwise kernels of two or three inputs: bounds, choices, mixtures, and functions of two numbers."""

from __future__ import annotations

import numpy as np

from ..types.dtype import TYPE_OF, c_name, scalar_type_name
from ._elementwise_unary import log1p
from ._layout import as_operands
from ._numbers import number_as
from ._precision import Wide
from ._reduced import like, own, widened
from ._refuse import not_implemented, refuse
from ._select import select

# --- bounds -------------------------------------------------------------------------------------------------


def clamp(self, min=None, max=None):
    """Bounded by numbers or arrays, either of which may be None; the upper bound wins; NaN stays NaN.

    Raises:
        RuntimeError: without any bound.
    """
    if self.dtype.kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    refuse("clamp_cpu", self, "b")
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    low, high = _bound(min, self), _bound(max, self)
    if self.dtype.kind != "f":
        found = self if low is None else np.maximum(self, low)
        found = found if high is None else np.minimum(found, high)
    else:  # of the same speed for one number as for two, and several times as fast as maximum with a number
        found = self.clip(-np.inf if low is None else low, np.inf if high is None else high)
    if self.flags.c_contiguous:
        return found
    return as_operands(found, self, *[bound for bound in (min, max) if bound.__class__ is np.ndarray])


def clamp_min(self, min):
    """Bounded below by a number or an array."""
    return np.maximum(self, min) if min.__class__ is np.ndarray and self.dtype.kind == "b" else clamp(self, min, None)


def clamp_max(self, max):
    """Bounded above by a number or an array."""
    return np.minimum(self, max) if max.__class__ is np.ndarray and self.dtype.kind == "b" else clamp(self, None, max)


def _bound(value, array):
    return value if value is None or value.__class__ is np.ndarray else number_as(value, array.dtype)


def compared(name, array):
    """The array, if its elements have an order. Raises RuntimeError for complex ones."""
    if array.dtype.kind == "c":
        raise RuntimeError(f"{name} not implemented for complex tensors.")
    return array


def ordered(name, array):
    """The array, if its elements have an order. Raises NotImplementedError for complex ones."""
    refuse(name, array, "c")
    return array


# --- choices and mixtures -----------------------------------------------------------------------------------


def where(condition, self, other):
    """`self` where the condition holds, else `other`.

    Raises:
        RuntimeError: if the condition is not boolean.
    """
    if condition.dtype.kind != "b":
        if condition.dtype == np.uint8:
            import warnings

            warnings.warn(
                "where received a uint8 condition tensor. This behavior is deprecated: use a boolean one, "
                "condition.bool().",
                UserWarning,
                stacklevel=5,
            )
            condition = condition != 0
        else:
            raise RuntimeError(
                "where expected condition to be a boolean tensor, but got a tensor with dtype "
                f"{scalar_type_name(TYPE_OF[condition.dtype])}"
            )
    found = select(condition, self, other) if self.dtype is other.dtype else np.where(condition, self, other)
    return as_operands(found, condition, self, other)


def lerp(self, end, weight):
    """`self + weight * (end - self)`, from the nearer end, for an array or a number as weight.

    Raises:
        RuntimeError: for different dtypes.
    """
    if end.dtype is not self.dtype:
        raise RuntimeError(f"expected dtype {c_name(self.dtype)} for `end` but got dtype {c_name(end.dtype)}")
    refuse("lerp_kernel_scalar", self, "iub")
    if weight.__class__ is np.ndarray:
        if weight.dtype is not self.dtype:
            if weight.ndim:
                raise RuntimeError(
                    f"expected dtype {c_name(self.dtype)} for `weight` but got dtype {c_name(weight.dtype)}"
                )
            weight = weight.astype(self.dtype)
        return as_operands(_lerp(self, end, weight), self, end, weight)
    if self.dtype.kind != "c" and weight.__class__ is complex:
        raise RuntimeError("value cannot be converted to type float without overflow")
    return as_operands(_lerp(self, end, weight), self, end)


@widened
def _lerp(start, end, weight):
    step = end - start
    near = abs(weight) < 0.5
    if near is True or near is False:
        scaled = np.multiply(step, like(weight if near else weight - 1, step), out=own(step))
        return np.add(start if near else end, scaled, out=own(scaled, start, end))
    return np.where(near, start + weight * step, end - step * (1 - weight))


def _refuse_number(name, value):
    if value.__class__ is complex:
        raise not_implemented(name, np.zeros(0, np.complex64))


def copysign(self, other):
    """The magnitude of `self` with the sign of `other`."""
    return np.copysign(self, other)


def copysign_scalar(self, other):
    """The magnitude of `self` with the sign of a number."""
    _refuse_number("copysign_cpu", other)
    return np.copysign(self, like(other, self))


def hypot(self, other):
    """The length of the hypotenuse."""
    refuse("hypot_cpu", self, "iubc")
    return np.hypot(self, other)


def nextafter(self, other):
    """The next floating number after `self` in the direction of `other`."""
    refuse("nextafter_cpu", self, "iubc")
    return np.nextafter(self, other)


def heaviside(self, values):
    """0 for negative, 1 for positive numbers, and `values` for zeros."""
    if self.dtype.kind == "c" or values.dtype.kind == "c":
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if self.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return np.where(self == 0, values, self > 0).astype(self.dtype)


def gcd(self, other):
    """The greatest common divisor of integers."""
    refuse("gcd_cpu", self, "bfVc")
    return np.gcd(self, other)


def lcm(self, other):
    """The least common multiple of integers."""
    refuse("lcm_cpu", self, "bfVc")
    return np.lcm(self, other)


def xlogy(self, other):
    """`self * log(other)`; 0 where `self` is 0, unless `other` is NaN."""
    refuse("xlogy_cpu", self, "c")
    product = np.multiply(self, np.log(other))
    return np.where((self == 0) & ~np.isnan(other), self.dtype.type(0), product)


def xlogy_of_scalar(self, other):
    """`xlogy` of a number and an array."""
    _refuse_number("xlogy_cpu", self)
    return xlogy(like(self, other), other)


def xlogy_by_scalar(self, other):
    """`xlogy` of an array and a number."""
    _refuse_number("xlogy_cpu", other)
    return xlogy(self, like(other, self))


def ldexp(self, other):
    """`self * 2 ** other`."""
    if other.__class__ is Wide:
        return np.multiply(self, Wide(np.exp2(other.value), self.dtype))
    return np.multiply(self, np.exp2(other))


@widened
def logaddexp(self, other):
    """`log(exp(self) + exp(other))` without overflow."""
    if self.dtype.kind != "c":
        refuse("logaddexp_cpu", self, "iub")
        return np.logaddexp(self, other)
    swap = self.real < other.real
    high, low = np.where(swap, other, self), np.where(swap, self, other)
    return high + log1p(np.exp(low - high))


def logaddexp2(self, other):
    """`log2(2**self + 2**other)` without overflow."""
    refuse("logaddexp2_cpu", self, "iubc")
    return np.logaddexp2(self, other)
