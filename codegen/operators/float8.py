"""The key `float8:` of an entry: what the operator does with tensors of 8-bit floats.

Note [Float8 tensors] in src/gradloom/float8/__init__.py says how calls are answered by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import did_you_mean, shorten
from ..reading.yaml_files import Entry, Node, Text, TextMap
from ..schema import FunctionSchema

# For how many elements it computes: all numbers of them, all by rounding what float32 gives, none, one, or both.
COMPUTES = ("all", "in_float32", "empty", "one", "empty_or_one")
_SHORT = {"computes": "all", "in_float32": "in_float32"}
_PARTS = ("computes", "error", "number_error", "e8m0")
_FORM = "write `computes`, `in_float32`, the error, or `{error: name_cpu, computes: empty}`"


@dataclass(frozen=True, slots=True)
class Float8:
    """The value of `float8:`.

    Attributes:
        computes: for how many elements it computes, a word of COMPUTES; empty if it refuses all.
        error: the error otherwise: the name that PyTorch's message quotes, or a message with {} for the dtype.
        number_error: the error for a number or a 0-dimensional tensor as the second operand.
        e8m0: the same for float8_e8m0fnu, if that is another case.
    """

    computes: str = ""
    error: str = ""
    number_error: str = ""
    e8m0: Float8 | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The three texts, without empty ones at the end."""
        texts = [self.computes, self.error, self.number_error]
        while texts and not texts[-1]:
            texts.pop()
        return tuple(texts)


def float8_of(entry: Entry, schema: FunctionSchema) -> Float8 | None:
    """Return the value of an entry's `float8:`. Raises SpecError at the offending word."""
    node = entry.get("float8")
    if node is None:
        return None
    if not any(a.type.is_tensor_like for a in schema.inputs):
        hint = "remove it; there is nothing to compute with"
        raise entry.keys["float8"].error(
            f"`{schema.name}` has no tensor argument, so that `float8` has no meaning", hint
        )
    return _read(node, "float8")


def _read(node: Node, key: str) -> Float8:
    if isinstance(node, Text):
        word = _SHORT.get(node.value)
        return Float8(computes=word) if word is not None else Float8(error=_error(node))
    if not isinstance(node, TextMap):
        raise node.error(f"`{key}` is a list", _FORM)
    parts = [part for part in _PARTS if part != key]
    for name in node.keys.values():
        if name.value not in parts:
            hint = did_you_mean(name.value, parts) or f"its parts are {', '.join(parts)}"
            raise name.error(f"unknown part `{shorten(name.value)}` of `{key}`", hint)
    computes, error = _computes(node), node.get("error")
    if (error is None) != (computes in ("all", "in_float32")):
        what = "has an error and computes all" if error is not None else "neither computes all nor has an error"
        raise node.error(f"`{key}` {what}", "write an error, unless it computes for any number of elements")
    number_error, e8m0 = node.get("number_error"), node.get("e8m0")
    return Float8(
        computes,
        "" if error is None else _error(error),
        "" if number_error is None else _error(number_error),
        None if e8m0 is None else _read(e8m0, "e8m0"),
    )


def _computes(node: TextMap) -> str:
    word = node.get("computes")
    if word is None:
        return ""
    if not isinstance(word, Text) or word.value not in COMPUTES:
        shown = word.value if isinstance(word, Text) else ""
        hint = did_you_mean(shown, COMPUTES) or f"the known words are {', '.join(COMPUTES)}"
        raise word.error(f"unknown word `{shorten(shown)}` in `computes`", hint)
    return word.value


def _error(node: Node) -> str:
    """Return the text of an error. Raises SpecError for a brace that is not one of `{}`."""
    if not isinstance(node, Text):
        raise node.error("an error of `float8` is not text", "put the whole error in quotes")
    wrong = re.search(r"[{}]", node.value.replace("{}", "  "))
    if wrong is not None:
        raise node.error("a brace in an error of `float8`", "write `{}` for the dtype", wrong.start(), 1)
    return node.value
