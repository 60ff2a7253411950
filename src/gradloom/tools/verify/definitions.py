"""Check that a kernel computes what `scalar:` says, element by element, or row by row where there is `over:`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import gradloom
from gradloom.codegen.language.rows import COMBINE, Rows
from gradloom.codegen.language.scalars import FUNCTIONS, NUMBERS, SPECIAL, Scalar
from gradloom.core.tensor import wrap

from .case import Case, is_float, tensors
from .findings import KERNEL, Fault

# Zeros, ones, numbers around them, numbers whose exponentials overflow or vanish, and what is not finite.
_POINTS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.1, 3.0, -2.0, 2.5, 7.0, -20.0, 40.0, 1e-9, 300.0, -800.0)
_POINTS_AND_LIMITS = (*_POINTS, np.inf, -np.inf, np.nan)
_MOST = 4000  # combinations of values of all tensors
_CLOSE = 1e-7  # relative: a definition may round more than its kernel, but differs in no digit that counts


def has_definition(case: Case) -> bool:
    """Return whether the operator's entry has a definition beside its kernel."""
    return {"scalar", "kernel"} <= case.operator.joined.function.entry.keys.keys()


def check_definition(case: Case) -> Iterator[Fault]:
    """Compare the operator with its definition, for the call's numbers and for all combinations of special ones."""
    function = case.operator.joined.function
    if function.rows is not None:
        yield from _rows_compared(case, function.rows)
        shuffled = _with_special_points(case)
        if shuffled is not None:
            yield from _rows_compared(shuffled, function.rows)
        return
    scalar = function.scalar
    assert scalar is not None  # has_definition
    for tried in (case, _at_special_points(case)):
        if tried is not None:
            yield from _compared(tried, scalar)


def _compared(case: Case, scalar: Scalar) -> Iterator[Fault]:
    try:
        (found,) = tensors(case.plain())
    except Exception:
        return  # such numbers are refused; a sample that is refused is another check's finding
    try:
        expected = np.broadcast_to(evaluate(scalar, dict(case.arguments())), found.shape)
    except TypeError:
        return  # a function of the definition is one of real numbers
    array = found._array
    if array.dtype.kind in "fc":
        expected = expected.astype(np.result_type(expected.dtype, array.dtype), copy=False)
        same = np.isclose(array, expected, rtol=_CLOSE, atol=0, equal_nan=True)
    else:
        same = array == expected
    if not same.all():
        first = np.unravel_index(np.flatnonzero(~same)[0], array.shape)
        values = ", ".join(f"{name}={_element(value, first, array.shape)}" for name, value in case.arguments())
        message = f"the kernel differs from `scalar: {scalar.source}`, first at {values}"
        yield Fault(case, "scalar", message, KERNEL, expected=expected[first], found=array[first])


def _rows_compared(case: Case, rows: Rows) -> Iterator[Fault]:
    from gradloom.generated import namespaces

    call = namespaces.OVERLOADS.get(case.operator.name, case.operator.call)  # not what CALLS puts in its place
    args, kwargs = case.detached()
    try:
        results = call(*args, **kwargs)
    except Exception:
        return  # such numbers are refused; a sample that is refused is another check's finding
    results = results if isinstance(results, (tuple, list)) else (results,)
    arguments = dict(case.arguments())
    passed = dict(zip(arguments, args, strict=False)) | kwargs
    compared = [(f"result {n}", f, n) for n, f in enumerate(results) if f is not None and rows.results[n] is not None]
    compared += [(name, passed[name], name) for name, _ in rows.written if passed.get(name) is not None]
    for title, found, which in compared:
        array = found._array
        if not array.size:
            continue
        try:
            expected = evaluate_rows(rows, which, arguments)
        except (TypeError, ZeroDivisionError):
            return  # a function of the definition is one of real numbers
        if expected.size != array.size and expected.size:
            expected = np.broadcast_to(expected, array.shape)
        expected = expected.reshape(array.shape).astype(np.result_type(expected.dtype, array.dtype), copy=False)
        if array.dtype.kind in "fc":
            finite = expected[np.isfinite(expected)]
            scale = np.max(np.abs(finite), initial=0.0)  # the terms of a row may cancel each other
            same = np.isclose(array, expected, rtol=_CLOSE, atol=_CLOSE * scale, equal_nan=True)
        else:
            same = array == expected
        if not same.all():
            place = np.unravel_index(np.flatnonzero(~same)[0], array.shape)
            where = list(map(int, place))
            message = f"{title} of the kernel differs from `scalar: {rows.source}`, first at {where}"
            yield Fault(case, "scalar", message, KERNEL, expected=expected[place], found=array[place])


def evaluate_rows(rows: Rows, which: int | str, arguments: dict[str, Any]) -> np.ndarray:
    """Return what a definition of rows gives for a result, with sizes of one or none along rows that are combined.

    Args:
        which: the number of the result, or the name of an argument that is written to.
    """
    names = {name: value._array if isinstance(value, gradloom.Tensor) else value for name, value in arguments.items()}
    over = rows.over[which if isinstance(which, int) else 0]
    definition = rows.results[which] if isinstance(which, int) else dict(rows.written)[which]
    tables = {name for scalar in (definition, *dict(rows.named).values()) for name in _tables(scalar.source)}
    word, _, first = over.rstrip(")").rpartition("(")
    whole = names[first] if word in ("channels", "classes") else None
    for name, value in names.items():
        if whole is None or not isinstance(value, np.ndarray) or value is whole or name in tables:
            continue
        if word == "channels" and value.ndim == 1:
            names[name] = value.reshape(-1, *[1] * (whole.ndim - 2))
        elif word == "classes" and value.ndim and value.ndim == whole.ndim - 1:
            names[name] = np.expand_dims(value, 1)
    if word in ("groups", "positions"):
        dims = max(v.ndim for v in names.values() if isinstance(v, np.ndarray))
        names |= {n: _in_groups(v, names[first], dims) for n, v in names.items() if isinstance(v, np.ndarray)}
    # Shape (0,) stands for statistics that are not there.
    beside = [v.shape for n, v in names.items() if isinstance(v, np.ndarray) and v.shape != (0,) and n not in tables]
    space = np.broadcast_shapes(*beside)
    axes = _axes(over, names, len(space))

    def combine(word: str):
        function = getattr(np, word)
        if word in ("argmax", "argmin"):
            return lambda value: _place(function, np.broadcast_to(value, space), axes)
        return lambda value: function(np.broadcast_to(value, space), axis=axes, keepdims=True)

    known = _functions() | {word: combine(word) for word in COMBINE}
    names["count"] = int(np.prod([space[d] for d in axes], dtype=np.int64))
    if len(axes) == 1:
        names["index"] = np.arange(space[axes[0]]).reshape(-1, *[1] * (len(space) - axes[0] - 1))
    names |= {name: _Table(names[name]) for name in tables if names[name] is not None}
    with np.errstate(all="ignore"):
        for name, value in rows.named:
            names[name] = eval(_code(value.source), {"__builtins__": {}, **known}, names)
        return np.asarray(eval(_code(definition.source), {"__builtins__": {}, **known}, names))


def _place(function: Any, value: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return the number of the element of each row that argmax or argmin finds."""
    rows = np.moveaxis(value, axes, range(-len(axes), 0)) if axes else value[..., None]
    count = value.ndim - len(axes)
    found = function(rows.reshape(*rows.shape[:count], -1), axis=-1)
    return found.reshape([1 if d in axes else n for d, n in enumerate(value.shape)])


def _in_groups(value: np.ndarray, count: int, dims: int) -> np.ndarray:
    """Return an array with dimension 1, or its only one, as groups and the channels of each."""
    at = 1 if value.ndim > 1 else 0
    shape = (*value.shape[:at], count, value.shape[at] // count, *value.shape[at + 1 :])
    return value.reshape(*shape, *[1] * (dims + at - len(shape)))


class _Table:
    """An array of which a definition reads the elements with some number in dimension 1, or in its only one."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        if self.array.ndim == 1:
            return self.array[index]
        return np.take_along_axis(self.array, np.expand_dims(index, 1), 1).squeeze(1)


@cache
def _tables(source: str) -> frozenset[str]:
    return frozenset(n.value.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Subscript))  # type: ignore[attr-defined]


def _axes(over: str, arguments: dict[str, Any], count: int) -> tuple[int, ...]:
    word, _, name = over.rstrip(")").rpartition("(")
    if over == "all":
        return tuple(range(count))
    given = arguments[name]
    if word == "channels":
        return tuple(d for d in range(count) if d != 1)
    if word == "classes":
        return (1 if count > 1 else 0,)
    if word in ("groups", "positions"):
        return tuple(range(2, count)) if word == "groups" else (0, *range(3, count))
    if word:
        return tuple(range(count - len(given), count) if word == "last" else range(count - len(given)))
    dims = [given] if isinstance(given, int) else given
    return tuple(sorted({d % count for d in dims})) if dims and count else tuple(range(count))


def _with_special_points(case: Case) -> Case | None:
    """Return the call with special numbers, in a fixed disorder, in its floating-point tensors."""
    places = case.floats
    if not places or any(case.read(place).dtype is not gradloom.float64 for place in places):
        return None
    draw = np.random.default_rng(0)
    inputs = tuple(wrap(draw.choice(np.array(_POINTS), case.read(place).shape)) for place in places)
    args, kwargs = case.with_inputs(inputs, places)
    return Case(case.operator, tuple(args), kwargs, "special numbers")


def evaluate(scalar: Scalar, arguments: dict[str, Any]) -> np.ndarray:
    """Return what a definition gives for arguments of an operator, tensors in double precision included."""
    names = {name: value._array if isinstance(value, gradloom.Tensor) else value for name, value in arguments.items()}
    return np.asarray(eval(_code(scalar.source), {"__builtins__": {}, **_functions()}, names))


@cache
def _code(source: str):
    return compile(source, "<scalar>", "eval")


@cache
def _functions() -> dict[str, Any]:
    from scipy import special

    def lgamma(x):
        return np.where(np.isinf(x), np.inf, special.gammaln(x))

    found = {name: getattr(np, name) for name in (*(FUNCTIONS.keys() - SPECIAL.keys()), *NUMBERS)}
    return found | {name: lgamma if name == "lgamma" else getattr(special, name) for name in SPECIAL}


def _at_special_points(case: Case) -> Case | None:
    """Return the call with all combinations of special numbers in its floating-point tensors; None if it has others."""
    places = case.floats
    if not places or any(case.read(place).dtype is not gradloom.float64 for place in places):
        return None
    if any(not is_float(tensor) for _, value in case.arguments() for tensor in tensors(value)):
        return None
    points = _POINTS_AND_LIMITS
    while len(points) ** len(places) > _MOST:
        points = points[::2]
    grids = np.meshgrid(*[np.array(points)] * len(places), indexing="ij")
    inputs = tuple(wrap(grid.reshape(-1).copy()) for grid in grids)
    args, kwargs = case.with_inputs(inputs, places)
    return Case(case.operator, tuple(args), kwargs, "special numbers")


def _element(value: Any, index: tuple, shape: tuple) -> str:
    if not isinstance(value, gradloom.Tensor):
        return repr(value)
    return f"{np.broadcast_to(value._array, shape)[index]:.17g}"
