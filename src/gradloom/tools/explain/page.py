"""Compose an explanation as a sequence of blocks, which `as_text` and `as_html` write."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradloom.codegen.derivatives.model import DifferentiableFunction
from gradloom.codegen.notation.equations import Equation
from gradloom.codegen.operators.keys import KINKS
from gradloom.dispatch.records import Record
from gradloom.ops.lists import general
from gradloom.optim import fused_rules

from .facts import NodeFacts, OperatorFacts, Place, node_facts, written_by_hand
from .library import Library
from .lookup import Target


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 for the explanation, 2 for an operator, 3 for a part."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Code:
    """Text of a file, with a description."""

    title: str
    place: Place


@dataclass(frozen=True)
class Formulas:
    """Equations, and the meaning of their symbols."""

    equations: tuple[Equation, ...]
    legend: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows under column heads; without heads, pairs of name and value."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block = Heading | Paragraph | Code | Formulas | Table


def page(target: Target, libraries: Sequence[Library]) -> list[Block]:
    """Return the explanation of a target; `libraries` may replace derivatives of its operators."""
    blocks: list[Block] = []
    facts = [library.facts(f) for library, f in target.functions]
    if len(facts) + len(target.lists) > 1 or target.node is not None:
        blocks.append(Heading(1, target.title))
    if len(facts) > 1:
        blocks.append(Table((), tuple((f.name, str(f.function.schema)) for f in facts)))
    if target.node is not None:
        blocks += _node(node_facts(target.node))
    if target.written is not None:
        blocks += _written(target.title, target.written)
    for (library, function), one in zip(target.functions, facts, strict=True):
        blocks += operator(one, _replacements(library, function, libraries))
    for record in target.lists:
        blocks += _on_lists(record, libraries[0])
    return blocks


def _on_lists(record: Record, library: Library) -> list[Block]:
    """Return the blocks of an operator on lists."""
    module, (rule, *given) = (general, record.foreach) if record.foreach else (fused_rules.general, record.fused)
    words = [f"For each tensor, it computes `{one}`; `gradloom explain {one}` shows its derivative." for one in given]
    if record.fused:
        words = ["It is a step of an optimizer, without a derivative."]
    blocks: list[Block] = [Heading(2, record.name), Paragraph("\n".join([record.schema, *words]))]
    places = [("entry", library.entry_on_lists(record.name)), (f"rule {rule}", written_by_hand(getattr(module, rule)))]
    return blocks + [Code(what, place) for what, place in places if place is not None]


def _replacements(library: Library, function: DifferentiableFunction, libraries: Sequence[Library]) -> list[Place]:
    """Return the registered entries that replace the derivative of one of gradloom's operators."""
    if not library.target.is_own:
        return []
    return [
        place
        for other in libraries[1:]
        for f in other.specification.overrides
        if f.name == function.name
        for place in other.facts(f).entries[-1:]
    ]


def operator(facts: OperatorFacts, replaced_by: Sequence[Place] = ()) -> list[Block]:
    """Return the blocks of one operator."""
    blocks: list[Block] = [Heading(2, facts.name), Paragraph(_summary(facts))]
    for place in replaced_by:
        blocks += [Paragraph("Its derivative is replaced by this one:"), Code("override", place)]
    blocks += [Code("entry", place) for place in facts.entries]
    equations = facts.equations
    everything = (*([equations.value] if equations.value else []), *equations.backward, *equations.forward)
    if everything:
        legend = [f"{sign} = {name}" for name, sign in equations.symbols.items()]
        remarks = [f"{r.name}: {r.text}" for r in equations.where]
        blocks += [
            Heading(3, "Derivative"),
            Formulas(everything, (", ".join([*legend, *equations.gradients]), *remarks)),
            *map(Paragraph, facts.proofs),
        ]
    blocks += [Heading(3, "Support"), Table((), tuple((title, str(fact)) for title, fact in facts.support.items()))]
    if facts.rules:
        blocks += [Heading(3, "Rules"), Table((), facts.rules)]
    if facts.saved:
        rows = [
            (s.name, s.form + (f", {s.condition}" if s.condition else ""), "; ".join(s.needed_by)) for s in facts.saved
        ]
        blocks += [Heading(3, f"What {facts.node} saves"), Table(("field", "what is kept", "for"), tuple(rows))]
    elif facts.node:
        blocks += [Heading(3, f"What {facts.node} saves"), Paragraph("Nothing.")]
    for title, places in (("Kernel", facts.kernels), ("Helpers", facts.helpers), ("Generated code", facts.generated)):
        if places:
            blocks += [Heading(3, title), *[Code(what, place) for what, place in places]]
    return blocks


def _summary(facts: OperatorFacts) -> str:
    function = facts.function
    parts = []
    if function.variant is not None:
        parts.append(f"The {function.variant.kind} variant of {function.function.name}, derived by `autogen:`.")
    if facts.node is not None:
        parts.append(f"Its node is {facts.node}.")
    if function.function.composite is not None:
        calls = f": {', '.join(facts.calls)}" if facts.calls else ""
        parts.append(f"It is composed of other operators, whose nodes appear in the graph{calls}.")
    expression = facts.expression
    if expression is not None:
        parts.append(f"It computes `{expression}`.")
    if function.function.kinks:
        found = " or ".join(KINKS[word] for word in function.function.kinks)
        parts.append(f"Where it has no derivative, its formulas give {found}.")
    return f"{function.schema}\n{' '.join(parts)}".strip()


def _node(facts: NodeFacts) -> list[Block]:
    rows = [
        ("gets gradients of", "; ".join(facts.gradients)),
        *[(f"holds {name}", what) for name, what in facts.saved],
        *[(f"gradient {i} goes to", text) for i, text in enumerate(facts.next)],
    ]
    blocks: list[Block] = [Heading(3, f"This {facts.name}"), Table((), tuple(rows))]
    if facts.made_at:
        blocks.append(Paragraph(f"It was made here:\n{facts.made_at}"))
    return blocks


def _written(title: str, thing: Any) -> list[Block]:
    blocks: list[Block] = [Heading(2, title)]
    if thing.__doc__:
        blocks.append(Paragraph(inspect.cleandoc(thing.__doc__)))
    place = written_by_hand(thing)
    if place is None:
        blocks.append(Paragraph("It is written by hand; its source is not available."))
    else:
        blocks.append(Code("written by hand", place))
    return blocks
