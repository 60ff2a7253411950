"""Distributions by location and scale - normal, Laplace, Cauchy, Student's t, Gumbel - and what is made of them."""

from __future__ import annotations

import math
from typing import Any

import gradloom as gl
from gradloom import Tensor

from . import constraints
from ._bounded import Uniform
from ._combined import TransformedDistribution
from ._gamma import Chi2
from .distribution import EMPTY, ExponentialFamily, Parametric
from .transforms import AbsTransform, AffineTransform, ExpTransform, StickBreakingTransform
from .utils import _standard_normal, broadcast_all, euler_constant

__all__ = [
    "Cauchy",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "Normal",
    "StudentT",
]


class LocationScale(Parametric):
    """The distribution of loc + scale * z for a standard variable z, whose functions a subclass gives."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        loc, scale = broadcast_all(loc, scale)
        self._set(validate_args, loc=loc, scale=scale)

    def _log_density(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    def _below(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    def _quantile(self, u: Tensor) -> Tensor:
        raise NotImplementedError

    def _draw(self, sample_shape: Any) -> Tensor:
        raise NotImplementedError

    def _standard(self, value: Tensor) -> Tensor:
        self._check(value)
        return (value - self.loc) / self.scale

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    def rsample(self, sample_shape=EMPTY):
        return self.loc + self._draw(sample_shape) * self.scale

    def log_prob(self, value):
        return self._log_density(self._standard(value)) - self.scale.log()

    def cdf(self, value):
        return self._below(self._standard(value))

    def icdf(self, value):
        return self.loc + self.scale * self._quantile(value)


class Normal(LocationScale, ExponentialFamily):
    """The normal distribution.

    Args:
        loc: mean.
        scale: standard deviation.
        validate_args: see `Distribution`.
    """

    _mean_carrier_measure = 0

    @property
    def stddev(self):
        return self.scale

    @property
    def variance(self):
        return self.scale.pow(2)

    def sample(self, sample_shape=EMPTY):
        shape = self._extended_shape(sample_shape)
        with gl.no_grad():
            return gl.normal(self.loc.expand(shape), self.scale.expand(shape))

    def _draw(self, sample_shape):
        return _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)

    def _log_density(self, z):
        return -z.pow(2) / 2 - math.log(2 * math.pi) / 2

    def _below(self, z):
        return 0.5 * (1 + gl.erf(z / math.sqrt(2)))

    def _quantile(self, u):
        return gl.erfinv(2 * u - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + gl.log(self.scale)

    @property
    def _natural_params(self):
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * gl.log(-math.pi / y)


class Laplace(LocationScale):
    """The Laplace distribution: exponential on both sides.

    Args:
        loc: mean.
        scale: mean distance from it.
        validate_args: see `Distribution`.
    """

    @property
    def variance(self):
        return 2 * self.scale.pow(2)

    @property
    def stddev(self):
        return math.sqrt(2) * self.scale

    def _draw(self, sample_shape):
        shape = self._extended_shape(sample_shape)
        u = self.loc.new_empty(shape).uniform_(gl.finfo(self.loc.dtype).eps - 1, 1)
        return -u.sign() * gl.log1p(-u.abs())

    def _log_density(self, z):
        return -z.abs() - math.log(2)

    def _below(self, z):
        return 0.5 - 0.5 * z.sign() * gl.expm1(-z.abs())

    def _quantile(self, u):
        centred = u - 0.5
        return -centred.sign() * gl.log1p(-2 * centred.abs())

    def entropy(self):
        return 1 + math.log(2) + gl.log(self.scale)


class Cauchy(LocationScale):
    """The Cauchy distribution. It has no mean and no variance.

    Args:
        loc: mode and median.
        scale: half the width at half of the density.
        validate_args: see `Distribution`.
    """

    @property
    def mean(self):
        return gl.full(self._extended_shape(), gl.nan, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def variance(self):
        return gl.full(self._extended_shape(), gl.inf, dtype=self.loc.dtype, device=self.loc.device)

    def _draw(self, sample_shape):
        return self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()

    def _log_density(self, z):
        return -math.log(math.pi) - (z**2).log1p()

    def _below(self, z):
        return gl.atan(z) / math.pi + 0.5

    def _quantile(self, u):
        return gl.tan(math.pi * (u - 0.5))

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class StudentT(LocationScale):
    """Student's t distribution: a normal variable over the root of chi-squared / df.

    Args:
        df: degrees of freedom.
        loc, scale: location and scale.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        df, loc, scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(df)
        self._set(validate_args, df=df, loc=loc, scale=scale)

    def _fill(self, new, batch_shape):
        new._chi2 = self._chi2.expand(batch_shape)

    @property
    def mean(self):
        return gl.where(self.df > 1, self.loc, gl.nan)

    @property
    def variance(self):
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return gl.where(self.df > 2, finite, gl.where(self.df > 1, gl.inf, gl.nan).to(finite.dtype))

    def _draw(self, sample_shape):
        normal = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        return normal * gl.rsqrt(self._chi2.rsample(sample_shape) / self.df)

    def _log_beta(self) -> Tensor:
        """log B(1/2, df/2)."""
        return math.log(math.pi) / 2 + gl.lgamma(0.5 * self.df) - gl.lgamma(0.5 * (self.df + 1))

    def _log_density(self, z):
        return -0.5 * (self.df + 1) * gl.log1p(z**2 / self.df) - 0.5 * self.df.log() - self._log_beta()

    def entropy(self):
        slopes = gl.digamma(0.5 * (self.df + 1)) - gl.digamma(0.5 * self.df)
        return self.scale.log() + 0.5 * (self.df + 1) * slopes + 0.5 * self.df.log() + self._log_beta()


class Gumbel(TransformedDistribution):
    """The Gumbel distribution, of maxima: loc - scale log(-log u) for a uniform u.

    Args:
        loc, scale: location (the mode) and scale.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits, like = gl.finfo(self.loc.dtype), gl.ones_like(self.loc)
        base = Uniform(like * limits.tiny, like * (1 - limits.eps), validate_args=validate_args)
        log = ExpTransform().inv
        negative = AffineTransform(loc=0, scale=-gl.ones_like(self.scale))
        super().__init__(
            base, [log, negative, log, AffineTransform(loc=self.loc, scale=-self.scale)], validate_args=validate_args
        )

    @property
    def mean(self):
        return self.loc + self.scale * euler_constant

    @property
    def mode(self):
        return self.loc

    @property
    def stddev(self):
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self):
        return self.stddev.pow(2)

    def log_prob(self, value):
        self._check(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self):
        return self.scale.log() + (1 + euler_constant)


class LogNormal(TransformedDistribution):
    """exp(x) for a normal x.

    Args:
        loc, scale: mean and standard deviation of x.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self):
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self):
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self):
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self):
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """A point of the simplex of K, by breaking a stick with K - 1 normal variables.

    Args:
        loc, scale: (..., K - 1) mean and standard deviation.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Mean of the normal variables."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the normal variables."""
        return self.base_dist.base_dist.scale


class _Folded(TransformedDistribution):
    """|x| for a variable x that is symmetric about 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Any
    _base: type

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = self._base(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """Scale of x."""
        return self.base_dist.scale

    @property
    def mode(self):
        return gl.zeros_like(self.scale)

    def log_prob(self, value):
        self._check(value)
        return gl.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -gl.inf)

    def cdf(self, value):
        self._check(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Folded):
    """|x| for a normal x of mean 0.

    Args:
        scale: standard deviation of x.
        validate_args: see `Distribution`.
    """

    _base = Normal

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Folded):
    """|x| for a Cauchy variable x about 0.

    Args:
        scale: scale of x.
        validate_args: see `Distribution`.
    """

    _base = Cauchy

    @property
    def mean(self):
        return gl.full(self._extended_shape(), gl.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def variance(self):
        return self.base_dist.variance
