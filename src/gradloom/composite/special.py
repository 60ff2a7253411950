"""Special functions: their second names in the special namespace."""

from __future__ import annotations

from ..dispatch import _operators as ops


def _alias(name):
    def call(*args):
        return getattr(ops, name)(*args)

    call.__name__ = name
    return call


i0, gammainc, gammaincc = _alias("i0"), _alias("igamma"), _alias("igammac")
exp2, expm1, log1p, xlogy = _alias("exp2"), _alias("expm1"), _alias("log1p"), _alias("xlogy")
erf, erfc, erfinv = _alias("erf"), _alias("erfc"), _alias("erfinv")
expit, logit, sinc = _alias("sigmoid"), _alias("logit"), _alias("sinc")
psi, digamma, gammaln, polygamma = _alias("digamma"), _alias("digamma"), _alias("lgamma"), _alias("polygamma")
multigammaln = _alias("mvlgamma")


def round(self, decimals=0):
    """Round to the given number of decimals."""
    return ops.round(self, decimals=decimals) if decimals else ops.round(self)


def ndtr(self):
    """Return the distribution function of the standard normal distribution: (1 + erf(x / sqrt(2))) / 2. Raises
    RuntimeError for complex numbers."""
    return ops.mul_Scalar(ops.add_Scalar(ops.erf(ops.mul_Scalar(self, 0.7071067811865476)), 1, 1), 0.5)
