"""Make the smallest problem that still shows a finding: fewer outputs, inputs and numbers, and rounder ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gradloom.core.tensor import wrap
from gradloom.tools.verify.case import is_float

from .judging import WRONG, Judgment, judge
from .libraries import Array, Library
from .problems import Problem, with_arrays

_TRIALS = 40


def shrunk(
    problem: Problem, mode: str, judgment: Judgment, library: Library, witness: Library | None
) -> tuple[Problem, Judgment]:
    """Return a smaller problem with the same finding, and its judgment."""
    trials = _TRIALS
    changed = True
    while changed:
        changed = False
        for made in smaller(problem):
            trials -= 1
            if trials < 0:
                return problem, judgment
            judged = _again(made, mode, library, witness, judgment.kind == WRONG)
            if judged is not None and judged.kind == judgment.kind and finite(judged) == finite(judgment):
                problem, judgment, changed = made, judged, True
                break
    return problem, judgment


def finite(judgment: Judgment) -> bool:
    return judgment.found is not None and all(np.isfinite(a).all() for a in judgment.found)


def _again(problem: Problem, mode: str, library: Library, witness: Library | None, is_alone: bool) -> Judgment | None:
    try:
        if not all(np.isfinite(a).all() for a in problem.values(library)):
            return None
        return judge(problem, library, witness, (mode,), is_alone)[mode]
    except Exception:
        return None


def smaller(problem: Problem) -> Iterator[Problem]:
    """Yield problems that are simpler in one way."""
    if len(problem.outputs) > 1:
        for k in problem.outputs:
            yield problem.only(problem.places, (k,))
    if len(problem.places) > 1:
        for place in problem.places:
            yield problem.only((place,), problem.outputs)
    yield from _cut(problem)
    for name in ("u", "v", "w"):
        given: tuple[Array, ...] = getattr(problem, name)
        if any(np.any(a != 1) for a in given):
            yield replace(problem, **{name: tuple(np.ones_like(a) for a in given)})
    for place in problem.case.floats:
        array = np.array(problem.case.read(place)._array)
        with np.errstate(all="ignore"):
            for digits in (0, 1, 2):
                rounder = np.round(array, digits) + 0.0
                if _digits(array) > digits and array.dtype.kind == "f":
                    yield from _with(problem, place, rounder)
                    break
        flat = array.reshape(-1)
        if array.size > 1 and len(set(flat.tolist())) > 2 and array.dtype.kind == "f":
            yield from _with(problem, place, np.arange(1.0, array.size + 1).reshape(array.shape))
    for place in problem.case.floats:
        array = np.array(problem.case.read(place)._array)
        if _digits(array) > 2 and array.dtype.kind == "f":
            yield from _with(problem, place, np.vectorize(lambda x: float(f"{x:.2g}"), [float])(array))
    for name in ("u", "v", "w"):
        given = getattr(problem, name)
        if any(_digits(a) > 2 and a.dtype.kind == "f" for a in given):
            rounder = tuple(np.vectorize(lambda x: float(f"{x:.2g}"), [float])(a) for a in given)
            if not all(map(np.array_equal, rounder, given)):
                yield replace(problem, **{name: rounder})


def _digits(array: Array) -> int:
    """Return how many decimals all numbers have; 9 if more than 2."""
    return next((d for d in (0, 1, 2) if np.array_equal(np.round(array, d), array)), 9)


def _with(problem: Problem, place: Any, array: Array) -> Iterator[Problem]:
    if not np.array_equal(array, problem.case.read(place)._array):
        yield replace(problem, case=with_arrays(problem.case, {place: array}))


def _cut(problem: Problem) -> Iterator[Problem]:
    """Yield the call with one of its sizes cut to 1 or 2 in all tensors that have it, or in the first dimension."""
    shapes = [problem.case.read(p).shape for p in problem.case.floats]
    for size in sorted({n for shape in shapes for n in shape if n > 1}, reverse=True):
        for n in (1, 2):
            if n < size:
                yield from _resized(problem, lambda shape, size=size, n=n: [n if s == size else s for s in shape])
    for size in sorted({shape[0] for shape in shapes if shape and shape[0] > 1}, reverse=True):
        yield from _resized(problem, lambda shape, size=size: [1 if shape[0] == size else shape[0], *shape[1:]])


def _resized(problem: Problem, change: Any) -> Iterator[Problem]:
    def cut(tensor: Any) -> Any:
        if not tensor.ndim or not is_float(tensor):
            return tensor
        return wrap(tensor._array[tuple(slice(n) for n in change(tuple(tensor.shape)))].copy())

    try:
        made = problem.with_case(problem.case.changed(cut, problem.case.label))
    except Exception:
        return
    if made is not None:
        yield made
