"""Differentiable maps between sets of values, with their inverses and the determinants of their Jacobians."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import gradloom as gl
from gradloom import Size, Tensor
from gradloom.nn.functional import logsigmoid, pad, softplus

from ..types.public import found_in as _found_in
from . import constraints
from ._transform import (
    TOO_FEW,
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    Plain,
    StackTransform,
    Transform,
    _InverseTransform as _InverseTransform,
    identity_transform,
    require,
    widened,
)
from .utils import _sum_rightmost, broadcast_all, lazy_property, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class ReshapeTransform(Transform):
    """Give the last dimensions another shape of as many elements.

    Args:
        in_shape: their shape in x.
        out_shape: their shape in y.
        cache_size: see `Transform`.
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        require(
            self.in_shape.numel() == self.out_shape.numel(), "in_shape, out_shape have different numbers of elements"
        )
        super().__init__(cache_size=cache_size)

    def _options(self):
        return self.in_shape, self.out_shape

    @constraints.dependent_property
    def domain(self):
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self):
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x):
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape):
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Any, old: Size, new: Size) -> Any:
    """Return `shape` with its last dimensions `old` replaced by `new`."""
    require(len(shape) >= len(old), TOO_FEW)
    cut = len(shape) - len(old)
    require(tuple(shape[cut:]) == tuple(old), f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return shape[:cut] + new


class ExpTransform(Plain):
    """y = exp(x)."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class PowerTransform(Transform):
    """y = x ** exponent, for positive x. The exponent is a tensor that broadcasts with x."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def _options(self):
        return (self.exponent,)

    @lazy_property
    def sign(self):
        return self.exponent.sign()

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        return gl.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def _sigmoid_inside(x: Tensor) -> Tensor:
    """Return sigmoid(x), kept away from 0 and 1."""
    limits = gl.finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1 - limits.eps)


class SigmoidTransform(Plain):
    """y = 1 / (1 + exp(-x)), and x = logit(y)."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x):
        return _sigmoid_inside(x)

    def _inverse(self, y):
        limits = gl.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Plain):
    """y = log(1 + exp(x))."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x):
        return softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x)


class TanhTransform(Plain):
    """y = tanh(x)."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x, y):
        # log(1 - tanh(x)^2) = log 4 - 2 x - 2 log(1 + exp(-2 x)), without cancellation.
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Plain):
    """y = |x|, with the positive x as pseudo-inverse."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """y = loc + scale * x.

    Args:
        loc, scale: tensors or numbers.
        event_dim: number of dimensions that count as one event.
        cache_size: see `Transform`.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    def _options(self):
        return self.loc, self.scale, self.event_dim

    @property
    def event_dim(self):
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return widened(constraints.real, self._event_dim)

    codomain = domain

    def __eq__(self, other):
        def same(ours, theirs):
            return ours == theirs if isinstance(ours == theirs, bool) else bool((ours == theirs).all())

        return isinstance(other, AffineTransform) and same(self.loc, other.loc) and same(self.scale, other.scale)

    @property
    def sign(self):
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        if isinstance(self.scale, Tensor):
            result = self.scale.abs().log()
        else:
            result = gl.full_like(x, math.log(abs(self.scale)))
        return _sum_rightmost(result.expand(x.shape), self._event_dim)

    def forward_shape(self, shape):
        return gl.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


class SoftmaxTransform(Plain):
    """y = softmax(x) over the last dimension; a pseudo-inverse is log(y). As x can be shifted, it is not bijective."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x):
        return gl.softmax(x, -1)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        require(len(shape) >= 1, TOO_FEW)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Plain):
    """Map K - 1 numbers to a point of the simplex of K: each takes a share of what the ones before it left.

    Element k takes the share sigmoid(x_k - log(K - 1 - k)), so that x = 0 gives equal parts.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _log_parts_left(x: Tensor) -> Tensor:
        count = x.shape[-1]
        return gl.arange(count, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x):
        share = _sigmoid_inside(x - self._log_parts_left(x))
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y):
        parts = y[..., :-1]
        left = (1 - parts.cumsum(-1)).clamp(min=gl.finfo(y.dtype).tiny)
        return parts.log() - left.log() + self._log_parts_left(parts)

    def log_abs_det_jacobian(self, x, y):
        shifted = x - self._log_parts_left(x)
        return (logsigmoid(shifted) - shifted + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        require(len(shape) >= 1, TOO_FEW)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape):
        require(len(shape) >= 1, TOO_FEW)
        return shape[:-1] + (shape[-1] - 1,)


class CorrCholeskyTransform(Transform):
    """Map n (n - 1) / 2 numbers to the Cholesky factor of a correlation matrix (n, n).

    Their tanh are partial correlations: element (i, j) takes that part of the norm that row i has left before column j.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        eps = gl.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial**2).sqrt().cumprod(-1)
        ones = gl.eye(partial.shape[-1], dtype=partial.dtype, device=partial.device)
        return (partial + ones) * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        left = pad(1 - (y * y).cumsum(-1)[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y):
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        log_slope = 2 * (math.log(2.0) - x - softplus(-2 * x))  # of tanh
        return left.log().sum(-1) / 2 + log_slope.sum(-1)

    def forward_shape(self, shape):
        require(len(shape) >= 1, TOO_FEW)
        size = round(math.sqrt(0.25 + 2 * shape[-1]) + 0.5)
        require(size * (size - 1) // 2 == shape[-1], "Input is not a flattened lower-diagonal number")
        return shape[:-1] + (size, size)

    def inverse_shape(self, shape):
        require(len(shape) >= 2, TOO_FEW)
        require(shape[-2] == shape[-1], "Input is not square")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


def _on_diagonal(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Return lower triangular matrices with `function` applied to the diagonal."""
    return x.tril(-1) + function(x.diagonal(dim1=-2, dim2=-1)).diag_embed()


class LowerCholeskyTransform(Plain):
    """Map matrices to lower triangular ones with a positive diagonal: exp of the diagonal, zeros above it."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x):
        return _on_diagonal(x, gl.exp)

    def _inverse(self, y):
        return _on_diagonal(y, gl.log)


class PositiveDefiniteTransform(Plain):
    """Map matrices to positive definite ones, L Lᵀ with the factor of `LowerCholeskyTransform`."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(gl.linalg.cholesky(y))


class CumulativeDistributionTransform(Transform):
    """y = F(x), the cumulative distribution function of a distribution of numbers: uniform on [0, 1] if x is drawn from
    it."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    def _options(self):
        return (self.distribution,)

    @property
    def domain(self):
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)


_found_in(__name__, CatTransform, ComposeTransform, IndependentTransform, StackTransform, Transform)
