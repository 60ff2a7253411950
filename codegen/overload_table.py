"""The table of overloads: what the objects of gradloom.ops are made from, a row for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .schema import FunctionSchema
from .schema_types import Base
from .wrappers import Wrapper


@dataclass(frozen=True, slots=True)
class Row:
    """One overload.

    overload  its name, `default` for the one without
    wrapper   the unambiguous name of the wrapper that computes it
    schema    Python source of its text
    tags      separated by spaces, as are numbers: the tensor arguments that may be given as a Python number
    made_by   `kernel` or `composite`
    """

    overload: str
    wrapper: str
    schema: str
    tags: str
    numbers: str
    made_by: str


SCALAR = Base("Scalar")
# A variant is what it is because of how it is called, which says so among its tags; and it is none of the operators
# that others are made of.
_VARIANT_TAGS = {"inplace": "inplace", "out": "out"}


def overload_table(wrappers: Iterable[Wrapper]) -> list[tuple[str, list[Row]]]:
    """The overloads of each operator, its out variants after those that return a new result."""
    functional: dict[str, list[Row]] = {}
    out: dict[str, list[Row]] = {}
    for w in wrappers:
        name = w.schema.name.name
        functional.setdefault(name, []).extend(_row(w, schema) for schema in _with_numbers(w, w.schema))
        kind = "copy_out" if w.kind == "copy" else "out"
        for variant in w.native.derived if w.has_out else ():
            if variant.kind == kind:
                schemas = _with_numbers(w, w.schema)[1:]
                out.setdefault(name, []).extend(_row(w, s) for s in (variant.schema, *(s.as_out() for s in schemas)))
    return [(name, rows + out.get(name, [])) for name, rows in sorted(functional.items())]


def _with_numbers(w: Wrapper, schema: FunctionSchema) -> tuple[FunctionSchema, ...]:
    """The schema, and the one with a number for the second argument where that is an overload of its own."""
    if w.native.number_overload is None:
        return (schema,)
    first, second, *others = schema.arguments
    name = replace(schema.name, overload=w.native.number_overload)
    return schema, FunctionSchema(name, (first, replace(second, type=SCALAR), *others), schema.returns)


def _row(w: Wrapper, schema: FunctionSchema) -> Row:
    own = _VARIANT_TAGS.get(schema.kind)
    tags = sorted({*w.native.tags, own} - {"core"} if own else w.native.tags)
    numbers = " ".join(p.argument.name for p in w.parameters if p.number)
    return Row(
        schema.name.overload or "default",
        w.own_name,
        repr(str(schema)),
        " ".join(tags),
        numbers,
        "composite" if w.composite else "kernel",
    )
