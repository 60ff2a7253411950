"""Selection, bounds, interpolation and tests of elements.

Note [Branches]
`np.where` branches, and `np.maximum` with a number works on one element at a time. With an irregular mask either takes
five to twenty times as long as a vector loop. Integer arithmetic on the bits replaces the branch, exactly for
infinities and NaNs, too; a row of equal numbers replaces the number.
"""

from __future__ import annotations

import numpy as np

from ...types.dtype import c_name
from ...types.silence import warn_user
from .._common import direct
from .._common.errors import refuse, type_name
from .._common.layout import as_operands, as_type, new_like
from .._common.numbers import is_half, limits, number_as, real_number, widen
from .._common.tables import number
from ..shape.copies import clone
from .dtypes import like, own, widened

_FEW = 4096  # elements, below which one NumPy call is better than three
_clip = np._core.umath.clip  # of two bounds; the array's method is slower by a call of Python
_ROW = 512  # elements: a row that stays in the first-level cache


def keep_where(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """`values` where `mask` holds, 0 elsewhere, also in place of infinities and NaNs; shapes broadcast."""
    width = values.dtype.itemsize
    if width > 8:
        return np.where(mask, values, values.dtype.type(0))
    bits = values.view(_BITS[width])
    return np.multiply(bits, mask, dtype=bits.dtype).view(values.dtype)


def select(mask: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a` where `mask` holds, `b` elsewhere, for arrays of one dtype; shapes broadcast."""
    if mask.size < _FEW or a.dtype.itemsize > 8:
        return direct.where(mask, a, b)
    bits = _BITS[a.dtype.itemsize]
    kept = b.view(bits)
    found = np.subtract(a.view(bits), kept)  # overflow wraps around here and is undone below
    found = np.multiply(found, mask, dtype=bits)
    found += kept
    return found.view(a.dtype)


def bounded(
    ufunc: np.ufunc, self: np.ndarray, bound: np.generic | np.ndarray, out: np.ndarray | None = None
) -> np.ndarray:
    """`ufunc(self, bound)` for np.maximum or np.minimum and a number of self's dtype; of two zeros, that of `self`.
    `out` is None, or an array of self's shape and strides, which may be `self`."""
    if self.dtype.char == "e":  # of two zeros NumPy returns the first in float16, the second in other types
        return ufunc(self, bound) if out is None else ufunc(self, bound, out=out)
    if self.size < _FEW or not self.flags.forc:
        return ufunc(bound, self) if out is None else ufunc(bound, self, out=out)
    if out is None:
        out = np.empty_like(self)
    source, target = self.ravel("K"), out.ravel("K")  # contiguous: no copies
    rows = source.size // _ROW * _ROW
    ufunc(np.full(_ROW, bound), source[:rows].reshape(-1, _ROW), out=target[:rows].reshape(-1, _ROW))
    if rows < source.size:
        ufunc(bound, source[rows:], out=target[rows:])
    return out


_BITS = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def clamp(self, min=None, max=None):
    """Bound by numbers or arrays, either of which may be None; the upper bound has precedence; NaN stays NaN."""
    kind = self.dtype.kind
    if kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    if kind == "b":
        bounds = [bound for bound in (min, max) if bound is not None]
        if len(bounds) != 1 or bounds[0].__class__ is not np.ndarray:
            refuse("clamp_cpu", self, "b")
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    low, high = clamp_bound("min", min, self), clamp_bound("max", max, self)
    if kind == "f":  # one pass for either bound or both, several times as fast as maximum with a number
        low = number(-np.inf, self.dtype) if low is None else low
        found = _clip(self, low, number(np.inf, self.dtype) if high is None else high)
    else:
        found = self if low is None else np.maximum(self, low)
        found = found if high is None else np.minimum(found, high)
    if self.flags.c_contiguous:
        return found
    return as_operands(found, self, *[bound for bound in (min, max) if bound.__class__ is np.ndarray])


def clamp_min(self, min):
    """Bound below by a number or an array."""
    return np.maximum(self, min) if min.__class__ is np.ndarray and self.dtype.kind == "b" else clamp(self, min, None)


def clamp_max(self, max):
    """Bound above by a number or an array."""
    return np.minimum(self, max) if max.__class__ is np.ndarray and self.dtype.kind == "b" else clamp(self, None, max)


def clamp_bound(side, value, array):
    """Convert a bound, `side` "min" or "max", to an array's dtype; that of integers may lie outside of the dtype's
    range on its own side. Raises RuntimeError on the other side."""
    if value.__class__ is int and array.dtype.kind in "iu" and -(2**63) <= value < 2**64:
        least, most = limits(array.dtype)
        if value > most if side == "min" else value < least:
            raise RuntimeError(
                f"Clamp {side} value {value:g} is outside the representable range of {type_name(array.dtype)}"
            )
        value = max(least, min(value, most))
    return value if value is None or value.__class__ is np.ndarray else number_as(value, array.dtype)


def compared(name, array):
    """Return the array; raise RuntimeError for complex ones, which have no order."""
    if array.dtype.kind == "c":
        raise TypeError(f"{name} not implemented for complex tensors.")
    return array


def ordered(name, array):
    """Return the array; raise NotImplementedError for complex ones, which have no order."""
    refuse(name, array, "c")
    return array


def where(condition, self, other):
    """`self` where the condition holds, else `other`. Raises RuntimeError if the condition is not boolean."""
    if condition.dtype.kind != "b":
        if condition.dtype == np.uint8:
            warn_user(
                "where received a uint8 condition tensor. This behavior is deprecated: use a boolean one, "
                "condition.bool()."
            )
            condition = condition != 0
        else:
            raise RuntimeError(
                "where expected condition to be a boolean tensor, but got a tensor with dtype "
                f"{type_name(condition.dtype)}"
            )
    found = select(condition, self, other) if self.dtype is other.dtype else direct.where(condition, self, other)
    return as_operands(found, condition, self, other)


def lerp(self, end, weight):
    """`self + weight * (end - self)`, from the nearer end."""
    _check_lerp(self, end)
    if weight.dtype is not self.dtype:
        if weight.ndim:
            raise RuntimeError(f"expected dtype {c_name(self.dtype)} for `weight` but got dtype {c_name(weight.dtype)}")
        weight = weight.astype(self.dtype)
    return as_operands(_lerp(self, end, weight), self, end, weight)


def lerp_by_number(self, end, weight):
    """`self + weight * (end - self)` for a number, from the nearer end."""
    _check_lerp(self, end)
    number_as(weight, np.dtype(np.float32) if is_half(self.dtype) else self.dtype)  # raises if it does not fit
    weight = weight if self.dtype.kind == "c" else real_number(weight, self.dtype)
    return as_operands(_lerp(self, end, weight), self, end)


def _check_lerp(self, end) -> None:
    if end.dtype is not self.dtype:
        raise RuntimeError(f"expected dtype {c_name(self.dtype)} for `end` but got dtype {c_name(end.dtype)}")
    if self.dtype.kind in "iub":
        np.broadcast(self, end)  # shapes that do not match come first
        refuse("lerp_kernel_scalar", self, "iub")


@widened
def _lerp(start, end, weight):
    step = end - start
    near = abs(weight) < 0.5
    if near is True or near is False:
        scaled = np.multiply(step, like(weight if near else weight - 1.0, step), out=own(step))
        return np.add(start if near else end, scaled, out=own(scaled, start, end))
    return np.where(near, start + weight * step, end - step * (1 - weight))


def isposinf(self):
    """Return where the number is +inf."""
    return _is_infinite("isposinf", self, np.inf)


def isneginf(self):
    """Return where the number is -inf."""
    return _is_infinite("isneginf", self, -np.inf)


def _is_infinite(name, array, value):
    kind = array.dtype.kind
    if kind == "c":
        raise TypeError(f"{name} does not support complex inputs.")
    return new_like(array, bool, make=np.zeros_like) if kind in "iub" else np.equal(array, array.dtype.type(value))


def isclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Return where `abs(self - other) <= atol + rtol * abs(other)`, or both are equal, or NaN if `equal_nan`."""
    if self.dtype is not other.dtype:
        raise RuntimeError(f"{type_name(self.dtype)} did not match {type_name(other.dtype)}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")
    close = np.equal(self, other)
    kind = self.dtype.kind
    if equal_nan and kind in "fcV":
        close = close | (np.isnan(self) & np.isnan(other))
    if rtol == 0 and atol == 0:
        return as_operands(close, self, other)
    if kind in "iub":
        one, two = as_type(self, np.float64), as_type(other, np.float64)
    else:
        one, two = widen(self), widen(other)
    error = np.absolute(one - two)
    return as_operands(close | (np.isfinite(error) & (error <= atol + np.absolute(rtol * two))), self, other)


def nan_to_num(self, nan=None, posinf=None, neginf=None):
    """Replace NaN by `nan` (0), infinities by `posinf` and `neginf` (the largest and smallest finite number)."""
    kind = self.dtype.kind
    if kind in "iub":
        return clone(self)
    if kind == "c":
        found = new_like(self)
        found.real = nan_to_num(self.real, nan, posinf, neginf)
        found.imag = nan_to_num(self.imag, nan, posinf, neginf)
        return found
    if np.isfinite(self).all():
        return clone(self)
    limits = _limits(self.dtype)
    make = self.dtype.type
    found = np.where(np.isnan(self), make(0 if nan is None else nan), self)
    found = np.where(self == make(np.inf), make(limits.max if posinf is None else posinf), found)
    return np.where(self == make(-np.inf), make(limits.min if neginf is None else neginf), found)


def _limits(dtype):
    if dtype.kind == "V":
        import ml_dtypes

        return ml_dtypes.finfo(dtype)
    return np.finfo(dtype)
