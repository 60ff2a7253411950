"""The variants of an operator: which can be derived, what `out=` asks for, and which overloads are ambiguous.

`autogen:` derives in-place, out and copy variants from an entry, and a functional one from an in-place entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ..errors import SpecError, did_you_mean
from ..reading.text import Entry, Text
from ..schema import FunctionSchema, OperatorName, SchemaError, Type
from .keys import OUT_DTYPES, OUT_MEMORY, words_of


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


def out_words(entry: Entry, schema: FunctionSchema, derived: Sequence[Variant]) -> tuple[str, ...]:
    """The words of `out:`.

    Raises:
        SpecError: for two words about one thing, and where no variant takes `out=`.
    """
    words = words_of(entry, "out")
    if words and not any(v.kind in ("out", "copy_out") for v in derived):
        hint = "remove it, or list the variant under `autogen:`"
        raise entry.keys["out"].error(f"`{schema.name}` has no out variant, so that `out` has no meaning", hint)
    for kind in (OUT_DTYPES, OUT_MEMORY):
        same: list[SpecError] = [
            w.error(f"`{w.value}` contradicts another word of `out`", f"keep one of {', '.join(kind)}")
            for w in words
            if w.value in kind
        ]
        if len(same) > 1:
            raise same[-1]
    return tuple(w.value for w in words)


def out_takes(
    words: Sequence[str], type_promotion: str | None, tags: Sequence[str], is_composite: bool
) -> tuple[str, ...]:
    """What `write_out` has to know beyond what holds for most operators: 'same_dtype', 'shared', 'apart'.

    Elementwise operators and others that promote their inputs' dtypes cast to whatever can hold the result, and in
    PyTorch write while they read, so that `out` must be all of an input or nothing of it. So do most composites. What
    has a kernel and promotes nothing gives its input's dtype, and may write to what it has read.

    Args:
        words: of the key `out`.
        type_promotion, tags: as in the entry.
        is_composite: whether it is made of other operators.
    """
    promotes = type_promotion not in (None, "none")
    dtype = next((w for w in words if w in OUT_DTYPES), "castable" if promotes or is_composite else "same_dtype")
    writes_while_reading = promotes or "pointwise" in tags or (is_composite and "reduction" not in tags)
    memory = next((w for w in words if w in OUT_MEMORY), "aligned" if writes_while_reading else "shared")
    return tuple(w for w in (dtype, memory) if w not in ("castable", "aligned"))
