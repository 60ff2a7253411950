"""The gamma family: gamma, exponential, chi-squared, beta, Dirichlet, inverse gamma, and the ratio of chi-squareds."""

from __future__ import annotations

from typing import Any

import gradloom as gl
from gradloom import Tensor

from . import constraints
from ._combined import TransformedDistribution
from .distribution import EMPTY, Distribution, ExponentialFamily, Parametric
from .transforms import PowerTransform
from .utils import broadcast_all

__all__ = ["Beta", "Chi2", "Dirichlet", "Exponential", "FisherSnedecor", "Gamma", "InverseGamma"]


def _at_least_tiny(value: Tensor) -> Tensor:
    """Keep drawn values away from 0, without touching their gradient."""
    value.detach().clamp_(min=gl.finfo(value.dtype).tiny)
    return value


class Gamma(Parametric, ExponentialFamily):
    """The gamma distribution.

    Args:
        concentration: shape parameter.
        rate: inverse scale.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        concentration, rate = broadcast_all(concentration, rate)
        self._set(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def mode(self):
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self):
        return self.concentration / self.rate.pow(2)

    def sample(self, sample_shape=EMPTY, *, generator=None):
        with gl.no_grad():
            return self.rsample(sample_shape, generator)

    def rsample(self, sample_shape=EMPTY, generator=None):
        shape = self._extended_shape(sample_shape)
        drawn = gl._standard_gamma(self.concentration.expand(shape), generator=generator)
        return _at_least_tiny(drawn / self.rate.expand(shape))

    def log_prob(self, value):
        value = gl.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._check(value)
        shape = self.concentration
        powers = gl.xlogy(shape, self.rate) + gl.xlogy(shape - 1, value)
        return powers - self.rate * value - gl.lgamma(shape)

    def cdf(self, value):
        self._check(value)
        return gl.special.gammainc(self.concentration, self.rate * value)

    def entropy(self):
        shape = self.concentration
        return shape - gl.log(self.rate) + gl.lgamma(shape) + (1.0 - shape) * gl.digamma(shape)

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return gl.lgamma(x + 1) + (x + 1) * gl.log(-y.reciprocal())


class Chi2(Gamma):
    """The sum of `df` squares of standard normal variables.

    Args:
        df: degrees of freedom, also fractional.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def _fill(self, new, batch_shape):
        new.concentration, new.rate = self.concentration.expand(batch_shape), self.rate.expand(batch_shape)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class Exponential(Parametric, ExponentialFamily):
    """The exponential distribution.

    Args:
        rate: inverse mean.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (rate,) = broadcast_all(rate)
        self._set(validate_args, rate=rate)

    @property
    def mean(self):
        return self.rate.reciprocal()

    @property
    def mode(self):
        return gl.zeros_like(self.rate)

    @property
    def stddev(self):
        return self.rate.reciprocal()

    @property
    def variance(self):
        return self.rate.pow(-2)

    def rsample(self, sample_shape=EMPTY):
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value):
        self._check(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        self._check(value)
        return 1 - gl.exp(-self.rate * value)

    def icdf(self, value):
        return -gl.log1p(-value) / self.rate

    def entropy(self):
        return 1.0 - gl.log(self.rate)

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -gl.log(-x)


class _DrawDirichlet(gl.autograd.Function):
    """Draws of a Dirichlet distribution, differentiable with respect to its concentrations.

    x_i is a beta variable of concentrations (c_i, rest); if it moves, the others shrink or grow in proportion
    (Jankowiak and Obermeyer 2018).
    """

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        x = gl._sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @gl.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        x, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        return gl._dirichlet_grad(x, concentration, total) * (grad - (x * grad).sum(-1, True))


class Dirichlet(Parametric, ExponentialFamily):
    """A point of the simplex.

    Args:
        concentration: (..., K).
        validate_args: see `Distribution`.

    Raises:
        ValueError: for a number.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        Distribution.__init__(self, concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self):
        excess = (self.concentration - 1).clamp(min=0.0)
        corner = gl.zeros_like(excess)
        corner[..., 0] = 1  # the density is infinite at every corner; as in PyTorch, take the first
        at_corner = (self.concentration < 1).all(-1, keepdim=True)
        return gl.where(at_corner, corner, excess / excess.sum(-1, True))

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape=EMPTY):
        return _DrawDirichlet.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def _log_beta(self) -> Tensor:
        return gl.lgamma(self.concentration).sum(-1) - gl.lgamma(self.concentration.sum(-1))

    def log_prob(self, value):
        self._check(value)
        return gl.xlogy(self.concentration - 1.0, value).sum(-1) - self._log_beta()

    def entropy(self):
        count, total = self.concentration.size(-1), self.concentration.sum(-1)
        slopes = ((self.concentration - 1.0) * gl.digamma(self.concentration)).sum(-1)
        return self._log_beta() - (count - total) * gl.digamma(total) - slopes

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - gl.lgamma(x.sum(-1))


class Beta(Parametric, ExponentialFamily):
    """The beta distribution, on [0, 1].

    Args:
        concentration1, concentration0: exponents of x and of 1 - x in the density, plus 1.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self._dirichlet = Dirichlet(gl.stack(broadcast_all(concentration1, concentration0), -1), validate_args)
        Distribution.__init__(self, self._dirichlet.batch_shape, validate_args=validate_args)

    def _fill(self, new, batch_shape):
        new._dirichlet = self._dirichlet.expand(batch_shape)

    @property
    def concentration1(self) -> Tensor:
        """Exponent of x in the density, plus 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """Exponent of 1 - x in the density, plus 1."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self):
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape=EMPTY):
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        self._check(value)
        return self._dirichlet.log_prob(gl.stack([value, 1.0 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return gl.lgamma(x) + gl.lgamma(y) - gl.lgamma(x + y)


class InverseGamma(TransformedDistribution):
    """1 / x for a gamma x.

    Args:
        concentration, rate: parameters of x.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Any

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, power, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """Concentration of 1 / x."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Rate of 1 / x."""
        return self.base_dist.rate

    @property
    def mean(self):
        return gl.where(self.concentration > 1, self.rate / (self.concentration - 1), gl.inf)

    @property
    def mode(self):
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        shape = self.concentration
        finite = self.rate.square() / ((shape - 1).square() * (shape - 2))
        return gl.where(shape > 2, finite, gl.inf)

    def entropy(self):
        shape = self.concentration
        return shape + self.rate.log() + shape.lgamma() - (1 + shape) * shape.digamma()


class FisherSnedecor(Parametric):
    """The F distribution: (x1 / df1) / (x2 / df2) for chi-squared x1 and x2.

    Args:
        df1, df2: degrees of freedom.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        df1, df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(df1 * 0.5, df1)
        self._gamma2 = Gamma(df2 * 0.5, df2)
        self._set(validate_args, df1=df1, df2=df2)

    def _fill(self, new, batch_shape):
        new._gamma1, new._gamma2 = self._gamma1.expand(batch_shape), self._gamma2.expand(batch_shape)

    @property
    def mean(self):
        df2 = gl.where(self.df2 > 2, self.df2, gl.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self):
        df1 = gl.where(self.df1 > 2, self.df1, gl.nan)
        return (df1 - 2) / df1 * self.df2 / (self.df2 + 2)

    @property
    def variance(self):
        df1, df2 = self.df1, gl.where(self.df2 > 4, self.df2, gl.nan)
        return 2 * df2.pow(2) * (df1 + df2 - 2) / (df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape=EMPTY):
        shape = self._extended_shape(sample_shape)
        above, below = self._gamma1.rsample(sample_shape).view(shape), self._gamma2.rsample(sample_shape).view(shape)
        return _at_least_tiny(above / _at_least_tiny(below))

    def log_prob(self, value):
        self._check(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        inverse_beta = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        rising = half1 * ratio.log() + gl.xlogy(half1 - 1, value)
        return inverse_beta + rising - (half1 + half2) * gl.log1p(ratio * value)
