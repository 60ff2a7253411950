"""Draws have the moments that distributions state, and probabilities and quantiles are inverse: without PyTorch."""

import math
import pickle
import subprocess
import sys

import pytest

import gradloom as torch
from gradloom import distributions

T = torch.tensor
# Distributions with finite fourth moments, so that means and variances of draws converge.
WITH_MOMENTS = {
    "Bernoulli": lambda d: d.Bernoulli(T([0.2, 0.7])),
    "Beta": lambda d: d.Beta(T([0.5, 2.0]), T([1.5, 3.0])),
    "Binomial": lambda d: d.Binomial(T([5.0, 60.0]), T([0.3, 0.6])),
    "Chi2": lambda d: d.Chi2(T([1.0, 5.0])),
    "ContinuousBernoulli": lambda d: d.ContinuousBernoulli(T([0.2, 0.5, 0.9])),
    "Dirichlet": lambda d: d.Dirichlet(T([0.5, 2.0, 3.0])),
    "Exponential": lambda d: d.Exponential(T([0.5, 2.0])),
    "FisherSnedecor": lambda d: d.FisherSnedecor(T([3.0, 9.0]), T([30.0, 40.0])),
    "Gamma": lambda d: d.Gamma(T([0.3, 4.0, 30.0]), T([1.0, 2.0, 3.0])),
    "GeneralizedPareto": lambda d: d.GeneralizedPareto(T([0.0, 1.0, 1.0]), T([1.0, 2.0, 1.0]), T([0.1, -0.5, 0.0])),
    "Geometric": lambda d: d.Geometric(T([0.2, 0.7])),
    "Gumbel": lambda d: d.Gumbel(T([0.0, 1.0]), T([1.0, 2.0])),
    "HalfNormal": lambda d: d.HalfNormal(T([1.0, 2.0])),
    "InverseGamma": lambda d: d.InverseGamma(T([9.0, 12.0]), T([1.0, 2.0])),
    "Kumaraswamy": lambda d: d.Kumaraswamy(T([0.5, 2.0]), T([1.5, 3.0])),
    "Laplace": lambda d: d.Laplace(T([0.0, 1.0]), T([1.0, 2.0])),
    "LogNormal": lambda d: d.LogNormal(T([0.0, 1.0]), T([0.3, 0.2])),
    "LowRankMultivariateNormal": lambda d: d.LowRankMultivariateNormal(T([0.0, 1.0]), T([[1.0], [2.0]]), T([0.5, 0.1])),
    "MixtureSameFamily": lambda d: d.MixtureSameFamily(
        d.Categorical(T([0.2, 0.8])), d.Normal(T([-1.0, 2.0]), T([0.5, 1.0]))
    ),
    "Multinomial": lambda d: d.Multinomial(10, T([0.2, 0.3, 0.5])),
    "MultivariateNormal": lambda d: d.MultivariateNormal(T([0.0, 1.0]), T([[2.0, 0.5], [0.5, 1.0]])),
    "NegativeBinomial": lambda d: d.NegativeBinomial(T([2.0, 5.5]), T([0.3, 0.6])),
    "Normal": lambda d: d.Normal(T([0.0, 1.0]), T([1.0, 2.0])),
    "OneHotCategorical": lambda d: d.OneHotCategorical(T([0.2, 0.3, 0.5])),
    "Pareto": lambda d: d.Pareto(T([1.0, 2.0]), T([9.0, 12.0])),
    "Poisson": lambda d: d.Poisson(T([0.5, 4.0, 30.0])),
    "StudentT": lambda d: d.StudentT(T([9.0, 30.0]), T([0.0, 1.0]), T([1.0, 2.0])),
    "Uniform": lambda d: d.Uniform(T([0.0, 1.0]), T([1.0, 3.0])),
    "Weibull": lambda d: d.Weibull(T([1.0, 2.0]), T([1.5, 3.0])),
    "Wishart": lambda d: d.Wishart(T(5.0), T([[2.0, 0.5], [0.5, 1.0]])),
}
WITH_QUANTILES = {
    "Cauchy": lambda d: d.Cauchy(T([0.0, 1.0]), T([1.0, 2.0])),
    "ContinuousBernoulli": WITH_MOMENTS["ContinuousBernoulli"],
    "Exponential": WITH_MOMENTS["Exponential"],
    "GeneralizedPareto": WITH_MOMENTS["GeneralizedPareto"],
    "Gumbel": WITH_MOMENTS["Gumbel"],
    "HalfCauchy": lambda d: d.HalfCauchy(T([1.0, 2.0])),
    "HalfNormal": WITH_MOMENTS["HalfNormal"],
    "Kumaraswamy": WITH_MOMENTS["Kumaraswamy"],
    "Laplace": WITH_MOMENTS["Laplace"],
    "LogNormal": WITH_MOMENTS["LogNormal"],
    "Normal": WITH_MOMENTS["Normal"],
    "Pareto": WITH_MOMENTS["Pareto"],
    "Uniform": WITH_MOMENTS["Uniform"],
    "Weibull": WITH_MOMENTS["Weibull"],
}


@pytest.fixture(autouse=True)
def double():
    """Tests compute in double precision."""
    torch.set_default_dtype(torch.float64)
    global T
    T = lambda values: torch.tensor(values, dtype=torch.float64)  # noqa: E731
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", WITH_MOMENTS)
def test_draws_have_the_stated_mean_and_variance(name):
    d = WITH_MOMENTS[name](distributions)
    torch.manual_seed(0)
    count = 4000
    draws = d.sample((count,))
    mean, variance = draws.mean(0), draws.var(0)
    # Six standard errors: of the mean by the variance, of the variance by the fourth moment of the draws.
    assert ((mean - d.mean).abs() <= 6 * (d.variance / count).sqrt() + 1e-9).all()
    fourth = ((draws - mean) ** 4).mean(0)
    assert ((variance - d.variance).abs() <= 6 * (fourth / count).sqrt() + 1e-9).all()


@pytest.mark.parametrize("name", WITH_QUANTILES)
def test_quantiles_and_probabilities_are_inverse(name):
    d = WITH_QUANTILES[name](distributions)
    levels = torch.linspace(0.02, 0.98, 25).unsqueeze(-1).expand(25, *d.batch_shape)
    assert torch.allclose(d.cdf(d.icdf(levels)), levels, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", WITH_QUANTILES)
def test_the_density_is_the_slope_of_the_probability(name):
    d = WITH_QUANTILES[name](distributions)
    values = d.icdf(torch.linspace(0.1, 0.9, 10).unsqueeze(-1).expand(10, *d.batch_shape)).detach().requires_grad_()
    (slope,) = torch.autograd.grad(d.cdf(values).sum(), values)
    assert torch.allclose(d.log_prob(values).exp(), slope, rtol=1e-8)


@pytest.mark.parametrize("name", ["Bernoulli", "Binomial-7", "Categorical", "OneHotCategorical", "Bernoulli-half"])
def test_probabilities_of_all_values_add_up_to_one(name):
    d = {
        "Bernoulli": distributions.Bernoulli(T([0.2, 0.7])),
        "Bernoulli-half": distributions.Bernoulli(logits=T([0.0])),
        "Binomial-7": distributions.Binomial(7, T([0.2, 0.7])),
        "Categorical": distributions.Categorical(T([[0.2, 0.7], [0.1, 0.9]])),
        "OneHotCategorical": distributions.OneHotCategorical(T([0.2, 0.7])),
    }[name]
    total = d.log_prob(d.enumerate_support()).exp().sum(0)
    assert torch.allclose(total, torch.ones(d.batch_shape))


PAIRS = {
    "Normal-Normal": lambda d: (d.Normal(0.3, 1.2), d.Normal(-0.5, 0.8)),
    "Normal-Laplace": lambda d: (d.Normal(0.3, 1.2), d.Laplace(-0.5, 0.8)),
    "Normal-Gumbel": lambda d: (d.Normal(0.3, 0.7), d.Gumbel(0.5, 1.4)),
    "Gamma-Gumbel": lambda d: (d.Gamma(2.0, 1.5), d.Gumbel(0.5, 1.4)),
    "Gamma-Normal": lambda d: (d.Gamma(2.0, 1.5), d.Normal(0.5, 1.4)),
    "Exponential-Gamma": lambda d: (d.Exponential(1.5), d.Gamma(2.0, 1.4)),
    "Beta-Beta": lambda d: (d.Beta(2.0, 1.5), d.Beta(1.2, 3.0)),
    "Beta-ContinuousBernoulli": lambda d: (d.Beta(2.0, 1.5), d.ContinuousBernoulli(0.3)),
    "Uniform-Beta": lambda d: (d.Uniform(0.1, 0.8), d.Beta(1.2, 3.0)),
    "Uniform-Gumbel": lambda d: (d.Uniform(0.1, 0.8), d.Gumbel(0.0, 1.0)),
    "Pareto-Gamma": lambda d: (d.Pareto(1.0, 6.0), d.Gamma(2.0, 1.4)),
    "Gumbel-Gumbel": lambda d: (d.Gumbel(0.3, 1.2), d.Gumbel(0.5, 1.4)),
    "Laplace-Laplace": lambda d: (d.Laplace(0.3, 1.2), d.Laplace(0.5, 0.7)),
    "Cauchy-Cauchy": lambda d: (d.Cauchy(0.3, 1.2), d.Cauchy(0.5, 0.7)),
    "Poisson-Poisson": lambda d: (d.Poisson(3.0), d.Poisson(4.0)),
    "Geometric-Geometric": lambda d: (d.Geometric(0.3), d.Geometric(0.5)),
    "Binomial-Binomial": lambda d: (d.Binomial(7, T(0.3)), d.Binomial(7, T(0.5))),
    "Categorical-Categorical": lambda d: (d.Categorical(T([0.2, 0.8])), d.Categorical(T([0.5, 0.5]))),
    "Dirichlet-Dirichlet": lambda d: (d.Dirichlet(T([1.2, 2.0, 0.7])), d.Dirichlet(T([2.2, 1.0, 1.7]))),
    "MultivariateNormal-LowRank": lambda d: (
        d.MultivariateNormal(T([0.0, 1.0]), T([[2.0, 0.5], [0.5, 1.0]])),
        d.LowRankMultivariateNormal(T([0.5, 0.0]), T([[1.0], [1.0]]), T([0.5, 0.7])),
    ),
    "HalfNormal-HalfNormal": lambda d: (d.HalfNormal(1.2), d.HalfNormal(0.8)),
    "LogNormal-LogNormal": lambda d: (d.LogNormal(0.3, 1.2), d.LogNormal(0.5, 0.8)),
    "Wishart-Wishart": lambda d: (d.Wishart(T(5.0), torch.eye(2)), d.Wishart(T(6.0), 1.5 * torch.eye(2))),
}


@pytest.mark.parametrize("name", PAIRS)
def test_divergences_are_the_mean_difference_of_log_probabilities(name):
    p, q = PAIRS[name](distributions)
    torch.manual_seed(1)
    draws = p.sample((6000,))
    differences = p.log_prob(draws) - q.log_prob(draws)
    error = 6 * differences.std() / math.sqrt(6000)
    assert abs(distributions.kl_divergence(p, q) - differences.mean()) <= error


@pytest.mark.parametrize("name", PAIRS)
def test_the_divergence_of_a_distribution_from_itself_is_zero(name):
    p, _ = PAIRS[name](distributions)
    assert abs(distributions.kl_divergence(p, p)) < 1e-12


def test_modules_of_pytorch_are_aliases():
    from gradloom.distributions.kl import kl_divergence
    from gradloom.distributions.normal import Normal
    from gradloom.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

    assert Normal is distributions.Normal and kl_divergence is distributions.kl_divergence
    assert LogitRelaxedBernoulli.__module__ == "gradloom.distributions.relaxed_bernoulli"
    assert not hasattr(distributions.studentT, "Normal")


def test_importing_gradloom_does_not_import_distributions():
    code = "import sys, gradloom; assert not any('distributions' in m and 'random' not in m for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_subclass_without_expand_is_refused():
    class Shifted(distributions.Normal):
        def __init__(self, loc):
            super().__init__(loc + 1, 1.0)

    with pytest.raises(NotImplementedError, match="Subclass Shifted of Normal that defines a custom __init__"):
        Shifted(T(0.0)).expand((2,))


def test_the_mode_of_kumaraswamy_is_where_its_density_is_largest():
    d = distributions.Kumaraswamy(T(2.5), T(3.5))
    grid = torch.linspace(0.001, 0.999, 9999)
    assert abs(d.mode - grid[d.log_prob(grid).argmax()]) < 2e-4


def test_the_size_of_correlation_matrices_is_an_int():
    with pytest.raises(TypeError, match="dim to be an int"):
        distributions.LKJCholesky(3.0)


def test_a_continuous_bernoulli_variable_of_large_logits_is_symmetric_and_finite():
    one = distributions.ContinuousBernoulli(logits=T([50.0, -50.0]))
    for high, low in (one.log_prob(T(0.5)), one.entropy(), one.variance):
        assert high.isfinite() and float(high) == pytest.approx(float(low), rel=1e-2)
    assert float(one.mean.sum()) == pytest.approx(1)
    assert one.rsample((20,)).isfinite().all()


def test_the_generalized_pareto_distribution_of_concentration_minus_one_is_uniform():
    assert distributions.GeneralizedPareto(1.0, 2.0, -1.0).log_prob(T([1.0, 2.0, 3.0])).tolist() == pytest.approx(
        [-math.log(2)] * 3
    )


def test_draws_for_a_concentration_of_nan_end():
    draws = distributions.VonMises(0.0, T([math.nan, 1.0]), validate_args=False).sample((3,))
    assert draws.isnan().tolist() == [[True, False]] * 3


@pytest.mark.parametrize("registry", [distributions.biject_to, distributions.transform_to])
def test_registries_of_transforms_are_pickled_by_name_and_others_with_their_table(registry):
    assert pickle.loads(pickle.dumps(registry)) is registry
    own = type(registry)()
    own.register(distributions.constraints.positive, type)
    positive = distributions.constraints.positive
    assert pickle.loads(pickle.dumps(own))(positive) is type(positive)
