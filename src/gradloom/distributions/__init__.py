"""Probability distributions: draws, densities, moments and divergences, differentiable in their parameters.

A module holds several families; PyTorch's module of each distribution, such as `distributions.normal`, is an alias.
"""

from __future__ import annotations

import sys as _sys
from types import ModuleType as _ModuleType
from typing import Any as _Any

from . import constraints as constraints, transforms as transforms, utils as utils
from ._bounded import ContinuousBernoulli, Kumaraswamy, Uniform, VonMises
from ._combined import Independent, MixtureSameFamily, TransformedDistribution
from ._discrete import Bernoulli, Binomial, Categorical, Geometric, Multinomial, NegativeBinomial, OneHotCategorical
from ._discrete import OneHotCategoricalStraightThrough, Poisson
from ._gamma import Beta, Chi2, Dirichlet, Exponential, FisherSnedecor, Gamma, InverseGamma
from ._matrix import LKJCholesky, LowRankMultivariateNormal, MultivariateNormal, Wishart
from ._normal import Cauchy, Gumbel, HalfCauchy, HalfNormal, Laplace, LogisticNormal, LogNormal, Normal, StudentT
from ._relaxed import ExpRelaxedCategorical, LogitRelaxedBernoulli, RelaxedBernoulli, RelaxedOneHotCategorical
from ._tails import GeneralizedPareto, Pareto, Weibull
from .constraint_registry import biject_to, transform_to
from .distribution import Distribution, ExponentialFamily
from .kl import _KL_REGISTRY as _KL_REGISTRY, kl_divergence, register_kl
from .transforms import *
from .transforms import __all__ as _transforms
from ..types.absent import getattr_of as _getattr_of

# PyTorch's modules that hold distributions, where the name is not the class's in lower case.
_MODULES: dict[str, list[type]] = {
    "exp_family": [ExponentialFamily],
    "continuous_bernoulli": [ContinuousBernoulli],
    "generalized_pareto": [GeneralizedPareto],
    "half_cauchy": [HalfCauchy],
    "half_normal": [HalfNormal],
    "inverse_gamma": [InverseGamma],
    "lkj_cholesky": [LKJCholesky],
    "log_normal": [LogNormal],
    "logistic_normal": [LogisticNormal],
    "lowrank_multivariate_normal": [LowRankMultivariateNormal],
    "mixture_same_family": [MixtureSameFamily],
    "multivariate_normal": [MultivariateNormal],
    "negative_binomial": [NegativeBinomial],
    "one_hot_categorical": [OneHotCategorical, OneHotCategoricalStraightThrough],
    "relaxed_bernoulli": [LogitRelaxedBernoulli, RelaxedBernoulli],
    "relaxed_categorical": [ExpRelaxedCategorical, RelaxedOneHotCategorical],
    "studentT": [StudentT],
    "transformed_distribution": [TransformedDistribution],
    "von_mises": [VonMises],
    **{
        kind.__name__.lower(): [kind]
        for kind in (
            Bernoulli,
            Beta,
            Binomial,
            Categorical,
            Cauchy,
            Chi2,
            Dirichlet,
            Exponential,
            FisherSnedecor,
            Gamma,
            Geometric,
            Gumbel,
            Independent,
            Kumaraswamy,
            Laplace,
            Multinomial,
            Normal,
            Pareto,
            Poisson,
            Uniform,
            Weibull,
            Wishart,
        )
    },
}

__all__ = ["Distribution", "biject_to", "kl_divergence", "register_kl", "transform_to"]


def _provide_aliases() -> None:
    """Make a module for each entry of _MODULES, and let its classes name it as theirs, as PyTorch's do."""
    for name, kinds in _MODULES.items():
        alias = _ModuleType(f"{__name__}.{name}", f"An alias: {', '.join(kind.__name__ for kind in kinds)}.")
        # by its last part: gradloom.as_torch has named torch.distributions as the package of the classes
        alias.__file__ = _sys.modules[f"{__name__}.{kinds[0].__module__.rpartition('.')[2]}"].__file__
        alias.__dict__["Any"] = _Any  # for annotations of methods, which are looked up in the class's module
        alias.__dict__.update({kind.__name__: kind for kind in kinds}, __all__=[kind.__name__ for kind in kinds])
        for kind in kinds:
            kind.__module__ = alias.__name__
        _sys.modules[alias.__name__] = globals()[name] = alias
        __all__.extend([kind.__name__ for kind in kinds if kind not in _INNER])
    __all__.extend(_transforms)
    __all__.sort()


# In PyTorch, these are in the modules only.
_INNER = (ExpRelaxedCategorical, LogitRelaxedBernoulli)
_provide_aliases()


__getattr__ = _getattr_of(__name__)
