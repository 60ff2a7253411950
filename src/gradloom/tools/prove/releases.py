"""The formulas of a release of PyTorch, compared with gradloom's definitions of the same operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from gradloom.codegen.operators.model import NativeFunction
from gradloom.tools.upstream.facts import Formulas

from .cplusplus import asks_for_complex, parsed
from .proving import OPEN, PROVED, REFUTED, RESULT, Verdict, judged
from .reading import Reader

_NO_FORMULAS = ("non_differentiable", "auto_element_wise", "auto_linear")


def verdicts_of_torch(function: NativeFunction, formulas: Formulas, reader: Reader) -> Iterator[Verdict]:
    """Yield a verdict for each formula that PyTorch has for an operator with a definition.

    PyTorch's helpers are C++. Where gradloom has one of the same name, it is read instead, and the verdict says so.
    """
    inputs = {a.name: a.python_name for a in function.schema.inputs}
    for names, formula in formulas.items():
        if formula in _NO_FORMULAS or "/" in names or names == "output_differentiability":
            continue
        of = [inputs.get(name, RESULT) for name in names.split(", ")]
        if formula.startswith("not_implemented"):
            yield Verdict(function.name, ", ".join(of), formula, OPEN, "not implemented")
        elif len(of) > 1:
            yield Verdict(
                function.name, ", ".join(of), formula, OPEN, "a helper returns the gradients of several inputs"
            )
        else:
            yield _of_one(function, of[0], formula, reader)


def _of_one(function: NativeFunction, of: str, formula: str, reader: Reader) -> Verdict:
    reader.helpers_read.clear()
    found = judged(function, of, formula, reader, parsed)
    if found.word == PROVED and asks_for_complex(formula):
        found = judged(function, of, formula, reader, partial(parsed, is_complex=True))
    if found.word == REFUTED and found.at_meeting:
        other = judged(replace(function, kinks=()), of, formula, reader, parsed)
        if other.word == PROVED:
            found = replace(other, reason=f"with another slope than gradloom's where alternatives meet, {found.reason}")
    return _with_helpers(found, sorted(reader.helpers_read))


def _with_helpers(verdict: Verdict, helpers: Sequence[str]) -> Verdict:
    """Return a verdict that names gradloom's helpers that stand for PyTorch's."""
    if not helpers or verdict.word == OPEN:
        return verdict
    shown = f"with gradloom's {', '.join(f'`{name}`' for name in helpers)} for PyTorch's"
    if verdict.word == REFUTED:
        return replace(verdict, word=OPEN, reason=f"{shown} it is refuted {verdict.reason}")
    return replace(verdict, reason="; ".join(filter(None, (shown, verdict.reason))))
