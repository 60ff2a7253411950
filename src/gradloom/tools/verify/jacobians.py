"""Jacobians of a function of tensors, by reverse mode, forward mode, finite differences and complex steps.

Note [Real coordinates]
Every tensor is a vector of real numbers here; a complex element is two of them, its real and imaginary part. With
conjugate Wirtinger derivatives, the gradient for the cotangent u is then J^T u and the tangent for v is J v of one real
Jacobian J, whatever the dtypes. A block is stored as [input, output].

Note [Directions]
A small Jacobian is compared entry by entry: its directions are the unit vectors. Of a large one, products with a few
random vectors are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

import gradloom
from gradloom.autograd import forward_ad
from gradloom.core.tensor import wrap

from .case import is_float
from .findings import close, scale

STEP = 1e-6
COMPLEX_STEP = 1e-20

Array = np.ndarray


class Detail(NamedTuple):
    """How closely Jacobians are examined.

    Attributes:
        full: maximum number of real coordinates of an input or output that are taken one by one.
        few: number of random directions for larger ones.
    """

    full: int = 64
    few: int = 3


EVERY = Detail(1 << 20)


def to_real(array: Array) -> Array:
    """Return the elements as a vector of real numbers."""
    array = np.ascontiguousarray(array).reshape(-1)
    return array.view(array.real.dtype) if array.dtype.kind == "c" else array


def from_real(vector: Array, like: Array) -> Array:
    """Return the array with these real coordinates and the shape and dtype of `like`."""
    if like.dtype.kind == "c":
        return np.array(vector, dtype=like.real.dtype, order="C").view(like.dtype).reshape(like.shape)
    return np.asarray(vector).astype(like.dtype).reshape(like.shape)


def coordinates(array: Array) -> int:
    return array.size * (2 if array.dtype.kind == "c" else 1)


@lru_cache(256)
def directions(n: int, seed: int, detail: Detail) -> Array:
    """Return, as rows, the unit vectors of n coordinates, or a few random ones."""
    if n <= detail.full:
        return np.eye(n)
    found = np.random.default_rng((seed, n)).standard_normal((detail.few, n))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@lru_cache(256)
def _uneven(n: int, size: int, seed: int) -> Array:
    return np.random.default_rng((seed, size)).uniform(0.5, 1.5, n)


def uneven(like: Array, seed: int = 5) -> Array:
    """Return random numbers of the shape and dtype of an array: a cotangent without symmetries."""
    return from_real(_uneven(coordinates(like), like.size, seed), like)


class Function:
    """A function of tensors at a point.

    Attributes:
        arrays: the point.
        outputs: the arrays of its floating-point outputs there.
        kept: the output numbers of the differentiable ones.
        is_recorded: whether inputs require gradients in forward mode, too, so that a graph is recorded.
    """

    def __init__(
        self,
        call: Callable[..., tuple[Any, ...]],
        inputs: tuple[Any, ...],
        detail: Detail = Detail(),  # noqa: B008
        is_recorded: bool = False,
    ) -> None:
        self.call, self.detail, self.is_recorded = call, detail, is_recorded
        self.arrays = [np.array(x._array) for x in inputs]
        self._unused: tuple[list[Any], list[Any]] | None = None
        self._unused = self.graph()
        found = self._unused[1]
        self.outputs = [np.array(o._array) for o in found]
        self.kept = [k for k, o in enumerate(found) if o.requires_grad]

    @cached_property
    def by_input(self) -> list[Array]:
        """The directions of each input."""
        return [directions(coordinates(a), i, self.detail) for i, a in enumerate(self.arrays)]

    @cached_property
    def by_output(self) -> list[Array]:
        """The directions of each output."""
        return [directions(coordinates(a), 100 + k, self.detail) for k, a in enumerate(self.outputs)]

    def graph(self) -> tuple[list[Any], list[Any]]:
        """Call the function; return (leaves, outputs) with their history. The first graph is that of `__init__`."""
        if self._unused is not None:
            graph, self._unused = self._unused, None
            return graph
        leaves = [wrap(a.copy()).requires_grad_() for a in self.arrays]
        return leaves, [o for o in self.call(*leaves) if is_float(o)]

    def values(self, arrays: list[Array]) -> list[Array]:
        """Return the differentiable outputs at another point, in real coordinates."""
        with gradloom.no_grad():
            found = [o for o in self.call(*(wrap(a) for a in arrays)) if is_float(o)]
        return [to_real(np.array(found[k]._array)) for k in self.kept]

    def _moved(self, i: int, direction: Array, step: float) -> list[Array]:
        arrays = [a.copy() for a in self.arrays]
        arrays[i] = (
            (arrays[i] + step * from_real(direction, arrays[i])).astype(arrays[i].dtype).reshape(arrays[i].shape)
        )
        return self.values(arrays)

    def numerical(self, i: int) -> list[Array]:
        """Return, for each differentiable output, its derivatives along the directions of input `i`, as
        [direction, output], by central differences."""
        rows = [
            [(p - m) / (2 * STEP) for p, m in zip(self._moved(i, v, STEP), self._moved(i, v, -STEP), strict=True)]
            for v in self.by_input[i]
        ]
        return self._stacked(rows)

    def extrapolated(self, i: int) -> list[Array]:
        """Return the same by central differences of several steps, extrapolated to zero: slower and more exact."""
        rows = []
        for v in self.by_input[i]:
            tables, best, error = [], None, None
            for level in range(7):
                step = 0.02 / 2.5**level
                row = [
                    [
                        (p - m) / (2 * step)
                        for p, m in zip(self._moved(i, v, step), self._moved(i, v, -step), strict=True)
                    ]
                ]
                for order in range(1, level + 1):
                    factor = 2.5 ** (2 * order)
                    row.append(
                        [
                            (factor * a - b) / (factor - 1)
                            for a, b in zip(row[order - 1], tables[-1][order - 1], strict=True)
                        ]
                    )
                if tables:
                    guess = [np.abs(a - b) for a, b in zip(row[-1], tables[-1][-1], strict=True)]
                    guess = [np.where(np.isnan(g), np.inf, g) for g in guess]
                    if best is None:
                        best, error = row[-1], guess
                    else:
                        best = [np.where(g < e, a, b) for a, b, g, e in zip(row[-1], best, guess, error, strict=True)]
                        error = [np.minimum(g, e) for g, e in zip(guess, error, strict=True)]
                tables.append(row)
            rows.append(best)
        return self._stacked(rows)

    def agrees(self, rtol: float, atol: float, forward: bool = True) -> bool:
        """Return whether both modes agree with finite differences along one random direction of all inputs together.

        That is as sharp as one direction after another, and faster, but does not say what is wrong.

        Args:
            forward: whether there is a forward mode.
        """
        random = np.random.default_rng((3, len(self.arrays)))
        along = {i: random.standard_normal(coordinates(a)) for i, a in enumerate(self.arrays) if a.size}
        if not along:
            return False
        size = np.sqrt(sum(float(v @ v) for v in along.values()))
        along = {i: v / size for i, v in along.items()}
        moved = [
            self.values([
                (a + step * from_real(along[i], a)).astype(a.dtype).reshape(a.shape) if i in along else a
                for i, a in enumerate(self.arrays)
            ])
            for step in (STEP, -STEP)
        ]  # fmt: skip
        numerical = [(p - m) / (2 * STEP) for p, m in zip(*moved, strict=True)]
        bound = atol * scale(*numerical, *self.outputs)
        if forward:
            tangents = self.pushed(along)
            if not all(close(t, n, rtol, bound) for t, n in zip(tangents, numerical, strict=True)):
                return False
        leaves, outputs = self.graph()
        directions = [random.standard_normal(coordinates(self.outputs[k])) for k in self.kept]
        cotangents = [wrap(from_real(u, self.outputs[k])) for u, k in zip(directions, self.kept, strict=True)]
        found = gradloom.autograd.grad([outputs[k] for k in self.kept], leaves, cotangents, allow_unused=True)
        if any(g is not None and g._array.shape != x._array.shape for g, x in zip(found, leaves, strict=True)):
            return False
        reverse = sum(
            float(along[i] @ to_real(g.detach()._array.astype(self.arrays[i].dtype)))
            for i, g in enumerate(found)
            if g is not None and i in along
        )
        expected = sum(float(n @ u) for n, u in zip(numerical, directions, strict=True))
        return close(np.array(reverse), np.array(expected), rtol, bound)

    def kinks(self, i: int) -> list[Array]:
        """Return, for each differentiable output, along which directions of input `i` it or its derivative jumps, so
        that the difference, or the second difference over the step, does not vanish with the step: [direction]."""
        at = self.values(self.arrays)
        found = []
        for v in self.by_input[i]:
            near, far = (
                [
                    np.maximum(np.abs(p - 2 * x + m) / step, np.abs(p - m))
                    for p, x, m in zip(self._moved(i, v, step), at, self._moved(i, v, -step), strict=True)
                ]
                for step in (1e-6, 1e-5)
            )
            found.append(
                [
                    bool(np.any((a > 1e-4 * max(1.0, np.abs(x).max(initial=0))) & (a > 0.3 * b)))
                    for a, b, x in zip(near, far, at, strict=True)
                ]
            )
        return [np.array([row[n] for row in found], dtype=bool) for n in range(len(self.kept))]

    def complex_step(self, i: int) -> list[Array] | None:
        """Return the same by complex steps, exact to the last digits; None if inputs or outputs are complex, or the
        kernel refuses complex numbers."""
        if any(a.dtype.kind == "c" for a in self.arrays) or any(o.dtype.kind == "c" for o in self.outputs):
            return None
        rows = []
        for v in self.by_input[i]:
            arrays = [a.astype(np.complex128) for a in self.arrays]
            arrays[i] = arrays[i] + 1j * COMPLEX_STEP * v.reshape(arrays[i].shape)
            try:
                with gradloom.no_grad():
                    found = [o for o in self.call(*(wrap(a) for a in arrays)) if is_float(o)]
            except Exception:  # it refuses complex numbers
                return None
            if len(found) != len(self.outputs) or any(found[k]._array.dtype.kind != "c" for k in self.kept):
                return None
            rows.append([found[k]._array.imag.reshape(-1) / COMPLEX_STEP for k in self.kept])
        return self._stacked(rows)

    def reverse(self) -> list[list[Array]]:
        """Return, as [output][input], the gradients for the directions of each output, as [input, direction]."""
        leaves, outputs = self.graph()
        found = []
        for k in self.kept:
            if not len(self.by_output[k]):  # nothing to compare, but it must not raise
                self.pulled(leaves, outputs[k], np.zeros(0), self.outputs[k])
            rows = [self.pulled(leaves, outputs[k], u, self.outputs[k]) for u in self.by_output[k]]
            found.append(
                [
                    np.stack([r[i] for r in rows], -1) if rows else np.zeros((coordinates(a), 0))
                    for i, a in enumerate(self.arrays)
                ]
            )
        return found

    def pulled(self, leaves: list[Any], output: Any, u: Array, like: Array) -> list[Array]:
        """Return the gradients for one cotangent in real coordinates; zeros for undefined ones.

        Raises WrongShape if a gradient does not have the shape of its input.
        """
        cotangent = wrap(from_real(u, like))
        found = gradloom.autograd.grad(output, leaves, cotangent, retain_graph=True, allow_unused=True)
        for i, (x, g) in enumerate(zip(leaves, found, strict=True)):
            if g is not None and g._array.shape != x._array.shape:
                raise WrongShape(i, tuple(g.shape), tuple(x.shape))
        return [
            np.zeros(coordinates(a)) if g is None else to_real(g.detach()._array.astype(a.dtype))
            for a, g in zip(self.arrays, found, strict=True)
        ]

    def forward(self, i: int) -> list[Array]:
        """Return, for each differentiable output, its tangents for the directions of input `i`: [direction, output]."""
        if not len(self.by_input[i]):
            self.pushed({i: np.zeros(0)})
        return self._stacked([self.pushed({i: v}) for v in self.by_input[i]])

    def pushed(self, directions: Mapping[int, Array], is_recorded: bool = False) -> list[Array]:
        """Return the tangent of each differentiable output for tangents of some inputs; zeros for undefined ones."""
        with forward_ad.dual_level():
            inputs = [wrap(a.copy()).requires_grad_(is_recorded or self.is_recorded) for a in self.arrays]
            for i, v in directions.items():
                inputs[i] = forward_ad.make_dual(inputs[i], wrap(from_real(v, self.arrays[i])))
            found = [o for o in self.call(*inputs) if is_float(o)]
            tangents = [forward_ad.unpack_dual(found[k]).tangent for k in self.kept]
            return [
                np.zeros(coordinates(self.outputs[k]))
                if t is None
                else to_real(np.array(t.detach()._array).astype(self.outputs[k].dtype))
                for k, t in zip(self.kept, tangents, strict=True)
            ]

    def _stacked(self, rows: list[list[Array]]) -> list[Array]:
        return [
            np.stack([r[n] for r in rows]) if rows else np.zeros((0, coordinates(self.outputs[k])))
            for n, k in enumerate(self.kept)
        ]


class WrongShape(Exception):
    """A gradient does not have the shape of its input."""

    def __init__(self, position: int, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
        super().__init__(f"the gradient has shape {list(found)}, its input {list(expected)}")
        self.position, self.found, self.expected = position, found, expected
