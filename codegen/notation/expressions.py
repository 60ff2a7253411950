"""Mathematical expressions, the form of formulas between reading and typesetting, and their notations.

An `Expr` is a kind and its parts. The functions here make expressions and simplify them: no products with 1, no
conjugate of a conjugate, one fraction bar for nested quotients of numbers, no equal cases. They never change the
meaning of an expression.

Each `Style` is one notation. All of them put brackets where the binding strength requires them; notation.yaml has the
names of functions, and the forms of those that are not written `name(arguments)`. `Text` uses Unicode's mathematical
signs, for docstrings and terminals; markup.py has the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression."""

    # its kind; a `Style` has one rule for each: 'symbol' 'number' 'word' (a string, a dtype: not typeset as
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
    values = [value_of(t) for t in flat]
    if len(flat) > 1 and all(v is not None and v.is_integer() for v in values):
        return number(str(int(sum(v for v in values if v is not None))))
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
    """Return the conjugate, distributed over an expression only if that makes it simpler."""
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
    if e.kind == "power" and _has_conj(e.args[0]) and value_of(e.args[1]) is not None:
        return rebuild(e, [conj(e.args[0]), e.args[1]])
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
    """Return values under conditions, (value, condition), without those that others cover: `1 if n == 0 else x **
    n`."""
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
    """Return whether the expression would be hard to read: cases in a condition, or a case without a value."""
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


# The binding strength of an expression; an atom has the greatest.
CONDITION, NOT, COMPARE, SUM, PRODUCT, POWER, ATOM = range(7)
_BINDS = {
    "cases": CONDITION, "or": CONDITION, "and": CONDITION, "not": NOT, "compare": COMPARE, "sum": SUM,
    "negative": SUM, "product": PRODUCT, "matmul": PRODUCT, "quotient": PRODUCT, "power": POWER, "conj": POWER,
    "transpose": POWER, "adjoint": POWER, "each": CONDITION, "keyword": CONDITION, "slice": CONDITION,
}  # fmt: skip

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eps": "ε", "lambda": "λ", "lambd": "λ",
    "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "theta": "θ",
}  # fmt: skip
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")
SIGNS = {
    "!=": ("≠", r"\ne"), "<": ("<", "<"), "<=": ("≤", r"\le"), ">": (">", ">"), ">=": ("≥", r"\ge"), "=": ("=", "="),
    "in": ("∈", r"\in"), "not in": ("∉", r"\notin"),
}  # fmt: skip
_PLACE = re.compile(r"\{(\d)(!?)\}")
_LAST_PLACE = re.compile(r"\{\d!?\}$")


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a function: its name, or a template with `{0}`, `{1}` for arguments (`{0!}`: brackets if no atom)."""

    latex: str
    text: str


_KINDS = (
    "symbol number word undefined gradient tangent sum product quotient power negative conj transpose adjoint matmul "
    "call compare and or not cases tuple index slice each keyword partial mask"
).split()


class Style:
    """The common part of all notations. Subclasses define the form of each kind."""

    field = ""
    minus = "-"
    joints: Mapping[str, str]  # separators of factors, matrices and conditions, by kind
    marks: Mapping[str, str]  # marks of a conjugate, a transpose or an adjoint

    def __init__(self, forms: Mapping[str, Form], numbers: Mapping[str, Form]) -> None:
        self.forms, self.numbers = forms, numbers
        self.rules: dict[str, Callable[[Expr], str]] = {kind: getattr(self, f"_{kind}") for kind in _KINDS}

    def write(self, e: Expr) -> str:
        return self.rules[e.kind](e)

    def at_least(self, e: Expr, binding: int) -> str:
        """Write the expression, in brackets if it binds less strongly than `binding`."""
        own = self.binding(e)
        if own >= binding:
            return self.write(e)
        is_condition = e.kind in ("and", "or", "not") or own == COMPARE
        return (self.iverson if is_condition and binding >= SUM else self.bracketed)(self.write(e))

    def binding(self, e: Expr) -> int:
        form = self.form(e)
        if form is None or not _PLACE.search(form):
            return _BINDS.get(e.kind, ATOM)
        if "^" in form:
            return POWER
        if _PLACE.match(form):
            return COMPARE
        return (PRODUCT if " " in form else POWER) if _LAST_PLACE.search(form) else ATOM

    def form(self, e: Expr) -> str | None:
        """Return the name or template of a call; None if notation.yaml has none."""
        if e.kind != "call":
            return None
        found = self.forms.get(f"{e.name}({len(e.args)})") or self.forms.get(e.name)
        if found is None:
            return None
        form: str = getattr(found, self.field)
        places = {match[1] for match in _PLACE.finditer(form)}
        return form if not places or len(places) == len(e.args) else None

    def row(self, text: str) -> str:
        """Group several parts."""
        return text

    def raised(self, base: Expr, mark: str) -> str:
        """Write an expression with a superscript."""
        raise NotImplementedError

    def sign(self, name: str) -> str:
        """Return the sign of a comparison."""
        raise NotImplementedError

    def bracketed(self, text: str) -> str:
        return f"({text})"

    def iverson(self, text: str) -> str:
        """Put brackets around a condition used as a number: 1 if it holds, else 0."""
        return f"[{text}]"

    def arguments(self, items: tuple[Expr, ...]) -> str:
        return ", ".join([self.write(a) for a in items])

    def _call(self, e: Expr) -> str:
        form = self.form(e)
        if form is None:
            return f"{self.function(e.name.rstrip('_'))}{self.bracketed(self.arguments(e.args))}"
        if not _PLACE.search(form):
            return f"{form}{self.bracketed(self.arguments(e.args))}"

        def place(match: re.Match[str]) -> str:
            argument = self.given(e, match[1])
            return self.at_least(argument, POWER) if match[2] else self.write(argument)

        return _PLACE.sub(place, form)

    @staticmethod
    def given(e: Expr, number: str) -> Expr:
        """Return an argument of a call, by its number in a template."""
        argument = e.args[int(number)]
        return argument.args[0] if argument.kind == "keyword" else argument

    def function(self, name: str) -> str:
        raise NotImplementedError

    def _sum(self, e: Expr) -> str:
        text = self.at_least(e.args[0], SUM)
        for term in e.args[1:]:
            if term.kind == "negative":
                text += f" {self.minus} {self.at_least(term.args[0], PRODUCT)}"
            else:
                text += f" + {self.at_least(term, PRODUCT)}"
        return text

    def _joined(self, e: Expr) -> str:
        binding = {"product": PRODUCT, "matmul": POWER}.get(e.kind, NOT)
        return self.row(self.joints[e.kind].join([self.at_least(a, binding) for a in e.args]))

    _product = _matmul = _and = _or = _joined

    def _marked(self, e: Expr) -> str:
        return self.raised(e.args[0], self.marks[e.kind])

    _conj = _transpose = _adjoint = _marked

    def _power(self, e: Expr) -> str:
        return self.raised(e.args[0], self.write(e.args[1]))

    def _compare(self, e: Expr) -> str:
        left, right = [self.at_least(a, SUM) for a in e.args]
        return self.row(f"{left}{self.sign(e.name)}{right}")

    def _index(self, e: Expr) -> str:
        return f"{self.at_least(e.args[0], ATOM)}[{self.arguments(e.args[1:])}]"

    def _negative(self, e: Expr) -> str:
        return f"{self.minus}{self.at_least(e.args[0], PRODUCT)}"

    def _keyword(self, e: Expr) -> str:
        return f"{self.name(e.name)} = {self.write(e.args[0])}"

    def _tuple(self, e: Expr) -> str:
        if len(e.args) == 1:
            return f"[{self.write(e.args[0])}]" if e.args[0].kind == "each" else self.write(e.args[0])
        return self.bracketed(self.arguments(e.args))

    def name(self, name: str) -> str:
        raise NotImplementedError

    def _number(self, e: Expr) -> str:
        form = self.numbers.get(e.name)
        return e.name if form is None else getattr(form, self.field)

    def _mask(self, e: Expr) -> str:
        return self.name("mask")

    def _symbol(self, e: Expr) -> str:
        return self.name(e.name)

    def _slice(self, e: Expr) -> str:
        return ":".join(["" if part.kind == "undefined" else self.write(part) for part in e.args])


def split_digits(name: str) -> tuple[str, str]:
    """Return ('tensor', '1') for `tensor1`."""
    stem = name.rstrip("0123456789")
    return (stem, name[len(stem) :]) if stem else (name, "")


class Text(Style):
    """Unicode for a terminal."""

    field, minus = "text", "−"
    joints = {"product": " · ", "matmul": " @ ", "and": " and ", "or": " or "}
    marks = {"conj": "*", "transpose": "ᵀ", "adjoint": "ᴴ"}

    def raised(self, base: Expr, mark: str) -> str:
        return self.at_least(base, ATOM) + mark

    def sign(self, name: str) -> str:
        return f" {SIGNS[name][0]} "

    def function(self, name: str) -> str:
        return name

    def name(self, name: str) -> str:
        stem, digits = split_digits(name)
        return GREEK.get(stem, stem) + digits.translate(_SUBSCRIPTS)

    def _word(self, e: Expr) -> str:
        return e.name

    def _undefined(self, e: Expr) -> str:
        return "None"

    def _gradient(self, e: Expr) -> str:
        if not e.name:
            return "g"
        return f"g{e.name.translate(_SUBSCRIPTS)}" if e.name.isdigit() else f"g_{e.name}"

    def _tangent(self, e: Expr) -> str:
        return f"d{self.write(e.args[0])}"

    def _partial(self, e: Expr) -> str:
        return f"∂L/∂{self.write(e.args[0])}"

    def _quotient(self, e: Expr) -> str:
        top, bottom = e.args
        return f"{self.at_least(top, PRODUCT)} / {self.at_least(bottom, POWER)}"

    def _power(self, e: Expr) -> str:
        base, exponent = e.args
        raised = self.write(exponent)
        below = self.at_least(base, ATOM)
        if re.fullmatch(r"[−-]?\d+", raised):
            return below + raised.translate(_SUPERSCRIPTS)
        return f"{below}^{self.at_least(exponent, ATOM)}"

    def _not(self, e: Expr) -> str:
        return f"not {self.at_least(e.args[0], COMPARE)}"

    def _cases(self, e: Expr) -> str:
        parts = [
            f"{self.at_least(v, NOT)} if {self.at_least(c, NOT)}"
            for v, c in zip(e.args[:-1:2], e.args[1::2], strict=True)
        ]
        return ", ".join(parts) + f", else {self.at_least(e.args[-1], NOT)}"

    def _each(self, e: Expr) -> str:
        element, variable, items = e.args
        return f"{self.write(element)} for {self.write(variable)} in {self.write(items)}"
