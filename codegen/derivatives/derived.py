"""Entries for operators that have a definition, and none in derivatives.yaml.

Note [Derived entries]
An operator whose definition (`scalar:`) has a derivative gets its entry from the stage `derivation`, unless its entry
says `differentiable: false`. SymPy derives; what it found is the file `derived.yaml` of the generated package, which
has the format of derivatives.yaml and two more keys:

    - name: swoosh(Tensor self, float beta=1.5) -> Tensor
      definition: self / (1 + exp(-beta * self))
      chosen: self within 1e-13 at 68 points, the best of 15 forms
      self: grad * (beta * result * sigmoid(-beta * self) + sigmoid(beta * self)).conj()
      result: auto_element_wise

An entry there is used as long as schema and definition are those of the operator, and is derived anew otherwise, so
that only those who change a definition need SymPy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import SpecError, raise_all
from ..language.formula import MAX_LENGTH
from ..language.rows import has_slope
from ..language.scalars import has_derivative
from ..operators.model import NativeFunction
from ..reading.yaml_files import Entry, Text, parse_entries, read_text
from ..target import Target
from .entries import CHOSEN, DEFINITION, DERIVED, NAME

if TYPE_CHECKING:
    from ..derivation.derive import Derived

_HEAD = """\
# {origin}
#
# The derivatives of operators that have a definition (`scalar:`) and no entry in derivatives.yaml.
"""


def kept_text(target: Target) -> str:
    """Return the text of derived.yaml of a target; '' if there is none."""
    path = None if target.output is None else target.output / DERIVED
    return read_text(path, DERIVED) if path is not None and path.is_file() else ""


def complete(
    functions: Iterable[NativeFunction], with_entry: Collection[str], kept: str, target: Target
) -> tuple[tuple[Entry, ...], str]:
    """Return the entries of the operators that lack one, and the text of derived.yaml with them; '' without any.

    Args:
        with_entry: the full names that derivatives.yaml has.
        kept: the text of derived.yaml as it is.

    Raises SpecError, or SpecErrors, for definitions that cannot be derived.
    """
    wanted = [f for f in functions if f.name not in with_entry and is_derived(f)]
    if not wanted:
        return (), ""
    known = _known(kept)
    parts, errors = [], []
    for function in wanted:
        key = (str(function.schema), definition_of(function))
        try:
            parts.append(known[key] if key in known else _written(function))
        except SpecError as error:
            errors.append(error)
    raise_all(errors)
    text = "\n".join((_HEAD.format(origin=target.origin), *parts))
    return tuple(parse_entries(text, DERIVED)), text


def is_derived(function: NativeFunction) -> bool:
    """Return whether an operator gets its derivative from its definition, unless derivatives.yaml has it."""
    schema, scalar, rows = function.schema, function.scalar, function.rows
    defined = scalar is not None and has_derivative(scalar) or rows is not None and has_slope(rows)
    return (
        defined
        and function.is_differentiable
        and function.composite is None
        and schema.kind == "functional"
        and function.type_promotion != "always_bool"
        and str(schema.returns[0].type) == "Tensor"
        and any(str(a.type) == "Tensor" for a in schema.inputs)
        and "scalar" in function.entry
    )


def definition_of(function: NativeFunction) -> str:
    """Return what the derivative of an operator follows from: its definition, and the slope at its kinks."""
    rows, scalar = function.rows, function.scalar
    text = f"{rows.source} over {rows.over[0]}" if rows is not None else "" if scalar is None else scalar.source
    return text + (" with the slope of one side" if "side" in function.kinks else "")


def is_up_to_date(functions: Iterable[NativeFunction], with_entry: Collection[str], kept: str) -> bool:
    """Return whether derived.yaml has the entries that operators lack in derivatives.yaml, in their order."""
    wanted = [(str(f.schema), definition_of(f)) for f in functions if f.name not in with_entry and is_derived(f)]
    return wanted == list(_known(kept))


def derived(function: NativeFunction) -> Derived:
    """Derive the formulas of an operator. Raises SpecError at the part of its definition that cannot be derived."""
    from ..derivation.derive import HINT, NoRuleError, derive  # which few runs need
    from ..derivation.rows import derive_rows

    text = function.entry.fields["scalar"]
    assert isinstance(text, Text)
    try:
        import sympy  # noqa: F401
    except ImportError:
        message = f"`{function.name}` has a definition and no derivative, and SymPy, which derives it, is not installed"
        raise function.text.error(message, f"pip install 'gradloom[derive]', {HINT}", 0, len(function.name)) from None
    try:
        if function.rows is not None:
            found = derive_rows(function.schema, function.rows, function.kinks)
        else:
            assert function.scalar is not None
            found = derive(function.schema, function.scalar, function.kinks)
    except NoRuleError as error:
        raise text.error(error.message, error.hint, *error.place_in(text.value)) from None
    longest = max(map(len, found.lines.values()))
    if longest > MAX_LENGTH:
        raise text.error(f"the derivative has {longest} characters, of which {MAX_LENGTH} are allowed", HINT)
    return found


def _written(function: NativeFunction) -> str:
    found = derived(function)
    chosen = {CHOSEN: "; ".join(_in_words(found))} if found.chosen else {}
    lines = {NAME: str(function.schema), DEFINITION: definition_of(function), **chosen, **found.lines}
    return "- " + "\n  ".join(f"{key}: {value}" for key, value in lines.items()) + "\n"


def _in_words(found: Derived) -> Iterator[str]:
    """Yield how the formula of each input was chosen, all alternatives together."""
    for by in dict.fromkeys(c.by for c in found.chosen):
        of = [c for c in found.chosen if c.by == by]
        decade, wrong = max(c.error.decade for c in of), sum(c.error.wrong for c in of)
        points, forms = sum(c.points for c in of), sum(c.forms for c in of)
        but = f" but {wrong}, where every form is wrong" if wrong else ""
        yield f"{by} within 1e{decade} at {points} points{but}, the best of {forms} form{'s' * (forms > 1)}"


def _known(text: str) -> dict[tuple[str, str], str]:
    """Return the entries of a derived.yaml by schema and definition, as text; none of a damaged file."""
    if not text.strip():
        return {}
    try:
        return dict(_each(parse_entries(text, DERIVED)))
    except SpecError:
        return {}


def _each(entries: Sequence[Entry]) -> Iterator[tuple[tuple[str, str], str]]:
    for entry in entries:
        fields = {key: value.value for key, value in entry.fields.items() if isinstance(value, Text)}
        written = "- " + "\n  ".join(f"{key}: {value}" for key, value in fields.items()) + "\n"
        yield (fields.get(NAME, ""), fields.get(DEFINITION, "")), written
