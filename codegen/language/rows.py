"""The scalar language of rows: `scalar:` beside `over:`, for reductions, softmax-like operators and normalisations.

    over: dim
    where:
      largest: max(self)
    scalar: exp(self - largest) / sum(exp(self - largest))

A *row* is the elements that differ in the dimensions of `over:` only. `sum`, `prod`, `max`, `min`, `any`, `all`,
`argmax` and `argmin` combine what an expression is for each element of a row to one value; `count` is how many there
are, and `index` is the number of an element. `self[target]` is the element of an argument with that number in dimension
1, or in its only one. `where:` names values; a program that computes several operators in one loop keeps those of whole
rows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import did_you_mean, shorten
from ..reading.yaml_files import Entry, Text, TextMap
from ..schema import FunctionSchema
from .array_language import parse_expression
from .scalars import FUNCTIONS, Checker, Scalar, filled, has_derivative

COMBINE = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
PLACES = ("any", "all", "argmax", "argmin")  # of a row, without a derivative
ROW_FUNCTIONS = {**FUNCTIONS, **dict.fromkeys(COMBINE, 1)}
ROW_NAMES = ("count", "index")

_OVER = re.compile(r"(?:(last|rest|channels|classes|groups|positions)\((\w+)\)|(\w+))")
_OVER_HINT = (
    "write `all`, an argument with numbers of dimensions, `last(sizes)`, `rest(sizes)`, `channels(tensor)`, "
    "`classes(tensor)`, `groups(count)` or `positions(count)`"
)


@dataclass(frozen=True, slots=True)
class Rows:
    """A checked definition of rows.

    Attributes:
        results: one definition for each result; None for one that the definition leaves out (`None`).
        over: for each result, what its rows extend over: `all`, an argument, `last(argument)`, `rest(argument)`,
            `channels(argument)`, `classes(argument)`, `groups(argument)` or `positions(argument)`.
        named: the values of `where:`, each with names of those before it.
        written: arguments that the operator writes to, and what a row gives for them.
    """

    results: tuple[Scalar | None, ...]
    over: tuple[str, ...]
    named: tuple[tuple[str, Scalar], ...]
    written: tuple[tuple[str, Scalar], ...] = ()

    @property
    def source(self) -> str:
        """The definition on one line, for people."""
        shown = ", ".join("None" if r is None else r.source for r in self.results)
        if not self.named:
            return shown
        return f"{shown} where {', '.join(f'{name} = {value.source}' for name, value in self.named)}"

    def inlined(self, tree: ast.expr) -> ast.expr:
        """Return an expression with the values of `where:` for their names."""
        for name, value in reversed(self.named):
            tree = filled(tree, {name: value.tree})
        return tree


def is_place(tree: ast.expr) -> bool:
    """Return whether an expression gives places or conditions of a row, which have no derivative."""
    called = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in PLACES
    return called or not has_derivative(Scalar("", tree))


def has_slope(rows: Rows) -> bool:
    """Return whether a result of a definition has a derivative."""
    return any(r is not None and not is_place(r.tree) for r in rows.results)


def names_of_elements(tree: ast.AST, combines: Callable[[str], bool]) -> set[str]:
    """Return the names in an expression that stand for elements: those outside of calls that combine a row.

    Args:
        combines: whether the function of that name combines a row to one value.
    """
    if isinstance(tree, ast.Name):
        return {tree.id}
    parts = [*ast.iter_child_nodes(tree)]
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        parts = [] if combines(tree.func.id) else [*tree.args]
    return set().union(*(names_of_elements(part, combines) for part in parts))


def dims_of(over: str, last: str = "row_last_dims") -> str | None:
    """Return the dimensions of rows as an expression: `None` for all, `dim`, `row_last_dims(sizes)`; None for others.

    Args:
        last: the function that gives the last dimensions.
    """
    word, _, name = over.rstrip(")").rpartition("(")
    if over == "all":
        return "None"
    return name if not word else f"{last}({name})" if word == "last" else None


def analyse_rows(entry: Entry, schema: FunctionSchema) -> Rows | None:
    """Return the definition of an entry with `over:`; None without it. Raises SpecError at the offending word."""
    over, text = entry.get("over"), entry.get("scalar")
    if not isinstance(over, Text):
        for key in ("where", "writes"):
            if key in entry:
                raise entry.keys[key].error(f"`{key}` without `over`", "add `over:`, or write the values in place")
        return None
    if not isinstance(text, Text):
        raise entry.keys["over"].error(f"`{schema.name}` has no `scalar`", "add `scalar:`, what a row gives")
    taken = {a.python_name for a in schema.inputs} | {*ROW_FUNCTIONS, *ROW_NAMES}
    named = _named(entry, schema, "where", (), lambda name: name.isidentifier() and name not in taken, "a new name")
    tensors = {a.python_name for a in schema.inputs if a.type.is_tensor_like}
    known = tuple(name for name, _ in named)
    written = _named(entry, schema, "writes", known, tensors.__contains__, "a tensor that is an argument")
    tree, lead = parse_expression(text)
    trees = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    returns = len(schema.as_functional().returns)
    if len(trees) != returns:
        raise text.error(f"{len(trees)} value(s) for {returns} result(s)", "write one for each, separated by commas")
    checker = RowChecker(text, lead, schema, tuple(name for name, _ in named))
    for part in trees:
        checker.visit(part)
    results = tuple(None if _is_none(part) else Scalar(ast.unparse(part), part) for part in trees)
    return Rows(results, _dimensions(over, schema, returns), named, written)


def _is_none(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and tree.value is None


def _named(
    entry: Entry, schema: FunctionSchema, key: str, before: tuple[str, ...], fits: Callable[[str], bool], what: str
) -> tuple[tuple[str, Scalar], ...]:
    """Return the expressions of a key by their names, each of which may use those of `before` and of the ones above."""
    node = entry.get(key)
    if node is None:
        return ()
    if not isinstance(node, TextMap):
        raise node.error(f"`{key}` names no value", "write `name: expression` lines below it")
    found: list[tuple[str, Scalar]] = []
    for name, text in node.fields.items():
        if not fits(name):
            raise node.keys[name].error(f"`{shorten(name)}` is not {what}", "write another name")
        if not isinstance(text, Text):
            raise text.error(f"`{name}` is no expression", "write an expression")
        tree, lead = parse_expression(text)
        names = (*before, *(n for n, _ in found)) if key == "where" else before
        RowChecker(text, lead, schema, names).visit(tree)
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
        self.inputs = self.tensors
        self.arguments = [*self.arguments, *names, *ROW_NAMES]
        self.tensors = self.tensors | set(names)

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.Subscript):
            super().visit(node)
        elif not isinstance(node.value, ast.Name) or node.value.id not in self.inputs:
            shown = shorten(ast.unparse(node.value))
            raise self.error(node.value, f"`{shown}` is not a tensor that is an argument", "write `self[target]`")
        elif isinstance(node.slice, ast.Slice | ast.Tuple):
            raise self.error(node, f"`{shorten(ast.unparse(node))}` is not one element", "write one index")
        else:
            self.visit(node.slice)
