"""Derive the formulas of an operator from its definition of rows (`over:`).

A definition of rows is smooth in the elements and in the values that combine them, r_k = sum(e_k). Its change is

    dy = a * dx + sum over k of b_k * sum(c_k * dx)

and the gradient is the transpose: a * grad + sum over k of c_k * sum(b_k * grad). Of the equal ways to write them the
best is chosen as for pointwise definitions.

`max` and `min` share the change of a row's extreme evenly among the elements that equal it; the change of `prod` is the
product of the others. What a definition subtracts for its range only, such as the largest element in softmax, has the
coefficient 0; whether one is 0 is computed in 60 digits for rows of random numbers.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from ..language.rows import COMBINE, PLACES, Rows, dims_of, is_place
from ..language.scalars import Scalar, has_derivative, names_in
from ..schema import FunctionSchema
from . import row_programs
from .branches import EXTREMES
from .derive import HINT, Choosing, Derived, cost
from .forms import stable
from .measure import Error
from .row_alternatives import Conditions, alternatives, as_one, cases, numbers_of
from .row_formulas import GRADIENT, TANGENT, RowFormulas, name_of_result
from .row_programs import ROWS, ROWS_32, Program, Row
from .symbols import NoRuleError, symbol, to_sympy


def derive_rows(schema: FunctionSchema, rows: Rows, kinks: Iterable[str] = ()) -> Derived:
    """Return the formulas of an operator that is defined by rows.

    Args:
        kinks: the words of its `kinks:`.

    Raises NoRuleError at a part of the definition that has no derivative rule.
    """
    tensors = [a.python_name for a in schema.inputs if a.type.is_tensor_like]
    whole = ast.Tuple([rows.inlined(r.tree) if r is not None else ast.Constant(None) for r in rows.results])
    _check(whole, rows, tensors)
    gradients = _gradients(rows)
    writer = RowFormulas(schema, rows.over[0], tensors, gradients)
    chosen: list[Choosing] = []
    backward: dict[str, list[tuple[Conditions, str]]] = {name: [] for name in tensors}
    forward: dict[int, list[tuple[Conditions, str]]] = {number: [] for number in gradients}
    numbers = numbers_of(schema, whole)
    found = list(alternatives(whole))
    for conditions, tree in found:
        test = " and ".join(ast.unparse(t) if yes else f"not {ast.unparse(t)}" for t, yes in conditions)
        there = [t for t in tensors if t in names_in(tree)]
        smooth = Smooth(tree, there, gradients, cases(numbers, conditions, tensors), "side" in kinks)
        wide = {n: smooth.is_of_elements(n) for n, r in enumerate(smooth.results) if r is not None}
        best = {name: smooth.backward(name) if name in there else (None, None) for name in tensors}
        tangents = {number: smooth.forward(number) for number in gradients}
        if smooth.differ({name: program for name, (program, _) in best.items()}, tangents):
            message = "the derivative that was found differs from difference quotients"
            raise NoRuleError(tree.elts[0] if isinstance(tree, ast.Tuple) else tree, message, HINT)
        for name, (program, choosing) in best.items():
            backward[name].append((conditions, writer.gradient(name, program, there, wide)))
            chosen += [replace(choosing, conditions=test if len(found) > 1 else "")] if choosing is not None else []
        for number, program in tangents.items():
            forward[number].append((conditions, writer.tangent(number, program, there, wide)))
    lines = {name: writer.of_real(as_one(texts), name) for name, texts in backward.items()}
    for number in gradients:
        lines[writer.key(number)] = writer.of_real(as_one(forward[number]), tensors[0])
    return Derived(lines, tuple(chosen))


def _check(whole: ast.Tuple, rows: Rows, tensors: Sequence[str]) -> None:
    """Refuse what has no rule, at its place."""
    for node in ast.walk(whole):
        if isinstance(node, ast.Subscript) or (isinstance(node, ast.Name) and node.id == "index"):
            raise NoRuleError(node, f"`{ast.unparse(node)}` in a row has no derivative rule", HINT)
    if rows.written or len({*rows.over}) > 1 or dims_of(rows.over[0]) is None:
        shown = "a definition that writes to arguments" if rows.written else f"`over: {', '.join({*rows.over})}`"
        first = next(r for r in rows.results if r is not None)
        raise NoRuleError(first.tree, f"{shown} has no derivative rule", HINT)


def _gradients(rows: Rows) -> dict[int, str]:
    """Return the symbol of the gradient of each result that has a derivative."""
    smooth = [n for n, r in enumerate(rows.results) if r is not None and not is_place(r.tree)]
    if not smooth:
        first = next(r for r in rows.results if r is not None)
        raise NoRuleError(first.tree, "no result has a derivative", "write `differentiable: false`")
    if smooth == [0]:
        return {0: GRADIENT}
    if len(smooth) < len(rows.results):
        missing = next(r for n, r in enumerate(rows.results) if r is not None and n not in smooth)
        message = "a result without a derivative is beside several that have one"
        raise NoRuleError(missing.tree, message, HINT)
    return {n: f"{GRADIENT}{n}" for n in smooth}


@cache
def _own() -> dict[str, Any]:
    """Return the functions of rows, classes of SymPy: a choice by a condition, and changes of extremes and products."""
    import sympy

    class where(sympy.Function):  # type: ignore[misc]
        is_real = True

        @classmethod
        def eval(cls, _: Any, yes: Any, no: Any) -> Any:
            return yes if yes == no else None

        def _eval_derivative(self, by: Any) -> Any:
            test, yes, no = self.args
            return where(test, yes.diff(by), no.diff(by))

    class shares(sympy.Function):  # type: ignore[misc]
        is_real = True

    class others(sympy.Function):  # type: ignore[misc]
        is_real = True

    return {"where": where, "shares": shares, "others": others}


def is_given(x: Any) -> bool:
    """Return whether a symbol is that of a gradient or a tangent."""
    return bool(x.name.startswith(GRADIENT) or x.name.endswith(TANGENT))


Linear = dict[str, list[tuple[Any, Any]]]  # for each tensor, b and c of b * sum(c * dx)


def _slope(pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Return d with y = sum(d * dx), of a result that has one value for each row."""
    return sum(b * c for b, c in pairs)


@dataclass
class Smooth:
    """An alternative of a definition: its results, the values of rows and the conditions in them.

    Attributes:
        tensors: the tensors in it; gradients: the symbols of the gradients of results; cases: values of the other
            arguments.
        sides: whether a tensor that is equal to a bound gets the whole gradient.
    """

    tree: ast.expr
    tensors: Sequence[str]
    gradients: Mapping[int, str]
    cases: Sequence[Mapping[str, Any]]
    sides: bool
    rows: dict[str, Row] = field(default_factory=dict)
    conditions: dict[str, ast.expr] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)
    elements: set[Any] = field(default_factory=set)
    changes: dict[str, Linear] = field(default_factory=dict)
    named: dict[str, Program] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.elements = {symbol(name) for name in self.tensors}
        parts = self.tree.elts if isinstance(self.tree, ast.Tuple) else [self.tree]
        for part in parts:
            same = is_place(part) or (isinstance(part, ast.Constant) and part.value is None)
            self.results.append(None if same else self.converted(part))
        self.named = {
            name_of_result(n, len(self.results)): self.program(r) for n, r in enumerate(self.results) if r is not None
        }

    def with_elements(self, *symbols: Any) -> Smooth:
        """Return a copy to which values of rows may be added, with further symbols of elements."""
        other = copy.copy(self)
        other.rows, other.elements = dict(self.rows), {*self.elements, *symbols}
        return other

    def converted(self, tree: ast.expr) -> Any:
        return to_sympy(tree, self._called)

    def _called(self, node: ast.Call, converted: Callable[[ast.expr], Any]) -> Any:
        name = node.func.id  # type: ignore[attr-defined]
        if name in COMBINE:
            (inner,) = node.args
            of = inner if name in PLACES or not has_derivative(Scalar("", inner)) else converted(inner)
            return self.row(Row(name, self._named(inner) if isinstance(of, ast.expr) else of))
        if name == "conj":
            return converted(node.args[0])
        if name in EXTREMES:
            first, second = node.args
            return converted(EXTREMES[name](first, second, self.tensors, self.sides))
        if name == "where":
            test, yes, no = node.args
            return _own()["where"](self.condition(self._named(test)), converted(yes), converted(no))
        return None

    def _named(self, tree: ast.expr) -> ast.expr:
        """Return a condition with names for the values of rows in it."""
        smooth = self

        class Named(ast.NodeTransformer):
            def visit_Call(self, node: ast.Call) -> ast.expr:
                if isinstance(node.func, ast.Name) and node.func.id in COMBINE:
                    return ast.Name(str(smooth.converted(node)), ast.Load())
                return self.generic_visit(node)  # type: ignore[return-value]

        found: ast.expr = Named().visit(ast.parse(ast.unparse(tree), mode="eval").body)
        return found

    def row(self, row: Row) -> Any:
        """Return the symbol of a row's value."""
        for name, known in self.rows.items():
            same = (ast.unparse(x) if isinstance(x, ast.expr) else x for x in (known.of, row.of))
            if known.kind == row.kind and len({*same}) == 1:
                return symbol(name)
        name = f"_r{len(self.rows)}"
        self.rows[name] = row
        return symbol(name)

    def condition(self, tree: ast.expr) -> Any:
        name = next((n for n, t in self.conditions.items() if ast.unparse(t) == ast.unparse(tree)), None)
        if name is None:
            name = f"_c{len(self.conditions)}"
            self.conditions[name] = tree
            if {symbol(n) for n in names_in(tree)} & self.elements:
                self.elements.add(symbol(name))
        return symbol(name)

    def is_of_elements(self, number: int) -> bool:
        """Return whether a result has a value for each element."""
        return bool(self.results[number].free_symbols & self.elements)

    def parted(self, x: Any) -> tuple[Any, Any]:
        """Return the factors of a product that are constant along a row, and the others."""
        return x.as_independent(*self.elements, as_Add=False)  # type: ignore[no-any-return]

    def total(self, x: Any, inside: bool = False) -> Any:
        """Return sum(x) of a row; `inside` leaves factors that are constant along it where they are."""
        known = self._known(x)
        if known is not None:
            return known
        fixed, rest = (1, x) if inside else self.parted(x)
        return fixed * self.row(Row("sum", rest))

    def _known(self, x: Any) -> Any:
        """Return sum(x) of a row, made of values that are there; None if it is not."""
        if x == 0:
            return x
        fixed, rest = self.parted(x)
        if rest == 1:
            return fixed * symbol("count")
        if isinstance(rest, _own()["shares"]):
            return fixed
        for name, row in self.rows.items():
            if row.kind == "sum" and row.of in (rest, -rest):
                return fixed * symbol(name) * (1 if row.of == rest else -1)
        if rest.is_Add:
            parts = [self._known(a) for a in rest.args]
            return None if None in parts else fixed * sum(parts)
        return None

    def program(self, value: Any) -> Program:
        return Program(value, self.rows, self.conditions)

    def is_zero(self, value: Any) -> bool:
        if value == 0 or not value.free_symbols & {symbol(name) for name in self.rows}:
            return bool(value == 0)
        draw = random.Random(0)
        rows = [[draw.uniform(-2, 2) for _ in range(n)] for n in (2, 3, 4, 5)]
        return row_programs.is_zero(self.program(value), self.tensors, rows, self.cases)

    def change(self, value: Any) -> tuple[dict[str, Any], Linear]:
        """Return how an expression changes with the elements: a of each tensor, and b and c of each."""
        direct = {t: value.diff(symbol(t)) for t in self.tensors}
        pairs: Linear = {t: [] for t in self.tensors}
        for name in [n for n in self.rows if symbol(n) in value.free_symbols]:
            slope = value.diff(symbol(name))
            for t, found in self.row_change(name).items():
                pairs[t] += [(slope * b, c) for b, c in found]
        return direct, {t: self.gathered(found) for t, found in pairs.items()}

    def gathered(self, pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Return b and c, each c once and without factors that are constant along a row, without b that are 0."""
        by: dict[Any, Any] = {}
        for b, c in pairs:
            fixed, rest = self.parted(c)
            sign = -1 if rest.could_extract_minus_sign() and -rest in by else 1
            by[sign * rest] = by.get(sign * rest, 0) + sign * fixed * b
        return [(b, c) for c, b in by.items() if not self.is_zero(b)]

    def row_change(self, name: str) -> Linear:
        """Return how a row's value changes with the elements."""
        if name not in self.changes:
            row = self.rows[name]
            found: Linear = {}
            if not isinstance(row.of, ast.expr) and row.kind not in PLACES:
                direct, pairs = self.change(row.of)
                weight = {
                    "sum": lambda: 1,
                    "prod": lambda: _own()["others"](row.of),
                    "max": lambda: _own()["shares"](row.of, symbol(name)),
                    "min": lambda: _own()["shares"](row.of, symbol(name)),
                }[row.kind]()
                for t in self.tensors:
                    terms = [(1, weight * direct[t])] if direct[t] != 0 else []
                    terms += [(self.total(weight * b), c) for b, c in pairs[t]]
                    found[t] = self.gathered(terms)
            self.changes[name] = found
        return self.changes[name]

    def backward(self, tensor: str) -> tuple[Program | None, Choosing | None]:
        """Return the best way to write the gradient of a tensor, None for zeros, and how it was chosen."""
        given = [*self.gradients.values()]
        best = self.best([self.gradient(tensor, inside) for inside in (False, True)], given)
        if best is None:
            return None, None
        program, error, points, count = best
        return program, Choosing(tensor, "", ast.unparse(program.whole()), error, points, count)

    def gradient(self, tensor: str, inside: bool) -> Program:
        """Return the gradient of a tensor; `inside` says where factors that are constant along a row stand."""
        found = 0
        there = {n: symbol(g) for n, g in self.gradients.items() if self.results[n] is not None}
        changes = {n: self.change(self.results[n]) for n in there}
        here = self.with_elements(*(g for n, g in there.items() if self.is_of_elements(n)))
        for number, g in there.items():
            direct, pairs = changes[number]
            if not self.is_of_elements(number):
                found += g * _slope(pairs[tensor])
                continue
            found += g * direct[tensor]
            found += sum(c * here.total(g * b, inside) for b, c in pairs[tensor])
        return here.program(found)

    def forward(self, number: int) -> Program | None:
        """Return the best way to write the tangent of a result; of one value for each row, what its sum is of."""
        if self.results[number] is None:
            return None
        best = self.best(
            [self.tangent(number, inside) for inside in (False, True)], [t + TANGENT for t in self.tensors]
        )
        return None if best is None else best[0]

    def tangent(self, number: int, inside: bool) -> Program:
        """Return the tangent of a result, as `gradient`."""
        tangents = {t: symbol(t + TANGENT) for t in self.tensors}
        direct, pairs = self.change(self.results[number])
        here = self.with_elements(*tangents.values())
        if not self.is_of_elements(number):
            return here.program(sum(tangents[t] * _slope(pairs[t]) for t in self.tensors))
        found = sum(tangents[t] * direct[t] for t in self.tensors)
        for t, terms in pairs.items():
            for b, c in terms:
                fixed, rest = here.parted(b)
                found += rest * here.total(fixed * c * tangents[t], inside)
        return here.program(found)

    def best(self, plain: Sequence[Program], given: Sequence[str]) -> tuple[Program, Error, int, int] | None:
        """Return the best way to write an expression, its error, the number of points, and that of ways; None for 0.

        Args:
            plain: the expression, in ways that are equal; given: the names of gradients or tangents.
        """
        if plain[0].value == 0:
            return None
        named = self.named
        arguments = [*named.values()], self.tensors, given, self.cases
        doubles = row_programs.samples(plain[0], *arguments, ROWS, 1e300)
        singles = row_programs.samples(plain[0], *arguments, ROWS_32, 3e38)
        tried: dict[str, tuple[Error, int, Program]] = {}
        seen: set[Any] = set()
        for program in (way for one in plain for way in self.ways(one)):
            if program.key in seen:
                continue
            seen.add(program.key)
            try:
                tree = program.whole()
            except ArithmeticError:
                continue
            text = ast.unparse(tree)
            if text not in tried:
                tried[text] = (row_programs.error(program, doubles, singles, named), cost(tree), program)
        ranked = sorted(tried.items(), key=lambda t: (t[1][0].wrong, t[1][0].decade, t[1][1], t[0]))
        _, (error, _, program) = ranked[0]
        return program, error, sum(s.exact.size for s in (*doubles, *singles)), len(tried)

    def differ(self, gradients: Mapping[str, Program | None], tangents: Mapping[int, Program | None]) -> bool:
        """Return whether gradients or tangents differ from difference quotients for rows of random numbers."""
        import mpmath as mp

        def total(x: Any) -> Any:
            return np.sum(np.broadcast_to(x, (3,)))

        with mp.workdps(60):
            for names, changes in row_programs.quotients(self.named, self.tensors, self.cases):
                functions = row_programs.exact_functions((3,))
                sides = []
                weight = {n: np.array([mp.mpf(2 + n), mp.mpf(-1), mp.mpf("0.5")], object) for n in self.gradients}
                expected = mp.mpf(0)
                for number, name in self.gradients.items():
                    if self.results[number] is None:
                        continue
                    change = changes[name_of_result(number, len(self.results))]
                    program, is_wide = tangents[number], self.is_of_elements(number)
                    found = mp.mpf(0) if program is None else row_programs.evaluate(program, names, functions)
                    names[name] = weight[number] if is_wide else weight[number][:1]
                    sides.append((total(weight[number] * change), total(weight[number] * found)) if is_wide else
                                 (np.ravel(change)[0], total(found)))  # fmt: skip
                    expected += total(names[name] * change) if is_wide else names[name][0] * np.ravel(change)[0]
                found = sum(
                    total(row_programs.evaluate(g, names, functions) * names[t + TANGENT])
                    for t, g in gradients.items()
                    if g is not None
                )
                sides.append((expected, found))
                if any(abs(x - y) > mp.mpf(10) ** -12 * (1 + abs(x)) for x, y in sides):
                    return True
        return False

    def ways(self, plain: Program) -> Iterator[Program]:
        """Yield equal ways to write a program, the simplest first."""
        import sympy

        written = [lambda x: x, sympy.factor_terms, sympy.together, sympy.powsimp]
        for one in (plain, self.with_results(plain), self.with_inverse(plain)):
            if one is None:
                continue
            other = one.each(stable)
            for way in (one,) if other.key == one.key else (one, other):
                divides = any(p.exp.could_extract_minus_sign() for p in way.value.atoms(sympy.Pow))
                for value in dict.fromkeys(write(way.value) for write in written):
                    for apart in (False, True)[: 1 + divides]:
                        yield replace(way, value=value, apart=apart)

    def with_results(self, plain: Program) -> Program | None:
        """Return a program in which results stand for what computes them."""
        value, rows = plain.value, dict(plain.rows)
        for number, of in enumerate(self.results):
            if of is None or of.free_symbols & self.elements == {of}:
                continue
            result = symbol(name_of_result(number, len(self.results)))
            for name, row in rows.items() if self.is_of_elements(number) else ():
                given = [s for s in getattr(row.of, "free_symbols", ()) if is_given(s)]
                if len(given) == 1 and (ratio := self.constant_ratio(row.of, given[0] * of)) is not None:
                    rows[name] = replace(row, of=given[0] * result)
                    value = value.subs(symbol(name), symbol(name) * ratio)
            value = value.subs(of, result)
            for name, row in rows.items():
                if not isinstance(row.of, ast.expr):
                    rows[name] = replace(row, of=row.of.subs(of, result))
        return Program(value, rows, plain.conditions) if (value, rows) != (plain.value, plain.rows) else None

    def constant_ratio(self, x: Any, y: Any) -> Any:
        """Return x / y if it is constant along a row, else None."""
        import sympy

        for ratio in (x / y, sympy.powsimp(x / y)):
            if not ratio.free_symbols & self.elements and not any(map(is_given, ratio.free_symbols)):
                return ratio
        return None

    def with_inverse(self, plain: Program) -> Program | None:
        """Return a program in which exp(result - rest) stands for t, of a result log(t) + rest, or a power of the
        result for that of a root."""
        import sympy

        for number, of in enumerate(self.results):
            result = symbol(name_of_result(number, len(self.results)))
            for term in () if of is None else sympy.Add.make_args(of):
                sign = -1 if term.could_extract_minus_sign() else 1
                found = sign * term
                if isinstance(found, sympy.log) and found.args[0].is_Symbol:
                    return plain.put(found.args[0], sympy.exp(sign * (result - (of - term))))
            if of is not None and of.is_Pow and not of.exp.free_symbols:
                rows = [f for f in sympy.Mul.make_args(of.base) if f.is_Symbol and f.name in self.rows]
                if len(rows) == 1:
                    root = sympy.Symbol(result.name, positive=True)
                    return plain.put(rows[0], root ** (1 / of.exp) * rows[0] / of.base).put(root, result)
        return None
