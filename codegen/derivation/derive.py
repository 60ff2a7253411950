"""Derive the formulas of an operator from its definition.

    found = derive(schema, scalar)
    found.lines          # {'self': 'grad * result.conj()', 'result': 'auto_element_wise'}

Of the equal ways to write a derivative, the one with the fewest wrong numbers is chosen, then the one with the smallest
error, then the cheapest; measure.py says at which points. The same definition always gets the same formulas.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..language.scalars import Scalar, filled, names_in
from ..schema import FunctionSchema
from . import measure
from .branches import Branches, Choice, Leaf, TooManyError, branches, leaves, source
from .forms import RESULT, forms, is_small, stable
from .formulas import ZERO, Formulas
from .measure import POINTS_32, Error, Sample
from .symbols import HOLOMORPHIC, NoRuleError, is_holomorphic, symbol, to_sympy, to_tree

HINT = "write an entry in derivatives.yaml, or `differentiable: false`"


@dataclass(frozen=True, slots=True)
class Choosing:
    """How the derivative of an alternative by an input was chosen."""

    by: str  # the input
    conditions: str  # of the alternative; '' if there is only one
    form: str
    error: Error
    points: int
    forms: int


@dataclass(frozen=True, slots=True)
class Derived:
    """The formulas of an operator: the lines of its entry, and how each was chosen."""

    lines: Mapping[str, str]
    chosen: tuple[Choosing, ...]


def derive(schema: FunctionSchema, scalar: Scalar, kinks: Iterable[str] = ()) -> Derived:
    """Return the formulas of an operator.

    Args:
        kinks: the words of its `kinks:`.

    Raises NoRuleError at a part of the definition that has no derivative rule.
    """
    tensors = [a.python_name for a in schema.inputs if a.type.is_tensor_like]
    try:
        found = branches(scalar.tree, tensors, "side" in kinks)
    except TooManyError:
        message = "the definition has too many alternatives to derive"
        raise NoRuleError(scalar.tree, message, HINT) from None
    found = _of_elements(found, frozenset(tensors))
    numbers = sample_numbers(schema, scalar)
    chosen: list[Choosing] = []
    several = isinstance(found, Choice)
    has_complex = is_holomorphic(scalar.tree, tensors)
    best: dict[str, dict[str, Branches]] = {name: {} for name in tensors}
    of_complex: dict[str, dict[str, Branches]] = {name: {} for name in tensors}
    for leaf, conditions in leaves(found):
        shown = " and ".join(ast.unparse(t) if yes else f"not {ast.unparse(t)}" for t, yes in conditions)
        smooth = Smooth(leaf.tree, to_sympy(leaf.tree), conditions, tensors, numbers)
        for name in tensors:
            key = _key(leaf, conditions)
            choosing, best[name][key], of_complex[name][key] = _best(smooth, name)
            if choosing is not None:
                chosen.append(replace(choosing, conditions=shown if several else ""))
    by = {name: _without_points(_with_leaves(found, best[name])) for name in tensors}
    lines = _lines(by, Formulas(tensors, False))
    if has_complex:
        by = {name: _with_leaves(found, of_complex[name]) for name in tensors}
        conjugated = _lines(by, Formulas(tensors, True))
        alike = all(source(_with_leaves(found, best[n])) == source(of) for n, of in by.items())
        choice = "({} if not result.dtype.is_complex else {})"
        lines = {n: conjugated[n] if alike else choice.format(text, conjugated[n]) for n, text in lines.items()}
    else:
        real = "of_real_numbers({}, {}.dtype)"
        lines = {
            n: t if "zeros_like" in t else real.format(t, tensors[0] if n == RESULT else n) for n, t in lines.items()
        }
    if len(tensors) == 1:
        lines[RESULT] = "auto_element_wise"
    return Derived(lines, tuple(chosen))


def _lines(by: Mapping[str, Branches], writer: Formulas) -> dict[str, str]:
    """Return the formula of each input, and of the result if there are several inputs."""
    lines = {name: writer.backward(_merged(d)) for name, d in by.items()}
    if len(by) > 1:
        forward = writer.forward(by)
        lines[RESULT] = f"zeros_like({next(iter(by))}_t)" if forward == "0" else forward
    return lines


def _key(leaf: Leaf, conditions: Sequence[tuple[ast.expr, bool]]) -> str:
    return " ".join([ast.unparse(leaf.tree), *(f"{ast.unparse(t)}={yes}" for t, yes in conditions)])


def _with_leaves(
    found: Branches, trees: Mapping[str, Branches], conditions: tuple[tuple[ast.expr, bool], ...] = ()
) -> Branches:
    if isinstance(found, Leaf):
        return trees[_key(found, conditions)]
    yes = _with_leaves(found.yes, trees, (*conditions, (found.test, True)))
    no = _with_leaves(found.no, trees, (*conditions, (found.test, False)))
    return Choice(found.test, yes, no, found.of_elements)


def _without_points(found: Branches) -> Branches:
    """Return the derivative of `where(x == 0, c, f(x))` as that of f, where that is a series near 0."""
    if isinstance(found, Leaf):
        return found
    if _is_zero_of(found.test) and isinstance(found.no, Choice) and _is_near_zero(found.no.test):
        return found.no
    return replace(found, yes=_without_points(found.yes), no=_without_points(found.no))


def _is_zero_of(test: ast.expr) -> bool:
    """Return whether a condition is `x == 0`."""
    match test:
        case ast.Compare(left=ast.Name(), ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            return True
    return False


def _is_near_zero(test: ast.expr) -> bool:
    """Return whether a condition is that of a series near 0."""
    match test:
        case ast.Compare(left=ast.Call(func=ast.Name(id="abs")), ops=[ast.Lt()], comparators=[ast.Constant()]):
            return True
    return False


def _merged(found: Branches) -> Branches:
    """Return alternatives without choices between what is alike."""
    if isinstance(found, Leaf):
        return found
    yes, no = _merged(found.yes), _merged(found.no)
    if source(yes) == source(no):
        return yes
    return Choice(found.test, yes, no, found.of_elements)


def _of_elements(found: Branches, tensors: frozenset[str]) -> Branches:
    """Return alternatives in which a `where` whose condition has no tensor in it is a choice for the whole call."""
    if isinstance(found, Leaf):
        return found
    yes, no = _of_elements(found.yes, tensors), _of_elements(found.no, tensors)
    return Choice(found.test, yes, no, found.of_elements and bool(names_in(found.test, beside_none=False) & tensors))


@dataclass(frozen=True, slots=True)
class Smooth:
    """A smooth alternative of a definition, also as an expression of SymPy, the conditions under which it is the
    result, the arguments that are tensors, and values of the others to measure with."""

    tree: ast.expr
    value: Any
    conditions: tuple[tuple[ast.expr, bool], ...]
    tensors: Sequence[str]
    numbers: Mapping[str, Sequence[Any]]

    @property
    def of_elements(self) -> list[tuple[ast.expr, bool]]:
        """The conditions on elements."""
        return [(test, yes) for test, yes in self.conditions if names_in(test, beside_none=False) & set(self.tensors)]


def _best(smooth: Smooth, name: str) -> tuple[Choosing | None, Branches, Branches]:
    """Return how the best way to write the derivative of an alternative by an input was chosen, that way, and the best
    one that is made of functions of complex numbers."""
    value, tensors = smooth.value, smooth.tensors
    derivative = _slope(value, name)
    if derivative == 0:
        return None, Leaf(ZERO), Leaf(ZERO)
    holds = measure.holds_at(smooth.conditions)
    doubles = measure.samples(value, derivative, holds, tensors, smooth.numbers)
    singles = measure.samples(value, derivative, holds, tensors, smooth.numbers, POINTS_32, single=True)
    is_steady = not smooth.of_elements or _is_steady(smooth, derivative)
    tried: dict[str, tuple[Error, int, ast.expr]] = {}
    for one in dict.fromkeys((value, stable(value))):
        for form in forms(_slope(one, name), one if is_steady else symbol(name)):
            tried.setdefault(ast.unparse(form), (measure.error(form, doubles, singles, smooth.tree), cost(form), form))
    ranked = sorted(tried.items(), key=lambda t: (t[1][0].wrong, t[1][0].decade, t[1][1], t[0]))
    text, (error, _, form) = ranked[0]
    of_complex = Leaf(next((f for _, (_, _, f) in ranked if _is_of_complex(f)), form))
    choosing = Choosing(name, "", text, error, len(doubles) + len(singles), len(tried))
    if error.wrong and list(tensors) == [name]:
        near = _near_zero(smooth, derivative, form, name)
        if near is not None:
            return replace(choosing, form=f"{text}, near 0 its series", error=near[1]), near[0], of_complex
    inside = doubles or singles
    if not is_steady and inside:
        form = _kept_inside(form, smooth, min(inside, key=_plainness).arguments)
    return choosing, Leaf(form), of_complex


def _is_of_complex(form: ast.expr) -> bool:
    """Return whether a form is made of functions of complex numbers."""
    called = [node.func.id for node in ast.walk(form) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return all(name in HOLOMORPHIC or name in ("sigmoid", "rsqrt") for name in called)


def _is_steady(smooth: Smooth, derivative: Any) -> bool:
    """Return whether the derivative of an alternative and its own derivatives are finite where the alternative is not
    the result, so that what `where` leaves out does no harm when it is differentiated."""
    holds = measure.holds_at(smooth.of_elements)
    further = [derivative, *(derivative.diff(symbol(t)) for t in smooth.tensors)]
    if all(not e.free_symbols & {symbol(t) for t in smooth.tensors} for e in further):
        return True
    return measure.are_finite(further, lambda a: not holds(a), smooth.tensors, smooth.numbers)


def _kept_inside(form: ast.expr, smooth: Smooth, point: Mapping[str, Any]) -> ast.expr:
    """Return a form that gets numbers at which its alternative is the result, also where it is not."""
    names = {t: _inside(ast.Name(t, ast.Load()), smooth.of_elements, point[t]) for t in smooth.tensors}
    return filled(form, names)


def _inside(x: ast.expr, conditions: Sequence[tuple[ast.expr, bool]], other: float) -> ast.expr:
    constant: ast.expr = ast.parse(repr(other), mode="eval").body
    for test, yes in reversed(conditions):
        x = ast.Call(ast.Name("where", ast.Load()), [test, x, constant] if yes else [test, constant, x], [])
    return x


def _plainness(sample: Sample) -> tuple[float, ...]:
    """Sort key: ordinary numbers first."""
    return tuple(abs(abs(v) - 1) for v in sample.arguments.values() if isinstance(v, float))


_LARGEST = 40  # operations of a derivative that is written as its series
_TERMS = 16
_RADII = (0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)


def _near_zero(smooth: Smooth, derivative: Any, form: ast.expr, name: str) -> tuple[Branches, Error] | None:
    """Return a derivative that is written as its series near 0, where the quotient of two small numbers loses digits,
    and its error; None if there is no such series or it does not help."""
    import sympy

    x = symbol(name)
    if smooth.numbers or derivative.free_symbols != {x} or not is_small(derivative, _LARGEST):
        return None
    small = measure.samples(smooth.value, derivative, lambda _: True, [name], {}, (1e-3, -2e-5, 3e-7, -1e-9, 1e-12))
    if not measure.error(form, small, [], smooth.tree).wrong:
        return None
    try:
        series = sympy.series(derivative, x, 0, _TERMS).removeO()
        poly = sympy.Poly(series, x)
    except (sympy.PolynomialError, NotImplementedError, ValueError, TypeError):
        return None
    if poly.degree() < 1:
        return None
    near = to_tree(sympy.horner(poly))
    for radius in _RADII:
        around = [sign * radius * part for part in (1.0, 0.8, 0.5, 0.1, 1e-3) for sign in (1, -1)] + [
            1e-12,
            1e-160,
            0.0,
        ]
        within = measure.samples(smooth.value, derivative, lambda _: True, [name], {}, around)
        further = [sign * radius * part for part in (1.0, 1.1, 1.5, 2.0) for sign in (1, -1)]
        beyond = measure.samples(smooth.value, derivative, lambda _: True, [name], {}, further)
        errors = measure.error(near, within, []), measure.error(form, beyond, [], smooth.tree)
        if not errors[0].wrong and not errors[1].wrong and errors[0].decade <= -14 and errors[1].decade <= -13:
            test = ast.parse(f"abs({name}) < {radius}", mode="eval").body
            outside = Smooth(smooth.tree, smooth.value, ((test, False),), [name], {})
            far = _kept_inside(filled(form, {RESULT: to_tree(smooth.value)}), outside, {name: 1.0})
            return Choice(test, Leaf(near), Leaf(far), True), max(errors, key=lambda e: e.decade)
    return None


def _slope(value: Any, name: str) -> Any:
    """Return a derivative without x ** p / x, which has no value at 0."""
    import sympy

    derivative = value.diff(symbol(name))
    return sympy.powsimp(derivative) if derivative.has(sympy.Pow) else derivative


def cost(form: ast.expr) -> int:
    """Return about what a form costs: an operation 1, a function 4; the result is there already."""
    cost = 0
    for node in ast.walk(form):
        cost += 4 * isinstance(node, ast.Call) + isinstance(node, ast.BinOp | ast.UnaryOp)
        cost += isinstance(node, ast.Name) and node.id == RESULT
    return cost


def sample_numbers(schema: FunctionSchema, scalar: Scalar) -> dict[str, Sequence[Any]]:
    """Return values of the arguments that are no tensors, to measure with."""
    used = names_in(scalar.tree)
    found: dict[str, Sequence[Any]] = {}
    for argument in schema.inputs:
        name, kind = argument.python_name, argument.type.base.name
        if argument.type.is_tensor_like or name not in used:
            continue
        values: list[Any] = [argument.default_value] if argument.default is not None else []
        if kind == "bool":
            values += [False, True]
        elif kind == "str":
            values += [*_compared_with(scalar.tree, name), "another"]
        elif kind in ("int", "SymInt"):
            values += [2, 3]
        else:
            values += measure.NUMBERS
        if argument.type.is_optional:
            values.append(None)
        found[name] = list(
            dict.fromkeys(float(v) if type(v) is int and kind not in ("int", "SymInt") else v for v in values)
        )
    return found


def _compared_with(tree: ast.expr, name: str) -> list[str]:
    return [
        side.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and name in names_in(node)
        for side in ast.walk(node)
        if isinstance(side, ast.Constant) and isinstance(side.value, str)
    ]
