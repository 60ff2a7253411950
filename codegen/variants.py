"""The variants that `autogen:` derives from an entry: in-place, out, copy, and functional from in-place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .errors import SpecError
from .schema import FunctionSchema, OperatorName, SchemaError, did_you_mean
from .text import Text


@dataclass(frozen=True, slots=True)
class Variant:
    """A derived operator. kind: 'functional', 'inplace', 'out', 'copy' or 'copy_out'; text: its word in
    `autogen:`.
    """

    kind: str
    schema: FunctionSchema
    text: Text

    @property
    def name(self) -> str:
        return str(self.schema.name)


_MAKERS: dict[str, Callable[[FunctionSchema], FunctionSchema]] = {
    "functional": FunctionSchema.as_functional,
    "inplace": FunctionSchema.as_inplace,
    "out": FunctionSchema.as_out,
    "copy": FunctionSchema.as_copy,
    "copy_out": lambda schema: schema.as_copy().as_out(),
}


def variant_names(name: OperatorName) -> dict[str, str]:
    """The names that `autogen:` may give for an operator, and the kind of variant that each means.

    The overload of the operator is kept (`add_.Tensor`, `add.Tensor_out`) or, where the name is free, left
    out (`add_`, `add.out`), as PyTorch's file has it.
    """
    overload = name.overload
    outs = [f"{overload}_out", "out"] if overload else ["out"]
    names: dict[str, str] = {}
    plain = replace(name, inplace=False)
    copy = replace(plain, base=plain.base + "_copy")
    for kind, base in (("functional", plain), ("inplace", replace(plain, inplace=True)), ("copy", copy)):
        for kept in dict.fromkeys((overload, "")):
            names.setdefault(str(replace(base, overload=kept)), kind)
    for kind, base in (("out", plain), ("copy_out", copy)):
        for out in outs:
            names.setdefault(str(replace(base, overload=out)), kind)
    return {n: kind for n, kind in names.items() if n != str(name)}


def derive(schema: FunctionSchema, word: Text) -> Variant:
    """The variant of `schema` that a word of `autogen:` names.

    Raises SpecError at the word: no variant has that name, or the operator has no such variant.
    """
    names = variant_names(schema.name)
    kind = names.get(word.value)
    if kind is None:
        possible = {n: k for n, k in names.items() if _is_possible(schema, k)}
        close = did_you_mean(word.value, possible) if word.value != str(schema.name) else ""
        hint = f"its variants are {', '.join(f'`{n}`' for n in possible)}" if possible else "it has no variants"
        raise word.error(f"`{word.value}` is not a variant of `{schema.name}`", f"{close} {hint}".strip())
    try:
        derived = _MAKERS[kind](schema)
    except SchemaError as error:
        raise word.error(error.message, error.hint) from None
    if derived == schema or (kind == "functional" and schema.kind == "functional"):
        raise word.error(f"`{schema.name}` is that variant already", "remove it from `autogen:`")
    return Variant(kind, replace(derived, name=OperatorName.parse(word.value)), word)


def _is_possible(schema: FunctionSchema, kind: str) -> bool:
    if kind == "functional" and schema.kind == "functional":
        return False
    try:
        return _MAKERS[kind](schema) != schema
    except SchemaError:
        return False


def schema_error(text: Text, error: SchemaError) -> SpecError:
    """A SchemaError at its place in the file."""
    return text.error(error.message, error.hint, error.offset, error.length)
