"""Distributions on bounded intervals: uniform, Kumaraswamy, continuous Bernoulli, von Mises."""

from __future__ import annotations

import math
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._combined import TransformedDistribution
from ._discrete import ByProbsOrLogits
from .distribution import EMPTY, ExponentialFamily, Parametric
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, clamp_probs, euler_constant, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli", "Kumaraswamy", "Uniform", "VonMises"]


class Uniform(Parametric):
    """The uniform distribution on [low, high).

    Args:
        low, high: the bounds.
        validate_args: see `Distribution`.
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        low, high = broadcast_all(low, high)
        self._set(validate_args, low=low, high=high)

    @property
    def arg_constraints(self):
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def mean(self):
        return (self.high + self.low) / 2

    @property
    def mode(self):
        return gl.nan * self.high

    @property
    def stddev(self):
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self):
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape=EMPTY):
        u = gl.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value):
        self._check(value)
        inside = (self.low <= value) & (value < self.high)
        return gl.log(inside.type_as(self.low)) - gl.log(self.high - self.low)

    def cdf(self, value):
        self._check(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return gl.log(self.high - self.low)


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution, on (0, 1), with the cdf 1 - (1 - x ** concentration1) ** concentration0.

    Args:
        concentration1, concentration0: the exponents in the cdf.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            gl.zeros_like(self.concentration0), gl.ones_like(self.concentration0), validate_args=validate_args
        )
        steps: list[Any] = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, order: int) -> Tensor:
        """Return the expectation of x ** order: b B(1 + order / a, b)."""
        a, b = self.concentration1, self.concentration0
        first = 1 + order / a
        return b * gl.exp(gl.lgamma(first) + gl.lgamma(b) - gl.lgamma(first + b))

    @property
    def mean(self):
        return self._moment(1)

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        return gl.where((a < 1) | (b < 1), gl.nan, ((a - 1) / (a * b - 1)).pow(1 / a))

    @property
    def variance(self):
        return self._moment(2) - self._moment(1).pow(2)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        harmonic = gl.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - gl.log(a) - gl.log(b)


class ContinuousBernoulli(ByProbsOrLogits, ExponentialFamily):
    """A number in [0, 1] with a density proportional to probs ** x (1 - probs) ** (1 - x).

    Args:
        probs: parameter in (0, 1); or
        logits: its log odds.
        lims: interval about 1/2 in which expansions replace formulas that are 0/0 there.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _copied = ("_given", "_lims")

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        (value,) = broadcast_all(self._set_given(probs, logits))
        if probs is not None:
            if validate_args is not None and validate_args and not constraints.unit_interval.check(value).all():
                raise ValueError("The parameter probs has invalid values")
            value = clamp_probs(value)
        self._lims = lims
        self._set(validate_args, **{self._given: value})

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter as probabilities, kept away from 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _apart(self) -> Tensor:
        """Return where the parameter is not near 1/2."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _piecewise(self, formula: Any, expansion: Any) -> Tensor:
        """Return formula(probs) away from 1/2, and expansion(probs - 1/2) near it."""
        apart = self._apart()
        safe = gl.where(apart, self.probs, self._lims[0])
        return gl.where(apart, formula(safe), expansion(self.probs - 0.5))

    def _cont_bern_log_norm(self) -> Tensor:
        """Return the logarithm of the factor that makes the density integrate to 1: 2 artanh(1 - 2p) / (1 - 2p)."""

        def formula(p):
            # |log((1 - p) / p)| / |1 - 2p|
            return gl.log(gl.abs(gl.log1p(-p) - gl.log(p))) - gl.log(gl.abs(1 - 2 * p))

        return self._piecewise(formula, lambda x: math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x**2) * x**2)

    @property
    def mean(self):
        return self._piecewise(
            lambda p: p / (2 * p - 1) + 1 / (gl.log1p(-p) - gl.log(p)),
            lambda x: 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x,
        )

    @property
    def variance(self):
        return self._piecewise(
            lambda p: p * (p - 1) / (1 - 2 * p) ** 2 + 1 / (gl.log1p(-p) - gl.log(p)) ** 2,
            lambda x: 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x**2) * x**2,
        )

    @property
    def stddev(self):
        return self.variance.sqrt()

    def rsample(self, sample_shape=EMPTY):
        return self.icdf(gl.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return self._cont_bern_log_norm() - binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value):
        self._check(value)
        apart = self._apart()
        p = gl.where(apart, self.probs, self._lims[0])
        inside = (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1)
        inside = gl.where(apart, inside, value)
        return gl.where(value <= 0, 0.0, gl.where(value >= 1, 1.0, inside))

    def icdf(self, value):
        apart = self._apart()
        p = gl.where(apart, self.probs, self._lims[0])
        quantile = (gl.log1p(-p + value * (2 * p - 1)) - gl.log1p(-p)) / (gl.log(p) - gl.log1p(-p))
        return gl.where(apart, quantile, value)

    def entropy(self):
        other = gl.log1p(-self.probs)
        return self.mean * (other - gl.log(self.probs)) - self._cont_bern_log_norm() - other

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        # log((exp(x) - 1) / x), which is x / 2 + x^2 / 24 near 0
        apart = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        safe = gl.where(apart, x, self._lims[0] - 0.5)
        return gl.where(apart, gl.log(gl.abs(gl.expm1(safe))) - gl.log(gl.abs(safe)), 0.5 * x + x**2 / 24.0)


class VonMises(Parametric):
    """A normal distribution on the circle: an angle in [-pi, pi).

    Args:
        loc: mean angle.
        concentration: inverse width.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        loc, concentration = broadcast_all(loc, concentration)
        self._set(validate_args, loc=loc, concentration=concentration)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @lazy_property
    def variance(self):
        # 1 - I1(k) / I0(k), the circular variance
        return 1 - gl.special.i1e(self.concentration) / gl.special.i0e(self.concentration)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        """The parameter of the wrapped Cauchy distribution that draws are proposed from."""
        k = self.concentration.double()
        root = 1 + (1 + 4 * k**2).sqrt()
        rho = (root - (2 * root).sqrt()) / (2 * k)
        return gl.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape=EMPTY):
        """Draw angles by rejection (Best and Fisher 1979): whole batches, until every element was accepted once.

        An element takes the last proposal that is accepted, as in PyTorch. A NaN parameter gives NaN.
        """
        where = {"dtype": gl.float64, "device": self.loc.device}
        with gl.no_grad():
            shape = self._extended_shape(sample_shape)
            angles, pending = gl.zeros(shape, **where), gl.ones(shape, **where).bool()
            while pending.any():
                for_angle, for_test, for_side = gl.rand((3, *shape), **where).unbind()
                cosine, accepted = self._proposal(for_angle, for_test)
                angles = gl.where(accepted, (for_side - 0.5).sign() * cosine.acos(), angles)
                pending = pending & ~accepted
            return ((angles + math.pi + self.loc.double()) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def _proposal(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines of wrapped Cauchy angles, made of uniform numbers u, and where uniform v accept them."""
        r, z = self._proposal_r, gl.cos(math.pi * u)
        cosine = (1 + r * z) / (r + z)
        excess = self.concentration.double() * (r - cosine)
        accepted = v <= excess * gl.exp(1 - excess)
        return cosine, accepted | excess.isnan()

    def log_prob(self, value):
        self._check(value)
        k = self.concentration
        # log I0(k) is log i0e(k) + k
        return k * (gl.cos(value - self.loc) - 1) - math.log(2 * math.pi) - gl.special.i0e(k).log()
