"""Discrete distributions, each by probabilities or by logits."""

from __future__ import annotations

from typing import Any

import gradloom as gl
from gradloom import Size, Tensor
from gradloom.nn.functional import binary_cross_entropy_with_logits, logsigmoid, one_hot

from . import constraints
from .distribution import EMPTY, Distribution, ExponentialFamily, Parametric, initialise, library_class
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Geometric",
    "Multinomial",
    "NegativeBinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
]


def one_of(probs: Any, logits: Any) -> str:
    """Return which of the two is given. Raises ValueError unless it is exactly one."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return "logits" if probs is None else "probs"


class ByProbsOrLogits(Parametric):
    """A distribution with one parameter of two forms. The other form is computed on first use."""

    _copied: tuple[str, ...] = ("_given",)
    _is_binary = True
    _given: str

    def _set_given(self, probs: Any, logits: Any) -> Any:
        """Note which form is given, and return it."""
        self._given = one_of(probs, logits)
        return logits if probs is None else probs

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with PyTorch's attribute for the given form."""
        return {**self.__dict__, "_param": self._param}

    def __setstate__(self, state: dict[str, Any]) -> None:
        param = state["_param"]
        self.__dict__.update({name: value for name, value in state.items() if name != "_param"})
        if "_given" not in state:  # a pickle of PyTorch
            self._given = "probs" if state.get("probs") is param else "logits"

    @lazy_property
    def logits(self) -> Tensor:
        """The parameter as logits."""
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter as probabilities."""
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @property
    def _param(self) -> Tensor:
        return self.__dict__[self._given]

    @property
    def param_shape(self) -> Size:
        """The parameter's shape."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    def _counted(self, count: int, dtype: Any, expand: bool) -> Tensor:
        """Return 0 ... count - 1 along a new first dimension, for `enumerate_support`."""
        values = gl.arange(count, dtype=dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Bernoulli(ByProbsOrLogits, ExponentialFamily):
    """1 with probability `probs`, else 0.

    Args:
        probs: probability of 1; or
        logits: its log odds.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        (value,) = broadcast_all(self._set_given(probs, logits))
        self._set(validate_args, **{self._given: value})

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        probs = self.probs
        return gl.where(probs == 0.5, gl.nan, (probs >= 0.5).to(probs))

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=EMPTY):
        with gl.no_grad():
            return gl.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        return self._counted(2, self._param.dtype, expand)

    @property
    def _natural_params(self):
        return (gl.logit(self.probs),)

    def _log_normalizer(self, x):
        return gl.log1p(gl.exp(x))


class Geometric(ByProbsOrLogits):
    """The number of failures before the first success.

    Args:
        probs: probability of a success, in (0, 1]; or
        logits: its log odds.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        (value,) = broadcast_all(self._set_given(probs, logits))
        self._set(validate_args, **{self._given: value})
        if self._validate_args and probs is not None and not (value > 0).all():
            raise ValueError(
                f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                f"{self!r} to be positive but found invalid values:\n{value[value <= 0]}"
            )

    @property
    def mean(self):
        return 1.0 / self.probs - 1.0

    @property
    def mode(self):
        return gl.zeros_like(self.probs)

    @property
    def variance(self):
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape=EMPTY):
        with gl.no_grad():
            tiny = gl.finfo(self.probs.dtype).tiny
            u = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        self._check(value)
        value, probs = broadcast_all(value, self.probs)
        sure = (probs == 1) & (value == 0)  # 0 * log 0 is 0
        return value * gl.where(sure, 0.0, -probs).log1p() + self.probs.log()

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class NegativeBinomial(ByProbsOrLogits):
    """The number of successes before `total_count` failures.

    Args:
        total_count: number of failures, also fractional.
        probs: probability of a success, in [0, 1); or
        logits: its log odds.
        validate_args: see `Distribution`.
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        count, value = broadcast_all(total_count, self._set_given(probs, logits))
        self._set(validate_args, total_count=count.type_as(value), **{self._given: value})

    @property
    def mean(self):
        return self.total_count * gl.exp(self.logits)

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self):
        return self.mean / gl.sigmoid(-self.logits)

    def sample(self, sample_shape=EMPTY):
        shape = self._extended_shape(sample_shape)
        with gl.no_grad():
            rate = gl._standard_gamma(self.total_count.expand(shape)) / gl.exp(-self.logits).expand(shape)
            return gl.poisson(rate.clamp(min=gl.finfo(rate.dtype).tiny))

    def log_prob(self, value):
        self._check(value)
        count = self.total_count
        successes = count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        orders = gl.lgamma(count + value) - gl.lgamma(1.0 + value) - gl.lgamma(count)
        return successes + gl.where(count + value == 0, 0.0, orders)


class Binomial(ByProbsOrLogits):
    """The number of successes in `total_count` trials.

    Args:
        total_count: number of trials.
        probs: probability of a success; or
        logits: its log odds.
        validate_args: see `Distribution`.
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        count, value = broadcast_all(total_count, self._set_given(probs, logits))
        self._set(validate_args, total_count=count.type_as(value), **{self._given: value})

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=EMPTY):
        shape = self._extended_shape(sample_shape)
        with gl.no_grad():
            return gl.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        self._check(value)
        count = self.total_count
        orders = gl.lgamma(count + 1) - gl.lgamma(value + 1) - gl.lgamma(count - value + 1)
        return orders + value * self.logits + count * logsigmoid(-self.logits)

    def _common_count(self, caller: str) -> int:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{caller}`.")
        return count

    def entropy(self):
        self._common_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(gl.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        return self._counted(1 + self._common_count("enumerate_support"), self._param.dtype, expand)


class Categorical(ByProbsOrLogits):
    """An index in 0 ... K - 1.

    Args:
        probs: (..., K) nonnegative weights, which are divided by their sum; or
        logits: (..., K) their logarithms.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False
    _copied = ("_given", "_num_events")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        value = self._set_given(probs, logits)
        if value.dim() < 1:
            raise ValueError(f"`{self._given}` parameter must be at least one-dimensional.")
        if probs is not None:
            value = value / value.sum(-1, keepdim=True)
        else:
            value = value - value.logsumexp(dim=-1, keepdim=True)
        self.__dict__[self._given] = value
        self._num_events = value.size()[-1]
        Distribution.__init__(self, value.size()[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self):
        return gl.full(self._extended_shape(), gl.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self):
        return self.probs.argmax(dim=-1)

    @property
    def variance(self):
        return self.mean

    def sample(self, sample_shape=EMPTY):
        count = Size(sample_shape).numel()
        with gl.no_grad():
            rows = gl.multinomial(self.probs.reshape(-1, self._num_events), count, True)
            return rows.T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._check(value)
        index, logits = gl.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self):
        # Minus infinity times probability 0 is 0.
        logits = self.logits.clamp(min=gl.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        return self._counted(self._num_events, gl.long, expand)


class OfCategorical(Distribution):
    """A distribution whose parameters are those of a categorical one."""

    _categorical: Categorical

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """Probabilities (..., K)."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms (..., K)."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The parameter's shape."""
        return self._categorical.param_shape

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    def expand(self, batch_shape, _instance=None):
        batch_shape = Size(batch_shape)
        new = self._get_checked_instance(library_class(type(self)), _instance)
        new._categorical = self._categorical.expand(batch_shape)
        self._fill(new, batch_shape)
        initialise(new, batch_shape, self._event_shape, self._validate_args)
        return new

    def _fill(self, new: Any, batch_shape: Size) -> None:
        """Give `new` what an expansion has besides the categorical distribution."""


class OneHotCategorical(OfCategorical):
    """A vector of K elements, one of which is 1 and the others 0.

    Args:
        probs: (..., K) nonnegative weights; or
        logits: (..., K) their logarithms.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.batch_shape, self._categorical.param_shape[-1:]
        super().__init__(*shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        return one_hot(self.probs.argmax(-1), self.event_shape[-1]).to(self.probs)

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=EMPTY):
        return one_hot(self._categorical.sample(Size(sample_shape)), self.event_shape[-1]).to(self.probs)

    def log_prob(self, value):
        self._check(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        count = self.event_shape[0]
        values = gl.eye(count, dtype=self._param.dtype, device=self._param.device)
        values = values.view((count,) + (1,) * len(self.batch_shape) + (count,))
        return values.expand((count, *self.batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose draws pass their gradient on to the probabilities (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape=EMPTY):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OfCategorical):
    """How often each of K indices is drawn in `total_count` draws.

    Args:
        total_count: number of draws, one for the whole batch.
        probs: (..., K) nonnegative weights; or
        logits: (..., K) their logarithms.
        validate_args: see `Distribution`.

    Raises:
        NotImplementedError: if `total_count` is not an int.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        shape = self._categorical.batch_shape, self._categorical.param_shape[-1:]
        super().__init__(*shape, validate_args=validate_args)

    def _fill(self, new, batch_shape):
        new.total_count = self.total_count
        new._binomial = self._binomial.expand(batch_shape + self._event_shape)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def mean(self):
        return self.probs * self.total_count

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=EMPTY):
        draws = self._categorical.sample(Size((self.total_count, *sample_shape))).movedim(0, -1)
        counts = draws.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, draws, gl.ones_like(draws)).type_as(self.probs)

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        logits = gl.where((value == 0) & (logits == -gl.inf), 0.0, logits)
        return gl.lgamma(value.sum(-1) + 1) - gl.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

    def entropy(self):
        # The expectation of -log_prob; the counts are binomial each.
        count = gl.tensor(self.total_count)
        values = self._binomial.enumerate_support(expand=False)[1:]
        expected = (gl.exp(self._binomial.log_prob(values)) * gl.lgamma(values + 1)).sum([0, -1])
        return count * self._categorical.entropy() - gl.lgamma(count + 1) + expected


class Poisson(Parametric, ExponentialFamily):
    """The number of events of a given rate.

    Args:
        rate: expected number.
        validate_args: see `Distribution`.
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (rate,) = broadcast_all(rate)
        self._set(validate_args, rate=rate)

    @property
    def mean(self):
        return self.rate

    @property
    def mode(self):
        return self.rate.floor()

    @property
    def variance(self):
        return self.rate

    def sample(self, sample_shape=EMPTY):
        with gl.no_grad():
            return gl.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._check(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - gl.lgamma(value + 1)

    @property
    def _natural_params(self):
        return (gl.log(self.rate),)

    def _log_normalizer(self, x):
        return gl.exp(x)
