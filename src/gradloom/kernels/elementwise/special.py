"""Elementwise kernels of special functions, from SciPy where NumPy has none. Inputs are floating arrays."""

from __future__ import annotations

import numpy as np

from .._common.errors import refuse
from .._common.layout import row_major
from .._common.numbers import LARGE, floating, from_scipy, in_blocks, number_as, widen
from .._common.tables import number
from ..shape.copies import to_copy
from .choices import select
from .dtypes import shared, widened
from .erf import error_function


@widened
def erf(self):
    """Compute the error function."""
    self = _real("erf_vml_cpu", self)
    if self.dtype.char == "f" and self.size >= LARGE and type(self) is np.ndarray and self.flags.c_contiguous:
        return in_blocks(error_function, self)
    return shared(from_scipy("erf"), self) if self.size >= LARGE else error_function(self)


@widened
def erfc(self):
    """`1 - erf(self)`, accurate where that is small."""
    return shared(from_scipy("erfc"), _real("erfc_vml_cpu", self))


@widened
def erfinv(self):
    """Compute the inverse of erf; NaN outside [-1, 1]."""
    from scipy.special import erfinv

    found = shared(erfinv, _real("erfinv_vml_cpu", self))
    return np.where(self == 0, self, found)  # SciPy's of -0 is 0


@widened
def lgamma(self):
    """Return the logarithm of the absolute value of the gamma function."""
    from scipy.special import gammaln

    x = _real("lgamma_vml_cpu", self)
    found = shared(gammaln, x)
    infinite = np.isinf(found)
    if infinite.any():  # SciPy's is negative at -inf, and infinite at subnormal numbers, where it is -log(x)
        size = np.absolute(x)
        with np.errstate(divide="ignore"):
            found = np.where(infinite, np.where(size < 1, -np.log(size), np.inf), found)
    return found


@widened
def digamma(self):
    """Return the derivative of lgamma; at 0 and -0, infinity of the opposite sign."""
    from scipy.special import psi

    found = shared(psi, _real("digamma", self))
    zeros = self == 0
    return np.where(zeros, np.copysign(np.inf, -self), found).astype(self.dtype) if zeros.any() else found


@widened
def _polygamma(self, n):
    if n == 0:
        return digamma(self)
    from scipy.special import gamma

    self = _real("polygamma_cpu", self)
    if n == 1:
        return _trigamma(self)
    sign = 1.0 if n % 2 else -1.0
    return (sign * gamma(n + 1.0) * _hurwitz_zeta(n + 1, to_copy(self, np.dtype(np.float64)))).astype(self.dtype)


@np.errstate(all="ignore")
def _trigamma(x):
    """Sum `(k + x)**-2` over k >= 0, by reflection below 1/2; at integers up to 0 as large as rounding of pi
    makes it."""
    from scipy.special import zeta

    low = x < 0.5
    found = zeta(2.0, np.where(low, 1 - x, x)).astype(x.dtype)
    root = np.pi / np.sin(x.dtype.type(np.pi) * x)
    return np.where(low, root * root - found, found)


def polygamma(n, self):
    """Return the `n`-th derivative of digamma. Raises RuntimeError for negative `n`."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return _polygamma(self, n)


def polygamma_of(self, n):
    """`polygamma`, with the tensor first."""
    return polygamma(n, self)


@np.errstate(all="ignore")
def _hurwitz_zeta(s, q):
    """Sum `(k + q)**-s` over k >= 0 for an integer s > 1; inf at integers up to 0, NaN at inf. SciPy knows q > 0 only:
    of a negative q the terms below 0 are, up to the sign, those between 1 - f and 1 - q, where f = q - floor(q)."""
    from scipy.special import zeta

    low = q <= 0
    found = np.where(q == np.inf, np.nan, zeta(float(s), np.where(low, 1, q)))
    if low.any():
        f = q - np.floor(q)
        below = zeta(float(s), 1 - f) - zeta(float(s), 1 - q)
        of_low = np.where(f == 0, np.inf, zeta(float(s), f) + (-below if s % 2 else below))
        found = np.where(low, np.where(np.isinf(q), np.inf, of_low), found)
    return found


def mvlgamma(self, p):
    """Return the logarithm of the multivariate gamma function of dimension `p`. Raises RuntimeError unless p >= 1."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    from scipy.special import gammaln

    self = _real("mvlgamma", self)
    kind = self.dtype
    halves = np.arange(p).astype(kind) / kind.type(2)
    terms = gammaln(widen(self[..., None] - halves)).astype(kind)
    terms = np.where(np.isinf(terms), kind.type(np.inf), terms)
    total = np.add.reduce(widen(terms), -1).astype(kind)
    return row_major(np.asarray(total + kind.type(p * (p - 1) / 4 * np.log(np.pi)), dtype=kind))


def _real(name, array):
    refuse(name, array, "c")
    return array


@widened
def sinc(self):
    """`sin(pi x) / (pi x)`, 1 at 0."""
    scaled = self * self.dtype.type(np.pi)
    zeros = scaled == 0
    if zeros.any():
        scaled = np.where(zeros, self.dtype.type(1), scaled)
        return np.where(zeros, self.dtype.type(1), np.sin(scaled) / scaled)
    return np.sin(scaled) / scaled


@widened
def sigmoid(self):
    """`1 / (1 + exp(-self))`."""
    return _sigmoid_in_blocks(self) if self.size >= LARGE and self.dtype.kind == "f" else _sigmoid(self)


def _sigmoid(self):
    found = np.negative(self)
    if found.__class__ is not np.ndarray:
        found = np.asarray(found)
    np.exp(found, found)
    np.add(found, number(1, found.dtype), found)
    return np.reciprocal(found, found)


_sigmoid_in_blocks = floating("sigmoid_cpu")(_sigmoid)


def sigmoid_backward(grad_output, output):
    """`grad_output * conj((1 - output) * output)`; in float16 each step is rounded."""
    if output.dtype.char == "e" and grad_output.dtype.char == "e":
        return grad_output * (output.dtype.type(1) - output) * output
    return _sigmoid_backward(grad_output, output)


@widened
def _sigmoid_backward(grad_output, output):
    slope = number(1, output.dtype) - output
    slope *= output
    return np.multiply(grad_output, slope.conj() if slope.dtype.kind == "c" else slope)


@widened
def tanh_backward(grad_output, output):
    """`grad_output * conj(1 - output**2)`."""
    slope = 1 - output * output
    return np.multiply(grad_output, slope.conj() if slope.dtype.kind == "c" else slope)


def logit(self, eps=None):
    """`log(x / (1 - x))`, for x = `self` clamped to [eps, 1 - eps] if eps is given. Numbers below an eps above 0.5
    become eps; an eps that is NaN bounds nothing."""
    refuse("logit_cpu", self, "c")
    if eps is not None:
        low, high = number_as(eps, self.dtype), number_as(1 - eps, self.dtype)
        if low <= high:
            self = np.minimum(np.maximum(self, low), high)
        else:
            self = select(self < low, low, select(self > high, high, self))
    return np.log(self / (1 - self))


@widened
def logit_backward(grad_output, self, eps=None):
    """`grad_output / (x (1 - x))`; 0 outside [eps, 1 - eps], NaN outside [0, 1] without eps."""
    slope = np.where((self == 0) | (self == 1), grad_output * np.inf, grad_output / (self * (1 - self)))
    low = 0 if eps is None else eps
    outside = (self < self.dtype.type(low)) | (self > self.dtype.type(1 - low))
    return np.where(outside, self.dtype.type(np.nan if eps is None else 0), slope).astype(slope.dtype)
