"""Elementwise kernels that ask something of each number, or replace the numbers that are none."""

from __future__ import annotations

import numpy as np

from ..types.dtype import TYPE_OF, scalar_type_name
from ._copies import clone
from ._layout import as_operands, new_like


def isposinf(self):
    """Where the number is +inf."""
    return _is_infinite("isposinf", self, np.inf)


def isneginf(self):
    """Where the number is -inf."""
    return _is_infinite("isneginf", self, -np.inf)


def _is_infinite(name, array, value):
    kind = array.dtype.kind
    if kind == "c":
        raise RuntimeError(f"{name} does not support complex inputs.")
    return new_like(array, bool, make=np.zeros_like) if kind in "iub" else np.equal(array, array.dtype.type(value))


def isclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Where `abs(self - other) <= atol + rtol * abs(other)`, or both are equal, or NaN if `equal_nan`.

    Raises:
        RuntimeError: for different dtypes or negative tolerances.
    """
    if self.dtype is not other.dtype:
        raise RuntimeError(
            f"{scalar_type_name(TYPE_OF[self.dtype])} did not match {scalar_type_name(TYPE_OF[other.dtype])}"
        )
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
        self, other = self.astype(np.float64), other.astype(np.float64)
    elif self.dtype.itemsize == 2:
        self, other = self.astype(np.float32), other.astype(np.float32)
    error = np.absolute(self - other)
    return as_operands(close | (np.isfinite(error) & (error <= atol + np.absolute(rtol * other))), self, other)


def nan_to_num(self, nan=None, posinf=None, neginf=None):
    """NaN replaced by `nan` (0), infinities by `posinf` and `neginf` (the largest and smallest finite number)."""
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
