"""The calls of an operator that are audited, those at boundaries first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradloom.tools.verify.case import Case, is_float, tensors
from gradloom.tools.verify.operators import Operator
from gradloom.tools.verify.sampling import cases, domains
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
        for made, label in boundary(case, seed):
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


def boundary(case: Case, seed: int = 0) -> Iterator[tuple[Case, str]]:
    """Yield a call with numbers at boundaries: zeros, ties, singular matrices, ends of the domain, extreme numbers."""
    arrays = {p: np.array(case.read(p)._array) for p in case.floats}
    ranges = domains(case.operator)
    for place in case.floats:
        for label, array in special(arrays[place]):
            yield with_arrays(case, {place: array}), f"{label} in `{place}`"
        for end in ranges.get(place.name, ()):
            yield with_arrays(case, {place: np.full_like(arrays[place], end)}), f"`{place}` at the end of its domain"
    if len(arrays) > 1:
        first = next(iter(arrays))
        alike = {p: arrays[first] for p in arrays if arrays[p].shape == arrays[first].shape}
        if len(alike) > 1:
            yield with_arrays(case, alike), "equal inputs"
            mixed = {p: np.where(np.arange(a.size).reshape(a.shape) % 2, a, arrays[p]) for p, a in alike.items()}
            yield with_arrays(case, mixed), "some equal elements of inputs"
        for label, value in (("zeros", 0.0), ("ones", 1.0)):
            yield with_arrays(case, {p: np.full_like(a, value) for p, a in arrays.items()}), f"{label} in all inputs"


def special(array: Array) -> Iterator[tuple[str, Array]]:
    """Yield (label, array) for the boundaries of one array."""
    flat = array.reshape(-1)

    def changed(label: str, made: Array) -> tuple[str, Array]:
        return label, made.reshape(array.shape).astype(array.dtype)

    if not array.size:
        return
    for count, label in ((1, "a zero"), (2, "two zeros")):
        if array.size > count:
            made = flat.copy()
            made[:count] = 0
            yield changed(label, made)
    if array.ndim >= 2 and min(array.shape[-2:]) > 1:
        rows = array.copy()
        rows[..., -1, :] = 2 * rows[..., 0, :]
        yield changed("dependent rows", rows)
        yield changed("rank one", array[..., :, :1] * array[..., :1, :])
        n, m = array.shape[-2:]
        yield changed("the identity", np.broadcast_to(np.eye(n, m), array.shape))
        yield changed("a Jordan block", np.broadcast_to(np.eye(n, m) + np.eye(n, m, 1), array.shape))
        yield changed("equal rows", np.broadcast_to(array[..., :1, :], array.shape))
    if array.size > 1:
        yield changed("a tie", np.concatenate([flat[1:2], flat[1:]]))
    yield changed("zeros", np.zeros_like(flat))
    yield changed("equal numbers", np.full_like(flat, 1))
    if array.size > 1:
        yield changed("small integers", np.resize([1.0, -1.0, 2.0, 0.0, 1.0, -2.0, 3.0], array.size))
    yield changed("numbers below zero", -flat)


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
