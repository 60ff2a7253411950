"""Distributions made of others: transformed, with batch dimensions as events, and mixtures."""

from __future__ import annotations

from typing import Any

import gradloom as gl
from gradloom import Size, Tensor

from . import constraints
from ._discrete import Categorical
from .distribution import EMPTY, Distribution, initialise, library_class
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """A distribution whose last batch dimensions count as event dimensions, so that `log_prob` sums over them.

    Args:
        base_distribution: a distribution.
        reinterpreted_batch_ndims: number of such dimensions.
        validate_args: see `Distribution`.

    Raises:
        ValueError: if the batch has fewer dimensions.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(batch)}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        kept = len(batch) - reinterpreted_batch_ndims
        super().__init__(batch[:kept], batch[kept:] + base_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        batch_shape = Size(batch_shape)
        new = self._get_checked_instance(Independent, _instance)
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(batch_shape + inner)
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        initialise(new, batch_shape, self.event_shape, self._validate_args)
        return new

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self):
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        inner, count = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(inner, count) if count else inner

    @property
    def mean(self):
        return self.base_dist.mean

    @property
    def mode(self):
        return self.base_dist.mode

    @property
    def variance(self):
        return self.base_dist.variance

    def sample(self, sample_shape=EMPTY):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=EMPTY):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of f(x), where x is drawn from a base distribution and f is a chain of transforms.

    Args:
        base_distribution: distribution of x; it is expanded to the shape that the transforms need.
        transforms: one transform, or a list, the first to be applied first.
        validate_args: see `Distribution`.

    Raises:
        ValueError: if `transforms` are none, or x has fewer dimensions than they need.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(transforms, (Transform, list)):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        self.transforms: list[Transform] = [transforms] if isinstance(transforms, Transform) else transforms
        if not all(isinstance(one, Transform) for one in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        whole = ComposeTransform(self.transforms)
        into, out_of = whole.domain.event_dim, whole.codomain.event_dim

        base, shape = base_distribution, base_distribution.batch_shape + base_distribution.event_shape
        if len(shape) < into:
            raise ValueError(f"base_distribution needs to have shape with size at least {into}, but got {shape}.")
        result = Size(whole.forward_shape(shape))
        needed = Size(whole.inverse_shape(result))
        if needed != shape:
            base = base.expand(needed[: len(needed) - len(base.event_shape)])
        if into > len(base.event_shape):
            base = Independent(base, into - len(base.event_shape))
        self.base_dist = base
        cut = len(result) - out_of - max(len(base.event_shape) - into, 0)
        super().__init__(result[:cut], result[cut:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        batch_shape = Size(batch_shape)
        new = self._get_checked_instance(library_class(type(self)), _instance)
        new.transforms = self.transforms
        needed = ComposeTransform(self.transforms).inverse_shape(batch_shape + self.event_shape)
        new.base_dist = self.base_dist.expand(Size(needed[: len(needed) - len(self.base_dist.event_shape)]))
        for name in self.arg_constraints:
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name].expand(batch_shape)
        initialise(new, batch_shape, self.event_shape, self._validate_args)
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        more = len(self.event_shape) - codomain.event_dim
        return constraints.independent(codomain, more) if more > 0 else codomain

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    def sample(self, sample_shape=EMPTY):
        with gl.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=EMPTY):
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, value: Tensor) -> Tensor:
        for transform in self.transforms:
            value = transform(value)
        return value

    def _backward(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return value

    def log_prob(self, value):
        self._check(value)
        event_dim, log_prob = len(self.event_shape), 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(value)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            term = transform.log_abs_det_jacobian(x, value)
            log_prob = log_prob - _sum_rightmost(term, event_dim - transform.domain.event_dim)
            value = x
        term = self.base_dist.log_prob(value)
        return log_prob + _sum_rightmost(term, event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Return the probability on the other side where the transforms decrease; self-inverse."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value):
        return self._monotonize_cdf(self.base_dist.cdf(self._backward(value)))

    def icdf(self, value):
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))


class MixtureSameFamily(Distribution):
    """A mixture of components of one family.

    Args:
        mixture_distribution: `Categorical`, the weights of the components.
        component_distribution: distribution whose last batch dimension numbers the components.
        validate_args: see `Distribution`.

    Raises:
        ValueError: if one is of another class, or their batch shapes do not fit.
    """

    arg_constraints: dict[str, Any] = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        weights, parts = mixture_distribution.batch_shape, component_distribution.batch_shape
        batch = parts[:-1]
        if any(a != b and 1 not in (a, b) for a, b in zip(weights[::-1], batch[::-1], strict=False)):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({weights}) is not compatible with "
                f"`component_distribution.batch_shape`({batch})"
            )
        count, component_count = mixture_distribution.logits.shape[-1], parts[-1]
        if count != component_count:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` "
                f"({component_count})"
            )
        self._num_component = count
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch, event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        batch_shape = Size(batch_shape)
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims
        initialise(new, batch_shape, self._event_shape, self._validate_args)
        return new

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The weights."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _weighted(self, values: Tensor) -> Tensor:
        """Return the mean of the components' values (..., components, event)."""
        weights = self._mixture_distribution.probs
        shape = weights.shape[:-1] + weights.shape[-1:] + (1,) * self._event_ndims
        return (weights.reshape(shape) * values).sum(-1 - self._event_ndims)

    @property
    def mean(self):
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self):
        each = self._component_distribution
        spread = (each.mean - self.mean.unsqueeze(-1 - self._event_ndims)).pow(2.0)
        return self._weighted(each.variance) + self._weighted(spread)

    def cdf(self, value):
        each = self._component_distribution.cdf(value.unsqueeze(-1 - self._event_ndims))
        return (each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value):
        self._check(value)
        each = self._component_distribution.log_prob(value.unsqueeze(-1 - self._event_ndims))
        return gl.logsumexp(each + gl.log_softmax(self._mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape=EMPTY):
        with gl.no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            dim = chosen.dim()
            index = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            index = index.expand(chosen.shape + (1,) + self._event_shape)
            return drawn.gather(dim, index).squeeze(dim)

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
