"""Typeset an `Expr` as LaTeX and as MathML."""

from __future__ import annotations

import html
import re

from .expressions import ATOM, GREEK, NOT, POWER, PRODUCT, SIGNS, SUM, Expr, Style, split_digits

_LATEX_GREEK = {"eps": "varepsilon", "epsilon": "varepsilon", "lambd": "lambda"}
_PLAIN_SPECIAL = str.maketrans({c: f"\\{c}" for c in "_#%&$"})  # characters that names may contain
_TEXT_SPECIAL = str.maketrans({c: f"\\{c}" for c in "_#%&${}"} | {"\\": r"\textbackslash ", "^": r"\^{}", "~": r"\~{}"})
_PLACES = re.compile(r"(\{\d!?\})")


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
