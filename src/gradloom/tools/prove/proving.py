"""A formula beside the derivative of the operator's definition: proved, refuted or open.

The definition and the formula have alternatives. For each pair of them that can hold at once, the derivative of the
definition and the formula are expressions without a choice: they are equal by algebra (proved), differ at a point in 40
digits (refuted), or neither is found (open). The points include all numbers that conditions compare with, and numbers
on both sides of these. A pair that holds at none of some thousand points is proved to be impossible by linear
arithmetic, or the verdict counts it. Where a pair holds at single points only, alternatives meet, and there the formula
may give any slope between those around the point.

A formula that is proved equals the derivative as a function, so that its own derivatives of all orders, which follow
from the operators in it, are those of the definition wherever the alternatives do not meet.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradloom.codegen.derivation import measure
from gradloom.codegen.derivation.branches import TooManyError, branches, leaves
from gradloom.codegen.derivation.derive import sample_numbers
from gradloom.codegen.derivation.symbols import NoRuleError, is_holomorphic, symbol, to_sympy
from gradloom.codegen.derivatives.model import DifferentiabilityInfo
from gradloom.codegen.language.scalars import filled, names_in
from gradloom.codegen.operators.model import NativeFunction

from .conditions import are_impossible, equal_sides, exclude_one_another
from .cplusplus import IS_GRADIENT_RECORDED
from .equality import are_equal
from .reading import CONJUGATE, OpenError, Reader, of_numbers, python

REAL, COMPLEX = "real", "complex"
PROVED, REFUTED, OPEN = "proved", "refuted", "open"
GRAD = "grad"
RESULT = "result"
FLAGS = (IS_GRADIENT_RECORDED,)  # variables of formulas that are no arguments
_POINTS = (-800.0, -20.0, -2.5, -1.0, -0.7, -1e-3, 0.0, 1e-3, 0.3, 1.0, 1.7, 2.5, 20.0, 800.0)
_MOST = 3000
_CLOSE = 1e-11  # relative; definitions that saturate, as tanh at 20, differ by less
_ROUNDING = 1e-15  # beside the largest argument
_PAIRS = 1000  # of alternatives


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found about a formula.

    Attributes:
        of: the input whose gradient it is, or `result` for the tangent of the result.
        word: `proved`, `refuted` or `open`.
        field: `complex` if the formula was compared for complex numbers, which it is for definitions with a complex
            derivative; else `real`.
        reason: the counterexample, or what is not translated or not proved; '' for a proof.
        at_meeting: whether the counterexample is a point where alternatives meet.
    """

    operator: str
    of: str
    formula: str
    word: str
    reason: str = ""
    field: str = REAL
    at_meeting: bool = False


def verdicts(function: NativeFunction, info: DifferentiabilityInfo, reader: Reader) -> Iterator[Verdict]:
    """Yield a verdict for each formula of an operator with a definition."""
    for derivative in info.derivatives:
        if len(derivative.inputs) == 1 and derivative.formula:
            yield judged(function, derivative.inputs[0], derivative.source, reader)
    for forward in info.forward:
        if forward.kind == "explicit":
            yield judged(function, RESULT, forward.source, reader)


def judged(
    function: NativeFunction, of: str, source: str, reader: Reader, parsed: Callable[[str], ast.expr] = python
) -> Verdict:
    """Return the verdict about a formula: that of the gradient of an input, or of the tangent of the result.

    Args:
        parsed: the function that parses the formula; it may raise OpenError.
    """
    source = " ".join(source.split())
    try:
        return _compared(function, of, source, reader, parsed)
    except Exception as error:  # SymPy raises errors of many classes where it cannot go on
        return Verdict(function.name, of, source, OPEN, f"{type(error).__name__} in the algebra: {error}")


def _compared(
    function: NativeFunction, of: str, source: str, reader: Reader, parsed: Callable[[str], ast.expr]
) -> Verdict:
    names = [a.python_name for a in function.schema.inputs]
    tensors = [a.python_name for a in function.schema.inputs if a.type.is_tensor_like]
    wanted = {t: f"{t}_t" for t in tensors} if of == RESULT else {of: GRAD}
    assert function.scalar is not None
    try:
        tree = parsed(source)
    except OpenError as error:
        return Verdict(function.name, of, source, OPEN, f"{error} is not translated")
    conjugates = "conj" in ast.unparse(tree) or of == RESULT
    field = COMPLEX if conjugates and is_holomorphic(function.scalar.tree, tensors) else REAL

    def verdict(word: str, reason: str = "", at_meeting: bool = False) -> Verdict:
        return Verdict(function.name, of, source, word, reason, field, at_meeting)

    every = [*tensors, *wanted.values(), RESULT, *(f"{t}_p" for t in tensors)]
    try:
        found = reader.read(tree, [*names, *every, *FLAGS], every)
        found = filled(found, {f"{t}_p": ast.Name(t, ast.Load()) for t in tensors})
        defined = of_numbers(function.scalar.tree, False)
        found = of_numbers(filled(found, {RESULT: defined}), field == COMPLEX)
        formulas = list(leaves(branches(found, [*tensors, *wanted.values()])))
        definitions = list(leaves(branches(defined, tensors, "side" in function.kinks)))
    except OpenError as error:
        return verdict(OPEN, f"{error} is not translated")
    except TooManyError:
        return verdict(OPEN, "too many alternatives")
    if len(definitions) * len(formulas) > _PAIRS:
        return verdict(OPEN, "too many alternatives")
    given = {t: 1.25 + 0.5 * n for n, t in enumerate(wanted.values())}
    numbers = {
        name: list(dict.fromkeys((*values, *_compared_numbers([found, defined], name))))
        for name, values in sample_numbers(function.schema, function.scalar).items()
    }
    numbers |= {flag: [False, True] for flag in FLAGS if flag in names_in(found)}
    numbers |= {t: [given[t], *compared] for t in given if (compared := _compared_numbers([found], t))}
    bools = _conditions_by_name([*definitions, *formulas], tensors)
    movable = [t for t in tensors if t not in bools]
    optional = {a.python_name for a in function.schema.inputs if a.type.is_tensor_like and a.type.is_optional}
    every_point = _points(tensors, bools, optional, numbers, [found, defined])
    points = Points([_with_conjugates(given | p) for p in every_point])
    given_inputs = [(ast.parse(f"{x} is None", mode="eval").body, False) for x in wanted]
    proved, unseen, meetings = 0, 0, list[tuple[Any, Any, list[Mapping[str, Any]]]]()
    for (definition, if_defined), (formula, if_formula) in itertools.product(definitions, formulas):
        conditions = (*if_defined, *if_formula)
        if exclude_one_another(conditions):
            continue
        here = points.at(conditions)
        if not here:
            unseen += not are_impossible((*conditions, *given_inputs))
            continue
        try:
            value, got = to_sympy(definition.tree), to_sympy(formula.tree)
            exact: Any = sum(_slope(definition.tree, x, t, field) * symbol(t) for x, t in wanted.items())
            equations = _equations(conditions)
        except NoRuleError as error:
            return verdict(OPEN, f"{error.message}")
        if exact == got:
            proved += 1
            continue
        if _is_thin(here, conditions, movable):
            meetings.append((exact, got, here))
            continue
        wrong, tried = _counterexample(exact, got, value, here, wanted)
        if wrong is not None:
            return verdict(REFUTED, wrong)
        if not tried:  # the definition has no derivative there
            continue
        if are_equal(exact, got) or _are_equal_at(exact, got, equations):
            proved += 1
            continue
        shown = " and ".join(ast.unparse(t) if yes else f"not ({ast.unparse(t)})" for t, yes in conditions)
        return verdict(
            OPEN, f"equal to {_CLOSE} where it was tried, and not proved" + (f", if {shown}" if shown else "")
        )
    for exact, got, here in meetings:
        wrong = _beyond_its_neighbours(exact, got, here, definitions, movable, wanted, function.kinks)
        if wrong is not None:
            return verdict(REFUTED, wrong, True)
    if not proved:
        return verdict(OPEN, "no alternative holds at the points that were tried")
    pairs = f"but for {unseen} pair{'s' * (unseen > 1)} of alternatives for which no point was found"
    return verdict(PROVED, pairs if unseen else "")


def _slope(tree: ast.expr, of: str, gradient: str, field: str) -> Any:
    """Return the derivative by an input as it is multiplied with a gradient, which gets its conjugate, or a tangent."""
    slope = to_sympy(tree).diff(symbol(of))
    if field == REAL or gradient != GRAD:
        return slope
    return slope.xreplace({s: symbol(s.name + CONJUGATE) for s in slope.free_symbols})


def _equations(conditions: Sequence[tuple[ast.expr, bool]]) -> list[tuple[Any, Any]]:
    """Return the values that conditions give to symbols, in the order in which they are to be put in."""
    import sympy

    found: list[tuple[Any, Any]] = []
    for left, right in equal_sides(conditions):
        try:
            difference = (to_sympy(left) - to_sympy(right)).subs(found)
        except NoRuleError:
            continue
        for one in sorted(difference.free_symbols, key=lambda s: s.name):
            if difference.is_polynomial(one) and sympy.degree(difference, one) == 1:
                value = sympy.solve(difference, one)[0]
                found.append((one, value))
                if value.is_number:
                    found.append((symbol(one.name + CONJUGATE), value))
                break
    return found


def _are_equal_at(exact: Any, got: Any, equations: Sequence[tuple[Any, Any]]) -> bool:
    """Return whether two expressions are equal where equations hold."""
    if not equations:
        return False
    exact, got = exact.subs(equations), got.subs(equations)
    return bool(exact.is_finite is not False and got.is_finite is not False) and are_equal(exact, got)


def _compared_numbers(trees: Sequence[ast.expr], name: str) -> list[float]:
    """Return the numbers that an argument is compared with."""
    names = {name, name + CONJUGATE}
    compared = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Compare) and names & names_in(n)]
    constants = [c.value for n in compared for c in ast.walk(n) if isinstance(c, ast.Constant)]
    numbers = [float(c) for c in constants if isinstance(c, int | float) and not isinstance(c, bool)]
    return [n for c in numbers for n in (c, -c, c + 1, -c - 1)]


def _conditions_by_name(found: Sequence[Any], tensors: Sequence[str]) -> frozenset[str]:
    """Return the tensors that are conditions themselves, such as a mask."""
    tests = [test for _, conditions in found for test, _ in conditions]
    pending, names = list(tests), set[str]()
    while pending:
        match pending.pop():
            case ast.Name(id=name):
                names.add(name)
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor(), right=right):
                pending += [left, right]
            case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=operand):
                pending.append(operand)
            case ast.BoolOp(values=values):
                pending += values
    return frozenset(names & set(tensors))


def _with_conjugates(point: dict[str, Any]) -> dict[str, Any]:
    """Return a point at which conjugates differ from their variables, as those of complex numbers do."""
    floats = {k: v for k, v in point.items() if isinstance(v, float)}
    others = {f"{k}{CONJUGATE}": v if v.is_integer() else 0.75 * v + 0.01 for k, v in floats.items()}
    return point | others


def _points(
    tensors: Sequence[str], bools: Collection[str], optional: Collection[str], numbers: Mapping[str, Sequence[Any]],
    trees: Sequence[ast.expr],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield points: ordinary numbers, and those at which conditions change, from both sides; both values of `bools`,
    and None for what is optional."""
    constants = {
        float(c.value) * sign
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for c in ast.walk(node)
        if isinstance(c, ast.Constant) and isinstance(c.value, int | float) and not isinstance(c.value, bool)
        for sign in (1, -1)
    }
    edges = sorted({*_POINTS, *constants, *(c + side * 1e-6 for c in constants for side in (-1, 1))})
    axes: list[list[Any]] = [[0.0, 1.0] if t in bools else [float(e) for e in edges] for t in tensors]
    for name, axis in zip(tensors, axes, strict=True):
        axis += [None] * (name in optional)
    axes += [list(v) for v in numbers.values()]
    total = int(np.prod([len(a) for a in axes]))
    step = max(1, total // _MOST)
    while step > 1 and any(np.gcd(step, len(a)) > 1 for a in axes):
        step += 1
    for values in itertools.islice(itertools.product(*axes), 0, None, step):
        yield dict(zip([*tensors, *numbers], values, strict=True))
    for edge in edges:  # ties
        for values in itertools.product(*[[0.0, 1.0] for _ in bools], *numbers.values()):
            tied = dict.fromkeys(tensors, float(edge)) | dict(zip([*bools, *numbers], values, strict=True))
            yield from (tied, *({**tied, name: None} for name in optional))


class Points:
    """The points of a comparison, and which conditions hold at them; each condition is computed once."""

    def __init__(self, points: Sequence[Mapping[str, Any]]) -> None:
        self._points = points
        self._names = [measure.names_at(p) for p in points]
        self._truth: dict[str, Any] = {}

    def at(self, conditions: Sequence[tuple[ast.expr, bool]]) -> list[Mapping[str, Any]]:
        """Return the points at which conditions hold."""
        mask = np.ones(len(self._points), bool)
        for test, yes in conditions:
            known = self._true(test)
            mask &= known == yes
        return [self._points[i] for i in np.flatnonzero(mask)]

    def _true(self, test: ast.expr) -> Any:
        """Return 1 where a condition holds, 0 where not, and 2 where it has no meaning, as for a bound that is None."""
        text = ast.unparse(test)
        found = self._truth.get(text)
        if found is None:
            test_at = measure.truth(test)
            found = np.array([2 if (holds := test_at(names)) is None else int(holds) for names in self._names])
            self._truth[text] = found
        return found


_NEAR = 1e-7


def _neighbours(point: Mapping[str, Any], tensors: Sequence[str], near: float = _NEAR) -> Iterator[dict[str, Any]]:
    """Yield points beside a point, in all directions."""
    tensors = [t for t in tensors if point[t] is not None]
    for signs in itertools.product((-1, 0, 1), repeat=len(tensors)):
        if any(signs):
            moved = {t: point[t] + s * near * max(1.0, abs(point[t])) for t, s in zip(tensors, signs, strict=True)}
            yield {**point, **moved}


def _is_thin(
    points: Sequence[Mapping[str, Any]], conditions: Sequence[tuple[ast.expr, bool]], tensors: Sequence[str]
) -> bool:
    """Return whether conditions hold at single points only, where alternatives meet."""
    holds = measure.holds_at([(t, yes) for t, yes in conditions if names_in(t) & set(tensors)])
    for point in points[:: max(1, len(points) // 20)]:
        for axis in [t for t in tensors if point[t] is not None]:
            moved = [{**point, axis: point[axis] + s * _NEAR * max(1.0, abs(point[axis]))} for s in (-1, 1)]
            if not any(holds(m) for m in moved):
                break
        else:
            return False
    return True


def _beyond_its_neighbours(
    exact: Any,
    got: Any,
    points: Sequence[Mapping[str, Any]],
    definitions: Sequence[Any],
    tensors: Sequence[str],
    wanted: Mapping[str, str],
    kinks: Sequence[str],
) -> str | None:
    """Return where alternatives meet and a formula is neither 0 nor between the slopes around that point, or has no
    value although the definition's own alternative has a derivative."""
    evaluated, of_definition = measure.evaluator((got,)), measure.evaluator((exact,))
    slopes = []
    for leaf, conditions in definitions:
        value = to_sympy(leaf.tree)
        slope: Any = sum(value.diff(symbol(x)) * symbol(t) for x, t in wanted.items())
        slopes.append((measure.holds_at(conditions), measure.evaluator((slope,))))
    one_by_one = [dict.fromkeys(wanted.values(), 0.0) | {name: 1.0} for name in wanted.values()]
    for point in [{**p, **one} for p in points[:: max(1, len(points) // 20)] for one in one_by_one]:
        here = evaluated(point)
        around, nearer = ([
            found[0]
            for other in _neighbours(point, tensors, near)
            for holds, slope in slopes
            if holds(other) and (found := slope(other)) is not None
        ] for near in (_NEAR, _NEAR / 100))  # fmt: skip
        if not around or not nearer or _diverge(around, nearer):
            continue
        if here is None:
            there = of_definition(point)
            if there is not None:
                return f"{_place(point, wanted)}: no value, where the definition has {there[0]:.17g}"
            continue
        slack = 1e-5 * max(1.0, *map(abs, nearer))
        if not _may_be(here[0], nearer, kinks, slack):
            slopes_are = f"the slopes around are {min(nearer):.6g} to {max(nearer):.6g}"
            return f"{_place(point, wanted)}: {here[0]:.17g}, where {slopes_are}"
    return None


def _diverge(around: Sequence[float], nearer: Sequence[float]) -> bool:
    """Return whether slopes have no limit at a point: they differ with the distance from it."""
    far, near = (min(around), max(around)), (min(nearer), max(nearer))
    return any(abs(f - n) > 1e-3 * max(1.0, abs(f)) for f, n in zip(far, near, strict=True))


def _may_be(slope: float, around: Sequence[float], kinks: Sequence[str], slack: float) -> bool:
    """Return whether a formula may give a slope where those around differ, by the words of `kinks:`; without words,
    any slope between them, or 0."""
    least, most = min(around), max(around)
    allowed = {"zero": [0.0], "shared": [(least + most) / 2], "side": around, "selected": around}
    words = [allowed[word] for word in kinks if word in allowed]
    if most - least <= slack or words:
        is_one = most - least <= slack
        chosen = [around] if is_one else words if "shared" in kinks else [*words, around]
        return any(abs(slope - a) <= slack for values in chosen for a in values)
    return min(0.0, least) - slack <= slope <= max(0.0, most) + slack


def _counterexample(
    exact: Any, got: Any, value: Any, points: Sequence[Mapping[str, Any]], wanted: Mapping[str, str]
) -> tuple[str | None, int]:
    """Return a point at which two expressions differ by more than rounding, and both values, or None if none is found;
    and the number of points at which both are defined."""
    tried = 0
    evaluated = measure.evaluator((exact, got, value))
    step = max(1, len(points) // 60)
    for point in points[::step]:
        found = evaluated(point)
        if found is None:
            continue
        tried += 1
        right, wrong, _ = found
        given = max([1.0, *(abs(v) for v in point.values() if isinstance(v, float))])
        if abs(right - wrong) > _CLOSE * max(abs(right), abs(wrong)) + _ROUNDING * given:
            return f"{_place(point, wanted)}: {wrong:.17g}, where the definition has {right:.17g}", tried
    return None, tried


def _place(point: Mapping[str, Any], wanted: Mapping[str, str]) -> str:
    named = {k: v for k, v in point.items() if k not in wanted.values() and CONJUGATE not in k}
    return "at " + ", ".join(f"{k} = {v:.17g}" if isinstance(v, float) else f"{k} = {v}" for k, v in named.items())


def is_provable(function: NativeFunction) -> bool:
    """Return whether an operator has a definition, element by element, with which formulas can be compared."""
    return function.scalar is not None and function.rows is None and "scalar" in function.entry
