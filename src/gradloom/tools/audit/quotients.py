"""Directional derivatives of a function of real vectors from its values, with error estimates.

Differences of nine steps, each half of the one before, are extrapolated to a step of zero (Richardson); the entry of
the table that agrees best with its neighbors is the value, and the disagreement the error. One-sided differences show
kinks: a derivative that is not the same from both sides does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Array = np.ndarray
STEPS = 0.08 / 2.0 ** np.arange(9)
Values = Callable[[Array], Array]


class Quotient(NamedTuple):
    """A derivative of each output.

    Attributes:
        value: the derivative.
        error: its error, estimated; infinite where there is none.
        kinked: whether it differs from side to side, or a lower one does.
        scale: the largest value of the function nearby.
    """

    value: Array
    error: Array
    kinked: Array
    scale: float


def extrapolated(rows: Array, powers: int) -> tuple[Array, Array]:
    """Return (value, error) of differences [step, output] for a step of zero.

    Args:
        powers: the error's power series has every power of the step (1), or every second (2).
    """
    table = [rows]
    best, error = rows[-1].copy(), np.full(rows.shape[1:], np.inf)
    for order in range(1, len(rows)):
        factor = 2.0 ** (powers * order)
        last = table[-1]
        table.append((factor * last[1:] - last[:-1]) / (factor - 1))
        guess = np.maximum(np.abs(table[-1] - last[1:]), np.abs(table[-1] - last[:-1]))
        guess = np.where(np.isnan(guess), np.inf, guess)
        for value, distance in zip(table[-1], guess, strict=True):
            best, error = np.where(distance < error, value, best), np.minimum(distance, error)
    return best, error


class Line:
    """The values of a function along a direction, and its first and second derivatives there."""

    def __init__(self, values: Values, point: Array, direction: Array) -> None:
        steps = STEPS[:, None]
        self.at = values(point)
        ahead = np.stack([values(point + h * direction) for h in STEPS])
        behind = np.stack([values(point - h * direction) for h in STEPS])
        finite = [a[np.isfinite(a)] for a in (self.at, ahead, behind)]
        self.scale = max((float(np.abs(a).max(initial=0.0)) for a in finite), default=0.0)
        self.sides = [(ahead - self.at) / steps, (self.at - behind) / steps]
        self.first = extrapolated((ahead - behind) / (2 * steps), 2)
        self.second = extrapolated((ahead - 2 * self.at + behind) / steps**2, 2)

    def slope(self) -> Quotient:
        (right, right_error), (left, left_error) = (extrapolated(side, 1) for side in self.sides)
        value, error = self.first
        size = np.maximum(self.scale, np.abs(value))
        return Quotient(value, error, _apart(right - left, size, right_error + left_error, 1e-4), self.scale)

    def curvature(self) -> Quotient:
        slope = self.slope()
        found = []
        for side, sign in zip(self.sides, (1, -1), strict=True):
            value, _ = extrapolated(side, 1)
            found.append(extrapolated(sign * 2 * (side - value) / STEPS[:, None], 1))
        (right, right_error), (left, left_error) = found
        size = np.maximum(self.scale, np.abs(self.second[0]))
        kinked = slope.kinked | _apart(right - left, size, right_error + left_error, 1e-2)
        return Quotient(*self.second, kinked, self.scale)


def _apart(difference: Array, size: Array, error: Array, tolerance: float) -> Array:
    """Return whether one-sided derivatives differ, or have no limit."""
    return np.asarray(~(np.abs(difference) <= tolerance * size + 10 * np.minimum(error, 10 * tolerance * size)))


def slope(values: Values, point: Array, direction: Array) -> Quotient:
    """Return the first derivative along a direction."""
    with np.errstate(all="ignore"):
        return Line(values, point, direction).slope()


def mixed(values: Values, point: Array, one: Array, other: Array) -> Quotient:
    """Return the second derivative along two directions, a quarter of D(one + other) - D(one - other)."""
    with np.errstate(all="ignore"):
        plus, minus = (Line(values, point, d).curvature() for d in (one + other, one - other))
    return Quotient(
        (plus.value - minus.value) / 4,
        (plus.error + minus.error) / 4,
        plus.kinked | minus.kinked,
        max(plus.scale, minus.scale),
    )
