"""Conditions of alternatives: whether they can hold at once, and the equations among them.

A condition is a tree of the scalar language and whether it holds. Comparisons of linear expressions are decided
exactly, by elimination in rational numbers; another part of a comparison, such as `self * beta`, stands for any number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from gradloom.codegen.language.scalars import names_in

from .reading import CONJUGATE

Condition: TypeAlias = tuple[ast.expr, bool]
_MOST = 2000  # cases, and inequalities of a case


class _TooManyError(Exception):
    pass


def exclude_one_another(conditions: Sequence[Condition]) -> bool:
    """Return whether conditions contradict one another word for word."""
    known: dict[str, bool] = {}
    return any(known.setdefault(ast.unparse(test), yes) is not yes for test, yes in conditions)


def are_impossible(conditions: Sequence[Condition]) -> bool:
    """Return whether conditions hold for no finite numbers; False says nothing."""
    try:
        return not _may_hold(list(conditions), [], {}, set(), [_MOST])
    except _TooManyError:
        return False


def parts(test: ast.expr, yes: bool) -> tuple[bool, list[Condition]] | None:
    """Return the conditions that a condition consists of, and whether all of them hold, not just one; None if it does
    not consist of conditions."""
    match test:
        case ast.Compare(left=inner, ops=[ast.Eq() | ast.NotEq() as op], comparators=[ast.Constant(value=0)]) if (
            isinstance(inner, ast.Compare | ast.BoolOp) or _is_logical(inner)
        ):
            return True, [(inner, yes is isinstance(op, ast.NotEq))]
        case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=inner):
            return True, [(inner, not yes)]
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as op, right=right):
            return yes is isinstance(op, ast.BitAnd), [(left, yes), (right, yes)]
        case ast.BoolOp(op=op, values=values):
            return yes is isinstance(op, ast.And), [(v, yes) for v in values]
    return None


def equal_sides(conditions: Sequence[Condition]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the two sides of all equations that hold."""
    pending = list(conditions)
    while pending:
        test, yes = pending.pop()
        found = parts(test, yes)
        if found is not None:
            pending += found[1] if found[0] else []
            continue
        match test:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
                if yes is isinstance(op, ast.Eq):
                    yield left, right


def _is_logical(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr)


@dataclass(frozen=True, slots=True)
class _AtLeast:
    """A linear expression that is 0 or more; more than 0 if `strictly`. A factor of '' is the constant."""

    factors: Mapping[str, Fraction]
    strictly: bool


def _may_hold(
    pending: list[Condition], known: list[_AtLeast], words: dict[str, bool], numbers: set[str],
    left: list[int],
) -> bool:  # fmt: skip
    """Return False if conditions contradict one another, or what is known, for all numbers."""
    left[0] -= 1
    if left[0] < 0:
        raise _TooManyError
    while pending:
        test, yes = pending.pop()
        found = parts(test, yes)
        if found is not None:
            all_of_them, inner = found
            if not all_of_them:
                return any(_may_hold([*pending, one], list(known), dict(words), set(numbers), left) for one in inner)
            pending += inner
            continue
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id.startswith("is"):
            if yes is not (test.func.id == "isfinite"):
                return False
            continue
        cases = _cases(test, yes)
        if cases:
            return any(_may_hold([*pending, *case], list(known), dict(words), set(numbers), left) for case in cases)
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
            test, yes = ast.Compare(test.left, [ast.Is()], test.comparators), not yes
        inequalities = _inequalities(test, yes)
        numbers |= names_in(test) if inequalities else set()
        if len(inequalities) > 1:
            return any(
                _may_hold(list(pending), [*known, *one], dict(words), set(numbers), left) for one in inequalities
            )
        for one in inequalities:
            known += one
        if not inequalities and words.setdefault(ast.unparse(test), yes) is not yes:
            return False
    return not any(words.get(f"{name} is None") for name in numbers) and _have_solution(known)


_CASES = {
    "abs": (("{0} >= 0", "{0}"), ("{0} < 0", "-({0})")),
    "maximum": (("{0} >= {1}", "{0}"), ("{0} < {1}", "{1}")),
    "minimum": (("{0} <= {1}", "{0}"), ("{0} > {1}", "{1}")),
    "where": (("{0}", "{1}"), ("not {0}", "{2}")),
}


def _cases(test: ast.expr, yes: bool) -> list[list[Condition]]:
    """Return the cases of the first choice in a condition: when each applies, and the condition then."""
    if isinstance(test, ast.IfExp):
        return [[(test.test, True), (test.body, yes)], [(test.test, False), (test.orelse, yes)]]
    for node in ast.walk(test):
        if isinstance(node, ast.IfExp):
            text, old = ast.unparse(test), ast.unparse(node)
            bodies = ((True, node.body), (False, node.orelse))
            return [
                [(node.test, is_body), (_expression(text.replace(old, f"({ast.unparse(body)})")), yes)]
                for is_body, body in bodies
            ]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CASES:
            given, text, old = [f"({ast.unparse(a)})" for a in node.args], ast.unparse(test), ast.unparse(node)
            return [
                [
                    (_expression(when.format(*given)), True),
                    (_expression(text.replace(old, f"({then.format(*given)})")), yes),
                ]
                for when, then in _CASES[node.func.id]
            ]
    return []


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _inequalities(test: ast.expr, yes: bool) -> list[list[_AtLeast]]:
    """Return the inequalities that a comparison means, as alternatives; none if it is not one of numbers."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return []
    sides = test.left, test.comparators[0]
    if any(isinstance(n, ast.Constant) and not isinstance(n.value, int | float) for s in sides for n in ast.walk(s)):
        return []
    more = _sum(_linear(sides[0]), _linear(sides[1]), Fraction(-1))
    less = {name: -factor for name, factor in more.items()}
    match test.ops[0]:
        case ast.Gt() | ast.LtE() as op:
            return [[_AtLeast(more, True) if yes is isinstance(op, ast.Gt) else _AtLeast(less, False)]]
        case ast.Lt() | ast.GtE() as op:
            return [[_AtLeast(less, True) if yes is isinstance(op, ast.Lt) else _AtLeast(more, False)]]
        case ast.Eq() | ast.NotEq() as op:
            if yes is isinstance(op, ast.Eq):
                return [[_AtLeast(more, False), _AtLeast(less, False)]]
            return [[_AtLeast(more, True)], [_AtLeast(less, True)]]
    return []


def _linear(node: ast.expr) -> dict[str, Fraction]:
    """Return an expression as factors of its variables; parts that are not linear are variables, too."""
    match node:
        case ast.Constant(value=int() | float() as value) if abs(value) < float("inf"):
            return {"": Fraction(repr(value)) if isinstance(value, float) else Fraction(value)}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _sum({}, _linear(operand), Fraction(-1))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            return _sum(_linear(left), _linear(right), Fraction(1 if isinstance(op, ast.Add) else -1))
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as op, right=right):
            one, other = _linear(left), _linear(right)
            if isinstance(op, ast.Mult) and set(one) <= {""}:
                return _sum({}, other, one.get("", Fraction(0)))
            if set(other) == {""} and (other[""] or isinstance(op, ast.Mult)):
                return _sum({}, one, other[""] if isinstance(op, ast.Mult) else 1 / other[""])
    return {ast.unparse(node).replace(CONJUGATE, ""): Fraction(1)}


def _sum(one: Mapping[str, Fraction], other: Mapping[str, Fraction], times: Fraction) -> dict[str, Fraction]:
    found = {name: one.get(name, Fraction(0)) + times * other.get(name, Fraction(0)) for name in {**one, **other}}
    return {name: factor for name, factor in found.items() if factor}


def _have_solution(known: Sequence[_AtLeast]) -> bool:
    """Return whether linear inequalities have a solution in real numbers, by elimination of one variable after another
    (Fourier and Motzkin)."""
    left = list(known)
    while names := sorted({name for k in left for name in k.factors if name}):
        name = names[0]
        above = [k for k in left if k.factors.get(name, 0) > 0]
        below = [k for k in left if k.factors.get(name, 0) < 0]
        left = [k for k in left if name not in k.factors]
        for a in above:
            for b in below:
                scaled = _sum({}, a.factors, -b.factors[name])
                left.append(_AtLeast(_sum(scaled, b.factors, a.factors[name]), a.strictly or b.strictly))
        if len(left) > _MOST:
            raise _TooManyError
    return all(
        k.factors.get("", Fraction(0)) >= 0 if not k.strictly else k.factors.get("", Fraction(0)) > 0 for k in left
    )
