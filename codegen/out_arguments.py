"""What an operator asks of a tensor given as `out=`: its dtype, and the memory that it shares with the inputs."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import SpecError
from .native_keys import OUT_DTYPES, OUT_MEMORY, words_of
from .schema import FunctionSchema
from .text import Entry
from .variants import Variant


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
