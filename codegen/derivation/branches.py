"""The alternatives of a definition: a tree of choices whose leaves have a derivative everywhere.

    where(self > 0, self, expm1(self))      Choice(self > 0, Leaf(self), Leaf(expm1(self)))
    maximum(self, other) + 1                Choice(self == other, Leaf((self + other) / 2 + 1), Choice(...))

`maximum` and its kind become choices between their arguments. Where two tensors are equal, each gets half of the
gradient; a tensor that is equal to a bound that is a number gets none, as in `clamp`; the word `side` of `kinks:` gives
it all of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..language.scalars import filled, names_in

MOST = 64  # leaves; a definition with more is refused


@dataclass(frozen=True, slots=True)
class Leaf:
    """An alternative: an expression without a choice in it."""

    tree: ast.expr


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice: for each element, or, where its condition is on arguments that are no tensors, for the call."""

    test: ast.expr
    yes: Branches
    no: Branches
    of_elements: bool


Branches: TypeAlias = Leaf | Choice


class TooManyError(ValueError):
    """A definition has more alternatives than `MOST`."""


def branches(tree: ast.expr, tensors: Collection[str], sides: bool = False) -> Branches:
    """Return the alternatives of a definition. Raises TooManyError.

    Args:
        tensors: the arguments that are tensors.
        sides: whether a tensor that is equal to a bound gets the whole gradient.
    """
    left = [MOST]

    def split(tree: ast.expr) -> Branches:
        node = _first_choice(tree)
        if node is None:
            left[0] -= 1
            if left[0] < 0:
                raise TooManyError
            return Leaf(tree)
        if isinstance(node, ast.IfExp):
            return Choice(node.test, split(_put(tree, node, node.body)), split(_put(tree, node, node.orelse)), False)
        name, arguments = node.func.id, node.args  # type: ignore[attr-defined]
        if name == "where":
            test, yes, no = arguments
            return Choice(test, split(_put(tree, node, yes)), split(_put(tree, node, no)), True)
        first, second = arguments
        return split(_put(tree, node, EXTREMES[name](first, second, tensors, sides)))

    return split(tree)


def leaves(
    found: Branches, conditions: tuple[tuple[ast.expr, bool], ...] = ()
) -> Iterator[tuple[Leaf, tuple[tuple[ast.expr, bool], ...]]]:
    """Yield the leaves, each with the conditions that lead to it and what they are there."""
    if isinstance(found, Leaf):
        yield found, conditions
        return
    yield from leaves(found.yes, (*conditions, (found.test, True)))
    yield from leaves(found.no, (*conditions, (found.test, False)))


def source(found: Branches) -> str:
    """Return a text that two alternatives share if they are alike."""
    if isinstance(found, Leaf):
        return ast.unparse(found.tree)
    return f"({ast.unparse(found.test)} ? {source(found.yes)} : {source(found.no)})"


def _first_choice(tree: ast.expr) -> ast.IfExp | ast.Call | None:
    """Return the outermost choice of an expression; None if there is none."""
    pending: list[ast.expr] = [tree]
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.IfExp):
            return node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("where", *EXTREMES):
            return node
        pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return None


class _Put(ast.NodeTransformer):
    def __init__(self, old: str, new: ast.expr) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        is_part = isinstance(node, ast.expr) and not isinstance(node, ast.Name | ast.Constant)
        return self.new if is_part and ast.unparse(node) == self.old else self.generic_visit(node)


def _put(tree: ast.expr, old: ast.expr, new: ast.expr) -> ast.expr:
    """Return a copy of an expression with `new` wherever `old` stands: equal choices are one."""
    if ast.unparse(tree) == ast.unparse(old):
        return new
    copy = ast.parse(ast.unparse(tree), mode="eval").body
    return _Put(ast.unparse(old), new).generic_visit(copy)  # type: ignore[return-value]


def _filled(text: str, names: Mapping[str, ast.expr]) -> ast.expr:
    return filled(ast.parse(text, mode="eval").body, names)


def _extreme(sign: str, keeps: str) -> Callable[[ast.expr, ast.expr, Collection[str], bool], ast.expr]:
    """Return the function that writes an extreme of `a` and `b` as choices. `keeps` is when `a` is it, besides the
    order, of two tensors: where `b` is NaN, or where `a` is."""

    def written(a: ast.expr, b: ast.expr, tensors: Collection[str], sides: bool) -> ast.expr:
        both = all(names_in(x) & set(tensors) for x in (a, b))
        if both:
            order = f"(a {sign}{'=' * sides} b) | {keeps}"
            return _filled(f"where({order}, a, b)" if sides else f"where(a == b, (a + b) / 2, where({order}, a, b))",
                           {"a": a, "b": b})  # fmt: skip
        if not names_in(a) & set(tensors):
            a, b = b, a
        return _filled(f"where(a {sign}{'=' * sides} b, a, b)", {"a": a, "b": b})

    return written


EXTREMES = {
    "maximum": _extreme(">", "isnan(a)"),
    "minimum": _extreme("<", "isnan(a)"),
    "fmax": _extreme(">", "isnan(b)"),
    "fmin": _extreme("<", "isnan(b)"),
}
