"""Elementwise operators in terms of others: aliases, and predicates of a whole tensor."""

from __future__ import annotations

import numpy as np

from ..dispatch import _operators as ops
from ..dispatch.promotion import result_type
from ..types.dtype import COMPLEX, FLOATING, complex128, float64, scalar_type_name


def _alias(name):
    def call(*args):
        return getattr(ops, name)(*args)

    call.__name__ = name
    return call


absolute, absolute_ = _alias("abs"), _alias("abs_")
arcsin, arcsin_ = _alias("asin"), _alias("asin_")
arccos, arccos_ = _alias("acos"), _alias("acos_")
arctan, arctan_ = _alias("atan"), _alias("atan_")
arcsinh, arcsinh_ = _alias("asinh"), _alias("asinh_")
arccosh, arccosh_ = _alias("acosh"), _alias("acosh_")
arctanh, arctanh_ = _alias("atanh"), _alias("atanh_")
arctan2, arctan2_ = _alias("atan2"), _alias("atan2_")
negative, negative_ = _alias("neg"), _alias("neg_")
fix, fix_ = _alias("trunc"), _alias("trunc_")
clip, clip_ = _alias("clamp"), _alias("clamp_")
multiply, multiply_ = _alias("mul"), _alias("mul_")
multiply_scalar, multiply_scalar_ = _alias("mul_Scalar"), _alias("mul__Scalar")
subtract_scalar, subtract_scalar_ = _alias("sub_Scalar"), _alias("sub__Scalar")
divide, divide_ = _alias("div"), _alias("div_")
divide_scalar, divide_scalar_ = _alias("div_Scalar"), _alias("div__Scalar")
divide_scalar_mode, divide_scalar_mode_ = _alias("div_Scalar_mode"), _alias("div__Scalar_mode")
where_with_numbers = _alias("where")
true_divide, true_divide_ = _alias("div"), _alias("div_")
not_equal, not_equal_ = _alias("ne"), _alias("ne_")
less, less_ = _alias("lt"), _alias("lt_")
less_equal, less_equal_ = _alias("le"), _alias("le_")
greater, greater_ = _alias("gt"), _alias("gt_")
greater_equal, greater_equal_ = _alias("ge"), _alias("ge_")
max_other, min_other = _alias("maximum"), _alias("minimum")


def subtract(self, other, alpha):
    """`self - alpha * other`."""
    return ops.sub(self, other, alpha=alpha)


def subtract_(self, other, alpha):
    """`self - alpha * other` in place."""
    return ops.sub_(self, other, alpha=alpha)


def divide_mode(self, other, rounding_mode):
    """`self / other`, rounded by `rounding_mode`."""
    return ops.div(self, other, rounding_mode=rounding_mode)


def divide_mode_(self, other, rounding_mode):
    """`self / other`, rounded by `rounding_mode`, in place."""
    return ops.div_(self, other, rounding_mode=rounding_mode)


def positive(self):
    """Return the tensor itself. Raises RuntimeError for bools."""
    if self._array.dtype.kind == "b":
        raise NotImplementedError("The `+` operator, on a bool tensor is not supported.")
    return self


def square(self):
    """`self ** 2`."""
    return ops.pow_Tensor_Scalar(self, 2)


def square_(self):
    """`self ** 2`, in place."""
    return ops.pow_(self, 2)


def float_power(self, exponent):
    """`self ** exponent` in double precision."""
    wide, exponent = _double(self, exponent), _double(exponent, self)
    return ops.pow(wide, exponent)


def float_power_of_scalar(self, exponent):
    """Raise a number to the powers in a tensor, in double precision."""
    return ops.pow(self, _double(exponent, self))


def float_power_(self, exponent):
    """`self ** exponent` in place, for a tensor of double precision. Raises RuntimeError for another dtype."""
    wanted = _double_type(self, exponent)
    if self.dtype is not wanted:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {_name(self.dtype)} but the operation's result "
            f"requires dtype {_name(wanted)}"
        )
    return ops.pow_(self, _double(exponent, self))


def _double_type(first, second):
    return complex128 if result_type(first, second).category == COMPLEX else float64


def _double(value, other):
    return value.to(_double_type(value, other)) if isinstance(value, ops.Tensor) else value


def _name(dtype):
    return scalar_type_name(dtype)


def allclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Return whether all elements are close in the sense of `isclose`."""
    return bool(ops.all(ops.isclose(self, other, rtol, atol, equal_nan)))


def equal(self, other):
    """Return whether both tensors have the same shape and equal elements."""
    first, second = self._array, other._array
    return first.shape == second.shape and bool(np.equal(first, second).all())


def is_nonzero(self):
    """Return whether the single element is not 0. Raises RuntimeError unless there is one element."""
    if self._array.size != 1:
        what = "no values" if not self._array.size else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(self._array.item())


def is_same_size(self, other):
    """Return whether the shapes are equal."""
    return self._array.shape == other._array.shape


def is_floating_point(self):
    """Return whether the dtype is a real floating one."""
    return self.dtype.category == FLOATING


def is_complex(self):
    """Return whether the dtype is complex."""
    return self.dtype.category == COMPLEX


def is_signed(self):
    """Return whether the dtype has negative numbers."""
    return self.dtype.is_signed


def is_conj(self):
    """Return whether a conjugation is pending."""
    return self.is_conj()


def is_neg(self):
    """Return whether a negation is pending."""
    return self.is_neg()
