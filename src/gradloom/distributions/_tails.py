"""Distributions of extremes and thresholds: Pareto, generalized Pareto and Weibull."""

from __future__ import annotations

from typing import Any

import gradloom as gl
from gradloom import Tensor

from . import constraints
from ._combined import TransformedDistribution
from ._gamma import Exponential
from .distribution import EMPTY, Parametric
from .transforms import AffineTransform, ExpTransform, PowerTransform
from .utils import broadcast_all, euler_constant

__all__ = ["GeneralizedPareto", "Pareto", "Weibull"]


class Pareto(TransformedDistribution):
    """scale * exp(x) for an exponential x of rate alpha.

    Args:
        scale: smallest value.
        alpha: exponent of the tail.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self):
        alpha = self.alpha.clamp(min=1)  # 1 gives infinity
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self):
        return self.scale

    @property
    def variance(self):
        alpha = self.alpha.clamp(min=2)
        return self.scale.pow(2) * alpha / ((alpha - 1).pow(2) * (alpha - 2))

    def entropy(self):
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Parametric):
    """The distribution of excesses over a high threshold; exponential for concentration 0.

    Args:
        loc: threshold.
        scale: scale.
        concentration: exponent of the tail; if it is negative, the support is bounded.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        loc, scale, concentration = broadcast_all(loc, scale, concentration)
        self._set(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        bounded = self.concentration < 0
        return constraints.interval(self.loc, gl.where(bounded, self.loc - self.scale / self.concentration, gl.inf))

    def _exponential(self) -> tuple[Tensor, Tensor]:
        """Return where the concentration is about 0, and a concentration that is not."""
        about_zero = gl.isclose(self.concentration, gl.zeros_like(self.concentration))
        return about_zero, gl.where(about_zero, 1.0, self.concentration)

    def _log_survival(self, z: Tensor) -> Tensor:
        about_zero, k = self._exponential()
        return -gl.where(about_zero, z, gl.log1p(k * z) / k)

    def _standard(self, value: Tensor) -> Tensor:
        self._check(value)
        return (value - self.loc) / self.scale

    @property
    def mean(self):
        k = self.concentration
        return gl.where(k < 1, self.loc + self.scale / (1 - k), gl.nan)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        k = self.concentration
        finite = self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k))
        return gl.where(k < 0.5, finite, gl.nan)

    def rsample(self, sample_shape=EMPTY):
        shape = self._extended_shape(sample_shape)
        return self.icdf(gl.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value):
        z = self._standard(value)
        about_zero, k = self._exponential()
        power = 1 + 1 / k
        decay = gl.where(power == 0, 0.0, power * gl.log1p(k * z))  # 0 for the uniform distribution, up to its end
        return -gl.where(about_zero, z, decay) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of a draw above `value`."""
        return self._log_survival(self._standard(value))

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of `cdf`."""
        return gl.log1p(-gl.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return gl.exp(self.log_cdf(value))

    def icdf(self, value):
        about_zero, k = self._exponential()
        survival = gl.log1p(-value)
        return self.loc + self.scale * gl.where(about_zero, -survival, gl.expm1(-k * survival) / k)

    def entropy(self):
        return self.scale.log() + self.concentration + 1


class Weibull(TransformedDistribution):
    """scale * x ** (1 / concentration) for an exponential x of rate 1.

    Args:
        scale: scale.
        concentration: shape parameter.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(gl.ones_like(self.scale), validate_args=validate_args)
        self.concentration_reciprocal = self.concentration.reciprocal()
        steps = [PowerTransform(exponent=self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def _gamma(self, order: int) -> Tensor:
        """Gamma(1 + order / concentration)."""
        return gl.exp(gl.lgamma(1 + order / self.concentration))

    @property
    def mean(self):
        return self.scale * self._gamma(1)

    @property
    def mode(self):
        inverse = self.concentration.reciprocal()
        return self.scale * (1 - inverse).pow(inverse)

    @property
    def variance(self):
        return self.scale.pow(2) * (self._gamma(2) - self._gamma(1).pow(2))

    def entropy(self):
        inverse = self.concentration.reciprocal()
        return euler_constant * (1 - inverse) + gl.log(self.scale * inverse) + 1
