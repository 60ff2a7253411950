"""The keys of an entry about a tensor given as `out=`: the words of `out:` and the templates of `out_error:`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import SpecError, did_you_mean, shorten
from ..reading.yaml_files import Entry, Node, Text, TextList
from ..schema import FunctionSchema
from .keys import OUT_DTYPES, OUT_MEMORY, OUT_RESULTS, OUT_SIZE, words_of

# What a template may name: the dtypes of the result and of the tensor, as in Float and as in float, and whether the
# result has dtype int32.
ERROR_NAMES = ("result", "out", "c_result", "c_out", "is_int32")
_NAMED = re.compile(r"\{(?P<name>[^{}]*)\}|[{}]")


def out_words(entry: Entry, schema: FunctionSchema, has_out: bool) -> tuple[str, ...]:
    """Return the words of `out:`. Raises SpecError for two words about one thing, or if no variant takes `out=`."""
    words = words_of(entry, "out")
    _check_has_out(entry, "out", schema, has_out)
    for kind in (OUT_DTYPES, OUT_MEMORY, OUT_SIZE):
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
    """Return an operator's requirements for a tensor given as `out=`, if they are not the usual ones: a word of
    OUT_DTYPES but `castable`, of OUT_MEMORY but `aligned`, of OUT_SIZE and of OUT_RESULTS.

    Elementwise operators and others that promote their inputs' dtypes cast to any dtype that can hold the result.
    PyTorch's write while they read, so that `out` must coincide with an input or share nothing with it; so do most
    composites. An operator with a kernel that promotes nothing returns its input's dtype, and may write to its inputs.
    """
    promotes = type_promotion not in (None, "none")
    dtype = next((w for w in words if w in OUT_DTYPES), "castable" if promotes or is_composite else "same_dtype")
    writes_while_reading = promotes or "pointwise" in tags or (is_composite and "reduction" not in tags)
    memory = next((w for w in words if w in OUT_MEMORY), "aligned" if writes_while_reading else "shared")
    others = [w for w in words if w in (*OUT_SIZE, *OUT_RESULTS)]
    return tuple(w for w in (dtype, memory, *others) if w not in ("castable", "aligned"))


def out_errors(entry: Entry, schema: FunctionSchema, has_out: bool) -> tuple[str, ...]:
    """Return the templates of `out_error:`, one for each result.

    Raises SpecError if their number is wrong, one names something unknown, or no variant takes `out=`.
    """
    node = entry.get("out_error")
    _check_has_out(entry, "out_error", schema, has_out)
    if node is None:
        return ()
    results = schema.as_functional().returns
    if isinstance(node, TextList):
        if len(node.items) != len(results):
            hint = "write one template for each result, or a single one for all"
            given = f"`out_error` has {len(node.items)} template(s) for {len(results)} result(s)"
            raise entry.keys["out_error"].error(given, hint)
        return tuple(_template(item) for item in node.items)
    return (_template(node),) * len(results)


def _template(node: Node) -> str:
    """Return the text of a template. Raises SpecError at an unknown name or a brace without its partner."""
    if not isinstance(node, Text):
        raise node.error("`out_error` is not text", "write the error, or a list with one for each result")
    for found in _NAMED.finditer(node.value):
        name = found["name"]
        if name in ERROR_NAMES:
            continue
        start, length = found.start(), len(found[0])
        known = f"it may name {', '.join(f'`{{{n}}}`' for n in ERROR_NAMES)}"
        if name is None:
            raise node.error("a brace without its partner", known, start, length)
        hint = did_you_mean(name, ERROR_NAMES) or known
        raise node.error(f"unknown name `{shorten(name)}` in `out_error`", hint, start, length)
    return node.value


def _check_has_out(entry: Entry, key: str, schema: FunctionSchema, has_out: bool) -> None:
    if key in entry and not has_out:
        hint = "remove it, or list the variant under `autogen:`"
        raise entry.keys[key].error(f"`{schema.name}` has no out variant, so that `{key}` has no meaning", hint)
