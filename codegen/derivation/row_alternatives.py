"""The alternatives of a definition of rows: `a if condition else b`, for modes and optional tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..language.scalars import Scalar, names_in
from ..schema import FunctionSchema
from .derive import HINT, sample_numbers
from .measure import holds_at
from .row_formulas import RowFormulas
from .symbols import NoRuleError

_MOST = 5  # conditions of one alternative

Conditions = tuple[tuple[ast.expr, bool], ...]


def alternatives(tree: ast.expr, conditions: Conditions = ()) -> Iterator[tuple[Conditions, ast.expr]]:
    """Yield the alternatives of a definition, each with its conditions. Raises NoRuleError if there are too many."""
    node = next((n for n in ast.walk(tree) if isinstance(n, ast.IfExp)), None)
    if node is None:
        yield conditions, tree
        return
    if len(conditions) == _MOST:
        raise NoRuleError(tree, "the definition has too many alternatives to derive", HINT)
    for yes in (True, False):
        chosen = _Chosen(ast.unparse(node.test), yes).visit(ast.parse(ast.unparse(tree), mode="eval").body)
        yield from alternatives(chosen, (*conditions, (node.test, yes)))


class _Chosen(ast.NodeTransformer):
    """Takes one side of all choices that have one condition."""

    def __init__(self, test: str, yes: bool) -> None:
        self.test, self.yes = test, yes

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if ast.unparse(node.test) == self.test:
            return self.visit(node.body if self.yes else node.orelse)  # type: ignore[no-any-return]
        return self.generic_visit(node)  # type: ignore[return-value]


def as_one(texts: Sequence[tuple[Conditions, str]], depth: int = 0) -> str:
    """Return alternatives, each with its conditions, as one formula."""
    if len({text for _, text in texts}) == 1:
        return texts[0][1]
    test, _ = texts[0][0][depth]
    yes, no = (as_one([t for t in texts if t[0][depth][1] is way], depth + 1) for way in (True, False))
    return f"({yes} if {RowFormulas.condition(test)} else {no})"


def numbers_of(schema: FunctionSchema, whole: ast.expr) -> dict[str, list[Any]]:
    """Return values of the arguments that are no tensors, those among them that they are compared with."""
    found = {name: list(v) for name, v in sample_numbers(schema, Scalar(ast.unparse(whole), whole)).items()}
    for node in ast.walk(whole):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id in found:
            values = [c.value for c in node.comparators if isinstance(c, ast.Constant)]
            found[node.left.id] += [v for v in values if v not in found[node.left.id] and isinstance(v, int | float)]
    return found


def cases(numbers: Mapping[str, Sequence[Any]], conditions: Conditions, tensors: Sequence[str]) -> list[dict[str, Any]]:
    """Return a few values of the arguments that are no tensors, for which an alternative is the definition."""
    tested = holds_at([(test, yes) for test, yes in conditions if not names_in(test) & set(tensors)])
    longest = max((len(v) for v in numbers.values()), default=1)
    found = [{n: v[k % len(v)] for n, v in numbers.items()} for k in range(longest)]
    return [case for case in found if tested(case)][:2] or found[:1]
