"""Divergences of all registered pairs against PyTorch: values and gradients; and the words of errors."""

from __future__ import annotations

from functools import partial

import pytest

torch = pytest.importorskip("torch")

import gradloom  # noqa: E402
from tests.conformance.distribution_cases import covariance, factor, positive, probs  # noqa: E402
from tests.conformance.test_distributions import Parameters, attempt, gradients, same  # noqa: E402


def _real(p, *shape):
    return p(*shape, low=-1.0, high=1.0)


# Distributions of three numbers or of vectors. Several of a class reach supports within and outside of others'.
MAKERS = {
    "Bernoulli": [
        lambda t, p: t.distributions.Bernoulli(probs(p, 3)),
        lambda t, p: t.distributions.Bernoulli(t.tensor([0.0, 1.0, 0.5], dtype=t.float64)),
    ],
    "Beta": [lambda t, p: t.distributions.Beta(positive(p, 3), positive(p, 3))],
    "Binomial": [
        lambda t, p: t.distributions.Binomial(7, probs(p, 3)),
        lambda t, p: t.distributions.Binomial(5, probs(p, 3)),
    ],
    "Categorical": [
        lambda t, p: t.distributions.Categorical(probs(p, 3, 4)),
        lambda t, p: t.distributions.Categorical(t.tensor([[0.0, 0.5, 0.5, 0.0]], dtype=t.float64)),
    ],
    "Cauchy": [lambda t, p: t.distributions.Cauchy(_real(p, 3), positive(p, 3))],
    "ContinuousBernoulli": [lambda t, p: t.distributions.ContinuousBernoulli(probs(p, 3))],
    "Dirichlet": [lambda t, p: t.distributions.Dirichlet(positive(p, 3, 4))],
    "Exponential": [lambda t, p: t.distributions.Exponential(positive(p, 3))],
    "Gamma": [lambda t, p: t.distributions.Gamma(positive(p, 3), positive(p, 3))],
    "Geometric": [lambda t, p: t.distributions.Geometric(probs(p, 3))],
    "Gumbel": [lambda t, p: t.distributions.Gumbel(_real(p, 3), positive(p, 3))],
    "HalfNormal": [lambda t, p: t.distributions.HalfNormal(positive(p, 3))],
    "Independent": [
        lambda t, p: t.distributions.Independent(t.distributions.Normal(_real(p, 3, 2), positive(p, 2)), 1)
    ],
    "Laplace": [lambda t, p: t.distributions.Laplace(_real(p, 3), positive(p, 3))],
    "LogNormal": [lambda t, p: t.distributions.LogNormal(_real(p, 3), positive(p, 3))],
    "LowRankMultivariateNormal": [
        lambda t, p: t.distributions.LowRankMultivariateNormal(_real(p, 4), _real(p, 4, 2), positive(p, 4)),
        lambda t, p: t.distributions.LowRankMultivariateNormal(_real(p, 3, 4), _real(p, 4, 1), positive(p, 3, 4)),
    ],
    "MultivariateNormal": [
        lambda t, p: t.distributions.MultivariateNormal(_real(p, 4), covariance(t, p, 4, 4)),
        lambda t, p: t.distributions.MultivariateNormal(_real(p, 3, 4), scale_tril=factor(t, p, 3, 4, 4)),
    ],
    "Normal": [lambda t, p: t.distributions.Normal(_real(p, 3), positive(p, 3))],
    "OneHotCategorical": [lambda t, p: t.distributions.OneHotCategorical(probs(p, 3, 4))],
    "Pareto": [
        lambda t, p: t.distributions.Pareto(positive(p, 3), positive(p, 3)),
        lambda t, p: t.distributions.Pareto(p(3, low=0.1, high=0.2), p(3, low=2.1, high=5.0)),
    ],
    "Poisson": [lambda t, p: t.distributions.Poisson(positive(p, 3))],
    "Uniform": [
        lambda t, p: t.distributions.Uniform(p(3, low=0.1, high=0.3), p(3, low=0.5, high=0.9)),
        lambda t, p: t.distributions.Uniform(p(3, low=-0.5, high=-0.1), p(3, low=1.1, high=2.0)),
        lambda t, p: t.distributions.Uniform(p(3, low=0.5, high=0.9), p(3, low=1.1, high=2.0)),
    ],
    "Weibull": [lambda t, p: t.distributions.Weibull(positive(p, 3), positive(p, 3))],
    "Wishart": [lambda t, p: t.distributions.Wishart(p(3, low=3.0, high=6.0), covariance(t, p, 3, 2, 2))],
    "Chi2": [lambda t, p: t.distributions.Chi2(positive(p, 3))],
    "MixtureSameFamily": [
        lambda t, p: t.distributions.MixtureSameFamily(
            t.distributions.Categorical(probs(p, 3)), t.distributions.Normal(_real(p, 3), 1.0)
        )
    ],
}


def test_as_many_pairs_are_registered():
    def pairs(library):
        home = f"{library.__name__}.distributions."  # programs of other tests may have registered classes of their own
        registered = library.distributions.kl._KL_REGISTRY
        return {
            tuple(kind.__name__ for kind in pair)
            for pair in registered
            if all(kind.__module__.startswith(home) for kind in pair)
        }

    assert pairs(gradloom) == pairs(torch) and len(pairs(torch)) > 80


@pytest.mark.filterwarnings("ignore:Ambiguous")
@pytest.mark.parametrize("q", MAKERS)
@pytest.mark.parametrize("p", MAKERS)
def test_values_and_gradients(p, q):
    for first in MAKERS[p]:
        for second in MAKERS[q]:
            results = []
            for library in (gradloom, torch):
                parameters = Parameters(library, "float64")
                pair = first(library, parameters), second(library, parameters)
                divergence = attempt(partial(library.distributions.kl_divergence, *pair))
                derivatives = [] if isinstance(divergence, str) else gradients(library, parameters.made, divergence)
                results.append((divergence, derivatives))
            if isinstance(results[1][0], str):
                # PyTorch does not broadcast the batches of multivariate normal distributions.
                assert isinstance(results[0][0], str) or "expand" in results[1][0], f"KL({p} || {q})"
                continue
            same(results[0][0], results[1][0], 1e-9, f"KL({p} || {q})")
            if not results[1][0].isfinite().all():
                continue
            for number, (ours, theirs) in enumerate(zip(results[0][1], results[1][1], strict=True)):
                same(ours, theirs, 1e-8, f"KL({p} || {q}): gradient of parameter {number}")


MISTAKES = {
    "scale": lambda t, d: d.Normal(0.0, -1.0),
    "uniform": lambda t, d: d.Uniform(2.0, 1.0),
    "dirichlet": lambda t, d: d.Dirichlet(t.tensor(1.0)),
    "neither": lambda t, d: d.Bernoulli(),
    "both": lambda t, d: d.Categorical(t.ones(2), t.ones(2)),
    "probs": lambda t, d: d.Categorical(t.tensor([-1.0, 2.0])),
    "probs dim": lambda t, d: d.Categorical(t.tensor(0.3)),
    "geometric": lambda t, d: d.Geometric(t.tensor([0.0, 1.0])),
    "total count": lambda t, d: d.Multinomial(t.tensor([3]), t.ones(2)),
    "negative count": lambda t, d: d.Multinomial(-1, t.ones(2)),
    "negative binomial": lambda t, d: d.NegativeBinomial(3, t.tensor(1.0)),
    "rate": lambda t, d: d.Poisson(-1.0),
    "multivariate none": lambda t, d: d.MultivariateNormal(t.zeros(2)),
    "multivariate loc": lambda t, d: d.MultivariateNormal(t.tensor(0.0), t.eye(2)),
    "multivariate vector": lambda t, d: d.MultivariateNormal(t.zeros(2), t.ones(2)),
    "multivariate factor": lambda t, d: d.MultivariateNormal(t.zeros(2), scale_tril=t.ones(2)),
    "multivariate values": lambda t, d: d.MultivariateNormal(t.zeros(2), -t.eye(2)),
    "low rank vector": lambda t, d: d.LowRankMultivariateNormal(t.zeros(3), t.ones(2), t.ones(3)),
    "low rank rows": lambda t, d: d.LowRankMultivariateNormal(t.zeros(3), t.ones(2, 2), t.ones(3)),
    "low rank diagonal": lambda t, d: d.LowRankMultivariateNormal(t.zeros(3), t.ones(3, 2), t.ones(2)),
    "low rank batch": lambda t, d: d.LowRankMultivariateNormal(t.zeros(2, 3), t.ones(5, 3, 2), t.ones(3)),
    "wishart df": lambda t, d: d.Wishart(t.tensor(0.5), t.eye(2)),
    "wishart none": lambda t, d: d.Wishart(t.tensor(3.0)),
    "wishart vector": lambda t, d: d.Wishart(t.tensor(3.0), t.ones(2)),
    "lkj": lambda t, d: d.LKJCholesky(1),
    "lkj-float": lambda t, d: d.LKJCholesky(1.5),
    "independent": lambda t, d: d.Independent(d.Normal(t.zeros(2), 1.0), 2),
    "mixture weights": lambda t, d: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(t.zeros(2), 1.0)),
    "mixture components": lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(2)), 3),
    "mixture count": lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(2)), d.Normal(t.zeros(3), 1.0)),
    "mixture batch": lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(3, 2)), d.Normal(t.zeros(4, 2), 1.0)),
    "transformed shape": lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), d.StickBreakingTransform()),
    "transformed by 3": lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), 3),
    "transformed by [3]": lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), [3]),
    "text": lambda t, d: d.Normal("a", 1.0),
    "shapes": lambda t, d: d.Normal(t.zeros(2), t.ones(3)),
    "value of a number": lambda t, d: d.Normal(0.0, 1.0).log_prob(1.0),
    "value NaN": lambda t, d: d.Normal(0.0, 1.0).log_prob(t.tensor(float("nan"))),
    "value outside": lambda t, d: d.Bernoulli(0.2).log_prob(t.tensor(0.3)),
    "value shape": lambda t, d: d.Normal(t.zeros(3), 1.0).log_prob(t.ones(2)),
    "value event": lambda t, d: d.Dirichlet(t.ones(3)).log_prob(t.ones(2)),
    "value category": lambda t, d: d.Categorical(t.ones(3)).log_prob(t.tensor(3)),
    "value of cdf": lambda t, d: d.Exponential(1.0).cdf(t.tensor(-1.0)),
    "counts": lambda t, d: d.Binomial(t.tensor([2, 3]), t.tensor(0.2)).enumerate_support(),
    "counts of entropy": lambda t, d: d.Binomial(t.tensor([2, 3]), t.tensor(0.2)).entropy(),
    "no rsample": lambda t, d: d.Bernoulli(0.1).rsample(),
    "no mode": lambda t, d: d.ContinuousBernoulli(0.2).mode,
    "no cdf": lambda t, d: d.Bernoulli(0.1).cdf(t.tensor(0.0)),
    "no divergence": lambda t, d: d.kl_divergence(d.Normal(0.0, 1.0), d.Poisson(1.0)),
    "register": lambda t, d: d.register_kl(3, d.Normal),
    "validation": lambda t, d: d.Distribution.set_default_validate_args(3),
    "enumeration": lambda t, d: d.Independent(d.Bernoulli(t.ones(2)), 1).enumerate_support(),
    "subclass": lambda t, d: type("Own", (d.Normal,), {"__init__": lambda self: None})().expand((2,)),
}


def everything(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".replace("gradloom", "torch").split())


@pytest.mark.parametrize("name", MISTAKES)
def test_errors(name):
    ours = everything(MISTAKES[name], gradloom, gradloom.distributions)
    theirs = everything(MISTAKES[name], torch, torch.distributions)
    assert isinstance(theirs, str)
    assert ours == theirs


def test_arguments_are_not_checked_without_validation():
    for library in (gradloom, torch):
        d = library.distributions
        assert d.Normal(0.0, -1.0, validate_args=False).scale == -1
        assert d.Bernoulli(0.2, validate_args=False).log_prob(library.tensor(0.3)).isfinite()
        d.Distribution.set_default_validate_args(False)
        try:
            assert d.Normal(0.0, -1.0).scale == -1
        finally:
            d.Distribution.set_default_validate_args(True)


def test_classes_of_another_library_are_registered():
    class Other:
        pass

    for library in (gradloom, torch):
        d = library.distributions
        try:
            assert d.register_kl(d.Normal, Other)(lambda p, q: 3) and d.kl_divergence(d.Normal(0.0, 1.0), Other()) == 3
        finally:
            del d.kl._KL_REGISTRY[d.Normal, Other]
            d.kl._KL_MEMOIZE.clear()


def test_an_ambiguous_pair_is_warned_of():
    for library in (gradloom, torch):
        d = library.distributions

        class First(d.Normal):
            pass

        class Second(First):
            pass

        before = dict(d.kl._KL_REGISTRY)
        try:
            d.register_kl(First, d.Normal)(lambda p, q: 1)
            d.register_kl(d.Normal, Second)(lambda p, q: 2)
            with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Second, Second\)"):
                assert d.kl_divergence(Second(0.0, 1.0), Second(0.0, 1.0)) == 1
        finally:
            d.kl._KL_REGISTRY.clear()
            d.kl._KL_REGISTRY.update(before)
            d.kl._KL_MEMOIZE.clear()
