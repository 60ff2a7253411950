"""Distributions of vectors and matrices: multivariate normal, Wishart, and Cholesky factors of correlations."""

from __future__ import annotations

import math
import warnings
from typing import Any

import gradloom as gl
from gradloom import Size, Tensor

from . import constraints
from ._gamma import Beta, Chi2
from .distribution import EMPTY, Distribution, ExponentialFamily, Parametric
from .utils import _standard_normal, lazy_property

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"]


def batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return the products of matrices (..., m, n) and vectors (..., n), whose batches broadcast."""
    return gl.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def batch_mahalanobis(tril: Tensor, x: Tensor) -> Tensor:
    """Return |L⁻¹ x|² for factors L (..., n, n) and vectors x (..., n), whose batches broadcast."""
    if tril.dim() == 2:
        solved = gl.linalg.solve_triangular(tril, x.reshape(-1, x.shape[-1]).T, upper=False)
        return solved.pow(2).sum(0).reshape(x.shape[:-1])
    return gl.linalg.solve_triangular(tril, x.unsqueeze(-1), upper=False).pow(2).sum((-2, -1))


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """Return the Cholesky factor of the inverse of positive definite matrices (..., n, n)."""
    # If J reverses the order, P = U Uᵀ with the upper factor U = J chol(J P J) J, and the inverse of P is U⁻ᵀ U⁻¹.
    upper = gl.linalg.cholesky(precision.flip((-2, -1))).flip((-2, -1))
    identity = gl.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return gl.linalg.solve_triangular(upper.mT, identity, upper=False)


def log_diagonal(tril: Tensor) -> Tensor:
    """Return the sum of the logarithms of the diagonals, half a log determinant: shape (...)."""
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _only_form(error: type[Exception], **forms: Tensor | None) -> tuple[str, Tensor]:
    """Return the name and the matrix of the form that is given. Raises `error` unless it is exactly one."""
    given = [(name, form) for name, form in forms.items() if form is not None]
    if len(given) != 1:
        raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    return given[0]


class _ByCovariance(Parametric):
    """A distribution with a positive definite matrix in one of three forms; the others are computed on first use."""

    _unbroadcasted_scale_tril: Tensor
    _copied = ("_unbroadcasted_scale_tril",)

    def _set_matrix(self, name: str, matrix: Tensor, batch_shape: Size) -> None:
        """Store the given form, expanded, and the factor of the unexpanded matrix."""
        self.__dict__[name] = matrix.expand(batch_shape + matrix.shape[-2:])
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = gl.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = precision_to_scale_tril(matrix)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the matrix."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The matrix."""
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Its inverse."""
        return self._whole(gl.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(_ByCovariance):
    """The normal distribution of vectors.

    Args:
        loc: (..., n) mean.
        covariance_matrix, precision_matrix, scale_tril: (..., n, n); one of the covariances, their inverses, and their
            Cholesky factors.
        validate_args: see `Distribution`.

    Raises:
        ValueError: if not exactly one matrix is given, or it has less than two dimensions.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = _only_form(
            ValueError, scale_tril=scale_tril, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix
        )
        if matrix.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{what} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = gl.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand(batch_shape + matrix.shape[-2:])
        self.loc = loc.expand(batch_shape + loc.shape[-1:])
        Distribution.__init__(self, batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._set_matrix(name, matrix, batch_shape)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=EMPTY):
        shape = self._extended_shape(sample_shape)
        return self.loc + batch_mv(
            self._unbroadcasted_scale_tril, _standard_normal(shape, self.loc.dtype, self.loc.device)
        )

    def log_prob(self, value):
        self._check(value)
        factor = self._unbroadcasted_scale_tril
        distance = batch_mahalanobis(factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - log_diagonal(factor)

    def entropy(self):
        result = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (result + log_diagonal(self._unbroadcasted_scale_tril)).expand(self._batch_shape)


class LowRankMultivariateNormal(Parametric):
    """The normal distribution of vectors with the covariance W Wᵀ + D, where W has few columns and D is diagonal.

    Densities and inverses take time linear in n, by the matrix inversion lemma and the capacitance I + Wᵀ D⁻¹ W.

    Args:
        loc: (..., n) mean.
        cov_factor: (..., n, r), W.
        cov_diag: (..., n), the diagonal of D.
        validate_args: see `Distribution`.

    Raises:
        ValueError: if the shapes do not fit.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _copied = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = gl.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(batch_shape + event_shape)
        self.cov_diag = cov_diag.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        Distribution.__init__(self, batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = gl.linalg.cholesky(self._with_identity(self._scaled() @ cov_factor))

    def _scaled(self) -> Tensor:
        """Wᵀ D⁻¹."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    @staticmethod
    def _with_identity(matrix: Tensor) -> Tensor:
        return matrix + gl.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @lazy_property
    def variance(self):
        total = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return total.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariances: D^½ chol(I + D^-½ W Wᵀ D^-½)."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return self._whole(root * gl.linalg.cholesky(self._with_identity(scaled @ scaled.mT)))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariances (..., n, n)."""
        factor = self._unbroadcasted_cov_factor
        return self._whole(factor @ factor.mT + gl.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Their inverses (..., n, n)."""
        half = gl.linalg.solve_triangular(self._capacitance_tril, self._scaled(), upper=False)
        return self._whole(gl.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - half.mT @ half)

    def rsample(self, sample_shape=EMPTY):
        shape = self._extended_shape(sample_shape)
        few = shape[:-1] + self.cov_factor.shape[-1:]
        in_factor = _standard_normal(few, self.loc.dtype, self.loc.device)
        in_diag = _standard_normal(shape, self.loc.dtype, self.loc.device)
        spread = self._unbroadcasted_cov_diag.sqrt() * in_diag
        return self.loc + batch_mv(self._unbroadcasted_cov_factor, in_factor) + spread

    def _mahalanobis(self, x: Tensor) -> Tensor:
        """Return xᵀ (W Wᵀ + D)⁻¹ x for vectors (..., n)."""
        explained = batch_mahalanobis(self._capacitance_tril, batch_mv(self._scaled(), x))
        return (x.pow(2) / self._unbroadcasted_cov_diag).sum(-1) - explained

    def _log_det(self) -> Tensor:
        """Return the log determinants of the covariances."""
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value):
        self._check(value)
        distance = self._mahalanobis(value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self):
        result = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return result.expand(self._batch_shape)


class Wishart(_ByCovariance, ExponentialFamily):
    """The distribution of a sum of `df` products v vᵀ of normal vectors v of mean 0: positive definite matrices.

    Args:
        df: degrees of freedom, above n - 1.
        covariance_matrix, precision_matrix, scale_tril: (..., n, n); one of the covariances of v, their inverses, and
            their Cholesky factors.
        validate_args: see `Distribution`.

    Raises:
        AssertionError: if not exactly one matrix is given. ValueError: if it has less than two dimensions or df is too
            small.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = _only_form(
            AssertionError,
            scale_tril=scale_tril,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
        )
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if not isinstance(df, Tensor):
            df = gl.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = gl.broadcast_shapes(matrix.shape[:-2], df.shape)
        event_shape = matrix.shape[-2:]
        self.df = df.expand(batch_shape)
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        self.__dict__[name] = matrix.expand(batch_shape + event_shape)
        Distribution.__init__(self, batch_shape, event_shape, validate_args=validate_args)
        if self.df.lt(event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self._set_matrix(name, matrix, batch_shape)
        self._dist_chi2 = self._chi2()

    def _chi2(self) -> Chi2:
        """Return the distributions of the squared diagonal of the factor, one a row."""
        n = self._event_shape[-1]
        rows = gl.arange(n, dtype=self._unbroadcasted_scale_tril.dtype, device=self._unbroadcasted_scale_tril.device)
        return Chi2(self.df.unsqueeze(-1) - rows.expand(tuple(self._batch_shape) + (-1,)))

    def _fill(self, new, batch_shape):
        new._dist_chi2 = self._dist_chi2.expand(batch_shape + self._event_shape[-1:])

    @property
    def arg_constraints(self):
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def _df_of_matrices(self) -> Tensor:
        return self.df.reshape(self._batch_shape + (1, 1))

    @property
    def mean(self):
        return self._df_of_matrices() * self.covariance_matrix

    @property
    def mode(self):
        factor = self._df_of_matrices() - self.covariance_matrix.shape[-1] - 1
        return gl.where(factor > 0, factor, gl.nan) * self.covariance_matrix

    @property
    def variance(self):
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        return self._df_of_matrices() * (matrix.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Any = EMPTY) -> Tensor:
        """Draw products of factors: chi variables on the diagonal, normal ones below it (Bartlett 1933)."""
        n = self._event_shape[-1]
        factor = self._dist_chi2.rsample(sample_shape).sqrt().clamp(min=gl.finfo(self.df.dtype).eps)
        factor = factor.diag_embed(dim1=-2, dim2=-1)
        rows, columns = gl.tril_indices(n, n, offset=-1)
        factor[..., rows, columns] = gl.randn(
            (*sample_shape, *self._batch_shape, n * (n - 1) // 2), dtype=self.df.dtype, device=self.df.device
        )
        root = self._unbroadcasted_scale_tril @ factor
        return root @ root.mT

    def rsample(self, sample_shape=EMPTY, max_try_correction=10):
        """Draw matrices. Singular ones, which rounding may give for a low `df`, are drawn again.

        As in PyTorch 2.13, the first draw is used only where it is singular, so that a seed gives the same numbers.

        Args:
            sample_shape: shape of draws.
            max_try_correction: how often.
        """
        dims = tuple(range(-len(self._batch_shape), 0))
        result = self._bartlett_sampling(Size(sample_shape))
        pending = self.support.check(result)
        pending = pending.amax(dims) if dims else pending
        for _ in range(max_try_correction or 10):
            count = int(pending.sum())
            if not count:
                break
            drawn = self._bartlett_sampling(Size((count,)) if pending.dim() else Size())
            singular = ~self.support.check(drawn)
            result[pending] = drawn
            pending[pending.clone()] = singular.amax(dims) if dims else singular
        return result

    def log_prob(self, value):
        self._check(value)
        df, n = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        log_norm = df * (n * math.log(2) / 2 + log_diagonal(factor)) + gl.mvlgamma(df / 2, n)
        trace = gl.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (df - n - 1) / 2 * gl.linalg.slogdet(value).logabsdet - trace / 2 - log_norm

    def _mean_log_det(self) -> Tensor:
        """Return the sum of digamma((df - i) / 2) over rows i."""
        n = self._event_shape[-1]
        rows = gl.arange(n, dtype=self.df.dtype, device=self.df.device)
        return gl.digamma((self.df.unsqueeze(-1) - rows) / 2).sum(-1)

    def entropy(self):
        df, n = self.df, self._event_shape[-1]
        volume = (n + 1) * (n * math.log(2) / 2 + log_diagonal(self._unbroadcasted_scale_tril))
        return volume + gl.mvlgamma(df / 2, n) - (df - n - 1) / 2 * self._mean_log_det() + df * n / 2

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        return half * (-gl.linalg.slogdet(-2 * x).logabsdet + math.log(2) * n) + gl.mvlgamma(half, n)


class LKJCholesky(Parametric):
    """Cholesky factors of correlation matrices, with a density of the matrix in proportion to its determinant to the
    power concentration - 1 (Lewandowski, Kurowicka and Joe 2009).

    Args:
        dim: number of rows, at least 2.
        concentration: 1 makes all correlation matrices equally likely; more makes correlations smaller.
        validate_args: see `Distribution`.

    Raises:
        ValueError: for a smaller `dim`. TypeError: if it is no int.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _copied = ("dim",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        if not isinstance(dim, int):
            raise TypeError(f"Expected dim to be an int, but found {type(dim).__name__}")
        self.dim = dim
        self.concentration = gl.as_tensor(concentration) if not isinstance(concentration, Tensor) else concentration
        Distribution.__init__(self, self.concentration.size(), Size((dim, dim)), validate_args=validate_args)
        rows = gl.arange(dim, dtype=self.concentration.dtype, device=self.concentration.device) - 1
        rows = rows.clamp(min=0)
        on_diagonal = self.concentration + 0.5 * (dim - 2)
        # The part of a row's norm that is left of the diagonal.
        self._beta = Beta(rows + 0.5, on_diagonal.unsqueeze(-1) - 0.5 * rows)

    def _fill(self, new, batch_shape):
        new._beta = self._beta.expand(batch_shape + (self.dim,))

    def sample(self, sample_shape=EMPTY):
        """Draw factors row by row: a part of the norm, and a direction, the "onion method"."""
        with gl.no_grad():
            part = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            normal = gl.randn(shape, dtype=part.dtype, device=part.device).tril(-1)
            direction = normal / normal.norm(dim=-1, keepdim=True)
            direction[..., 0, :].fill_(0.0)
            below = part.sqrt() * direction
            left = (1 - (below**2).sum(-1)).clamp(min=gl.finfo(below.dtype).tiny)
            return below + gl.diag_embed(left.sqrt())

    def log_prob(self, value):
        self._check(value)
        n, concentration = self.dim, self.concentration
        rows = gl.arange(2, n + 1, device=concentration.device)
        orders = 2 * (concentration - 1).unsqueeze(-1) + n - rows
        unnormalized = (orders * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(-1)
        alpha = concentration + 0.5 * (n - 1)
        volume = gl.mvlgamma(alpha - 0.5, n - 1) - gl.lgamma(alpha) * (n - 1)
        return unnormalized - volume - 0.5 * (n - 1) * math.log(math.pi)
