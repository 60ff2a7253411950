"""Finds overloads of one Python name whose calls cannot be told apart."""

from __future__ import annotations

from collections.abc import Iterable

from .schema import FunctionSchema, Type

_SAME_IN_PYTHON = {"SymInt": "int", "SymBool": "bool", "DeviceIndex": "int"}

# Positional parameters, how many of them are required, and keyword-only parameters: (name, type, required).
CallShape = tuple[tuple[str, ...], int, frozenset[tuple[str, str, bool]]]


def call_shape(schema: FunctionSchema) -> CallShape:
    """What a call looks like to the code that picks an overload; names of positional arguments do not
    count.
    """
    positional = [a for a in schema.inputs if not a.kwarg_only]
    keywords = [a for a in schema.inputs if a.kwarg_only]
    return (
        tuple(_python_type(a.type) for a in positional),
        sum(a.default is None for a in positional),
        frozenset((a.name, _python_type(a.type), a.default is None) for a in keywords),
    )


def spell(schema: FunctionSchema) -> str:
    """A call as a message shows it: `add(Tensor, Scalar)`."""
    positional, required, _ = call_shape(schema)
    parts = [t if i < required else f"[{t}]" for i, t in enumerate(positional)]
    return f"{schema.name.name}({', '.join(parts)})"


def ambiguous_pairs(group: Iterable[tuple[FunctionSchema, frozenset[str]]]) -> list[tuple[int, int]]:
    """The positions (earlier, later) of overloads with equal calls, in a group of one Python name.

    Each member comes with its variants ('function', 'method'); a function is never confused with a method. An
    out variant shares the function of its functional form and is left out.
    """
    first: dict[tuple[str, CallShape], int] = {}
    pairs = []
    for i, (schema, variants) in enumerate(group):
        if schema.kind == "out":
            continue
        shape = call_shape(schema)
        earlier = [first[v, shape] for v in sorted(variants) if (v, shape) in first]
        if earlier:
            pairs.append((earlier[0], i))
        for variant in variants:
            first.setdefault((variant, shape), i)
    return pairs


def _python_type(type_: Type) -> str:
    base = _SAME_IN_PYTHON.get(type_.base.name, type_.base.name)
    return base + "[]" if type_.is_list else base
