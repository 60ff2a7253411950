"""Kullback-Leibler divergences KL(p || q) = E_p[log p(x) - log q(x)] in closed form.

The divergence of numbers is the cross entropy of p and q minus the entropy of p. The cross entropy needs few moments of
p: those that log q is linear in, such as the mean and the variance for a normal q.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import gradloom as gl
from gradloom import Tensor
from gradloom.nn.functional import softplus

from ._bounded import ContinuousBernoulli, Uniform
from ._combined import Independent, TransformedDistribution
from ._discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from ._gamma import Beta, Dirichlet, Exponential, Gamma
from ._matrix import LowRankMultivariateNormal, MultivariateNormal, batch_mahalanobis, log_diagonal
from ._normal import Cauchy, Gumbel, HalfNormal, Laplace, Normal
from ._tails import Pareto
from .distribution import Distribution, ExponentialFamily
from .utils import _sum_rightmost, euler_constant

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[..., Tensor]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Callable[..., Tensor]] = {}  # at most one entry for each pair of classes used


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Return a decorator that registers a function of (p, q) for `kl_divergence`.

    The function is used for subclasses, too. If several fit, the one for the nearest base classes is chosen.

    Args:
        type_p, type_q: classes of distributions. They need not be subclasses of `Distribution`: some libraries have
            a base class of their own.

    Raises:
        TypeError: for what is no class.
    """
    for kind in (type_p, type_q):
        issubclass(kind, Distribution)  # raises for what is no class

    def decorator(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorator


def _dispatch_kl(type_p: type, type_q: type) -> Callable[..., Tensor]:
    """Return the function for two classes, or NotImplemented. Warns if the nearest for p and for q differ."""
    bases_p, bases_q = type_p.__mro__, type_q.__mro__
    distances = [(bases_p.index(p), bases_q.index(q)) for p, q in _KL_REGISTRY if p in bases_p and q in bases_q]
    if not distances:
        return NotImplemented
    for_p, for_q = min(distances), min(distances, key=lambda pair: pair[::-1])
    chosen, other = [_KL_REGISTRY[bases_p[i], bases_q[j]] for i, j in (for_p, for_q)]
    if chosen is not other:
        suggestion = f"register_kl({bases_p[for_p[0]].__name__}, {bases_q[for_q[1]].__name__})"
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please {suggestion}",
            RuntimeWarning,
            stacklevel=3,
        )
    return chosen


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return KL(p || q), of the shape of the batch.

    Args:
        p, q: distributions.

    Raises:
        NotImplementedError: if no function is registered for their classes.
    """
    kinds = type(p), type(q)
    function = _KL_MEMOIZE.get(kinds)
    if function is None:
        function = _KL_MEMOIZE[kinds] = _dispatch_kl(*kinds)
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {kinds[0].__name__} and q type {kinds[1].__name__}"
        )
    return function(p, q)


def _unbounded(like: Tensor) -> Tensor:
    return gl.full_like(like, gl.inf)


def _infinite(p, q):
    """Return infinity: p gives weight to values that q excludes."""
    return _unbounded(p.mean)


# Pairs of which the support of the first is never within that of the second.
_OUTSIDE = {
    Beta: [Pareto],
    ContinuousBernoulli: [Pareto],
    Exponential: [Beta, ContinuousBernoulli, Pareto, Uniform],
    Gamma: [Beta, ContinuousBernoulli, Pareto, Uniform],
    Gumbel: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Laplace: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Normal: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Pareto: [Beta, ContinuousBernoulli, Uniform],
    Poisson: [Bernoulli, Binomial],
}
for _p, _excluding in _OUTSIDE.items():
    for _q in _excluding:
        register_kl(_p, _q)(_infinite)


def _to_normal(p, q):
    spread = (p.variance + (p.mean - q.loc).pow(2)) / q.scale.pow(2)
    return 0.5 * (math.log(2 * math.pi) + spread) + q.scale.log()


def _to_exponential(p, q):
    return q.rate * p.mean - q.rate.log()


def _to_gamma(p, q):
    norm = gl.lgamma(q.concentration) - q.concentration * q.rate.log()
    return norm - (q.concentration - 1) * _mean_log(p) + q.rate * p.mean


def _to_gumbel(p, q):
    # -log q(x) = log scale + z + exp(-z) for z = (x - loc) / scale
    return q.scale.log() + (p.mean - q.loc) / q.scale + gl.exp(q.loc / q.scale) * _laplace_transform(p, 1 / q.scale)


def _to_continuous_bernoulli(p, q):
    return -q._cont_bern_log_norm() - p.mean * q.logits - gl.log1p(-q.probs)


def _mean_log(p):
    """Return E log x, for a p of positive values."""
    if isinstance(p, Beta):
        return gl.digamma(p.concentration1) - gl.digamma(p.concentration1 + p.concentration0)
    if isinstance(p, Gamma):
        return gl.digamma(p.concentration) - p.rate.log()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + 1 / p.alpha
    return (gl.xlogy(p.high, p.high) - gl.xlogy(p.low, p.low)) / (p.high - p.low) - 1  # uniform


def _laplace_transform(p, t):
    """Return E exp(-t x)."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + t)
    if isinstance(p, Gamma):
        return gl.exp(-p.concentration * gl.log1p(t / p.rate))
    if isinstance(p, Normal):
        return gl.exp(t * (t * p.scale.pow(2) / 2 - p.loc))
    return (gl.exp(-t * p.low) - gl.exp(-t * p.high)) / (t * (p.high - p.low))  # uniform


def _by_cross_entropy(cross_entropy: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda p, q: cross_entropy(p, q) - p.entropy()


for _cross_entropy, _q, _from in (
    (_to_normal, Normal, [Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform]),
    (_to_exponential, Exponential, [Beta, ContinuousBernoulli, Exponential, Gamma]),
    (_to_gamma, Gamma, [Beta, Exponential, Gamma]),
    (_to_gumbel, Gumbel, [Exponential, Gamma, Normal]),
    (_to_continuous_bernoulli, ContinuousBernoulli, [Beta, ContinuousBernoulli]),
):
    for _p in _from:
        register_kl(_p, _q)(_by_cross_entropy(_cross_entropy))


@register_kl(Pareto, Exponential)
@register_kl(Pareto, Gamma)
@register_kl(Pareto, Normal)
def _kl_pareto(p, q):
    # The mean is infinite for alpha <= 1, the variance for alpha <= 2.
    if isinstance(q, Normal):
        return gl.where(p.alpha > 2, _to_normal(p, q) - p.entropy(), gl.inf)
    cross_entropy = _to_gamma(p, q) if isinstance(q, Gamma) else _to_exponential(p, q)
    return gl.where(p.alpha > 1, cross_entropy - p.entropy(), gl.inf)


def _within(inside: Tensor, divergence: Tensor) -> Tensor:
    return gl.where(inside, divergence, gl.inf)


@register_kl(Uniform, Exponential)
@register_kl(Uniform, Gamma)
def _kl_uniform_positive(p, q):
    cross_entropy = _to_gamma(p, q) if isinstance(q, Gamma) else _to_exponential(p, q)
    return _within(p.low >= 0, cross_entropy - p.entropy())


@register_kl(Uniform, Gumbel)
def _kl_uniform_gumbel(p, q):
    return _to_gumbel(p, q) - p.entropy()


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p, q):
    from_one = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    norm = q._log_normalizer(q.concentration1, q.concentration0)
    towards = (q.concentration1 - 1) * _mean_log(p) + (q.concentration0 - 1) * _mean_log(from_one)
    return _within((p.low >= 0) & (p.high <= 1), norm - towards - p.entropy())


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p, q):
    return _within((p.low >= 0) & (p.high <= 1), _to_continuous_bernoulli(p, q) - p.entropy())


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p, q):
    cross_entropy = (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()
    return _within(p.low >= q.scale, cross_entropy - p.entropy())


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p, q):
    return _within((q.low <= p.low) & (q.high >= p.high), gl.log((q.high - q.low) / (p.high - p.low)))


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p, q):
    return _within((q.low <= 0) & (q.high >= 1), q.entropy() - p.entropy())


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p, q):
    return _within((q.low <= 0) & (q.high >= 1), q.entropy() - p.entropy())


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p, q):
    divergence = q.alpha * gl.log(p.scale / q.scale) + gl.log(p.alpha / q.alpha) + q.alpha / p.alpha - 1
    return _within(p.scale >= q.scale, divergence)


@register_kl(Normal, Normal)
def _kl_normal_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p, q):
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p, q):
    # The mean distance from q.loc is that of a folded normal variable.
    z = (p.loc - q.loc) / p.scale
    distance = math.sqrt(2 / math.pi) * gl.exp(-0.5 * z**2) + z * gl.erf(math.sqrt(0.5) * z)
    return p.scale / q.scale * distance + gl.log(2 * q.scale) - p.entropy()


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p, q):
    distance = (p.loc - q.loc).abs()
    spread = p.scale * gl.exp(-distance / p.scale)
    return gl.log(q.scale / p.scale) + (distance + spread) / q.scale - 1


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p, q):
    # Chyzak and Nielsen 2019
    square = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return gl.log(square) - gl.log(4 * p.scale * q.scale)


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p, q):
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    mean = ratio * euler_constant - shift
    return mean - ratio.log() - 1 - euler_constant + gl.exp(shift + gl.lgamma(1 + ratio))


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p, q):
    def part(ours, theirs, difference):
        return gl.where(ours == 0, 0.0, gl.where(theirs == 0, gl.inf, ours * difference))

    one = part(p.probs, q.probs, softplus(-q.logits) - softplus(-p.logits))
    return one + part(1 - p.probs, 1 - q.probs, softplus(q.logits) - softplus(p.logits))


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p, q):
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p, q):
    # For more trials than q's, p has values that q excludes; for fewer there is no closed form.
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    each = p.probs * (p.logits - q.logits) + gl.log1p(-p.probs) - gl.log1p(-q.probs)
    return gl.where(p.total_count > q.total_count, gl.inf, p.total_count * each)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p, q):
    return -p.entropy() - gl.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p, q):
    each = p.probs * (p.logits - q.logits)
    each = gl.where((q.probs == 0).expand_as(each), gl.inf, each)
    return gl.where((p.probs == 0).expand_as(each), 0.0, each).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p, q):
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Beta, Beta)
def _kl_beta_beta(p, q):
    return _kl_dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p, q):
    ours, theirs = p.concentration, q.concentration
    mean_logs = gl.digamma(ours) - gl.digamma(ours.sum(-1, True))
    return q._log_beta() - p._log_beta() + ((ours - theirs) * mean_logs).sum(-1)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    # A Bregman divergence of the log normalizer (Nielsen and Nock 2010): F(q) - F(p) - <q - p, grad F(p)>
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    ours, normalizer, gradients = p._legendre()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for mine, other, gradient in zip(ours, q._natural_params, gradients, strict=True):
        result = result - _sum_rightmost((other - mine) * gradient, len(q.event_shape))
    return result


def _kl_gaussian(p_log_det, q_log_det, trace, distance, size):
    return 0.5 * (q_log_det - p_log_det + trace + distance - size)


def _require_same_events(p, q, name):
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {name} with different event shapes cannot be computed")


def _covariance_factors(p):
    """Return matrices whose products with their transposes add up to the covariance."""
    if isinstance(p, MultivariateNormal):
        return [p._unbroadcasted_scale_tril]
    return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]


def _log_det(p):
    if isinstance(p, MultivariateNormal):
        return 2 * log_diagonal(p._unbroadcasted_scale_tril)
    return p._log_det()


def _quadratic(q, x):
    """Return xᵀ C⁻¹ x with the covariance C of q, for vectors x (..., n)."""
    if isinstance(q, MultivariateNormal):
        return batch_mahalanobis(q._unbroadcasted_scale_tril, x)
    return q._mahalanobis(x)


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariate(p, q):
    low_rank = isinstance(p, LowRankMultivariateNormal) and isinstance(q, LowRankMultivariateNormal)
    both = isinstance(p, MultivariateNormal) and isinstance(q, MultivariateNormal)
    name = "Low Rank Multivariate Normals" if low_rank else "Multivariate Normals"
    if not low_rank and not both:
        name = "(Low Rank) Multivariate Normals"
    _require_same_events(p, q, name)
    # The trace of C⁻¹ A Aᵀ is the sum of the quadratic forms of the columns of A, along the batch's first dimension.
    trace = 0
    for factor in _covariance_factors(p):
        columns = factor.movedim(-1, 0)
        batch = gl.broadcast_shapes(columns.shape[1:-1], q.batch_shape)
        columns = columns.reshape(columns.shape[:1] + (1,) * (len(batch) + 2 - columns.dim()) + columns.shape[1:])
        trace = trace + _quadratic(q, columns.expand(columns.shape[:1] + batch + columns.shape[-1:])).sum(0)
    distance = _quadratic(q, q.loc - p.loc)
    return _kl_gaussian(_log_det(p), _log_det(q), trace, distance, p.event_shape[0])


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
