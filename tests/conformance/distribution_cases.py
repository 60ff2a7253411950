"""Calls that make distributions, for both libraries: functions of the library `t` and of `p`, which makes parameters.

`p(*shape, low=..., high=...)` returns a tensor of the tested dtype that requires a gradient; its values differ from
call to call and are the same in both libraries. Shapes, scalars and both forms of a parameter vary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[[Any, Any], Any]


def positive(p: Any, *shape: int) -> Any:
    return p(*shape, low=0.3, high=3.0)


def probs(p: Any, *shape: int) -> Any:
    return p(*shape, low=0.1, high=0.9)


def weights(t: Any, p: Any, *shape: int) -> Any:
    return p(*shape, low=0.1, high=1.0)


def factor(t: Any, p: Any, *shape: int) -> Any:
    """Lower triangular matrices with a positive diagonal."""
    return p(*shape, low=-0.5, high=0.5).tril(-1) + t.diag_embed(p(*shape[:-1], low=0.7, high=1.5))


def covariance(t: Any, p: Any, *shape: int) -> Any:
    lower = factor(t, p, *shape)
    return lower @ lower.mT


def _two(name: str, first: Any, second: Any) -> dict[str, Make]:
    """Cases of a distribution with two parameters that broadcast."""
    return {
        f"{name}-scalars": lambda t, p: getattr(t.distributions, name)(first(p), second(p)),
        f"{name}-broadcast": lambda t, p: getattr(t.distributions, name)(first(p, 3, 1), second(p, 4)),
        f"{name}-number": lambda t, p: getattr(t.distributions, name)(first(p, 2, 10), 1.5),
    }


def _real(p, *shape):
    return p(*shape, low=-1.0, high=1.0)


def _by_form(name: str, binary: bool = True, **more: Any) -> dict[str, Make]:
    shape = (3, 4)

    def by_probs(t, p):
        return getattr(t.distributions, name)(probs=probs(p, *shape), **more)

    def by_logits(t, p):
        return getattr(t.distributions, name)(logits=_real(p, *shape), **more)

    return {
        f"{name}-probs": by_probs,
        f"{name}-logits": by_logits,
        f"{name}-one": lambda t, p: getattr(t.distributions, name)(probs=probs(p) if binary else probs(p, 5), **more),
    }


def _relaxed(name: str, shape: tuple[int, ...]) -> dict[str, Make]:
    return {
        f"{name}-probs": lambda t, p: getattr(t.distributions, name)(positive(p), probs=probs(p, *shape)),
        f"{name}-logits": lambda t, p: getattr(t.distributions, name)(positive(p), logits=_real(p, *shape)),
    }


CASES: dict[str, Make] = {
    **_two("Normal", _real, positive),
    **_two("Laplace", _real, positive),
    **_two("Cauchy", _real, positive),
    **_two("Gumbel", _real, positive),
    **_two("LogNormal", _real, positive),
    **_two("Gamma", positive, positive),
    **_two("InverseGamma", positive, positive),
    **_two("Beta", positive, positive),
    **_two("FisherSnedecor", lambda p, *s: p(*s, low=1.0, high=9.0), lambda p, *s: p(*s, low=1.0, high=9.0)),
    **_two("Kumaraswamy", positive, positive),
    **_two("Pareto", positive, positive),
    **_two("Weibull", positive, positive),
    **_two("VonMises", _real, positive),
    **_two("Uniform", lambda p, *s: p(*s, low=-2.0, high=-1.0), lambda p, *s: p(*s, low=-0.5, high=1.0)),
    **_by_form("Bernoulli"),
    **_by_form("Geometric"),
    **_by_form("ContinuousBernoulli"),
    **_by_form("Binomial", total_count=7),
    **_by_form("NegativeBinomial", total_count=3),
    **_by_form("Categorical", binary=False),
    **_by_form("OneHotCategorical", binary=False),
    **_by_form("OneHotCategoricalStraightThrough", binary=False),
    **_by_form("Multinomial", binary=False, total_count=6),
    **_relaxed("RelaxedBernoulli", (3, 2)),
    **_relaxed("RelaxedOneHotCategorical", (3, 4)),
    "LogitRelaxedBernoulli": lambda t, p: t.distributions.relaxed_bernoulli.LogitRelaxedBernoulli(
        positive(p), probs(p, 3)
    ),
    "ExpRelaxedCategorical": lambda t, p: t.distributions.relaxed_categorical.ExpRelaxedCategorical(
        positive(p), probs(p, 2, 3)
    ),
    "Exponential": lambda t, p: t.distributions.Exponential(positive(p, 3, 2)),
    "Exponential-scalar": lambda t, p: t.distributions.Exponential(positive(p)),
    "Chi2": lambda t, p: t.distributions.Chi2(positive(p, 4)),
    "Gamma-small": lambda t, p: t.distributions.Gamma(p(40, low=0.01, high=0.9), 1.0),
    "Gamma-large": lambda t, p: t.distributions.Gamma(p(40, low=9.0, high=90.0), 2.0),
    "Beta-small": lambda t, p: t.distributions.Beta(p(40, low=0.05, high=0.9), p(40, low=0.05, high=0.9)),
    "Beta-large": lambda t, p: t.distributions.Beta(p(40, low=6.0, high=60.0), p(40, low=6.0, high=60.0)),
    "Beta-middle": lambda t, p: t.distributions.Beta(p(40, low=2.0, high=9.0), p(40, low=2.0, high=9.0)),
    "Beta-one": lambda t, p: t.distributions.Beta(p(9, low=5.0, high=40.0), p(9, low=0.2, high=1.0)),
    "Dirichlet": lambda t, p: t.distributions.Dirichlet(positive(p, 4)),
    "Dirichlet-batch": lambda t, p: t.distributions.Dirichlet(positive(p, 2, 3, 4)),
    "Dirichlet-small": lambda t, p: t.distributions.Dirichlet(p(3, 3, low=0.1, high=0.9)),
    "HalfNormal": lambda t, p: t.distributions.HalfNormal(positive(p, 3)),
    "HalfCauchy": lambda t, p: t.distributions.HalfCauchy(positive(p, 3)),
    "StudentT": lambda t, p: t.distributions.StudentT(p(3, 1, low=0.5, high=4.0), _real(p, 4), positive(p, 4)),
    "StudentT-df": lambda t, p: t.distributions.StudentT(positive(p)),
    "Poisson": lambda t, p: t.distributions.Poisson(p(5, low=0.5, high=20.0)),
    # Log odds of 0, where clamp and abs have a kink.
    **{
        f"{name}-even": lambda t, p, name=name, first=first: getattr(t.distributions, name)(
            *first, p(2, low=0.5, high=0.5)
        )
        for name, *first in (("Bernoulli",), ("Binomial", 3), ("Geometric",), ("NegativeBinomial", 3))
    },
    "Binomial-large": lambda t, p: t.distributions.Binomial(60, probs(p, 9)),
    "Binomial-counts": lambda t, p: t.distributions.Binomial(t.tensor([3, 5, 0]), probs(p, 2, 3)),
    "NegativeBinomial-counts": lambda t, p: t.distributions.NegativeBinomial(positive(p, 3), probs(p, 2, 3)),
    "ContinuousBernoulli-middle": lambda t, p: t.distributions.ContinuousBernoulli(p(5, low=0.4995, high=0.5005)),
    "LogisticNormal": lambda t, p: t.distributions.LogisticNormal(_real(p, 2, 3), positive(p, 3)),
    "GeneralizedPareto": lambda t, p: t.distributions.GeneralizedPareto(
        _real(p, 3), positive(p, 3), p(3, low=0.1, high=1.2)
    ),
    "GeneralizedPareto-bounded": lambda t, p: t.distributions.GeneralizedPareto(
        _real(p, 3), positive(p, 3), p(3, low=-1.2, high=-0.1)
    ),
    "GeneralizedPareto-exponential": lambda t, p: t.distributions.GeneralizedPareto(_real(p, 3), positive(p, 3), 0.0),
    "MultivariateNormal": lambda t, p: t.distributions.MultivariateNormal(_real(p, 3), covariance(t, p, 3, 3)),
    "MultivariateNormal-batch": lambda t, p: t.distributions.MultivariateNormal(
        _real(p, 2, 1, 3), scale_tril=factor(t, p, 4, 3, 3)
    ),
    "MultivariateNormal-precision": lambda t, p: t.distributions.MultivariateNormal(
        _real(p, 2, 3), precision_matrix=covariance(t, p, 3, 3)
    ),
    "LowRankMultivariateNormal": lambda t, p: t.distributions.LowRankMultivariateNormal(
        _real(p, 4), _real(p, 4, 2), positive(p, 4)
    ),
    "LowRankMultivariateNormal-batch": lambda t, p: t.distributions.LowRankMultivariateNormal(
        _real(p, 3, 1, 4), _real(p, 2, 4, 1), positive(p, 4)
    ),
    "Wishart": lambda t, p: t.distributions.Wishart(p(low=3.5, high=9.0), covariance(t, p, 3, 3)),
    "Wishart-batch": lambda t, p: t.distributions.Wishart(p(2, low=3.5, high=9.0), scale_tril=factor(t, p, 2, 3, 3)),
    "Wishart-precision": lambda t, p: t.distributions.Wishart(5.0, precision_matrix=covariance(t, p, 2, 2)),
    "LKJCholesky": lambda t, p: t.distributions.LKJCholesky(3, positive(p)),
    "LKJCholesky-batch": lambda t, p: t.distributions.LKJCholesky(4, positive(p, 2)),
    "Independent": lambda t, p: t.distributions.Independent(t.distributions.Normal(_real(p, 2, 3), positive(p, 3)), 1),
    "Independent-all": lambda t, p: t.distributions.Independent(t.distributions.Gamma(positive(p, 2, 3), 1.0), 2),
    "Independent-discrete": lambda t, p: t.distributions.Independent(t.distributions.Bernoulli(probs(p, 2, 3)), 1),
    "Independent-none": lambda t, p: t.distributions.Independent(t.distributions.Bernoulli(probs(p, 3)), 0),
    "Mixture": lambda t, p: t.distributions.MixtureSameFamily(
        t.distributions.Categorical(probs(p, 2, 3)), t.distributions.Normal(_real(p, 2, 3), positive(p, 3))
    ),
    "Mixture-vectors": lambda t, p: t.distributions.MixtureSameFamily(
        t.distributions.Categorical(logits=_real(p, 2, 3)),
        t.distributions.Independent(t.distributions.Normal(_real(p, 2, 3, 4), positive(p, 4)), 1),
    ),
    "Transformed": lambda t, p: t.distributions.TransformedDistribution(
        t.distributions.Normal(_real(p, 3), positive(p)),
        [t.distributions.AffineTransform(_real(p, 2, 1), -positive(p)), t.distributions.TanhTransform()],
    ),
    "Transformed-sticks": lambda t, p: t.distributions.TransformedDistribution(
        t.distributions.Normal(_real(p, 2, 3), 1.0),
        [t.distributions.StickBreakingTransform(), t.distributions.AffineTransform(0.0, positive(p))],
    ),
    "Transformed-none": lambda t, p: t.distributions.TransformedDistribution(
        t.distributions.Normal(_real(p, 3), 1.0), []
    ),
}
