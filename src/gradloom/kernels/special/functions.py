"""Kernels of special functions, from SciPy. Inputs are real floating arrays of one dtype."""

from __future__ import annotations

import numpy as np

from .._common.errors import not_implemented, refuse
from ..elementwise.dtypes import like, shared, widened


def _of_scipy(name: str, *scipy_names: str):
    """Make a kernel of a SciPy ufunc, or of the first of several applied to the others' results; widen halves."""

    @widened
    def kernel(self, *others):
        import scipy.special

        refuse(name, self, "c")
        for scipy_name in scipy_names:
            self = shared(getattr(scipy.special, scipy_name), self, *others)
        return self

    kernel.__name__ = name
    kernel.__doc__ = f"SciPy's {scipy_names[0]}."
    return kernel


i0, i0e, i1, i1e = (_of_scipy(name, name) for name in ("i0", "i0e", "i1", "i1e"))
erfcx, ndtri, log_ndtr = (_of_scipy(name, name) for name in ("erfcx", "ndtri", "log_ndtr"))
igamma, igammac = _of_scipy("igamma", "gammainc"), _of_scipy("igammac", "gammaincc")
bessel_j0, bessel_j1 = _of_scipy("bessel_j0", "j0"), _of_scipy("bessel_j1", "j1")
bessel_y0, bessel_y1 = _of_scipy("bessel_y0", "y0"), _of_scipy("bessel_y1", "y1")
modified_bessel_k0, modified_bessel_k1 = _of_scipy("modified_bessel_k0", "k0"), _of_scipy("modified_bessel_k1", "k1")
scaled_modified_bessel_k0 = _of_scipy("scaled_modified_bessel_k0", "k0e")
scaled_modified_bessel_k1 = _of_scipy("scaled_modified_bessel_k1", "k1e")


@widened
def airy_ai(x):
    """Compute the Airy function Ai."""
    from scipy.special import airy

    return np.asarray(np.where((x > 1e6) & np.isfinite(x), 0.0, airy(x)[0]), x.dtype)  # where SciPy gives up


@widened
def spherical_bessel_j0(x):
    """`sin(x) / x`, 1 at 0 and 0 at infinity."""
    safe = np.where((x == 0) | np.isinf(x), like(1, x), x)
    return np.where(x == 0, like(1, x), np.where(np.isinf(x), like(0, x), np.sin(safe) / safe))


def entr(self):
    """`-x log(x)`, 0 at 0 and -inf below."""
    refuse("entr_cpu", self, "c")
    found = np.where(self > 0, -self * np.log(self), like(-np.inf, self))
    found = np.where(self == 0, like(0, self), found)
    return np.where(np.isnan(self), self, found)


@widened
def ndtr(self):
    """Compute the distribution function of the standard normal distribution."""
    from scipy.special import ndtr

    return shared(ndtr, self)


@widened
def xlog1py(self, other):
    """`self * log1p(other)`; 0 where `self` is 0, unless `other` is NaN."""
    refuse("xlog1py_cpu", self, "c")
    return np.where((self == 0) & ~np.isnan(other), like(0, self), np.multiply(self, np.log1p(other)))


def xlog1py_of_scalar(self, other):
    """`xlog1py` of a number and an array."""
    return xlog1py(_number("xlog1py_cpu", self, other), other)


def xlog1py_by_scalar(self, other):
    """`xlog1py` of an array and a number."""
    return xlog1py(self, _number("xlog1py_cpu", other, self))


@widened
def zeta(self, other):
    """Compute the Hurwitz zeta function, the sum of `(k + other)**-self` over k >= 0."""
    from scipy.special import zeta

    refuse("zeta", self, "c")
    found = np.where(np.isposinf(self) & (other > 1), 0, zeta(self, other))  # SciPy's is NaN, and infinite of NaN
    return np.asarray(np.where(np.isnan(self) | np.isnan(other), np.nan, found), self.dtype)


def zeta_of_scalar(self, other):
    """`zeta` of a number and an array."""
    return zeta(_number("zeta", self, other), other)


def zeta_by_scalar(self, other):
    """`zeta` of an array and a number."""
    return zeta(self, _number("zeta", other, self))


def _number(name, value, array):
    if value.__class__ is complex:
        raise not_implemented(name, np.zeros(0, np.complex64))
    return like(value, array)
