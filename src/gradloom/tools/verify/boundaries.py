"""Boundary points: where a formula divides by zero or changes its branch, or a derivative does not exist.

`points` makes them from arrays alone, for any library; `changes` from a call, with the ends of its operator's
`domain:`; both `verify` and `audit` take them from there. `boundary_cases` adds what is known of the operator: the
numbers that its source compares with, its numeric arguments, and its family. There is no table of operators. What is
compared there: `gradloom.tools.verify.agreement`.

    for label, arrays in points([np.ones((2, 3)), np.ones((2, 3))]):
        ...  # label: "zeros everywhere", "the same numbers", ...
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import gradloom
from gradloom.core.tensor import wrap

from .case import Case, Place, is_float, tensors
from .sampling import DEFAULT_DOMAIN, domains, refusal
from .sources import Source

Array = np.ndarray

# Maximum number of elements of the vectors of pointwise operators, which hold all combinations of marks.
_MOST = 160
MARKS = (0.0, 1.0, -1.0, 0.5, -0.5)
EXTREME = "the largest and smallest numbers"
# Of float16, float32 and bfloat16, and numbers of float64 whose fourth powers are in its range.
EXTREMES = (65504.0, 2.0**-14, 2.0**127, 2.0**-126, 2.0**255, 2.0**-255)
INTEGERS = (1.0, -1.0, 2.0, 0.0, 1.0, -2.0, 3.0)
MATRIX_FAMILIES = frozenset({"linalg", "matmul"})


def _with(array: Array, value: float, *places: int) -> Array:
    changed = array.copy()
    changed.reshape(-1)[list(places)] = value
    return changed


def _rows_alike(array: Array) -> Array:
    return np.broadcast_to(array[..., :1], array.shape).copy()


# What is changed in one array -> the array, or None if it is too small. The most telling ones come first.
CHANGES: dict[str, Callable[[Array], Array | None]] = {
    "zeros": lambda a: np.zeros_like(a),
    "one number": lambda a: np.full_like(a, a.reshape(-1)[0]),
    "a zero": lambda a: _with(a, 0.0, 0),
    "two zeros": lambda a: _with(a, 0.0, 0, -1) if a.size > 2 else None,
    "constant rows": lambda a: _rows_alike(a) if a.ndim > 1 and a.shape[-1] > 1 else None,
    "a tie": lambda a: _with(a, a.reshape(-1)[0], a.shape[-1] - 1) if a.ndim and a.shape[-1] > 2 else None,
    "a row of zeros": lambda a: np.concatenate([np.zeros_like(a[:1]), a[1:]]) if a.ndim > 1 and len(a) > 1 else None,
    "equal rows": lambda a: np.broadcast_to(a[..., :1, :], a.shape) if a.ndim > 1 and a.shape[-2] > 1 else None,
    "small integers": lambda a: np.resize(INTEGERS, a.shape).astype(a.dtype) if a.size > 1 else None,
    "numbers below zero": lambda a: -a,
}


def _singular(m: int, n: int) -> Array:
    return np.arange(m * n, dtype=float).reshape(m, n) + 1.0  # of rank 2, or 1 where it has two rows


# Matrices of m rows and n columns: equal singular values and eigenvalues, singular and defective ones.
MATRICES: dict[str, Callable[[int, int], Array]] = {
    "the identity": lambda m, n: np.eye(m, n),
    "a matrix of rank 1": lambda m, n: np.outer(np.arange(1.0, m + 1), np.arange(2.0, n + 2)),
    "a singular matrix": _singular,
    "a diagonal matrix with a zero": lambda m, n: np.eye(m, n) * np.arange(float(n)),
    "a defective matrix": lambda m, n: np.eye(m, n) + np.eye(m, n, 1),
    "a nilpotent matrix": lambda m, n: np.eye(m, n, 1),
}


def points(
    arrays: Sequence[Array], matrices: bool = False, names: Sequence[str] = ()
) -> Iterator[tuple[str, list[Array]]]:
    """Yield (label, arrays) with boundary points instead of the numbers of some arrays: of all, then of each alone.

    Args:
        matrices: whether the last two dimensions are those of matrices, where they have at least two rows and columns.
        names: those of the arrays, for labels.
    """
    changes: dict[str, Callable[[Array], Array | None]] = dict(CHANGES)
    if matrices:
        changes |= {"dependent rows": _dependent}
        changes |= {label: lambda a, make=make: _matrices(a, make) for label, make in MATRICES.items()}
    coincident = [_coincident(arrays[0], a) for a in arrays[1:]]
    if any(a is not None for a in coincident):
        new = [b if a is None else a for a, b in zip(coincident, arrays[1:], strict=True)]
        yield "the same numbers", [arrays[0].copy(), *new]
    everything = range(len(arrays))
    named = names or [f"input {i}" for i in everything]
    for label, change in changes.items():
        for chosen in (everything,) if len(arrays) < 2 else (everything, *((i,) for i in everything)):
            new = [change(a) if i in chosen and a.size else None for i, a in enumerate(arrays)]
            if any(a is not None for a in new):
                where = "" if len(arrays) < 2 else " everywhere" if len(chosen) > 1 else f" in {named[chosen[0]]}"
                yield label + where, [b.copy() if a is None else a for a, b in zip(new, arrays, strict=True)]


def _matrices(array: Array, make: Callable[[int, int], Array]) -> Array | None:
    if array.ndim < 2 or min(array.shape[-2:]) < 2:
        return None
    return np.broadcast_to(make(*array.shape[-2:]), array.shape).astype(array.dtype)


def _dependent(array: Array) -> Array | None:
    if array.ndim < 2 or min(array.shape[-2:]) < 2:
        return None
    made = array.copy()
    made[..., -1, :] = 2 * made[..., 0, :]
    return made


def _coincident(first: Array, other: Array) -> Array | None:
    """Return `other` with the numbers of `first`, or its rows with those of its rows; None if the shapes do not fit."""
    if first.shape == other.shape:
        return first.copy()
    if first.ndim == other.ndim > 1 and first.shape[-1] == other.shape[-1] and first.shape[-2]:
        return np.resize(first.reshape(-1, first.shape[-1]), other.shape)
    return None


def combinations(marks: Sequence[Sequence[float]]) -> list[Array]:
    """Return vectors that hold all combinations of some numbers, or an even part of them."""
    marks = [tuple(m) for m in marks]
    while np.prod([len(m) for m in marks]) > _MOST:
        longest = max(range(len(marks)), key=lambda i: len(marks[i]))
        marks[longest] = marks[longest][:-1]
    return [np.array(column) for column in zip(*itertools.product(*marks), strict=True)]


def changes(case: Case, places: Sequence[Place], matrices: bool) -> Iterator[tuple[str, dict[Place, Array]]]:
    """Yield (label, arrays) with boundary points instead of a call's numbers in some places."""
    arrays = [np.array(case.read(p)._array) for p in places]
    for label, made in points(arrays, matrices, [f"`{p}`" for p in places]):
        yield label, dict(zip(places, made, strict=True))
    ranges = domains(case.operator)
    for place, array in zip(places, arrays, strict=True):
        for end in ranges.get(place.name, ()):
            yield f"`{place}` at the end of its domain", {place: np.full_like(array, end)}


def boundary_cases(case: Case) -> Iterator[Case]:
    """Yield the calls at boundary points that the operator accepts, with finite results."""
    places = [p for p in case.places if case.read(p)._array.size]
    if not places or any(case.read(p).dtype is not gradloom.float64 for p in case.floats):
        return
    if case.operator.is_pointwise and all(p.index is None for p in case.floats):
        numbers = _known(case)
        for label, marks in (("boundary numbers", numbers), (EXTREME, (1.0, *EXTREMES, *(-e for e in EXTREMES)))):
            made = _of_marks(case, label, marks)
            if made is not None:
                yield made
        return
    for size in (1, 0):
        yield from _of_size(case, size)
    matrices = case.operator.family in MATRIX_FAMILIES
    free = [p for p in places if p.name not in case.operator.fixed]
    for label, arrays in changes(case, free, matrices):
        args, kwargs = case.with_inputs(tuple(wrap(np.array(a)) for a in arrays.values()), list(arrays))
        made = Case(case.operator, tuple(args), kwargs, label)
        made.is_varied = True
        if refusal(made) is None:
            yield made
    yield from _of_equal_numbers(case)


def _of_size(case: Case, size: int) -> Iterator[Case]:
    """Yield the call with tensors of this size in all dimensions but those of size 1, if the operator accepts it."""
    if any(a.python_name.endswith("sizes") for a in case.operator.schema.inputs):
        return

    def cut(tensor: Any) -> Any:
        return wrap(tensor._array[tuple(slice(0, n if n == 1 else size) for n in tensor.shape)].copy())

    made = case.changed(cut, f"size {size}")
    made.is_varied = True
    if any(made.read(p).shape != case.read(p).shape for p in case.places) and refusal(made) is None:
        yield made


def _known(case: Case) -> list[float]:
    """Return the numbers where a pointwise operator may change its formula."""
    numbers = [v for _, v in case.arguments() if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return [*MARKS[:3], *numbers, *Source(case.operator).numbers, *MARKS[3:]]


def _of_marks(case: Case, label: str, known: Sequence[float]) -> Case | None:
    """Return the call of a pointwise operator with all combinations of numbers in the domain, without those whose
    result is not finite; None if nothing is left."""
    ranges = domains(case.operator)
    marks = []
    for place in case.floats:
        low, high = ranges.get(place.name, (-np.inf, np.inf))
        inside = [m for m in dict.fromkeys(map(float, known)) if low <= m <= high]
        marks.append([*inside, *(e for e in (low, high) if np.isfinite(e)), sum(DEFAULT_DOMAIN) / 2][:14])
    arrays = combinations(marks)
    size = len(arrays[0])
    made = case.changed(lambda t: t if is_float(t) else wrap(np.resize(t._array, size)), label)
    args, kwargs = made.with_inputs(tuple(map(wrap, arrays)), made.floats)
    made = Case(case.operator, tuple(args), kwargs, label)
    try:
        with gradloom.no_grad():
            found = [t._array for t in tensors(made.plain()) if is_float(t)]
    except Exception:
        return None
    if not found or any(f.shape != (size,) for f in found):
        return None
    finite = np.all([np.isfinite(f) for f in found], 0)
    if not finite.any():
        return None
    made = made.changed(lambda t: wrap(t._array[finite].copy()), made.label)
    made.is_varied = True
    return made


def _of_equal_numbers(case: Case) -> Iterator[Case]:
    """Yield the call with its numeric arguments equal, as equal bounds."""
    given = {n: v for n, v in case.arguments() if isinstance(v, float)}
    if len(given) > 1:
        value = next(iter(given.values()))
        args = tuple(value if n in given else a for n, a in zip(case.names, case.args, strict=False))
        kwargs = {n: value if n in given else v for n, v in case.kwargs.items()}
        made = Case(case.operator, args, kwargs, "equal numbers")
        made.is_varied = True
        if refusal(made) is None:
            yield made
