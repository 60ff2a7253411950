"""The keys of an entry in native_functions.yaml. A new key is one line in `KEYS`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import SpecError, shorten
from .foreign_words import NATIVE_KEYS
from .schema import FunctionSchema, did_you_mean
from .text import Entry, Node, Text, TextList, TextMap


@dataclass(frozen=True, slots=True)
class Key:
    """kind: 'text', 'words' (separated by commas, or a YAML list) or 'any'; known: the words that may be
    given.
    """

    kind: str
    doc: str
    known: tuple[str, ...] = ()
    required: bool = False


VARIANTS = ("function", "method", "internal")

PYTHON_MODULES = ("nn", "linalg", "fft", "special")

TAGS = (
    "core", "pointwise", "reduction", "view_copy", "inplace_view", "nondeterministic_seeded",
    "nondeterministic_bitwise", "dynamic_output_shape", "data_dependent_output", "maybe_aliasing_or_mutating",
    "replayed",
)  # fmt: skip

TYPE_PROMOTIONS = ("default", "int_to_float", "always_bool", "default_with_numbers", "no_bool", "none")

AUTOCASTS = ("lower_precision", "fp32", "promote")

# of a tensor given as out=: its dtype, and which memory it may have in common with the inputs
OUT_DTYPES = ("castable", "same_dtype")
OUT_MEMORY = ("shared", "aligned", "apart")

KEYS = {
    "func": Key("text", "the schema", required=True),
    "kernel": Key("text", "what computes it: `family.function` or an array expression"),
    "composite": Key("text", "instead of a kernel: `family.function` in composite/, made of other operators"),
    "variants": Key("words", "`function`, `method` or both, or `internal`; a function by default", VARIANTS),
    "autogen": Key("words", "the variants to derive: `name_`, `name.out`, `name_copy`"),
    "tags": Key("words", "what analysis and tests may rely on", TAGS),
    "python_module": Key("text", "the namespace that it is in, besides the main one", PYTHON_MODULES),
    "top_level": Key("text", "whether an operator of a package is a function of gradloom itself, too", ("true",)),
    "family": Key("text", "the generated file that it goes to, where the kernel does not tell"),
    "type_promotion": Key("text", "how the dtypes of the inputs make the dtype of the result", TYPE_PROMOTIONS),
    "promotes": Key("words", "the tensor arguments that type promotion brings to one dtype; all by default"),
    "accepts_number": Key("words", "the tensor arguments that may also be given as a Python number"),
    "number_overload": Key("text", "the overload that it is if its second argument, a tensor, is a Python number"),
    "infix": Key("text", "how formulas write it: between a tensor and a number", ("+", "-", "*", "/")),
    "batch": Key("text", "how vmap computes it for a batch, where that does not follow from the rest"),
    "autocast": Key("text", "to which dtype autocast brings its floating tensor arguments", AUTOCASTS),
    "out": Key("words", "what it asks of `out=`, where that does not follow", (*OUT_DTYPES, *OUT_MEMORY)),
    "half_numbers": Key("text", "`exact` if a number keeps its digits beside half precision", ("exact",)),
    "on_real": Key("text", "`self` where it gives a real tensor back as it is", ("self",)),
    "domain": Key("any", "where tests may take samples from"),
}

# Keys that PyTorch's file has and this one has not: the errors say what to write here.
_PYTORCH_KEYS = {
    "dispatch": "`kernel:` says what computes the operator",
    "structured": "remove it; in-place and out variants come from `autogen:`",
    "structured_delegate": "remove it; list the variant under `autogen:` of the functional entry",
    "structured_inherits": "remove it",
    "ufunc_inner_loop": "`kernel:` says what computes the operator",
    "precomputed": "remove it",
    "device_check": "remove it; devices are always checked",
    "device_guard": "remove it",
    "cpp_no_default_args": "remove it; there is no C++",
    "manual_cpp_binding": "remove it; there is no C++",
    "use_const_ref_for_mutable_tensors": "remove it; there is no C++",
    "category_override": "remove it",
}

_DOMAIN = "write between which numbers samples are to be: `{self: [0.2, 3]}`"
_WORDS = "write words, separated by commas"


def check_keys(entry: Entry) -> list[SpecError]:
    """Unknown and missing keys, and values of the wrong kind; empty if the entry can be read."""
    errors = []
    for name, key in entry.keys.items():
        if name not in KEYS:
            hint = (
                _PYTORCH_KEYS.get(name)
                or NATIVE_KEYS.get(name)
                or did_you_mean(name, KEYS)
                or "remove it; docs/yaml-language.md lists the keys"
            )
            errors.append(key.error(f"unknown key `{shorten(name)}`", hint))
        else:
            error = _wrong_kind(key, KEYS[name].kind, entry.fields[name])
            if error is not None:
                errors.append(error)
    for name, spec in KEYS.items():
        if spec.required and name not in entry:
            errors.append(entry.error(f"the entry has no `{name}`", f"add `{name}:`, {spec.doc}"))
    return errors


def _wrong_kind(key: Text, kind: str, node: Node) -> SpecError | None:
    name = key.value
    if isinstance(node, Text):
        if node.value.strip():
            return None
        return key.error(f"`{name}` is empty", f"write {KEYS[name].doc}, or remove the key")
    if kind == "any":
        return None
    what = "a list" if isinstance(node, TextList) else "a mapping"
    if kind == "words" and isinstance(node, TextList):
        bad = next((item for item in node.items if not isinstance(item, Text) or not item.value.strip()), None)
        return (
            None if bad is None else bad.error(f"an item of `{name}` is not a word", "write words, separated by commas")
        )
    hint = "put the whole value in quotes" if kind == "text" else "write words, separated by commas"
    return node.error(f"`{name}` is {what}, not text", hint)


def check_domain(entry: Entry, schema: FunctionSchema) -> Node | None:
    """The value of `domain:`, which gives arguments two numbers each. Raises SpecError at the part that is wrong."""
    node = entry.get("domain")
    if node is None:
        return None
    if not isinstance(node, TextMap):
        raise node.error("`domain` says no argument", _DOMAIN)
    names = [a.name for a in schema.inputs]
    for word, value in node.fields.items():
        if word not in names:
            hint = did_you_mean(word, names) or f"its arguments are {', '.join(names) or 'none'}"
            raise node.keys[word].error(f"`{schema.name}` has no argument `{shorten(word)}`", hint)
        items = value.items if isinstance(value, TextList) else ()
        numbers = [_number(item) for item in items]
        if len(numbers) != 2 or None in numbers or not numbers[0] < numbers[1]:  # type: ignore[operator]
            raise value.error(f"the domain of `{word}` is not two numbers, the smaller first", _DOMAIN)
    return node


def _number(node: Node) -> float | None:
    try:
        number = float(node.value) if isinstance(node, Text) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def words_of(entry: Entry, name: str) -> list[Text]:
    """The words of a key, [] where it is absent. Raises SpecError for an empty, repeated or unknown word."""
    node = entry.get(name)
    if node is None:
        return []
    words = node.words() if isinstance(node, Text) else list(node.items)  # type: ignore[union-attr]
    seen: set[str] = set()
    for word in words:
        if not word.value:
            raise word.error(f"an empty word in `{name}`", "remove the comma too many")
        if word.value in seen:
            raise word.error(f"`{shorten(word.value)}` occurs twice in `{name}`", "remove one of them")
        seen.add(word.value)
        _check_known(name, word)
    return words


def word_of(entry: Entry, name: str) -> str | None:
    """The word that a text key holds, None where it is absent. Raises SpecError for an unknown one."""
    node = entry.get(name)
    if not isinstance(node, Text):
        return None
    _check_known(name, node)
    return node.value


def _check_known(name: str, word: Text) -> None:
    known = KEYS[name].known
    if known and word.value not in known:
        hint = did_you_mean(word.value, known) or f"known are: {', '.join(known)}"
        raise word.error(f"unknown word `{shorten(word.value)}` in `{name}`", hint)
