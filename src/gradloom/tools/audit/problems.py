"""One call, the directions in which it is differentiated, and its six derivatives by a library or by quotients.

Note [Six derivatives]
A call has inputs x, outputs f(x), cotangents u and tangents v and w. With J the Jacobian and H the Hessian of <u, f>:

    reverse               J^T u         by input
    forward               J v           by output
    reverse over reverse  H w           the gradient, pulled back
    forward over reverse  H w           the gradient, pushed forward
    reverse over forward  H v           the tangent, pulled back
    forward over forward  D2 f[v, w]    the tangent, pushed forward
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradloom.core.tensor import wrap
from gradloom.tools.verify.case import Case, Place
from gradloom.tools.verify.jacobians import coordinates, from_real, to_real

from .libraries import Array, Library
from .quotients import Quotient, mixed, slope

FIRST = ("reverse", "forward")
SECOND = ("reverse over reverse", "forward over reverse", "reverse over forward", "forward over forward")
MODES = FIRST + SECOND
BY_OUTPUT = ("forward", "forward over forward")
NUMBERS = (1.0, -0.7, 0.4, 1.3, -1.1, 0.6, -0.3, 0.9, 1.2, -0.5, 0.8)  # directions without symmetries


def directions(arrays: list[Array], turn: int, scaled: bool = False) -> list[Array]:
    """Return a fixed direction of each array's shape and dtype.

    Args:
        scaled: multiply by the numbers of the array where they are very large or small, so that steps are relative.
    """
    found = []
    for i, array in enumerate(arrays):
        made = from_real(np.resize(np.roll(NUMBERS, 3 * turn + i), coordinates(array)), array)
        if scaled:
            size = np.abs(array)
            made = made * np.where((size > 1e3) | (size > 0) & (size < 1e-3), size, 1).astype(made.dtype)
        found.append(np.array(made, dtype=array.dtype).reshape(array.shape))
    return found


def joined(arrays: list[Array]) -> Array:
    return np.concatenate([to_real(a).astype(np.float64) for a in arrays]) if arrays else np.zeros(0)


@dataclass(frozen=True)
class Problem:
    """A call to differentiate.

    Attributes:
        case: the call, with gradloom's tensors.
        label: how its numbers were chosen.
        places: the tensors that are differentiated.
        outputs: the numbers of the floating-point outputs that are.
        like: arrays with the shapes and dtypes of these outputs.
        u, v, w: cotangents and tangents, see Note [Six derivatives].
    """

    case: Case
    label: str
    places: tuple[Place, ...]
    outputs: tuple[int, ...]
    like: tuple[Array, ...]
    u: tuple[Array, ...]
    v: tuple[Array, ...]
    w: tuple[Array, ...]

    @classmethod
    def of(cls, case: Case, label: str) -> Problem | None:
        """Return the derivatives of a call by all inputs that have one; None if none has. Raises what the call does."""
        places = [p for p in case.places if case.read(p)._array.size]
        if not places or len(places) < len(case.places):
            return None
        found = case.call(*case.inputs())
        kept = tuple(k for k, o in enumerate(found) if o.requires_grad)
        like = tuple(np.array(found[k].detach()._array) for k in kept)
        if not any(a.size for a in like) or any(a.dtype not in ("f8", "c16") for a in like):
            return None
        inputs = [np.array(case.read(p)._array) for p in places]
        if any(a.dtype not in ("f8", "c16") for a in inputs):
            return None
        return cls(case, label, tuple(places), kept, like, (), (), ()).along(0)

    @property
    def inputs(self) -> list[Array]:
        return [np.array(self.case.read(p)._array) for p in self.places]

    @property
    def is_complex(self) -> bool:
        return any(a.dtype.kind == "c" for a in (*self.inputs, *self.like))

    def with_case(self, case: Case) -> Problem | None:
        """Return the problem with the numbers and shapes of another call; None if it has other outputs."""
        made = Problem.of(case, self.label)
        if made is None or not set(self.outputs) <= set(made.outputs) or not set(self.places) <= set(made.places):
            return None
        return made.only(self.places, self.outputs)

    def only(self, places: tuple[Place, ...], outputs: tuple[int, ...]) -> Problem:
        """Return the problem with fewer inputs or outputs."""
        i, k = [self.places.index(p) for p in places], [self.outputs.index(o) for o in outputs]
        return replace(
            self,
            places=places,
            outputs=outputs,
            like=tuple(self.like[n] for n in k),
            u=tuple(self.u[n] for n in k),
            v=tuple(self.v[n] for n in i),
            w=tuple(self.w[n] for n in i),
        )

    def along(self, turn: int) -> Problem:
        """Return the problem with directions without symmetries, others for each turn."""
        u, inputs = directions(list(self.like), turn), self.inputs
        v, w = directions(inputs, turn + 1, True), directions(inputs, turn + 2, True)
        return replace(self, u=tuple(u), v=tuple(v), w=tuple(w))

    def values(self, library: Library) -> list[Array]:
        """Return the outputs by a library."""
        call = library.of_inputs(self.case, self.places, self.outputs)
        return [library.array(o) for o in call(*map(library.tensor, self.inputs))]

    def derivative(self, library: Library, mode: str) -> list[Array]:
        """Return a derivative by a library: an array for each input, or each output."""
        f = library.of_inputs(self.case, self.places, self.outputs)
        x, u, v, w = ([library.tensor(a.copy()) for a in arrays] for arrays in (self.inputs, self.u, self.v, self.w))

        def gradient(*xs: Any) -> tuple[Any, ...]:
            return library.pull(f, xs, u)

        def tangent(*xs: Any) -> tuple[Any, ...]:
            return library.push(f, xs, v)

        found = {
            "reverse": lambda: library.gradients(f, x, u),
            "forward": lambda: tangent(*x),
            "reverse over reverse": lambda: library.pull(gradient, x, w),
            "forward over reverse": lambda: library.push(gradient, x, w),
            "reverse over forward": lambda: library.pull(tangent, x, u),
            "forward over forward": lambda: library.push(tangent, x, w),
        }[mode]()
        like = self.like if mode in BY_OUTPUT else self.inputs
        arrays = [library.array(a) for a in found]
        if [a.shape for a in arrays] != [a.shape for a in like]:
            raise ValueError(f"the shapes are {[a.shape for a in arrays]}, and not {[a.shape for a in like]}")
        # A real derivative of complex numbers is one without an imaginary part.
        return [
            a if a.dtype.kind == one.dtype.kind == "f" else a.astype(one.dtype)
            for a, one in zip(arrays, like, strict=True)
        ]

    # By quotients

    @cached_property
    def point(self) -> Array:
        return joined(self.inputs)

    def evaluate(self, library: Library) -> Any:
        """Return the outputs as a function of one vector of real numbers."""
        call = library.of_inputs(self.case, self.places, self.outputs)
        inputs = self.inputs
        ends = np.cumsum([coordinates(a) for a in inputs])[:-1]
        size = sum(coordinates(a) for a in self.like)

        def values(point: Array) -> Array:
            parts = np.split(point, ends)
            try:
                found = call(*(library.tensor(np.array(from_real(p, a))) for p, a in zip(parts, inputs, strict=True)))
            except Exception:  # beyond the domain
                return np.full(size, np.nan)
            return joined([library.array(o) for o in found])

        return values

    def contracted(self, mode: str, found: list[Array]) -> float:
        """Return a derivative's product with a fixed vector."""
        with np.errstate(all="ignore"):
            return float(joined(self.probe(mode)) @ joined(found))

    def probe(self, mode: str) -> list[Array]:
        return directions(list(self.like), 4) if mode in BY_OUTPUT else directions(self.inputs, 5, True)

    def quotient(self, library: Library, mode: str, probe: list[Array] | None = None) -> Quotient:
        """Return the product of a derivative with a vector, by difference quotients of the library's values."""
        values, free = self.evaluate(library), joined(self.probe(mode) if probe is None else probe)
        weights = free if mode in BY_OUTPUT else joined(list(self.u))

        def weighed(point: Array) -> Array:
            return np.atleast_1d(values(point) @ weights)

        v, w = joined(list(self.v)), joined(list(self.w))
        if mode == "reverse":
            return slope(weighed, self.point, free)
        if mode == "forward":
            return slope(weighed, self.point, v)
        if mode == "forward over forward":
            return mixed(weighed, self.point, v, w)
        return mixed(weighed, self.point, v if mode == "reverse over forward" else w, free)

    def right(self, library: Library, mode: str) -> list[Array]:
        """Return a derivative by difference quotients, element by element."""
        like = list(self.like) if mode in BY_OUTPUT else self.inputs
        rows = []
        for n in range(sum(coordinates(a) for a in like)):
            flat = np.zeros(sum(coordinates(a) for a in like))
            flat[n] = 1
            ends = np.cumsum([coordinates(a) for a in like])[:-1]
            unit = [from_real(p, a) for p, a in zip(np.split(flat, ends), like, strict=True)]
            rows.append(float(self.quotient(library, mode, unit).value[0]))
        return [from_real(p, a) for p, a in zip(np.split(np.array(rows), ends), like, strict=True)]


def with_arrays(case: Case, arrays: dict[Place, Array], label: str = "") -> Case:
    """Return a call with other numbers in some places."""
    args, kwargs = case.with_inputs(tuple(wrap(np.array(a)) for a in arrays.values()), list(arrays))
    return Case(case.operator, tuple(args), kwargs, label)
