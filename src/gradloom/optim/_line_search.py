"""Line search for the strong Wolfe conditions by cubic interpolation (Nocedal and Wright 2006, section 3.5).

Along a direction, f(t) is the loss after a step of length t and f'(t) its slope. A length is accepted if the loss
decreases enough, f(t) <= f(0) + c1 * t * f'(0), and the slope is flat enough, |f'(t)| <= -c2 * f'(0).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple


class _Point(NamedTuple):
    """A length that was tried, with the loss, gradient and slope there."""

    length: float
    loss: float
    gradient: Any
    slope: float


def _cubic_minimum(a: _Point, b: _Point, bounds=None) -> float:
    """Return the minimizer of the cubic through both points and slopes, clipped to `bounds` (by default the points)."""
    low, high = bounds if bounds is not None else sorted((a.length, b.length))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.length - b.length)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    if a.length <= b.length:
        minimum = b.length - (b.length - a.length) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else:
        minimum = a.length - (a.length - b.length) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    return min(max(minimum, low), high)


def _cubic_interpolate(x1, f1, g1, x2, f2, g2, bounds=None) -> float:
    """Return the minimizer of the cubic with values f1, f2 and slopes g1, g2 at x1, x2, clipped to `bounds`.

    Args:
        bounds: (lowest, highest) result; x1 and x2 by default.
    """
    first, second = (_Point(float(x), float(f), None, float(g)) for x, f, g in ((x1, f1, g1), (x2, f2, g2)))
    return _cubic_minimum(first, second, None if bounds is None else tuple(map(float, bounds)))


def strong_wolfe(
    at, length, direction, loss, gradient, slope, tolerance_change=1e-9, most=25, decrease=1e-4, flatness=0.9
):
    """Search for an acceptable length along `direction`.

    Args:
        at: function of a length that returns (loss, gradient) there.
        length: first length to try.
        loss, gradient, slope: those at length 0.
        tolerance_change: smallest interval that is still narrowed.
        most: maximum number of evaluations after the first.
        decrease, flatness: c1 and c2.

    Returns:
        (loss, gradient, length, evaluations) of the accepted length, or of the best one found.
    """
    largest = float(direction.abs().max())
    start = _Point(0.0, loss, gradient.clone(), slope)

    def evaluate(length):
        loss, gradient = at(length)
        return _Point(length, loss, gradient.clone(), float(gradient.dot(direction)))

    def decreased(point):
        return point.loss <= start.loss + decrease * point.length * start.slope

    def flat(point):
        return abs(point.slope) <= -flatness * start.slope

    previous, point, attempts = start, evaluate(length), 0
    low, high = start, None
    while attempts < most:
        if not decreased(point) or (attempts > 1 and point.loss >= previous.loss):
            low, high = previous, point
            break
        if flat(point):
            return point.loss, point.gradient, point.length, attempts + 1
        if point.slope >= 0:
            low, high = previous, point
            break
        bounds = point.length + 0.01 * (point.length - previous.length), point.length * 10
        previous, point = point, evaluate(_cubic_minimum(previous, point, bounds))
        attempts += 1
    best, calls = _zoom(
        low, point if high is None else high, evaluate, decreased, flat, tolerance_change / largest, most - attempts
    )
    return best.loss, best.gradient, best.length, attempts + 1 + calls


def _zoom(low, high, evaluate, decreased, flat, narrowest, most):
    """Narrow the interval between two points until a length in it is accepted; return (best point, evaluations)."""
    stuck = False
    for calls in range(most):
        # `low` is the end with the lower loss.
        if high.loss < low.loss:
            low, high = high, low
        width = abs(high.length - low.length)
        if width < narrowest:
            return low, calls
        length, stuck = _off_the_ends(_cubic_minimum(low, high), *sorted((low.length, high.length)), stuck)
        point = evaluate(length)
        if not decreased(point) or point.loss >= low.loss:
            high = point
        elif flat(point):
            return point, calls + 1
        else:
            # The sign of the slope tells on which side of the new point the loss falls.
            high = low if point.slope * (high.length - low.length) >= 0 else high
            low = point
    return (low if low.loss <= high.loss else high), most


def _off_the_ends(length, bottom, top, stuck):
    """Keep a length a tenth of the interval away from its ends once it comes that close for the second time."""
    margin = 0.1 * (top - bottom)
    if min(top - length, length - bottom) >= margin:
        return length, False
    if not stuck and bottom < length < top:
        return length, True
    return (top - margin if abs(length - top) < abs(length - bottom) else bottom + margin), False
