"""Orthogonal polynomials of degree n, an integer held in an array of any dtype; 0 for negative n.

They are computed as PyTorch does, in the dtype of x: by the recurrence of three terms, which gives NaN once its terms
overflow, and inside (-1, 1) for larger degrees of Chebyshev's polynomials by their angle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..elementwise.dtypes import widened

_HERMITE_LIMITS = {"f": 128, "d": 512}  # of the degree; NaN above

Step = Callable[[Any, Any, Any, int], Any]


def _by_recurrence(x: np.ndarray, degree: np.ndarray, first: np.ndarray, step: Step) -> np.ndarray:
    """Return P_n(x) of n = `degree`, for P_0 = 1, P_1 = `first` and P_k+1 = step(P_k, P_k-1, x, k).

    An element is left alone once its degree is reached, or its value is NaN, which it stays.
    """
    found = np.where(degree == 0, 1, first).astype(x.dtype)
    left = np.flatnonzero(degree > 1)
    x, last, before = x.ravel()[left], first.ravel()[left], np.ones(left.size, x.dtype)
    degree, flat, k = degree.ravel()[left], found.reshape(-1), 1
    while left.size:
        last, before = step(last, before, x, k), last
        k += 1
        is_done = (degree == k) | np.isnan(last)
        if is_done.any():
            flat[left[is_done]] = last[is_done]
            left, x, last, before, degree = (a[~is_done] for a in (left, x, last, before, degree))
    return flat.reshape(found.shape)


def _polynomial(evaluate: Callable[[Any, Any], Any], name: str):
    @widened
    def kernel(x, n):
        out = np.empty_like(np.add(x, n), x.dtype)  # laid out as the result of any operator on elements
        x, degree = np.broadcast_arrays(x, np.trunc(n).astype(np.int64))
        out[...] = np.where(degree < 0, 0, evaluate(x, np.maximum(degree, 0)))
        return out

    kernel.__name__ = name
    return kernel


class _Chebyshev(NamedTuple):
    """Chebyshev's polynomials of one kind: P_1, and functions of the degree n and the angle arccos(x) or of n."""

    first: Callable[[Any], Any]
    by_terms: int  # the largest degree for which the recurrence is used inside (-1, 1)
    of_angle: Callable[[Any, Any], Any]
    at_1: Callable[[Any], Any]
    at_minus_1: Callable[[Any], Any]  # without the sign, which is that of (-1)**n
    pole: int = 0  # the end, -1 or 1, close to which the denominator vanishes by rounding

    def evaluate(self, x, degree):
        is_end, inside = np.abs(x) == 1, (np.abs(x) < 1) & (degree > self.by_terms)
        found = _by_recurrence(x, np.where(is_end | inside, 0, degree), self.first(x), _chebyshev_step)
        if inside.any():
            found[inside] = self._inside(x[inside], degree[inside])
        if is_end.any():
            found[is_end] = np.where(x[is_end] > 0, self.at_1(degree[is_end]), self._signed_at_minus_1(degree[is_end]))
        return found

    def _inside(self, x, degree):
        angle = np.arccos(x)
        found = self.of_angle(degree.astype(x.dtype), angle)
        if self.pole < 0:
            found = np.where(np.sin(angle / 2) == 1, self._signed_at_minus_1(degree), found)
        elif self.pole > 0:
            found = np.where(np.cos(angle / 2) == 1, self.at_1(degree), found)
        return found

    def _signed_at_minus_1(self, degree):
        return np.where(degree % 2 == 1, -1, 1) * self.at_minus_1(degree)


def _chebyshev_step(last, before, x, k):
    return (x + x) * last - before


_first_kind = _Chebyshev(
    first=lambda x: x,
    by_terms=6,
    of_angle=lambda n, angle: np.cos(n * angle),
    at_1=np.ones_like,
    at_minus_1=np.ones_like,
)
_second_kind = _Chebyshev(
    first=lambda x: x + x,
    by_terms=8,
    of_angle=lambda n, angle: np.sin((n + 1) * angle) / np.sin(angle),
    at_1=lambda n: n + 1,
    at_minus_1=lambda n: n + 1,
)
_third_kind = _Chebyshev(
    first=lambda x: x + x - 1,
    by_terms=8,
    of_angle=lambda n, angle: np.cos((n + 0.5) * angle) / np.cos(angle / 2),
    at_1=np.ones_like,
    at_minus_1=lambda n: n + n + 1,
    pole=-1,
)
_fourth_kind = _Chebyshev(
    first=lambda x: x + x + 1,
    by_terms=8,
    of_angle=lambda n, angle: np.sin((n + 0.5) * angle) / np.sin(angle / 2),
    at_1=lambda n: n + n + 1,
    at_minus_1=np.ones_like,
    pole=1,
)


def _shifted(evaluate):
    return lambda x, degree: evaluate(x + x - 1, degree)


def _hermite(x, degree, first, step):
    limit = _HERMITE_LIMITS[x.dtype.char]
    found = _by_recurrence(x, np.minimum(degree, limit), first, step)
    return np.where(degree > limit, np.nan, found)


def _physicists(x, degree):
    def step(last, before, x, k):
        return (x + x) * last - 2 * k * before

    return _hermite(x, degree, x + x, step)


def _probabilists(x, degree):
    def step(last, before, x, k):
        return x * last - k * before

    return _hermite(x, degree, x, step)


def _laguerre(x, degree):
    def step(last, before, x, k):
        return ((2 * k + (1 - x)) * last - k * before) / (k + 1)

    return _by_recurrence(x, np.where(x == 0, 0, degree), 1 - x, step)


def _legendre(x, degree):
    def step(last, before, x, k):
        return ((2 * k + 1) * x * last - k * before) / (k + 1)

    is_end = np.abs(x) == 1
    found = _by_recurrence(x, np.where(is_end, 0, degree), x, step)
    return np.where(is_end & (x < 0) & (degree % 2 == 1), -1, found)


chebyshev_polynomial_t = _polynomial(_first_kind.evaluate, "chebyshev_polynomial_t")
chebyshev_polynomial_u = _polynomial(_second_kind.evaluate, "chebyshev_polynomial_u")
chebyshev_polynomial_v = _polynomial(_third_kind.evaluate, "chebyshev_polynomial_v")
chebyshev_polynomial_w = _polynomial(_fourth_kind.evaluate, "chebyshev_polynomial_w")
shifted_chebyshev_polynomial_t = _polynomial(_shifted(_first_kind.evaluate), "shifted_chebyshev_polynomial_t")
shifted_chebyshev_polynomial_u = _polynomial(_shifted(_second_kind.evaluate), "shifted_chebyshev_polynomial_u")
shifted_chebyshev_polynomial_v = _polynomial(_shifted(_third_kind.evaluate), "shifted_chebyshev_polynomial_v")
shifted_chebyshev_polynomial_w = _polynomial(_shifted(_fourth_kind.evaluate), "shifted_chebyshev_polynomial_w")
hermite_polynomial_h = _polynomial(_physicists, "hermite_polynomial_h")
hermite_polynomial_he = _polynomial(_probabilists, "hermite_polynomial_he")
laguerre_polynomial_l = _polynomial(_laguerre, "laguerre_polynomial_l")
legendre_polynomial_p = _polynomial(_legendre, "legendre_polynomial_p")
