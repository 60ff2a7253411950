"""Programs of rows: expressions of elements and of values that combine the elements of a row, and how wrong they are.

Each way to write a derivative is computed in float64 and float32 for rows of ordinary numbers, of equal ones, and of
numbers whose exponentials and squares overflow or vanish, beside the derivative in up to 1,200 digits.
"""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from ..language.scalars import filled, names_in
from .measure import Error, array_functions, digits_functions
from .symbols import to_tree

ROWS = (
    (0.3, -0.7, 2.5), (1.0, 1.0, -1.0), (2.0, 2.0, 2.0), (0.5, 0.25, 0.75), (-3.0, 0.1, -0.2), (12.0, -12.0, 0.5),
    (800.0, -800.0, 1.0), (800.0, 799.0, 801.0), (-800.0, -801.0, -799.5), (1e-12, 1.0, -1e-12), (0.0, 0.0, 1.0),
    (1e160, 2.0, -1e160), (1e-160, -3e-160, 2e-160), (1e-300, 1e-300, -1e-300), (0.0, 2.0, 3.0),
    (1000000.0, 1000001.0, 1000003.0),
)  # fmt: skip
ROWS_32 = (
    (0.3, -0.7, 2.5), (1.0, 1.0, -1.0), (0.5, 0.25, 0.75), (12.0, -12.0, 0.5), (95.0, -95.0, 1.0), (95.0, 94.0, 96.0),
    (1e-5, 1.0, -1e-5), (1e25, 2.0, -1e25), (1e-25, -3e-25, 2e-25),
)  # fmt: skip
_GRADIENTS = (1.0, -0.375, 0.75)
_DIGITS = (40, 80, 400, 1200)
_WRONG, _WRONG_32 = 1e-9, 2e-5


@dataclass(frozen=True, slots=True)
class Row:
    """A value of a row: `sum`, `prod`, `max` ... of an expression of its elements, an expression of SymPy or a tree."""

    kind: str
    of: Any

    def tree(self, conditions: Mapping[str, ast.expr]) -> ast.expr:
        tree = self.of if isinstance(self.of, ast.expr) else to_tree(self.of)
        return with_conditions(tree, conditions)


@dataclass(frozen=True)
class Program:
    """An expression of SymPy with the names of rows' values and of conditions in it, and what these are."""

    value: Any
    rows: Mapping[str, Row]
    conditions: Mapping[str, ast.expr]
    apart: bool = False
    known: dict[Any, np.ndarray] = field(default_factory=dict, compare=False)

    def exact_at(self, inputs: Mapping[str, np.ndarray], numbers: Mapping[str, Any], count: int) -> np.ndarray:
        """Return the value for rows in float64, kept for the next time."""
        key = count, inputs[min(inputs)].tobytes(), tuple(numbers.items())
        if key not in self.known:
            self.known[key] = _exact(self, inputs, numbers, count)
        return self.known[key]

    def each(self, function: Callable[[Any], Any]) -> Program:
        """Return the program with a function of each of its expressions."""
        rows = {n: r if isinstance(r.of, ast.expr) else replace(r, of=function(r.of)) for n, r in self.rows.items()}
        return replace(self, value=function(self.value), rows=rows)

    def put(self, old: Any, new: Any) -> Program:
        """Return the program with an expression in the place of a symbol."""
        import sympy

        return self.each(lambda x: sympy.powsimp(x.subs(old, new)) if x.has(old) else x)

    def tree(self) -> ast.expr:
        return with_conditions(to_tree(self.value, self.apart), self.conditions)

    @cached_property
    def codes(self) -> list[tuple[str, str, Any]]:
        """The values of rows that stand in the expression, each after those in it, and the expression itself: names,
        functions that combine, and codes."""
        found: dict[str, tuple[str, str, Any]] = {}

        def add(name: str, kind: str, tree: ast.expr) -> None:
            for other in sorted(names_in(tree) & self.rows.keys() - found.keys()):
                add(other, f"row_{self.rows[other].kind}", self.rows[other].tree(self.conditions))
            found[name] = name, kind, _code(tree)

        add("", "", self.tree())
        return list(found.values())

    @property
    def key(self) -> Any:
        """What programs that are written alike share."""
        return self.value, self.apart, tuple(r.of for r in self.rows.values() if not isinstance(r.of, ast.expr))

    def whole(self) -> ast.expr:
        """Return the expression with calls `row_sum(...)` for the values of rows."""
        return self.with_rows(self.tree())

    def with_rows(self, tree: ast.expr) -> ast.expr:
        """Return an expression with calls for the names of rows' values."""
        used = {name: self.rows[name] for name in sorted(names_in(tree) & self.rows.keys())}
        calls: dict[str, ast.expr] = {
            name: ast.Call(ast.Name(f"row_{row.kind}", ast.Load()), [self.with_rows(row.tree(self.conditions))], [])
            for name, row in used.items()
        }
        return filled(tree, calls) if calls else tree


def with_conditions(tree: ast.expr, conditions: Mapping[str, ast.expr]) -> ast.expr:
    while names_in(tree) & conditions.keys():
        tree = filled(tree, conditions)
    return tree


def evaluate(program: Program, names: Mapping[str, Any], functions: Mapping[str, Any]) -> Any:
    """Return the value of a program for arrays of rows, which lie along the last dimension."""
    known = {"__builtins__": {}, **functions}
    found = dict(names)
    for name, kind, code in program.codes:
        value = eval(code, known, found)
        found[name] = functions[kind](value) if kind else value
    return found[""]


def _code(tree: ast.expr) -> Any:
    return compile(ast.fix_missing_locations(ast.Expression(tree)), "<row>", "eval")


def _broadcast(x: Any, like: tuple[int, ...]) -> Any:
    return np.broadcast_to(np.asarray(x), like)


def _row_functions(like: tuple[int, ...], one: Any) -> dict[str, Any]:
    def combined(function: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda x: function(_broadcast(x, like), axis=-1, keepdims=True)

    def shares(x: Any, extreme: Any) -> Any:
        equal = _broadcast(x, like) == extreme
        return np.where(equal, one, 0 * one) / (np.sum(equal, axis=-1, keepdims=True) * one)

    def others(x: Any) -> Any:
        x = _broadcast(x, like)
        n = range(like[-1])
        each = [np.prod(x[..., [j for j in n if j != k]], axis=-1) if like[-1] > 1 else x[..., 0] * 0 + one for k in n]
        return np.stack(each, axis=-1)

    words = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
    return {f"row_{word}": combined(getattr(np, word)) for word in words} | {"shares": shares, "others": others}


def float_functions(like: tuple[int, ...], dtype: Any) -> dict[str, Any]:
    """Return what computes programs in floating point, for rows of one shape."""
    return {**array_functions(), **_row_functions(like, dtype(1))}


_TWO = frozenset("hypot arctan2 logaddexp logaddexp2 copysign polygamma maximum minimum fmax fmin".split())


@cache
def _of_digits() -> dict[str, Any]:
    return {name: np.frompyfunc(f, 2 if name in _TWO else 1, 1) for name, f in digits_functions().items()}


def exact_functions(like: tuple[int, ...]) -> dict[str, Any]:
    """Return what computes programs in the digits that mpmath works with."""
    import mpmath as mp

    constants = {"pi": mp.pi + 0, "e": mp.e + 0, "inf": mp.inf, "nan": mp.nan, "euler_gamma": mp.euler + 0}

    def where(test: Any, yes: Any, no: Any) -> Any:
        return np.where(np.asarray(test, bool), yes, no)

    return {**_of_digits(), **constants, "where": where, **_row_functions(like, mp.mpf(1))}


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of each tensor, the values of the other arguments, and the derivative, all as arrays."""

    tensors: Mapping[str, np.ndarray]
    numbers: Mapping[str, Any]
    exact: np.ndarray


def inputs_of(tensors: Sequence[str], rows: Sequence[Sequence[float]]) -> dict[str, np.ndarray]:
    """Return rows for each tensor: the same ones in another order, and each row turned, for the second and further."""
    found = {}
    for n, name in enumerate(tensors):
        turned = [(*row[n % 3 :], *row[: n % 3]) for row in (*rows[5 * n % len(rows) :], *rows[: 5 * n % len(rows)])]
        found[name] = np.array(turned)
    return found


def samples(
    program: Program, values: Sequence[Program], tensors: Sequence[str], given: Sequence[str],
    cases: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[float]], largest: float,
) -> list[Sample]:  # fmt: skip
    """Return the derivative at rows where the operator and its derivative are ordinary numbers.

    Args:
        program: the derivative, as it comes from the rules; value: the operator.
        given: the names of gradients or tangents.
        cases: values of the arguments that are no tensors.
    """
    found = []
    for numbers in cases:
        single = largest < 1e300
        inputs = inputs_of(tensors, rows)
        if single:
            inputs = {n: x.astype(np.float32).astype(np.float64) for n, x in inputs.items()}
        inputs |= {n: np.broadcast_to(np.array(_GRADIENTS), (len(rows), 3)) for n in given}
        exact = _exact(program, inputs, numbers, len(rows))
        good = (np.abs(exact) < largest).all(axis=-1)  # which is false for NaN
        for value in values:
            good &= (np.abs(value.exact_at(inputs, numbers, len(rows))) < largest).all(axis=-1)
        if good.any():
            found.append(Sample({n: x[good] for n, x in inputs.items()}, numbers, exact[good]))
    return found


def _exact(program: Program, inputs: Mapping[str, np.ndarray], numbers: Mapping[str, Any], count: int) -> np.ndarray:
    """Return the value of a program in float64 for each row, NaN where it is no number or its digits don't settle."""
    found = np.full((count, 3), np.nan)
    left, before = np.arange(count), np.full((count, 3), None, object)
    for digits in _DIGITS:
        now = _in_digits(program, {n: x[left] for n, x in inputs.items()}, numbers, digits)
        settled = np.array([_agree(x, y) for x, y in zip(now, before[left], strict=True)], bool)
        for at, row in zip(left[settled], now[settled], strict=True):
            found[at] = [float(x) for x in row]
        lost = np.array([row[0] is None for row in now], bool)
        before[left] = now
        left = left[~settled & ~lost]
        if not left.size:
            break
    return found


def _in_digits(program: Program, inputs: Mapping[str, np.ndarray], numbers: Mapping[str, Any], digits: int) -> Any:
    """Return the values of a program for rows as numbers of mpmath, None where there is none."""
    import mpmath as mp

    count = len(inputs[min(inputs)])
    with mp.workdps(digits):
        names: dict[str, Any] = {n: np.frompyfunc(mp.mpf, 1, 1)(x.astype(object)) for n, x in inputs.items()}
        names |= {n: mp.mpf(v) if isinstance(v, float) else v for n, v in numbers.items()}
        names["count"] = mp.mpf(3)
        try:
            got = np.array(np.broadcast_to(evaluate(program, names, exact_functions((count, 3))), (count, 3)), object)
        except (ArithmeticError, ValueError, TypeError, NotImplementedError):
            if count == 1:
                return np.full((1, 3), None, object)
            half = count // 2
            parts = ({n: x[:half] for n, x in inputs.items()}, {n: x[half:] for n, x in inputs.items()})
            return np.concatenate([_in_digits(program, part, numbers, digits) for part in parts])
        for row in got:
            if any(isinstance(x, mp.mpc) or not mp.isfinite(x) for x in row):
                row[:] = None
        return got


def _agree(now: Sequence[Any], before: Sequence[Any]) -> bool:
    """Return whether numbers are the same in 20 digits, or too small for float64."""
    if now[0] is None or before[0] is None:
        return False
    return all(
        abs(x - y) <= abs(x) * 1e-20 or max(abs(x), abs(y)) < _mpf("1e-330") for x, y in zip(now, before, strict=True)
    )


@cache
def _mpf(text: str) -> Any:
    import mpmath as mp

    return mp.mpf(text)


def is_zero(program: Program, tensors: Sequence[str], rows: Sequence[Sequence[float]], cases: Any) -> bool:
    """Return whether an expression vanishes for rows of random numbers, whichever way its conditions go."""
    import mpmath as mp

    for chosen in _ways(program):
        for numbers in cases:
            for row in rows:
                with mp.workdps(60):
                    names: dict[str, Any] = {
                        t: np.array([mp.mpf(v) for v in (*row[n:], *row[:n])], object) for n, t in enumerate(tensors)
                    }
                    names |= {n: mp.mpf(v) if isinstance(v, float) else v for n, v in numbers.items()}
                    names["count"] = mp.mpf(len(row))
                    try:
                        got = evaluate(chosen, names, exact_functions((len(row),)))
                        if any(abs(x) > mp.mpf(10) ** -45 for x in np.ravel(got)):
                            return False
                    except (ArithmeticError, ValueError, TypeError, NotImplementedError):
                        return False
    return True


def quotients(
    results: Mapping[str, Program], tensors: Sequence[str], cases: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield rows of random numbers, with changes of the tensors (`x_t`), and by how much the results change there, by
    difference quotients; call it with 60 digits."""
    import mpmath as mp

    draw = random.Random(1)
    for low, high in ((-2, 2), (0.1, 2), (0.05, 0.95)):
        for numbers in cases:
            names: dict[str, Any] = {n: mp.mpf(v) if isinstance(v, float) else v for n, v in numbers.items()}
            names["count"] = mp.mpf(3)
            names |= {n: np.array([mp.mpf(draw.uniform(low, high)) for _ in range(3)], object) for n in tensors}
            names |= {f"{n}_t": np.array([mp.mpf(draw.uniform(-1, 1)) for _ in range(3)], object) for n in tensors}
            step = mp.mpf(10) ** -20
            there = [{**names, **{n: names[n] + way * step * names[f"{n}_t"] for n in tensors}} for way in (1, -1)]
            try:
                more, less = ({n: evaluate(p, at, exact_functions((3,))) for n, p in results.items()} for at in there)
                names |= {n: evaluate(p, names, exact_functions((3,))) for n, p in results.items()}
            except (ArithmeticError, ValueError, TypeError, NotImplementedError):
                continue
            if all(isinstance(v, mp.mpf) and mp.isfinite(v) for n in results for v in np.ravel(more[n])):
                yield names, {n: (more[n] - less[n]) / (2 * step) for n in results}


def _ways(program: Program) -> list[Program]:
    """Return a program for each way that the conditions in it may go."""
    used = sorted({s.name for s in program.value.free_symbols} & program.conditions.keys())
    found = []
    for way in range(2 ** len(used)):
        fixed = {name: ast.Constant(bool(way >> k & 1)) for k, name in enumerate(used)}
        found.append(Program(program.value, program.rows, {**program.conditions, **fixed}))
    return found


def error(
    program: Program, doubles: Sequence[Sample], singles: Sequence[Sample], results: Mapping[str, Program]
) -> Error:
    """Return how wrong a way to write a derivative is; `results` has what computes the operator's results."""
    off = _off(program, doubles, np.float64, 2.3e-308, results)
    off_32 = _off(program, singles, np.float32, 1.2e-38, results)
    good = off[off <= _WRONG]
    largest = float(good.max(initial=0.0))
    decade = max(-15, math.ceil(math.log10(largest))) if largest else -15
    return Error(int((off > _WRONG).sum() + (off_32 > _WRONG_32).sum()), decade, largest)


def _off(program: Program, found: Sequence[Sample], dtype: Any, smallest: float, results: Mapping[str, Program]) -> Any:
    """Return the errors, relative to the largest number of the row: terms of a row may cancel each other."""
    parts = [np.zeros(0)]
    for sample in found:
        like = sample.exact.shape
        names: dict[str, Any] = {n: x.astype(dtype) for n, x in sample.tensors.items()}
        names |= sample.numbers
        names["count"] = like[-1]
        functions = float_functions(like, dtype)
        with np.errstate(all="ignore"):
            for name, result in results.items():
                names[name] = evaluate(result, names, functions)
            got = np.broadcast_to(evaluate(program, names, functions), like).astype(np.float64)
            scale = np.abs(sample.exact).max(axis=-1, keepdims=True)
            away = np.abs(got - sample.exact)
            off = np.where(away <= smallest, 0.0, away / np.maximum(scale, smallest))
        parts.append(np.where(np.isfinite(off), off, np.inf).ravel())
    return np.concatenate(parts)
