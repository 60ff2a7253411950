"""Mathematical expressions, the form of formulas between reading and typesetting.

An `Expr` is a kind and its parts. The functions here make expressions and simplify them as a person would: no products
with 1, no conjugate of a conjugate, one fraction bar for nested quotients of numbers, no cases that are equal. They
never change the meaning of an expression.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression."""

    # what it is; typeset.py has one rule for each: 'symbol' 'number' 'word' (a string, a dtype: not typeset as
    # mathematics) 'undefined' 'gradient' 'tangent' 'sum' 'product' 'quotient' 'power' 'negative' 'conj' 'transpose'
    # 'adjoint' 'matmul' 'call' 'compare' 'and' 'or' 'not' 'cases' 'tuple' 'index' 'slice' 'each' 'attribute' 'keyword'
    kind: str
    args: tuple[Expr, ...] = ()  # the parts
    name: str = ""  # of a symbol, number, function; the sign of a comparison

    @property
    def size(self) -> int:
        """The number of expressions in it."""
        return 1 + sum([a.size for a in self.args])


def number(text: str) -> Expr:
    return negative(Expr("number", name=text[1:])) if text.startswith("-") else Expr("number", name=text)


ZERO, ONE = number("0"), number("1")
UNDEFINED = Expr("undefined")


def value_of(e: Expr) -> float | None:
    """Return the value of a literal number; None for anything else."""
    if e.kind == "negative":
        inner = value_of(e.args[0])
        return None if inner is None else -inner
    if e.kind != "number":
        return None
    try:
        return float(e.name)
    except ValueError:  # a complex literal
        return None


def total(*terms: Expr) -> Expr:
    """Return a sum."""
    flat: list[Expr] = []
    for term in terms:
        flat += term.args if term.kind == "sum" else [term]
    flat = [t for t in flat if value_of(t) != 0]
    if not flat:
        return ZERO
    return flat[0] if len(flat) == 1 else Expr("sum", tuple(flat))


def product(*factors: Expr) -> Expr:
    """Return a product of factors that commute."""
    flat: list[Expr] = []
    minus = False
    for factor in factors:
        if factor.kind == "negative":
            minus, factor = not minus, factor.args[0]
        flat += factor.args if factor.kind == "product" else [factor]
    if any(value_of(f) == 0 for f in flat):
        return ZERO
    flat = [f for f in flat if value_of(f) != 1]
    under = [f.args[1] for f in flat if f.kind == "quotient" and f.args[0] == ONE]
    if under and len(flat) > 1:  # a * (1 / b) is a / b
        made = quotient(product(*[f for f in flat if f.kind != "quotient" or f.args[0] != ONE]), product(*under))
    else:
        flat = _powers(sorted(flat, key=lambda f: f.kind != "number"))
        made = ONE if not flat else flat[0] if len(flat) == 1 else Expr("product", tuple(flat))
    return negative(made) if minus else made


def _powers(factors: list[Expr]) -> list[Expr]:
    """Write factors that occur twice as squares."""
    found: dict[Expr, int] = {}
    for factor in factors:
        found[factor] = found.get(factor, 0) + 1
    return [
        f if n == 1 or f.kind == "number" else power(f, number(str(n)))
        for f, n in found.items()
        for _ in range(n if f.kind == "number" else 1)
    ]


def quotient(top: Expr, bottom: Expr) -> Expr:
    if top.kind == "quotient":
        return quotient(top.args[0], product(top.args[1], bottom))
    if value_of(bottom) == 1 or value_of(top) == 0:
        return top
    if top.kind == "negative":
        return negative(quotient(top.args[0], bottom))
    if bottom.kind == "negative":
        return negative(quotient(top, bottom.args[0]))
    return Expr("quotient", (top, bottom))


def power(base: Expr, exponent: Expr) -> Expr:
    if value_of(exponent) == 0:
        return ONE
    return base if value_of(exponent) == 1 else Expr("power", (base, exponent))


def negative(e: Expr) -> Expr:
    if e.kind == "negative":
        return e.args[0]
    return e if value_of(e) == 0 else Expr("negative", (e,))


def conj(e: Expr) -> Expr:
    """Return the conjugate, which is distributed over an expression only where that makes it simpler."""
    if e.kind == "conj":
        return e.args[0]
    if e.kind == "number" and not e.name.endswith("j"):
        return e
    if e.kind == "negative":
        return negative(conj(e.args[0]))
    if e.kind == "transpose":
        return Expr("adjoint", e.args)
    if e.kind == "adjoint":
        return transpose(e.args[0])
    if e.kind in ("sum", "product", "quotient", "matmul") and any(_has_conj(a) for a in e.args):
        return rebuild(e, [conj(a) for a in e.args])
    if e.kind == "cases":
        return cases([(conj(v), c) for v, c in _pairs(e)], conj(e.args[-1]))
    return Expr("conj", (e,))


def _has_conj(e: Expr) -> bool:
    if e.kind in ("sum", "product", "quotient", "negative", "matmul"):
        return any(_has_conj(a) for a in e.args)
    return e.kind in ("conj", "adjoint")


def transpose(e: Expr) -> Expr:
    if e.kind == "transpose":
        return e.args[0]
    if e.kind == "conj":
        return Expr("adjoint", e.args)
    if e.kind == "adjoint":
        return conj(e.args[0])
    if e.kind == "matmul":
        return matmul(*[transpose(a) for a in reversed(e.args)])
    return Expr("transpose", (e,))


def matmul(*factors: Expr) -> Expr:
    """Return a product of matrices."""
    flat: list[Expr] = []
    for factor in factors:
        flat += factor.args if factor.kind == "matmul" else [factor]
    return Expr("matmul", tuple(flat))


def both(kind: str, parts: list[Expr]) -> Expr:
    """Return a conjunction or disjunction, 'and' or 'or'."""
    flat: list[Expr] = []
    for part in parts:
        flat += part.args if part.kind == kind else [part]
    flat = list(dict.fromkeys(flat))
    return flat[0] if len(flat) == 1 else Expr(kind, tuple(flat))


def cases(pairs: list[tuple[Expr, Expr]], otherwise: Expr) -> Expr:
    """Return values under conditions, (value, condition) in the order in which they are tried. A case that the others
    cover is left out: `1 if n == 0 else x ** n`."""
    if otherwise.kind == "cases":
        pairs, otherwise = [*pairs, *_pairs(otherwise)], otherwise.args[-1]
    while pairs and _says_the_same(*pairs[-1], otherwise):
        pairs = pairs[:-1]
    merged: list[tuple[Expr, Expr]] = []
    for value, condition in pairs:
        if merged and merged[-1][0] == value:
            merged[-1] = value, both("or", [merged[-1][1], condition])
        else:
            merged.append((value, condition))
    if not merged:
        return otherwise
    return Expr("cases", (*[e for pair in merged for e in pair], otherwise))


def is_awkward(e: Expr) -> bool:
    """Return whether it would be hard to read: cases in a condition, or a case without a value."""
    if e.kind == "cases":
        values, conditions = [*e.args[:-1:2], e.args[-1]], e.args[1::2]
        if UNDEFINED in values or any(has(c, "cases") for c in conditions):
            return True
    return any(is_awkward(a) for a in e.args)


def has(e: Expr, *kinds: str) -> bool:
    """Return whether an expression of one of the kinds occurs in it."""
    return e.kind in kinds or any(has(a, *kinds) for a in e.args)


def _pairs(e: Expr) -> list[tuple[Expr, Expr]]:
    return list(zip(e.args[:-1:2], e.args[1::2], strict=True))


def _says_the_same(value: Expr, condition: Expr, otherwise: Expr) -> bool:
    if value == otherwise:
        return True
    if condition.kind != "compare" or condition.name != "=" or value_of(condition.args[1]) is None:
        return False
    return substitute(otherwise, *condition.args) == value


def substitute(e: Expr, old: Expr, new: Expr) -> Expr:
    """Replace a part of an expression and simplify it again."""
    if e == old:
        return new
    if not e.args:
        return e
    parts = [substitute(a, old, new) for a in e.args]
    return rebuild(e, parts)


def rebuild(e: Expr, parts: list[Expr]) -> Expr:
    """Return an expression of the same kind with other parts."""
    if e.kind == "cases":
        return cases(list(zip(parts[:-1:2], parts[1::2], strict=True)), parts[-1])
    makers: dict[str, Callable[..., Expr]] = {
        "sum": total, "product": product, "quotient": quotient, "power": power, "negative": negative, "conj": conj,
        "transpose": transpose, "matmul": matmul,
    }  # fmt: skip
    make = makers.get(e.kind)
    return make(*parts) if make is not None else Expr(e.kind, tuple(parts), e.name)
