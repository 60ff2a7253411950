"""Elementwise kernels of arithmetic: sums, quotients, powers."""

from __future__ import annotations

import numpy as np

from .._common.errors import BOOL_DIFFERENCE, check_divisor, integer_quotient, refuse
from .._common.layout import as_operands, row_major
from .._common.numbers import Wide, check_whole, is_half, is_short_half, number_as, widen
from ..shape.copies import clone
from .dtypes import like, own, shared, to_float, widened, widened_for


def scaled(other, alpha, beside):
    """Return `alpha * other`, to be added to `beside`, if alpha's type may scale a tensor of that dtype."""
    kind = other.dtype.kind
    if alpha.__class__ is bool:
        if kind != "b":
            raise RuntimeError("Boolean alpha only supported for Boolean results.")
        return other & alpha
    if kind == "c":
        return other * number_as(alpha, other.dtype)
    if kind in "iub" and alpha.__class__ is not int:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if alpha.__class__ is complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if kind == "b":
        return other & number_as(alpha, other.dtype)
    if is_half(other.dtype) and not (is_short_half(other) and is_short_half(beside)):
        return Wide(other.astype(np.float32) * number_as(alpha, other.dtype).astype(np.float32), other.dtype)
    return other * number_as(alpha, other.dtype)


def subtract_scaled(self, other, alpha):
    """`self - alpha * other`; it is -alpha that must fit the dtype, as in PyTorch. Integers are negated in 64 bits."""
    if self.dtype.kind == other.dtype.kind == "b":
        return np.subtract(self, other)  # an error
    if alpha.__class__ is int:
        negated = (_SIGN - check_whole(alpha)) % (2 * _SIGN) - _SIGN
    else:
        negated = alpha if alpha.__class__ is bool else -alpha
    return np.add(self, scaled(other, negated, self))


_SIGN = 1 << 63


def add_scalar(self, other, alpha=1):
    """`self + alpha * other` for a number `other`."""
    self = widened_for(self, other)
    number = like(other, self)
    return np.add(self, number if alpha == 1 and alpha.__class__ is int else scaled(number, alpha, self))


def sub_scalar(self, other, alpha=1):
    """`self - alpha * other` for a number `other`."""
    _no_bools(self, other)
    self = widened_for(self, other)
    number = like(other, self)
    return np.subtract(self, number) if alpha == 1 and alpha.__class__ is int else subtract_scaled(self, number, alpha)


def rsub_scalar(self, other, alpha):
    """`other - alpha * self` for a number `other`."""
    _no_bools(self, other)
    self = widened_for(self, other)
    number = like(other, self)
    return np.subtract(number, self) if alpha == 1 and alpha.__class__ is int else subtract_scaled(number, self, alpha)


def _no_bools(self, other):
    if self.dtype.kind == "b" and other.__class__ is bool:
        raise NotImplementedError(BOOL_DIFFERENCE)
    if self.dtype.kind == "b" or other.__class__ is bool:
        raise NotImplementedError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )


@widened
def mul_scalar(self, other):
    """`self * other` for a number `other`."""
    return np.multiply(self, like(other, self))


@widened
def addcmul(self, tensor1, tensor2, value=1):
    """`self + value * tensor1 * tensor2`."""
    refuse("addcmul_cpu_out", self, "b")
    scaled = tensor1 if value == 1 else np.multiply(tensor1, number_as(value, self.dtype))
    product = np.multiply(scaled, tensor2, out=None if scaled is tensor1 else own(scaled, tensor2))
    return as_operands(np.add(self, product, out=own(product, self)), self, tensor1, tensor2)


@widened
def addcdiv(self, tensor1, tensor2, value=1):
    """`self + value * tensor1 / tensor2`; refuses integers."""
    if tensor1.dtype.kind in "iub":
        raise integer_quotient()
    if value != 1:
        tensor1 = tensor1 * number_as(value, self.dtype)
    quotient = np.true_divide(tensor1, tensor2)
    return as_operands(np.add(self, quotient, out=own(quotient, self)), self, tensor1, tensor2)


def div_mode(self, other, rounding_mode):
    """Divide and round: 'trunc' towards zero, 'floor' down, None not at all."""
    if rounding_mode is None:
        return np.true_divide(to_float(self), other if other.__class__ is Wide else to_float(other))
    if rounding_mode == "floor":
        return floor_divide(self, other)
    if rounding_mode == "trunc":
        return _div_trunc(self, other)
    raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")


def floor_divide(self, other):
    """Return the quotient rounded down, in the inputs' dtype; for half precision see `_by_one_half`."""
    refuse("div_floor_cpu", self, "bc")
    if is_half(self.dtype):
        return _by_one_half(np.floor_divide, self, other) if not other.ndim else _floor_divide_halves(self, other)
    check_divisor(other, self)
    return np.floor_divide(self, other)


def _by_one_half(divide, self, other):
    """Divide arrays of half precision by a number in float32; only the result is rounded."""
    divisor = other.value if other.__class__ is Wide else widen(other)
    return np.asarray(divide(widen(self), divisor)).astype(self.dtype)


def _floor_divide_halves(self, other):
    """Compute `floor_divide` of arrays of half precision, each step rounded to it."""
    rest = np.fmod(self, other)
    quotient = (self - rest) / other
    zero = self.dtype.type(0)
    quotient = np.where((rest != zero) & ((other < zero) != (rest < zero)), quotient - self.dtype.type(1), quotient)
    down = np.floor(quotient)
    down = np.where(quotient - down > self.dtype.type(0.5), down + self.dtype.type(1), down)
    plain = self / other
    return np.where(other == zero, plain, np.where(quotient == zero, np.copysign(zero, plain), down))


def floor_divide_scalar(self, other):
    """Return the quotient by a number, rounded down."""
    return floor_divide(self, like(other, self))


def div_scalar(self, other):
    """Divide by a number."""
    self = to_float(self)
    return np.true_divide(self, _divisor(other, self))


def div_scalar_mode(self, other, rounding_mode):
    """Divide by a number and round."""
    return div_mode(self, _divisor(other, self), rounding_mode)


def _divisor(number, array):
    return Wide(np.array(number), array.dtype) if is_half(array.dtype) else like(number, array)


def _div_trunc(self, other):
    refuse("div_trunc_cpu", self, "bc")
    if self.dtype.kind not in "iu":
        if is_half(self.dtype) and not other.ndim:
            return _by_one_half(lambda x, y: np.trunc(x / y), self, other)
        return np.trunc(np.true_divide(self, other))
    check_divisor(other, self)
    quotient = np.floor_divide(self, other)
    if self.dtype.kind == "i":  # truncation rounds a negative inexact quotient up by one
        quotient = quotient + ((quotient < 0) & (quotient * other != self)).astype(quotient.dtype)
    return quotient


def remainder(self, other):
    """Return the remainder of a division that rounds down: it has the sign of `other`."""
    refuse("remainder_cpu", self, "bc")
    check_divisor(other, self)
    return _with_zeros_like(shared(np.remainder, self, other), self)


def modulo(self, other, out=None):
    """`remainder` without checks, as a ufunc; for the compiler."""
    found = _with_zeros_like(np.remainder(self, other), self)
    if out is None:
        return found
    out[...] = found
    return out


def _with_zeros_like(found, dividend):
    """Give zeros among remainders the sign of the dividend; NumPy gives them that of the divisor."""
    if found.dtype.kind in "fV":
        zeros = found == 0
        if zeros.any():
            return np.where(zeros, np.copysign(found, dividend), found)
    return found


def fmod(self, other):
    """Return the remainder of a division that rounds towards zero: it has the sign of `self`."""
    refuse("fmod_cpu", self, "bc")
    check_divisor(other, self)
    return shared(np.fmod, self, other)


def remainder_scalar(self, other):
    """`remainder` by a number."""
    return remainder(self, like(other, self))


def fmod_scalar(self, other):
    """`fmod` by a number."""
    return fmod(self, like(other, self))


def remainder_of_scalar(self, other):
    """Return the remainder of a number by an array."""
    return remainder(like(self, other), other)


def pow(self, exponent):
    """`self ** exponent`; integers to negative powers are 0 unless the base is 1 or -1."""
    refuse("pow", self, "b")
    if self.dtype.kind == "i":
        negative = exponent < 0
        if negative.any():
            return _integer_power(self, exponent, negative)
    return _complex_power(self, exponent) if self.dtype.kind == "c" else np.power(self, exponent)


@np.errstate(all="ignore")
def _complex_power(base, exponent):
    """`exp(exponent * log(base))`, NaN for 0 to the power 0."""
    found = np.asarray(np.multiply(exponent, np.log(base)))
    return np.exp(found, out=found)


def _integer_power(base, exponent, negative):
    found = np.power(base, np.where(negative, 0, exponent))
    inverse = np.where(base == 1, 1, np.where(base == -1, np.where(exponent & 1, -1, 1), 0))
    return np.where(negative, inverse, found).astype(found.dtype)


def pow_scalar(self, exponent):
    """`self ** exponent` for a number, with the common exponents as products, roots and quotients."""
    kind = self.dtype.kind
    if kind in "iu":
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        number_as(exponent, self.dtype)  # raises if it does not fit the dtype
    if kind == "b":
        return np.logical_or(self, not exponent)
    if exponent == 2:
        return np.multiply(self, self)
    if exponent == 1:
        return clone(self)
    if exponent == 3:
        return _cube(self)
    if kind not in "iub":
        if exponent == 0.5:
            return np.sqrt(self)
        if exponent == -1:
            return reciprocal(self)
        if exponent == -2:
            return _inverse_square(self)
        if exponent == -0.5:
            return rsqrt(self)
        if kind == "c" and exponent != 0:
            return _complex_power(self, like(exponent, self))
    return np.power(self, like(exponent, self))


def reciprocal(self):
    """`1 / self`; of a complex zero an infinity and NaN. NumPy's complex reciprocal has other signs of zeros."""
    return np.reciprocal(self) if self.dtype.kind != "c" else np.divide(self.dtype.type(1), self)


def _inverse_square(self):
    if self.dtype.char == "e":  # bfloat16 rounds the square
        wide = self.astype(np.float32)
        return as_operands(np.reciprocal(wide * wide).astype(self.dtype), self)
    return np.reciprocal(np.multiply(self, self))


def _cube(self):
    if self.dtype.char == "e":  # bfloat16 rounds each product
        wide = self.astype(np.float32)
        return as_operands((wide * wide * wide).astype(self.dtype), self)
    return np.multiply(np.multiply(self, self), self)


def pow_of_scalar(self, exponent):
    """Raise a number to the powers in an array."""
    refuse("pow", exponent, "b")
    if self == 1:
        return np.ones(exponent.shape, exponent.dtype)
    return row_major(pow(like(self, exponent), exponent))


def rsqrt(self):
    """`1 / sqrt(self)`, each step rounded; in half precision only for short arrays."""
    return _rsqrt(self) if is_short_half(self) else _rsqrt_once(self)


def _rsqrt(self):
    root = np.sqrt(self)
    one = root.dtype.type(1)
    return np.divide(one, root, out=root) if root.__class__ is np.ndarray else one / root


_rsqrt_once = widened(_rsqrt)
