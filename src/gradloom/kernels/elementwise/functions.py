"""Functions of one or two numbers: signs, rounding, angles, bits, logarithms, filling."""

from __future__ import annotations

import numpy as np

from .._common.errors import not_implemented, refuse
from .._common.layout import as_operands, check_no_internal_overlap, new_like
from .._common.numbers import Wide, convertible, number_filling
from ..shape.copies import clone
from .dtypes import like, widened


def abs_of_real(self):
    """Return the absolute value for the in-place variant; refuse complex arrays, which cannot hold it."""
    if self.dtype.kind == "c":
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return abs(self)


def abs(self):
    """Return the absolute value, real for complex inputs."""
    refuse("abs_cpu", self, "b")
    return np.absolute(self)


def sign(self):
    """Return -1, 0 or 1; 0 for NaN; bools unchanged."""
    if self.dtype.kind == "c":
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
        )
    return sgn(self)


def sgn(self):
    """Return the sign; for complex numbers `self / abs(self)`, and 0 for 0."""
    kind = self.dtype.kind
    if kind == "c":
        size = np.absolute(self)
        size = np.where(size == 0, like(1, size), size)
        found = new_like(self)
        np.divide(self.real, size, out=found.real)
        np.divide(self.imag, size, out=found.imag)
        return found
    if kind == "b":
        return clone(self)
    if kind in "fV":  # 0 for NaN and for -0
        return np.subtract(np.greater(self, 0).view(np.int8), np.less(self, 0).view(np.int8)).astype(self.dtype)
    return np.sign(self)


def floor(self):
    """Round down to an integer, in the same dtype."""
    return _rounded("floor", np.floor, self)


def ceil(self):
    """Round up to an integer, in the same dtype."""
    return _rounded("ceil", np.ceil, self)


def trunc(self):
    """Round towards zero to an integer, in the same dtype."""
    return _rounded("trunc", np.trunc, self)


def round(self):
    """Round to the nearest integer, halves to the even one, in the same dtype."""
    return _rounded("round", np.rint, self)


def _rounded(name, ufunc, array):
    if array.dtype.kind == "c" and name != "round":
        raise NotImplementedError(f"{name} is not supported for complex inputs")
    refuse(f"{name}_vml_cpu", array, "bc")
    return clone(array) if array.dtype.kind in "iu" else ufunc(array)


@widened
def round_decimals(self, decimals):
    """Round to a number of decimals, which may be negative."""
    refuse("round_cpu", self, "iubc")
    if decimals == 0:
        return np.rint(self)
    count = decimals if decimals > 0 else -decimals
    power = self.dtype.type(10.0**count if count < 309 else np.inf)
    return np.rint(self * power) / power if decimals > 0 else np.rint(self / power) * power


def frac(self):
    """Return the fractional part, with the sign of the number."""
    refuse("frac_cpu", self, "iubc")
    return np.subtract(self, np.trunc(self))


def log1p(self):
    """`log(1 + self)`; complex numbers by parts, because NumPy's is inaccurate for small ones."""
    if self.dtype.kind != "c":
        return np.log1p(self)
    real, imag = self.real, self.imag
    found = new_like(self)
    exact = np.log1p(np.where(np.absolute(self) < 0.5, real * (2 + real) + imag * imag, np.nan)) / 2
    found.real = np.where(np.isnan(exact), np.log(np.hypot(1 + real, imag)), exact)
    found.imag = np.arctan2(imag, 1 + real)
    return found


def _refuse_complex(name, array):
    if array.dtype.kind == "c":
        raise NotImplementedError(f"{name} is not supported for complex tensors.")


@widened
def deg2rad(self):
    """Convert degrees to radians."""
    _refuse_complex("deg2rad", self)
    return self * self.dtype.type(np.pi / 180)


@widened
def rad2deg(self):
    """Convert radians to degrees."""
    _refuse_complex("rad2deg", self)
    return self * self.dtype.type(180 / np.pi)


def frexp(self):
    """Return the mantissa in [0.5, 1) and the int32 exponent, with `self = mantissa * 2**exponent`."""
    if self.dtype.kind not in "fV":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    if self.dtype.kind == "V":
        mantissa, exponent = np.frexp(self.astype(np.float32))
        return mantissa.astype(self.dtype), exponent.astype(np.int32)
    mantissa, exponent = np.frexp(self)
    return mantissa, np.asarray(exponent, np.int32)


def left_shift(self, other):
    """`self * 2**other`; 0 if all bits are shifted out."""
    refuse("lshift_cpu", self, "bfVc")
    bits = 8 * self.dtype.itemsize
    lost = (other < 0) | (other >= bits)
    return np.where(lost, self.dtype.type(0), np.left_shift(self, np.where(lost, 0, other)))


def right_shift(self, other):
    """`self / 2**other` rounded down; 0 or -1 if all bits are shifted out."""
    refuse("rshift_cpu", self, "bfVc")
    bits = 8 * self.dtype.itemsize
    lost = (other < 0) | (other >= bits)
    if self.dtype.kind == "u":
        return np.where(lost, self.dtype.type(0), np.right_shift(self, np.where(lost, 0, other).astype(self.dtype)))
    return (
        np.right_shift(self, np.where(lost, bits - 1, other).astype(self.dtype))
        if lost.any()
        else np.right_shift(self, other)
    )


def left_shift_of_scalar(self, other):
    """`left_shift` of a number."""
    return left_shift(like(self, other), other)


def right_shift_of_scalar(self, other):
    """`right_shift` of a number."""
    return right_shift(like(self, other), other)


def fill(self, value):
    """Return an array like `self` filled with one value, a number or a 0-dim array. Raises RuntimeError for an array
    with dimensions, or a complex value for a real dtype."""
    found = new_like(self)
    found[...] = _filling(self, value)
    return found


def fill_(self, value):
    """Fill the array with one value, a number or a 0-dim array."""
    if 0 in self.strides and value.__class__ is np.ndarray:
        check_no_internal_overlap(self)
    self[...] = _filling(self, value)


def _filling(array, value):
    if value.__class__ is np.ndarray:
        if value.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
            )
        return convertible(value, array.dtype).astype(array.dtype)
    if array.dtype.kind == "f" and value.__class__ is not complex and -65504 <= value <= 65504:
        return value  # fits every floating dtype
    return number_filling(value, array.dtype, array.size)


def zero_(self):
    """Fill the array with zeros."""
    self.fill(0)


def _refuse_number(name, value):
    if value.__class__ is complex:
        raise not_implemented(name, np.zeros(0, np.complex64))


def copysign(self, other):
    """Return the magnitude of `self` with the sign of `other`."""
    return np.copysign(self, other)


def copysign_scalar(self, other):
    """Return the magnitude of `self` with the sign of a number."""
    _refuse_number("copysign_cpu", other)
    return np.copysign(self, like(other, self))


def hypot(self, other):
    """Return the length of the hypotenuse."""
    refuse("hypot_cpu", self, "iubc")
    return np.hypot(self, other)


def nextafter(self, other):
    """Return the next floating-point number after `self` in the direction of `other`."""
    refuse("nextafter_cpu", self, "iubc")
    found = np.nextafter(self, other)
    return np.where(self == other, other, found) if self.dtype.char == "e" else found  # -0 after 0


def heaviside(self, values):
    """Return 0 for negative, 1 for positive numbers, and `values` for zeros."""
    if self.dtype.kind == "c" or values.dtype.kind == "c":
        raise NotImplementedError("heaviside is not yet implemented for complex tensors.")
    if self.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return np.where(self == 0, values, self > 0).astype(self.dtype)


def gcd(self, other):
    """Return the greatest common divisor of integers."""
    refuse("gcd_cpu", self, "bfVc")
    return np.gcd(self, other)


def lcm(self, other):
    """Return the least common multiple of integers."""
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
    return as_operands(np.multiply(self, np.exp2(other)), self, other)


@widened
def logaddexp(self, other):
    """`log(exp(self) + exp(other))` without overflow."""
    if self.dtype.kind != "c":
        refuse("logaddexp_cpu", self, "iub")
        return np.logaddexp(self, other)
    swap = self.real < other.real
    high, low = np.where(swap, other, self), np.where(swap, self, other)
    found = high + log1p(np.exp(low - high))
    same = np.isinf(low.real) & (low.real == high.real)
    if same.any():  # of e**inf the parts decide about the angle, of e**-inf there is none
        found = np.where(same, np.where(low.real < 0, low, np.log(np.exp(low) + np.exp(high))), found)
    nan = np.isnan(self) | np.isnan(other)
    return np.where(nan, found.dtype.type(complex(np.nan, np.nan)), found) if nan.any() else found


def logaddexp2(self, other):
    """`log2(2**self + 2**other)` without overflow."""
    refuse("logaddexp2_cpu", self, "iubc")
    return np.logaddexp2(self, other)
