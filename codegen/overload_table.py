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
        functional.setdefault(name, []).append(_row(w, w.schema))
        if compares(w):
            functional[name].append(_row(w, with_number(w.schema)))
        kind = "copy_out" if w.kind == "copy" else "out"
        for variant in w.native.derived if w.has_out else ():
            if variant.kind == kind:
                out.setdefault(name, []).append(_row(w, variant.schema))
                if compares(w):
                    out[name].append(_row(w, with_number(w.schema).as_out()))
    return [(name, rows + out.get(name, [])) for name, rows in sorted(functional.items())]


def compares(w: Wrapper) -> bool:
    """Whether PyTorch has an overload for comparing with a number, where one here takes both."""
    second = w.schema.arguments[1:2]
    return w.native.type_promotion == "always_bool" and w.schema.name.overload == "Tensor" and any(
        p.number and p.argument in second for p in w.parameters)


def with_number(schema: FunctionSchema) -> FunctionSchema:
    """The schema with a number for its second argument."""
    first, second, *others = schema.arguments
    return FunctionSchema(replace(schema.name, overload="Scalar"), (first, replace(second, type=SCALAR), *others),
                          schema.returns)


def _row(w: Wrapper, schema: FunctionSchema) -> Row:
    own = _VARIANT_TAGS.get(schema.kind)
    tags = sorted({*w.native.tags, own} - {"core"} if own else w.native.tags)
    numbers = " ".join(p.argument.name for p in w.parameters if p.number)
    return Row(schema.name.overload or "default", w.own_name, repr(str(schema)), " ".join(tags), numbers,
               "composite" if w.composite else "kernel")
