"""The scalar language of rows: `scalar:` beside `over:`, for reductions, softmax-like operators and normalisations.

    over: dim
    where:
      largest: max(self)
    scalar: exp(self - largest) / sum(exp(self - largest))

A *row* is the elements that differ in the dimensions of `over:` only. `sum`, `prod`, `max`, `min`, `any` and `all`
combine what an expression is for each element of a row to one value, and `count` is how many there are. `where:` names
values; a program that computes several operators in one loop keeps those of whole rows.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from ..errors import did_you_mean, shorten
from ..reading.yaml_files import Entry, Text, TextMap
from ..schema import FunctionSchema
from .array_language import parse_expression
from .scalars import FUNCTIONS, Checker, Scalar

COMBINE = ("sum", "prod", "max", "min", "any", "all")
ROW_FUNCTIONS = {**FUNCTIONS, **dict.fromkeys(COMBINE, 1)}
ROW_NAMES = ("count",)

_OVER = re.compile(r"(?:(last|rest)\((\w+)\)|(\w+))")
_OVER_HINT = "write `all`, an argument with numbers of dimensions, `last(sizes)` or `rest(sizes)`"


@dataclass(frozen=True, slots=True)
class Rows:
    """A checked definition of rows.

    Attributes:
        results: one definition for each result; None for one that the definition leaves out (`None`).
        over: for each result, what its rows extend over: `all`, an argument, `last(argument)` or `rest(argument)`.
        named: the values of `where:`, each with names of those before it.
    """

    results: tuple[Scalar | None, ...]
    over: tuple[str, ...]
    named: tuple[tuple[str, Scalar], ...]

    @property
    def source(self) -> str:
        """The definition on one line, for people."""
        shown = ", ".join("None" if r is None else r.source for r in self.results)
        if not self.named:
            return shown
        return f"{shown} where {', '.join(f'{name} = {value.source}' for name, value in self.named)}"


def analyse_rows(entry: Entry, schema: FunctionSchema) -> Rows | None:
    """Return the definition of an entry with `over:`; None without it. Raises SpecError at the offending word."""
    over, text = entry.get("over"), entry.get("scalar")
    if not isinstance(over, Text):
        if "where" in entry:
            raise entry.keys["where"].error("`where` without `over`", "add `over:`, or write the values in place")
        return None
    if not isinstance(text, Text):
        raise entry.keys["over"].error(f"`{schema.name}` has no `scalar`", "add `scalar:`, what a row gives")
    named = _named(entry, schema)
    tree, lead = parse_expression(text)
    trees = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    returns = len(schema.as_functional().returns)
    if len(trees) != returns:
        raise text.error(f"{len(trees)} value(s) for {returns} result(s)", "write one for each, separated by commas")
    checker = RowChecker(text, lead, schema, tuple(name for name, _ in named))
    for part in trees:
        checker.visit(part)
    results = tuple(None if _is_none(part) else Scalar(ast.unparse(part), part) for part in trees)
    return Rows(results, _dimensions(over, schema, returns), named)


def _is_none(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and tree.value is None


def _named(entry: Entry, schema: FunctionSchema) -> tuple[tuple[str, Scalar], ...]:
    node = entry.get("where")
    if node is None:
        return ()
    if not isinstance(node, TextMap):
        raise node.error("`where` names no value", "write `name: expression` lines below it")
    found: list[tuple[str, Scalar]] = []
    for name, text in node.fields.items():
        key = node.keys[name]
        taken = {a.python_name for a in schema.inputs} | {*ROW_FUNCTIONS, *ROW_NAMES}
        if not name.isidentifier() or name in taken:
            raise key.error(f"`{shorten(name)}` is not a new name", "write another name")
        if not isinstance(text, Text):
            raise text.error(f"`{name}` is no expression", "write an expression")
        tree, lead = parse_expression(text)
        RowChecker(text, lead, schema, tuple(n for n, _ in found)).visit(tree)
        found.append((name, Scalar(ast.unparse(tree), tree)))
    return tuple(found)


def _dimensions(text: Text, schema: FunctionSchema, returns: int) -> tuple[str, ...]:
    words = text.words()
    if len(words) not in (1, returns):
        raise text.error(f"{len(words)} words for {returns} result(s)", "write one for all of them, or one for each")
    names = [a.python_name for a in schema.inputs]
    for word in words:
        form = _OVER.fullmatch(word.value)
        if form is None:
            raise word.error(f"`{shorten(word.value)}` says nothing about dimensions", _OVER_HINT)
        name = form[2] or form[3]
        if name not in names and word.value != "all":
            raise word.error(f"`{schema.name}` has no argument `{name}`", did_you_mean(name, names) or _OVER_HINT)
    return tuple(w.value for w in words) * (returns // len(words))


class RowChecker(Checker):
    """Checks an expression of rows: `names` are those of values before it."""

    functions = ROW_FUNCTIONS

    def __init__(self, text: Text, lead: int, schema: FunctionSchema, names: tuple[str, ...]) -> None:
        super().__init__(text, lead, schema)
        self.arguments = [*self.arguments, *names, *ROW_NAMES]
        self.tensors = self.tensors | set(names)
