"""Compare the modes with each other at boundary points, where finite differences may have no limit.

First derivatives along one direction v, and with one cotangent u, in both modes; second ones in all four compositions.
Element by element, all modes must give the same: also where the derivative does not exist. Where difference quotients
from both sides agree, so that it exists, they must give that; and at a kink what the `kinks:` of the entry say. Where
these say `nan`, derivatives are compared only where they exist. For the largest and smallest numbers, where rounding
hides more, no mode may overflow or give NaN where another does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import gradloom
from gradloom.core.tensor import wrap

from .boundaries import EXTREME
from .case import Case
from .findings import ENTRY, Fault, close, said, scale
from .jacobians import Array, Detail, Function, coordinates, from_real, to_real
from .second_order import SecondOrder

STEP, NEAR = 1e-4, 1e-10  # of difference quotients
RTOL, ATOL = 1e-6, 1e-8
ROUGH = 1e-2  # for difference quotients: what is looked for is NaN, 0, or another branch
ONE = Detail(0, 1)


def _between(found: Array, right: Array, left: Array, bound: float) -> Array:
    return (found >= np.minimum(right, left) - bound) & (found <= np.maximum(right, left) + bound)


# A word of `kinks:` -> whether derivatives at a kink are such, given the slopes of both sides.
_FITS: dict[str, Callable[[Array, Array, Array, float], Array]] = {
    "zero": lambda found, right, left, bound: np.abs(found) <= bound,
    "side": lambda found, right, left, bound: np.minimum(np.abs(found - right), np.abs(found - left)) <= bound,
    "shared": _between,
    "selected": _between,
}


class Modes(NamedTuple):
    """The derivatives of one call by some modes, in real coordinates; an exception where a mode raises.

    Attributes:
        found: mode -> for each tensor, the derivative along v.
        quotients: function from a direction and a step to difference quotients: from both sides, the right, the left.
        contracted: modes that give the product of that with a vector only -> the product: for each element of a
            pointwise operator, else the sum.
    """

    found: dict[str, list[Array] | Exception]
    quotients: Callable[..., list[Array]]
    contracted: dict[str, Array | Exception]


class Agreement:
    """The derivatives of one call by all modes.

    Args:
        limits: whether to compare them with difference quotients, too.
    """

    def __init__(self, case: Case, limits: bool = True) -> None:
        self.case, self.limits = case, limits
        self.function = Function(case.call, case.inputs(), ONE)
        random = np.random.default_rng(29)
        self.is_extreme = case.label == EXTREME
        units = [_magnitudes(a) if self.is_extreme else 1.0 for a in self.function.arrays]
        self.v = [_signed(coordinates(a), random) * unit for a, unit in zip(self.function.arrays, units, strict=True)]
        self.w = [_signed(a.size, random) * unit for a, unit in zip(self.v, units, strict=True)]
        self.u = [_signed(coordinates(self.function.outputs[k]), random) for k in self.function.kept]
        sizes = {len(vector) for vector in (*self.v, *self.u)}
        self.is_elementwise = case.operator.is_pointwise and len(sizes) == 1
        self.second = SecondOrder(case, self.function, ONE)
        self.second.vectors = [
            wrap(from_real(u, self.function.outputs[k])) for u, k in zip(self.u, self.function.kept, strict=True)
        ]

    def first(self) -> Modes:
        f = self.function
        found: dict[str, Any] = {}
        contracted: dict[str, Any] = {}
        if self.second.has_forward:
            found["forward"] = _tried(lambda: f.pushed(dict(enumerate(self.v))))
        contracted["reverse"] = _tried(lambda: self.dot(self.v, self.gradients(f, self.u)))
        return Modes(found, partial(_quotients, f), contracted)

    def gradients(self, function: Function, us: list[Array], count: int | None = None) -> list[Array]:
        """Return the gradients of the product of a function's outputs with some vectors, by its first inputs."""
        leaves, outputs = function.graph()
        cotangents = [wrap(from_real(u, function.outputs[k])) for u, k in zip(us, function.kept, strict=True)]
        inputs = leaves[:count]
        found = gradloom.autograd.grad([outputs[k] for k in function.kept], inputs, cotangents, allow_unused=True)
        return [
            np.zeros(x._array.size) if g is None else to_real(np.array(g.detach()._array))
            for g, x in zip(found, inputs, strict=True)
        ]

    def twice(self) -> Modes | None:
        """Return the second derivatives along v of the product with u; None if there are no gradients."""
        second, count = self.second, len(self.v)
        gradients = Function(second.pullback, (*second.leaves, *second.vectors), ONE, is_recorded=True)
        if not second.reached:
            return None
        v = [self.v[i] for i in second.reached]
        found: dict[str, Any] = {
            "reverse over reverse": _tried(
                lambda: [self.gradients(gradients, v, count)[i] for i in second.reached or ()]
            )
        }
        contracted: dict[str, Any] = {}
        along = dict(enumerate(self.v))
        if second.has_forward:
            contracted["forward over reverse"] = _tried(lambda: self.dot(v, gradients.pushed(along)))
            tangents = [wrap(from_real(d, a)) for d, a in zip(self.v, self.function.arrays, strict=True)]
            pushed = Function(second.pushforward, (*second.leaves, *tangents), ONE)
            cotangents = dict(zip(self.function.kept, self.u, strict=True))
            u = [cotangents.get(k, np.zeros(coordinates(o))) for k, o in enumerate(self.function.outputs)]
            found["reverse over forward"] = _tried(
                lambda: [self.gradients(pushed, u, count)[i] for i in second.reached or ()]
            )
            contracted["forward over forward"] = _tried(lambda: self.dot(u, pushed.pushed(along)))
        return Modes(found, partial(_quotients, gradients), contracted)

    def faults(self) -> Iterator[Fault]:
        if not self.function.kept or not self.function.arrays:
            return
        yield from self.compared(self.first(), self.u)
        modes = self.twice()
        if modes is not None:
            yield from self.compared(modes, [self.v[i] for i in self.second.reached or ()])

    def dot(self, vectors: list[Array], arrays: list[Array]) -> Array:
        """Return the product of vectors with derivatives: for each element of a pointwise operator, else the sum."""
        products = [v * a for v, a in zip(vectors, arrays, strict=True)]
        if self.is_elementwise:
            return np.sum(products, 0)
        return np.array([sum(p.sum() for p in products)])

    def compared(self, modes: Modes, vectors: list[Array]) -> Iterator[Fault]:
        is_free = "nan" in self.case.operator.joined.function.kinks
        for mode, found in (*modes.found.items(), *modes.contracted.items()):
            if isinstance(found, Exception) and not is_free:
                yield self.fault(mode, f"raises {said(found)}")
        arrays = {m: np.concatenate(f) for m, f in modes.found.items() if not isinstance(f, Exception)}
        if not arrays:
            return
        first, expected = next(iter(arrays.items()))
        total = self.dot(vectors, modes.found[first])
        if self.is_extreme:
            finite = np.isfinite(expected), np.isfinite(total)
            for mode, found in (*arrays.items(), *modes.contracted.items()):
                one, other = (finite[0], expected) if mode in arrays else (finite[1], total)
                if not isinstance(found, Exception) and (np.isfinite(found) != one).any():
                    yield self.fault(mode, f"is finite where that by {first} is not, or the reverse", other, found)
            return
        compared = np.ones(expected.shape, bool)
        if self.limits or is_free:
            middle, right, left = modes.quotients(self.v)
            coarse = ROUGH * scale(middle, right, left)
            exists = _same(right, left, coarse) & _same(middle, right, coarse)
        if is_free:
            compared = exists & np.isfinite(expected) & self.is_linear(modes, middle, coarse)
        bound = ATOL * scale(*arrays.values(), *self.function.outputs)
        for mode, found in arrays.items():
            if not close(found[compared], expected[compared], RTOL, bound):
                yield self.fault(mode, f"differs from {first}", expected, found)
        for mode, product in modes.contracted.items() if compared.all() else ():
            if not isinstance(product, Exception) and not close(product, total, RTOL, bound * max(1, expected.size)):
                yield self.fault(mode, f"differs from {first}", total, product)
        if is_free or not self.limits:  # where free, LAPACK's order and phases may change nearby
            return
        wrong = exists & ~_same(expected, middle, coarse)
        if wrong.any():  # slopes that agree along one direction may be those of a kink, or of what is smoothed nearby
            wrong &= self.is_linear(modes, middle, coarse) & _same(modes.quotients(self.v, NEAR)[0], middle, coarse)
        if "over" not in first and "zero" in self.case.operator.joined.function.kinks:
            wrong &= expected != 0
        if wrong.any():
            yield self.fault(first, "is not the limit of difference quotients", middle[wrong], expected[wrong])
        kinks = ~exists & np.isfinite(right) & np.isfinite(left)
        yield from self.at_kinks(first, expected[kinks], right[kinks], left[kinks], coarse)

    def is_linear(self, modes: Modes, middle: Array, bound: float) -> Array:
        """Return which outputs' quotients along v, w and their sums are those of a linear function."""
        found = np.ones(middle.shape, bool)
        for ws in (self.w, [np.roll(w, 1) for w in self.w]):
            other = modes.quotients(ws)[0]
            for k in (1, -2, 5, 0.4, -0.7, -9):
                sums = modes.quotients([v + k * w for v, w in zip(self.v, ws, strict=True)])[0]
                found &= _same(middle + k * other, sums, abs(k) * bound)
        return found

    def at_kinks(self, mode: str, found: Array, right: Array, left: Array, bound: float) -> Iterator[Fault]:
        """Compare the derivatives where the slopes of both sides differ with `kinks:`; second ones must be numbers."""
        if "over" in mode or self.case.operator.by_composition:
            wrong, words = np.isnan(found), ()
        else:
            words = self.case.operator.joined.function.kinks
            given = [_FITS[word](found, right, left, bound) for word in words]
            wrong = ~np.any(given, 0) if given else np.isnan(found)
        if wrong.any():
            says = f"`kinks: {', '.join(words)}`" if words else "no `kinks: nan`"
            x, a, b = (f"{array[wrong][0]:.3g}" for array in (found, left, right))
            yield self.fault(mode, f"is not what the entry says ({says}): it is {x} at a kink, the slopes {a} and {b}")

    def fault(self, mode: str, what: str, expected: Array | None = None, found: Array | None = None) -> Fault:
        message = f"the derivative by {mode} {what}"
        return Fault(self.case, "boundary", message, ENTRY, expected=expected, found=found)


def _signed(count: int, random: np.random.Generator) -> Array:
    return random.uniform(0.5, 1.5, count) * random.choice([-1.0, 1.0], count)


def _magnitudes(array: Array) -> Array:
    """Return the magnitudes of an array's numbers, 1 for 0, in real coordinates."""
    size = np.abs(array)
    return np.abs(to_real(np.where(size == 0, 1, size) * (1 + 1j if array.dtype.kind == "c" else 1)))


def _same(a: Array, b: Array, bound: float) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(a - b) <= bound + ROUGH * np.abs(b)) | (a == b)


def _tried(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except Exception as error:
        return error


def _quotients(function: Function, v: list[Array], step: float = STEP) -> list[Array]:
    """Return difference quotients of all outputs along v, from numbers beside the point only: from both sides, from the
    right, and from the left; NaN where the operator refuses such numbers, or takes another value at the point."""

    def at(step: float) -> Array:
        moved = [a + step * from_real(d, a) for a, d in zip(function.arrays, v, strict=False)]
        return np.concatenate(function.values([*moved, *function.arrays[len(v) :]]))

    try:
        a, b, here, c, d = (at(k * step) for k in (-2, -1, 0, 1, 2))
    except Exception:
        return [np.full(sum(coordinates(function.outputs[k]) for k in function.kept), np.nan)] * 3
    jumps = np.abs(here - (b + c) / 2) > np.abs(c - b) + np.abs(d - c) + np.abs(b - a) + 1e-9 * scale(here)
    return [np.where(jumps, np.nan, q) for q in ((c - b) / (2 * step), (d - c) / step, (b - a) / step)]
