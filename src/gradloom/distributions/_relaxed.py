"""Continuous relaxations of discrete distributions (Maddison et al. 2017, Jang et al. 2017)."""

from __future__ import annotations

from typing import Any

import gradloom as gl
from gradloom import Tensor

from . import constraints
from ._combined import TransformedDistribution
from ._discrete import ByProbsOrLogits, Categorical, OfCategorical
from .distribution import EMPTY
from .transforms import ExpTransform, SigmoidTransform
from .utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


class LogitRelaxedBernoulli(ByProbsOrLogits):
    """The log odds of a relaxed Bernoulli variable.

    Args:
        temperature: the lower, the closer to 0 and 1 the variable is.
        probs: probability of 1; or
        logits: its log odds.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _copied = ("_given", "temperature")

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        (value,) = broadcast_all(self._set_given(probs, logits))
        self._set(validate_args, **{self._given: value})

    def rsample(self, sample_shape=EMPTY):
        shape = self._extended_shape(sample_shape)
        p = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(gl.rand(shape, dtype=p.dtype, device=p.device))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        apart = logits - value * self.temperature
        return self.temperature.log() + apart - 2 * apart.exp().log1p()


class ExpRelaxedCategorical(OfCategorical):
    """The logarithm of a relaxed one-hot variable.

    Args:
        temperature: the lower, the closer to a corner the variable is.
        probs: (..., K) nonnegative weights; or
        logits: (..., K) their logarithms.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.batch_shape, self._categorical.param_shape[-1:]
        super().__init__(*shape, validate_args=validate_args)

    def _fill(self, new, batch_shape):
        new.temperature = self.temperature

    def rsample(self, sample_shape=EMPTY):
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(gl.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        gumbel = -((-u.log()).log())
        return gl.log_softmax((self.logits + gumbel) / self.temperature, -1)

    def log_prob(self, value):
        self._check(value)
        count = self.event_shape[-1]
        logits, value = broadcast_all(self.logits, value)
        score = gl.log_softmax(logits - value * self.temperature, -1).sum(-1)
        volume = self.temperature.new_tensor(float(count)).lgamma() + (count - 1) * self.temperature.log()
        return score + volume


class _Relaxed(TransformedDistribution):
    """A transform of a distribution with temperature and logits."""

    has_rsample = True
    base_dist: Any

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The parameter as logits."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The parameter as probabilities."""
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """A number in (0, 1), close to a Bernoulli variable at a low temperature; differentiable in its parameters.

    Args:
        temperature: the temperature.
        probs: probability of 1; or
        logits: its log odds.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(
            LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args
        )


class RelaxedOneHotCategorical(_Relaxed):
    """A point of the simplex, close to a corner at a low temperature; differentiable in its parameters.

    Args:
        temperature: the temperature.
        probs: (..., K) nonnegative weights; or
        logits: (..., K) their logarithms.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
