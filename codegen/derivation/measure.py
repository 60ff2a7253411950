"""The error of ways to write a derivative: each in float64 and float32, beside the derivative with more digits.

The points are those at which formulas go wrong first: zeros, numbers whose exponentials overflow or vanish, numbers
whose squares do, and ordinary ones. A point counts where the operator and its derivative are ordinary numbers.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from .forms import RESULT
from .symbols import NAMED

POINTS = (
    0.0, 1.0, -1.0, 0.3, -0.7, 1e-12, -1e-12, 1e-300, 2.5, -2.5, 20.0, -20.0, 39.0, -39.0, 800.0, -800.0, 1e20, -1e20,
    1e160, -1e160,
)  # fmt: skip
POINTS_32 = (0.0, 1.0, -1.0, 0.3, -0.7, 1e-12, 2.5, -2.5, 12.0, -12.0, 95.0, -95.0, 1e25, -1e25)
NUMBERS = (1.5, 0.4)  # of arguments that are numbers
_MOST = 140  # points of all arguments together
_DIGITS = (40, 400, 1200)
_WRONG, _WRONG_32 = 1e-9, 2e-5
_LARGEST_EXPONENT = 4000  # of 2, in a number of which functions like exp are taken


@dataclass(frozen=True, slots=True)
class Sample:
    """A point, and the derivative there."""

    arguments: dict[str, float]
    derivative: float


@dataclass(frozen=True, slots=True)
class Error:
    """How wrong a way to write a derivative is: at how many points by more than 1e-9 (2e-5 in float32), and otherwise
    the decade of the largest relative error in float64."""

    wrong: int
    decade: int
    largest: float


def samples(
    value: Any, derivative: Any, holds: Callable[[Mapping[str, float]], bool], tensors: Sequence[str],
    numbers: Mapping[str, Sequence[float]], points: Sequence[float] = POINTS, single: bool = False,
) -> list[Sample]:  # fmt: skip
    """Return the samples of a smooth alternative.

    Args:
        value, derivative: expressions of SymPy.
        holds: whether the conditions of the alternative hold at a point.
        tensors: the names of the arguments that get `points`.
        numbers: the values of the other arguments, by name.
        single: whether values are rounded to float32.
    """
    evaluated = evaluator((value, derivative))
    found = []
    for arguments in _combinations(tensors, numbers, points):
        if not holds(arguments):
            continue
        exact = evaluated(arguments)
        if exact is None:
            continue
        largest = 3e38 if single else 1e308
        if all(abs(x) < largest for x in exact):
            found.append(Sample(arguments, exact[1]))
    return found


def are_finite(
    expressions: Sequence[Any], holds: Callable[[Mapping[str, float]], bool], tensors: Sequence[str],
    numbers: Mapping[str, Sequence[float]],
) -> bool:  # fmt: skip
    """Return whether expressions are finite in float64 at all points at which a condition holds."""
    evaluated = evaluator(expressions)
    for arguments in _combinations(tensors, numbers, POINTS):
        if holds(arguments):
            found = evaluated(arguments)
            if found is None or not all(abs(x) < 1e300 for x in found):
                return False
    return True


def _combinations(
    tensors: Sequence[str], numbers: Mapping[str, Sequence[float]], points: Sequence[float]
) -> list[dict[str, float]]:
    axes = [points] * len(tensors) + list(numbers.values())
    names = [*tensors, *numbers]
    total = math.prod(map(len, axes))
    step = max(1, total // _MOST)
    while step > 1 and any(math.gcd(step, len(axis)) > 1 for axis in axes):
        step += 1
    return [dict(zip(names, c, strict=True)) for c in itertools.islice(itertools.product(*axes), 0, None, step)]


@cache
def _digits_module() -> dict[str, Any]:
    import mpmath as mp

    def guarded(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function that refuses numbers of which it would compute as many digits as they are large."""

        def compute(x: Any) -> Any:
            if x and mp.mag(x) > _LARGEST_EXPONENT:
                raise OverflowError(f"{function} of a number beyond 2 ** {_LARGEST_EXPONENT}")
            return function(x)

        return compute

    exp = guarded(mp.exp)
    return {
        **{name: guarded(getattr(mp, name)) for name in "exp sin cos tan sinh cosh tanh".split()},
        "sigmoid": lambda x: 1 / (1 + exp(-x)),
        "softplus": lambda x: mp.log1p(exp(x)),
        "hypot": mp.hypot,
        "arctan2": mp.atan2,
        "logaddexp": lambda x, y: mp.log(exp(x) + exp(y)),
        "logaddexp2": lambda x, y: mp.log(mp.mpf(2) ** x + mp.mpf(2) ** y, 2),
        "floor": mp.floor, "ceil": mp.ceil, "trunc": lambda x: mp.floor(x) if x >= 0 else mp.ceil(x),
        "rint": mp.nint, "sign": mp.sign, "abs": abs, "signbit": lambda x: mp.mpf(x < 0),
        "copysign": lambda x, y: abs(x) * (-1 if math.copysign(1.0, float(y)) < 0 else 1),
        "isnan": lambda x: mp.mpf(0), "isinf": lambda x: mp.mpf(0), "isfinite": lambda x: mp.mpf(1),
        "erfc": mp.erfc, "expm1": mp.expm1, "log1p": mp.log1p, "rsqrt": lambda x: 1 / mp.sqrt(x),
    }  # fmt: skip


@cache
def digits_functions() -> dict[str, Callable[..., Any]]:
    """Return the functions of the scalar language, and those that forms may use besides, for numbers of mpmath."""
    import mpmath as mp

    found: dict[str, Callable[..., Any]] = {ours: getattr(mp, theirs) for ours, theirs in NAMED.items()}
    found |= {"log2": lambda x: mp.log(x, 2), "log10": mp.log10, "exp2": lambda x: mp.mpf(2) ** x}
    found |= {"polygamma": lambda n, x: mp.polygamma(int(n), x)}
    found |= {"maximum": max, "fmax": max, "minimum": min, "fmin": min}
    return found | _digits_module()


def evaluator(expressions: Sequence[Any]) -> Callable[[Mapping[str, float]], tuple[float, ...] | None]:
    import mpmath as mp
    import sympy

    names = sorted({s for e in expressions for s in e.free_symbols}, key=lambda s: s.name)
    compiled = sympy.lambdify(names, list(expressions), [_digits_module(), "mpmath"], cse=True)

    def at(arguments: Mapping[str, float]) -> tuple[float, ...] | None:
        before: list[Any] | None = None
        for digits in _DIGITS:
            with mp.workdps(digits):
                try:
                    found = compiled(*(mp.mpf(arguments[s.name]) for s in names))
                except (ZeroDivisionError, ValueError, OverflowError, ArithmeticError, TypeError, NotImplementedError):
                    return None
                if any(not mp.isfinite(x) or isinstance(x, mp.mpc) for x in found):
                    return None
                if before is not None and all(
                    abs(x - y) <= abs(x) * mp.mpf(10) ** -20 or max(abs(x), abs(y)) < mp.mpf(10) ** -330
                    for x, y in zip(found, before, strict=True)
                ):
                    return tuple(float(x) for x in found)
                before = found
        return None

    return at


@cache
def array_functions() -> dict[str, Callable[..., Any]]:
    """Return what computes the functions of the scalar language, and those that forms may use besides, on arrays."""
    from scipy import special

    one = {
        name: getattr(np, name)
        for name in """abs exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan arcsin arccos arctan sinh cosh tanh
        arcsinh arccosh arctanh floor ceil trunc rint sign isnan isinf isfinite signbit arctan2 maximum minimum fmax
        fmin fmod hypot copysign logaddexp logaddexp2 where""".split()
    }
    return one | {
        "sigmoid": special.expit, "softplus": lambda x: np.logaddexp(x, x.dtype.type(0)), "erf": special.erf,
        "erfc": special.erfc, "erfinv": special.erfinv, "lgamma": special.gammaln, "digamma": special.digamma,
        "polygamma": lambda n, x: special.polygamma(int(n), x).astype(x.dtype), "rsqrt": lambda x: 1 / np.sqrt(x),
        "pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan, "euler_gamma": np.euler_gamma,
    }  # fmt: skip


def error(form: ast.expr, doubles: Sequence[Sample], singles: Sequence[Sample], value: ast.expr | None = None) -> Error:
    """Return how wrong a way to write a derivative is at the samples; `value` is what computes the operator's result,
    which may be wrong, too."""
    code = _code(form)
    made = None if value is None else _code(value)
    off, off_32 = _errors(code, doubles, np.float64, 2.3e-308, made), _errors(code, singles, np.float32, 1.2e-38, made)
    good = off[off <= _WRONG]
    largest = float(good.max(initial=0.0))
    decade = max(-16, math.ceil(math.log10(largest))) if largest else -16
    wrong = int((off > _WRONG).sum() + (off_32 > _WRONG_32).sum())
    return Error(wrong, max(decade, -15), largest)


def _code(tree: ast.expr) -> Any:
    return compile(ast.fix_missing_locations(ast.Expression(tree)), "<form>", "eval")


def _errors(code: Any, found: Sequence[Sample], dtype: type, smallest: float, value: Any) -> Any:
    if not found:
        return np.zeros(0)
    numbers = [n for n, v in found[0].arguments.items() if isinstance(v, int | float)]
    names: dict[str, Any] = {n: np.array([s.arguments[n] for s in found], dtype) for n in numbers}
    names |= {n: v for n, v in found[0].arguments.items() if n not in numbers}
    exact = np.array([s.derivative for s in found])
    with np.errstate(all="ignore"):
        if value is not None:
            names[RESULT] = eval(value, {"__builtins__": {}}, array_functions() | names)
        got = np.broadcast_to(eval(code, {"__builtins__": {}}, array_functions() | names), exact.shape)
        got = got.astype(np.float64)
        away = np.abs(got - exact)
        off = np.where(away <= smallest, 0.0, away / np.maximum(np.abs(exact), smallest))
    return np.where(np.isfinite(off), off, np.inf)


def holds_at(conditions: Sequence[tuple[ast.expr, bool]]) -> Callable[[Mapping[str, Any]], bool]:
    """Return the function that says whether conditions, in the scalar language, are as given at a point."""
    tests = [(truth(test), wanted) for test, wanted in conditions]

    def holds(arguments: Mapping[str, Any]) -> bool:
        names = names_at(arguments)
        return all(test(names) is wanted for test, wanted in tests)

    return holds


def names_at(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of conditions at a point, the functions of the scalar language included."""
    return array_functions() | {k: np.float64(v) if isinstance(v, float) else v for k, v in arguments.items()}


def truth(test: ast.expr) -> Callable[[dict[str, Any]], bool | None]:
    """Return the function that says whether a condition is true, by the names at a point; None where it has no meaning,
    as for a bound that is None."""
    code = _code(test)

    def at(names: dict[str, Any]) -> bool | None:
        with np.errstate(all="ignore"):
            try:
                return bool(eval(code, {"__builtins__": {}}, names))
            except TypeError:
                return None

    return at
