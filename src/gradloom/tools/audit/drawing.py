"""The calls of an operator that are audited, those at boundaries first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradloom.tools.verify.boundaries import changes
from gradloom.tools.verify.case import Case, is_float, tensors
from gradloom.tools.verify.operators import Operator
from gradloom.tools.verify.sampling import cases
from gradloom.tools.verify.variations import plan, replaced

from .problems import with_arrays

Array = np.ndarray
_EXTREME = "numbers near"
_CROSSED = 10  # calls
LARGEST = 64  # numbers in all inputs of a call


def draws(operator: Operator, seed: int = 0) -> Iterator[tuple[Case, str]]:
    """Yield (call, how its numbers were chosen). Raises NoSamples."""
    base = [c for c in cases(operator, seed) if _is_small(c)]
    whole: list[Case] = []
    for case in base:  # of several structures
        new = not any(_shapes(case) == _shapes(c) for c in whole)
        if case.places and new and len(whole) < (1 if operator.is_pointwise else 2):
            whole.append(case)
    for case in whole:
        for made, label in boundary(case):
            made.is_varied = True
            yield made, label
    for case in base:
        yield case, case.label or "a sample"
    for case in _crossed(base):
        yield case, "arguments of two samples"
    for case in plan(operator, "fast", seed).varied:
        if _is_small(case):
            yield case, case.label or "other arguments"
    for case in whole if operator.is_pointwise or operator.family == "reduction" else ():
        for place in case.floats:
            for size in (1e-150, 1e150):
                array = case.read(place)._array * size  # of other operators, intermediate results leave the range
                yield with_arrays(case, {place: array}), f"{_EXTREME} {size:g} in `{place}`"


def is_extreme(label: str) -> bool:
    return label.startswith(_EXTREME)


def boundary(case: Case) -> Iterator[tuple[Case, str]]:
    """Yield a call at the boundary points of `verify`, also those of matrices, and with some equal elements of its
    inputs."""
    for label, arrays in changes(case, case.floats, not case.operator.is_pointwise):
        yield with_arrays(case, arrays), label
    arrays = {p: np.array(case.read(p)._array) for p in case.floats}
    first = next(iter(arrays.values()), None)
    alike = {p: a for p, a in arrays.items() if a.shape == first.shape}
    if len(alike) > 1:
        mixed = {p: np.where(np.arange(a.size).reshape(a.shape) % 2, first, a) for p, a in alike.items()}
        yield with_arrays(case, mixed), "some equal elements of inputs"


def _crossed(base: list[Case]) -> Iterator[Case]:
    """Yield samples with one argument that is no tensor taken from another sample, a few."""
    seen = [(_shapes(c), _others(c)) for c in base]
    for case, other in itertools.permutations(base, 2):
        for name, value in _others(other).items():
            mine = _others(case) | {name: value}
            if len(seen) - len(base) < _CROSSED and (_shapes(case), mine) not in seen:
                seen.append((_shapes(case), mine))
                yield replaced(case, {name: value})


def _others(case: Case) -> dict[str, Any]:
    return {name: value for name, value in case.arguments() if not tensors(value)}


def _shapes(case: Case) -> list[tuple[str, tuple[int, ...]]]:
    return [(str(p), case.read(p)._array.shape) for p in case.floats]


def _is_small(case: Case) -> bool:
    found = [t for _, value in case.arguments() for t in tensors(value) if is_float(t)]
    return sum(t._array.size for t in found) <= LARGEST
