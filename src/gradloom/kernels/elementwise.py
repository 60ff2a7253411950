"""Elementwise kernels: arithmetic, powers, rounding, bounds and choices.

Inputs have been brought to a common dtype and broadcast by NumPy's rules. Functions from SciPy are in
_elementwise_special.py, predicates in _elementwise_tests.py.
"""

from __future__ import annotations

import numpy as np

from ._elementwise_special import (  # noqa: F401
    digamma, erf, erfc, erfinv, lgamma, logit, logit_backward, mvlgamma, polygamma, polygamma_of, sigmoid,
    sigmoid_backward, sinc, tanh_backward)
from ._elementwise_tests import (  # noqa: F401
    isclose, isneginf, isposinf, nan_to_num)
from ._reduced import number, to_float, widened, widened_for
from ._refuse import check_divisor, refuse

# --- sums -------------------------------------------------------------------------------------------------------


def scaled(other, alpha):
    """`alpha * other` for add and sub, if a number of alpha's type may scale a tensor of that dtype."""
    kind = other.dtype.kind
    if alpha.__class__ is bool:
        if kind != "b":
            raise RuntimeError("Boolean alpha only supported for Boolean results.")
        return other & alpha
    if kind == "c":
        return other * alpha
    if alpha.__class__ is complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if kind in "iub" and alpha.__class__ is float:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if kind == "b":
        return other & bool(alpha)
    return other * number(alpha, other)


def rsub_scalar(self, other, alpha):
    """`other - alpha * self` for a number `other`."""
    if self.dtype.kind == "b":
        raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
                           "invert a mask, use the `~` or `logical_not()` operator instead.")
    self = widened_for(self, other)
    return np.subtract(_as(other, self), self if alpha == 1 else scaled(self, alpha))


def addcmul(self, tensor1, tensor2, value=1):
    """`self + value * tensor1 * tensor2`."""
    product = np.multiply(tensor1, tensor2)
    if value != 1:
        product = product * _as(value, self)
    return np.add(self, product)


def addcdiv(self, tensor1, tensor2, value=1):
    """`self + value * tensor1 / tensor2`, not for integers."""
    if tensor1.dtype.kind in "iub":
        raise RuntimeError("Integer division with addcdiv is no longer supported, and in a future  release addcdiv "
                           "will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be "
                           "implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for "
                           "integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future "
                           "addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), "
                           "for all dtypes.")
    if value != 1:
        tensor1 = tensor1 * _as(value, self)
    return np.add(self, np.true_divide(tensor1, tensor2))


def _as(value, array):
    """A number in the dtype of an array, which it must not change."""
    return array.dtype.type(value)


# --- division ---------------------------------------------------------------------------------------------------


def div_mode(self, other, rounding_mode):
    """Division that rounds: 'trunc' towards zero, 'floor' down, None not at all.

    Raises:
        RuntimeError: for another mode, or an integer divided by zero.
    """
    if rounding_mode is None:
        return np.true_divide(to_float(self), to_float(other))
    if rounding_mode == "floor":
        return floor_divide(self, other)
    if rounding_mode == "trunc":
        return _div_trunc(self, other)
    raise RuntimeError("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
                       f"'{rounding_mode}'")


def floor_divide(self, other):
    """The quotient rounded down, in the inputs' dtype."""
    refuse("div_floor_cpu", self, "bc")
    check_divisor(other)
    return np.floor_divide(self, other)


def div_scalar(self, other):
    """Division by a number."""
    return np.true_divide(to_float(self), number(other, to_float(self)))


def div_scalar_mode(self, other, rounding_mode):
    """Division by a number that rounds."""
    return div_mode(self, np.asarray(other, self.dtype), rounding_mode)


def _div_trunc(self, other):
    refuse("div_trunc_cpu", self, "bc")
    if self.dtype.kind not in "iu":
        return np.trunc(np.true_divide(self, other))
    check_divisor(other)
    quotient = np.floor_divide(self, other)
    if self.dtype.kind == "i":  # one more where a negative quotient was rounded away from zero
        quotient = quotient + ((quotient < 0) & (quotient * other != self)).astype(quotient.dtype)
    return quotient


def remainder(self, other):
    """The remainder of a division that rounds down: it has the sign of `other`."""
    refuse("remainder_cpu", self, "bc")
    check_divisor(other)
    return np.remainder(self, other)


def fmod(self, other):
    """The remainder of a division that rounds towards zero: it has the sign of `self`."""
    refuse("fmod_cpu", self, "bc")
    check_divisor(other)
    return np.fmod(self, other)


def remainder_scalar(self, other):
    """`remainder` by a number."""
    return remainder(self, self.dtype.type(other))


def fmod_scalar(self, other):
    """`fmod` by a number."""
    return fmod(self, self.dtype.type(other))


def remainder_of_scalar(self, other):
    """The remainder of a number by an array."""
    return remainder(np.asarray(self, other.dtype), other)


# --- powers -----------------------------------------------------------------------------------------------------


def pow(self, exponent):
    """`self ** exponent`; integers to negative powers are 0 unless the base is 1 or -1."""
    refuse("pow", self, "b")
    if self.dtype.kind == "i":
        negative = exponent < 0
        if negative.any():
            return _integer_power(self, exponent, negative)
    return np.power(self, exponent)


def _integer_power(base, exponent, negative):
    found = np.power(base, np.where(negative, 0, exponent))
    inverse = np.where(base == 1, 1, np.where(base == -1, np.where(exponent & 1, -1, 1), 0))
    return np.where(negative, inverse, found).astype(found.dtype)


def pow_scalar(self, exponent):
    """`self ** exponent` for a number, with the common exponents as products, roots and quotients."""
    kind = self.dtype.kind
    if kind in "iu" and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if exponent == 2:
        return np.multiply(self, self)
    if exponent == 1:
        return self.copy()
    if exponent == 3:
        return np.multiply(np.multiply(self, self), self)
    if kind not in "iub":
        if exponent == 0.5:
            return np.sqrt(self)
        if exponent == -1:
            return np.reciprocal(self)
        if exponent == -2:
            return np.reciprocal(np.multiply(self, self))
        if exponent == -0.5:
            return rsqrt(self)
    return np.power(self, self.dtype.type(exponent))


def pow_of_scalar(self, exponent):
    """A number to the powers of an array."""
    if self == 1:
        return np.ones_like(exponent)
    return pow(exponent.dtype.type(self), exponent)


@widened
def rsqrt(self):
    """`1 / sqrt(self)`."""
    root = np.sqrt(self)
    return np.divide(1, root, out=root) if root.__class__ is np.ndarray else 1 / root


# --- signs ------------------------------------------------------------------------------------------------------


def abs_of_real(self):
    """The absolute value for the in-place variant, which cannot hold that of a complex number."""
    if self.dtype.kind == "c":
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return abs(self)


def abs(self):
    """The absolute value, real for complex inputs."""
    refuse("abs_cpu", self, "b")
    return np.absolute(self)


def sign(self):
    """-1, 0 or 1; 0 for NaN; bools as they are."""
    if self.dtype.kind == "c":
        raise NotImplementedError("Unlike NumPy, torch.sign is not intended to support complex numbers. Please use "
                                  "torch.sgn instead.")
    return sgn(self)


def sgn(self):
    """The sign; for complex numbers `self / abs(self)`, and 0 for 0."""
    kind = self.dtype.kind
    if kind == "c":
        size = np.absolute(self)
        return np.divide(self, np.where(size == 0, 1, size)).astype(self.dtype, copy=False)
    if kind == "b":
        return self.copy()
    found = np.sign(self)
    if kind in "fV":
        found = np.where(np.isnan(self), self.dtype.type(0), found)
    return found


def copysign(self, other):
    """The magnitude of `self` with the sign of `other`."""
    return np.copysign(self, other)


def copysign_scalar(self, other):
    """The magnitude of `self` with the sign of a number."""
    return np.copysign(self, self.dtype.type(other))


# --- rounding ---------------------------------------------------------------------------------------------------


def floor(self):
    """Down to an integer, in the same dtype."""
    return _rounded("floor_vml_cpu", np.floor, self)


def ceil(self):
    """Up to an integer, in the same dtype."""
    return _rounded("ceil_vml_cpu", np.ceil, self)


def trunc(self):
    """Towards zero to an integer, in the same dtype."""
    return _rounded("trunc_vml_cpu", np.trunc, self)


def round(self):
    """To the nearest integer, halves to the even one, in the same dtype."""
    return _rounded("round_vml_cpu", np.rint, self)


def _rounded(name, ufunc, array):
    refuse(name, array, "bc")
    return array.copy() if array.dtype.kind in "iu" else ufunc(array)


@widened
def round_decimals(self, decimals):
    """To a number of decimals, which may be negative."""
    refuse("round_cpu", self, "iubc")
    if decimals == 0:
        return np.rint(self)
    power = self.dtype.type(10.0 ** (decimals if decimals > 0 else -decimals))
    return np.rint(self * power) / power if decimals > 0 else np.rint(self / power) * power


def frac(self):
    """The part after the decimal point, with the sign of the number."""
    refuse("frac_cpu", self, "iubc")
    return np.subtract(self, np.trunc(self))


# --- bounds -----------------------------------------------------------------------------------------------------


def clamp(self, min=None, max=None):
    """Bounded by numbers or arrays, either of which may be None; the upper bound wins; NaN stays NaN.

    Raises:
        RuntimeError: without any bound.
    """
    if self.dtype.kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if min is None:
        return np.minimum(self, _bound(max, self))
    found = np.maximum(self, _bound(min, self))
    return found if max is None else np.minimum(found, _bound(max, self))


def clamp_min(self, min):
    """Bounded below by a number or an array."""
    return clamp(self, min, None)


def clamp_max(self, max):
    """Bounded above by a number or an array."""
    return clamp(self, None, max)


def _bound(value, array):
    return value if value.__class__ is np.ndarray else _as(value, array)


def compared(name, array):
    """The array, if its elements have an order. Raises RuntimeError for complex ones."""
    if array.dtype.kind == "c":
        raise RuntimeError(f"{name} not implemented for complex tensors.")
    return array


def ordered(name, array):
    """The array, if its elements have an order. Raises NotImplementedError for complex ones."""
    refuse(name, array, "c")
    return array


# --- choices and mixtures -----------------------------------------------------------------------------------------


def where(condition, self, other):
    """`self` where the condition holds, else `other`.

    Raises:
        RuntimeError: if the condition is not boolean.
    """
    if condition.dtype.kind != "b":
        if condition.dtype == np.uint8:
            condition = condition != 0
        else:
            from ..dtype import TYPE_OF, scalar_type_name
            raise RuntimeError("where expected condition to be a boolean tensor, but got a tensor with dtype "
                               f"{scalar_type_name(TYPE_OF[condition.dtype])}")
    return np.where(condition, self, other)


def where_nonzero(condition):
    """The indices of the elements that are not 0: an int64 array for each dimension, one for a 0-dim input."""
    return list(np.nonzero(np.atleast_1d(condition)))


def lerp(self, end, weight):
    """`self + weight * (end - self)`, from the nearer end, for an array or a number as weight.

    Raises:
        RuntimeError: for different dtypes.
    """
    from ..dtype import TYPE_OF
    if end.dtype is not self.dtype:
        raise RuntimeError(f"expected dtype {TYPE_OF[self.dtype]._alias} for `end` but got dtype "
                           f"{TYPE_OF[end.dtype]._alias}")
    refuse("lerp_kernel_scalar", self, "iub")
    if weight.__class__ is np.ndarray:
        if weight.dtype is not self.dtype:
            if weight.ndim:
                raise RuntimeError(f"expected dtype {TYPE_OF[self.dtype]._alias} for `weight` but got dtype "
                                   f"{TYPE_OF[weight.dtype]._alias}")
            weight = weight.astype(self.dtype)
        return _lerp(self, end, weight)
    if self.dtype.kind != "c" and weight.__class__ is complex:
        raise RuntimeError("value cannot be converted to type float without overflow")
    return _lerp(self, end, _as(weight, self) if self.dtype.itemsize != 2 else weight)


@widened
def _lerp(start, end, weight):
    step = end - start
    near = np.absolute(weight) < 0.5
    if near.ndim:
        return np.where(near, start + weight * step, end - step * (1 - weight))
    return start + weight * step if near else end - step * (1 - weight)


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
    product = np.multiply(self, np.log(other))
    return np.where((self == 0) & ~np.isnan(other), self.dtype.type(0), product)


def xlogy_of_scalar(self, other):
    """`xlogy` of a number and an array."""
    return xlogy(np.asarray(self, other.dtype), other)


def xlogy_by_scalar(self, other):
    """`xlogy` of an array and a number."""
    return xlogy(self, np.asarray(other, self.dtype))


def ldexp(self, other):
    """`self * 2 ** other`."""
    return np.multiply(self, np.exp2(other))


@widened
def logaddexp(self, other):
    """`log(exp(self) + exp(other))` without overflow."""
    if self.dtype.kind != "c":
        refuse("logaddexp_cpu", self, "iub")
        return np.logaddexp(self, other)
    swap = self.real < other.real
    high, low = np.where(swap, other, self), np.where(swap, self, other)
    return high + np.log1p(np.exp(low - high))


def logaddexp2(self, other):
    """`log2(2**self + 2**other)` without overflow."""
    refuse("logaddexp2_cpu", self, "iubc")
    return np.logaddexp2(self, other)


@widened
def deg2rad(self):
    """Degrees as radians."""
    refuse("deg2rad", self, "c")
    return self * self.dtype.type(np.pi / 180)


@widened
def rad2deg(self):
    """Radians as degrees."""
    refuse("rad2deg", self, "c")
    return self * self.dtype.type(180 / np.pi)


def frexp(self):
    """Mantissa in [0.5, 1) and int32 exponent, with `self = mantissa * 2**exponent`."""
    refuse("frexp", self, "iubc")
    if self.dtype.kind == "V":
        mantissa, exponent = np.frexp(self.astype(np.float32))
        return mantissa.astype(self.dtype), exponent.astype(np.int32)
    mantissa, exponent = np.frexp(self)
    return mantissa, np.asarray(exponent, np.int32)


# --- bits -------------------------------------------------------------------------------------------------------


def left_shift(self, other):
    """`self * 2**other`; 0 where all bits leave."""
    refuse("lshift_cpu", self, "bfVc")
    bits = 8 * self.dtype.itemsize
    lost = (other < 0) | (other >= bits)
    return np.where(lost, self.dtype.type(0), np.left_shift(self, np.where(lost, 0, other)))


def right_shift(self, other):
    """`self / 2**other` rounded down; 0 or -1 where all bits leave."""
    refuse("rshift_cpu", self, "bfVc")
    bits = 8 * self.dtype.itemsize
    lost = (other < 0) | (other >= bits)
    return np.right_shift(self, np.where(lost, bits - 1, other).astype(self.dtype)) if lost.any() else \
        np.right_shift(self, other)


def left_shift_of_scalar(self, other):
    """`left_shift` of a number."""
    return left_shift(like(self, other), other)


def right_shift_of_scalar(self, other):
    """`right_shift` of a number."""
    return right_shift(like(self, other), other)


def like(value, array):
    """A number as an array of the dtype of another."""
    return np.asarray(value, array.dtype)


# --- filling ----------------------------------------------------------------------------------------------------


def fill(self, value):
    """An array like `self` of one value, a number or a 0-dim array.

    Raises:
        RuntimeError: for an array with dimensions.
    """
    if value.__class__ is np.ndarray:
        if value.ndim:
            raise RuntimeError("fill_ only supports 0-dimension value tensor but got tensor with "
                               f"{value.ndim} dimensions.")
        if value.dtype.kind == "c" and self.dtype.kind != "c":
            raise RuntimeError("value cannot be converted to a real type without overflow")
    elif value.__class__ is complex and self.dtype.kind != "c":
        raise RuntimeError("value cannot be converted to a real type without overflow")
    return np.broadcast_to(np.asarray(value).astype(self.dtype), self.shape).copy()


def zero(self):
    """Zeros like `self`."""
    return np.zeros_like(self, subok=False)
