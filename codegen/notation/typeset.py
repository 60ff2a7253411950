"""Typeset an `Expr`: as LaTeX, as MathML, and as text with Unicode's mathematical signs for a terminal.

One `Style` is one way of writing. All put brackets where the binding strength asks for them; notation.yaml has the
names of functions, and the forms of those that are not written `name(arguments)`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .tree import Expr

# The binding strength of an expression; that of an atom is the greatest.
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
_LATEX_GREEK = {"eps": "varepsilon", "epsilon": "varepsilon", "lambd": "lambda"}
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")
SIGNS = {
    "!=": ("≠", r"\ne"), "<": ("<", "<"), "<=": ("≤", r"\le"), ">": (">", ">"), ">=": ("≥", r"\ge"), "=": ("=", "="),
    "in": ("∈", r"\in"), "not in": ("∉", r"\notin"),
}  # fmt: skip
_PLACE = re.compile(r"\{(\d)(!?)\}")
_LAST_PLACE = re.compile(r"\{\d!?\}$")
_PLAIN_SPECIAL = str.maketrans({c: f"\\{c}" for c in "_#%&$"})  # characters that names may contain
_TEXT_SPECIAL = str.maketrans({c: f"\\{c}" for c in "_#%&${}"} | {"\\": r"\textbackslash ", "^": r"\^{}", "~": r"\~{}"})


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a function: its name, or a template with `{0}`, `{1}` for arguments (`{0!}`: in brackets if not an
    atom)."""

    latex: str
    text: str


_KINDS = (
    "symbol number word undefined gradient tangent sum product quotient power negative conj transpose adjoint matmul "
    "call compare and or not cases tuple index slice each keyword partial mask"
).split()


class Style:
    """The common part of all ways of writing. Subclasses define the look of each kind."""

    field = ""
    minus = "-"
    joints: Mapping[str, str]  # between factors, matrices and conditions, by kind
    marks: Mapping[str, str]  # after a conjugate, a transpose or an adjoint

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
        """Put brackets around a condition that counts as a number: 1 where it holds, else 0."""
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


class Latex(Style):
    """LaTeX mathematics, restricted to AMS commands, which MathJax and KaTeX read."""

    field = "latex"
    joints = {"product": r" \, ", "matmul": r" \, ", "and": r" \land ", "or": r" \lor "}
    marks = {"conj": "*", "transpose": r"\mathsf{T}", "adjoint": r"\mathsf{H}"}

    def raised(self, base: Expr, mark: str) -> str:
        return f"{self.at_least(base, ATOM)}^{{{mark}}}"

    def sign(self, name: str) -> str:
        return f" {SIGNS[name][1]} "

    def function(self, name: str) -> str:
        return rf"\operatorname{{{name.translate(_PLAIN_SPECIAL)}}}"

    def name(self, name: str) -> str:
        stem, digits = split_digits(name)
        if stem in GREEK:
            text = f"\\{_LATEX_GREEK.get(stem, stem)}"
        else:
            text = stem if len(stem) == 1 else rf"\mathit{{{stem.translate(_PLAIN_SPECIAL)}}}"
        return f"{text}_{{{digits}}}" if digits else text

    def bracketed(self, text: str) -> str:
        tall = "\\frac" in text or "\\begin" in text or "\\sum" in text
        return rf"\left({text}\right)" if tall else f"({text})"

    def _word(self, e: Expr) -> str:
        return rf"\text{{{e.name.translate(_TEXT_SPECIAL)}}}"

    def _undefined(self, e: Expr) -> str:
        return r"\text{None}"

    def _gradient(self, e: Expr) -> str:
        if not e.name:
            return "g"
        return f"g_{{{e.name}}}" if e.name.isdigit() else rf"g_{{\mathit{{{e.name.translate(_PLAIN_SPECIAL)}}}}}"

    def _tangent(self, e: Expr) -> str:
        return rf"\mathrm{{d}}{self.write(e.args[0])}"

    def _partial(self, e: Expr) -> str:
        return rf"\frac{{\partial L}}{{\partial {self.write(e.args[0])}}}"

    def _quotient(self, e: Expr) -> str:
        top, bottom = e.args
        return rf"\frac{{{self.write(top)}}}{{{self.write(bottom)}}}"

    def _not(self, e: Expr) -> str:
        return rf"\lnot {self.at_least(e.args[0], ATOM)}"

    def _cases(self, e: Expr) -> str:
        rows = [
            rf"{self.write(v)} & \text{{if }} {self.write(c)}" for v, c in zip(e.args[:-1:2], e.args[1::2], strict=True)
        ]
        rows.append(rf"{self.write(e.args[-1])} & \text{{otherwise}}")
        return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"

    def _each(self, e: Expr) -> str:
        element, variable, items = e.args
        return rf"{self.write(element)} \text{{ for }} {self.write(variable)} \in {self.write(items)}"


_PLACES = re.compile(r"(\{\d!?\})")


class MathML(Style):
    """Presentation MathML, without the `<math>` around it."""

    field, minus = "text", "<mo>−</mo>"
    joints = {
        "product": "<mo>⋅</mo>",
        "matmul": '<mspace width="0.2em"/>',
        "and": "<mtext> and </mtext>",
        "or": "<mtext> or </mtext>",
    }
    marks = {
        "conj": "<mo>*</mo>",
        "transpose": "<mi mathvariant='normal'>T</mi>",
        "adjoint": "<mi mathvariant='normal'>H</mi>",
    }

    def row(self, text: str) -> str:
        return f"<mrow>{text}</mrow>"

    def raised(self, base: Expr, mark: str) -> str:
        return f"<msup>{self.at_least(base, ATOM)}<mrow>{mark}</mrow></msup>"

    def sign(self, name: str) -> str:
        return f"<mo>{html.escape(SIGNS[name][0])}</mo>"

    def function(self, name: str) -> str:
        return f"<mi>{html.escape(name)}</mi>"

    def name(self, name: str) -> str:
        stem, digits = split_digits(name)
        text = f"<mi>{html.escape(GREEK.get(stem, stem))}</mi>"
        return f"<msub>{text}<mn>{digits}</mn></msub>" if digits else text

    def bracketed(self, text: str) -> str:
        return f"<mrow><mo>(</mo>{text}<mo>)</mo></mrow>"

    def iverson(self, text: str) -> str:
        return f"<mrow><mo>[</mo>{text}<mo>]</mo></mrow>"

    def arguments(self, items: tuple[Expr, ...]) -> str:
        return "<mo>,</mo>".join([self.write(a) for a in items])

    def _call(self, e: Expr) -> str:
        form, both = self.form(e), self.forms.get(e.name)
        latex = both.latex if both is not None and len(e.args) == 1 else ""
        if latex == r"\sqrt{{0}}":
            return f"<msqrt>{self.write(e.args[0])}</msqrt>"
        if latex == "e^{{0}}":
            return f"<msup><mi>e</mi><mrow>{self.write(e.args[0])}</mrow></msup>"
        if form is None or not _PLACES.search(form):
            name = self.function(form or e.name.rstrip("_"))
            return f"<mrow>{name}{self.bracketed(self.arguments(e.args))}</mrow>"
        parts = []
        for part in _PLACES.split(form):
            if _PLACES.fullmatch(part):
                argument = self.given(e, part[1])
                parts.append(self.at_least(argument, POWER) if part.endswith("!}") else self.write(argument))
            elif part:
                parts.append(f"<mtext>{html.escape(part)}</mtext>" if " " in part else f"<mo>{html.escape(part)}</mo>")
        return f"<mrow>{''.join(parts)}</mrow>"

    def _sum(self, e: Expr) -> str:
        text = self.at_least(e.args[0], SUM)
        for term in e.args[1:]:
            is_negative = term.kind == "negative"
            sign = self.minus if is_negative else "<mo>+</mo>"
            text += sign + self.at_least(term.args[0] if is_negative else term, PRODUCT)
        return f"<mrow>{text}</mrow>"

    def _negative(self, e: Expr) -> str:
        return f"<mrow>{self.minus}{self.at_least(e.args[0], PRODUCT)}</mrow>"

    def _number(self, e: Expr) -> str:
        return f"<mn>{html.escape(super()._number(e))}</mn>"

    def _word(self, e: Expr) -> str:
        return f"<mtext>{html.escape(e.name)}</mtext>"

    def _undefined(self, e: Expr) -> str:
        return "<mtext>None</mtext>"

    def _gradient(self, e: Expr) -> str:
        return f"<msub><mi>g</mi><mi>{html.escape(e.name)}</mi></msub>" if e.name else "<mi>g</mi>"

    def _tangent(self, e: Expr) -> str:
        return f"<mrow><mi mathvariant='normal'>d</mi>{self.write(e.args[0])}</mrow>"

    def _partial(self, e: Expr) -> str:
        return f"<mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo>{self.write(e.args[0])}</mrow></mfrac>"

    def _quotient(self, e: Expr) -> str:
        return f"<mfrac><mrow>{self.write(e.args[0])}</mrow><mrow>{self.write(e.args[1])}</mrow></mfrac>"

    def _not(self, e: Expr) -> str:
        return f"<mrow><mtext>not </mtext>{self.at_least(e.args[0], NOT)}</mrow>"

    def _cases(self, e: Expr) -> str:
        rows = [
            f"<mtr><mtd>{self.write(v)}</mtd><mtd><mtext>if </mtext>{self.write(c)}</mtd></mtr>"
            for v, c in zip(e.args[:-1:2], e.args[1::2], strict=True)
        ]
        rows.append(f"<mtr><mtd>{self.write(e.args[-1])}</mtd><mtd><mtext>otherwise</mtext></mtd></mtr>")
        return f"<mrow><mo>{{</mo><mtable columnalign='left'>{''.join(rows)}</mtable></mrow>"

    def _index(self, e: Expr) -> str:
        return f"<mrow>{self.at_least(e.args[0], ATOM)}{self.iverson(self.arguments(e.args[1:]))}</mrow>"

    def _tuple(self, e: Expr) -> str:
        if len(e.args) == 1:
            return self.iverson(self.write(e.args[0])) if e.args[0].kind == "each" else self.write(e.args[0])
        return self.bracketed(self.arguments(e.args))

    def _slice(self, e: Expr) -> str:
        return "<mo>:</mo>".join(["" if part.kind == "undefined" else self.write(part) for part in e.args])

    def _each(self, e: Expr) -> str:
        element, variable, items = [self.write(a) for a in e.args]
        return f"<mrow>{element}<mtext> for </mtext>{variable}<mtext> in </mtext>{items}</mrow>"

    def _keyword(self, e: Expr) -> str:
        return f"<mrow>{self.name(e.name)}<mo>=</mo>{self.write(e.args[0])}</mrow>"
