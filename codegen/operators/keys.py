"""The keys of an entry in native_functions.yaml, and their structured values.

A new key is one line in `KEYS`. `Families` finds the file in generated/ that an operator goes to, `batch_of` reads a
batching rule (Note [Batching rules] in src/gradloom/batching/rules/__init__.py describes the rules). The keys about a
tensor given as `out=` are read in out_tensors.py.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from ..errors import SpecError, did_you_mean, shorten
from ..language.kernels import KernelExpr, check_named
from ..reading.python_files import FunctionIndex, families_in
from ..reading.yaml_files import Entry, Node, Source, Text, TextList, TextMap
from ..schema import FunctionSchema


@dataclass(frozen=True, slots=True)
class Key:
    """A key of an entry. kind: 'text', 'words' (separated by commas, or a YAML list) or 'any'; known: allowed words."""

    kind: str
    doc: str
    known: tuple[str, ...] = ()
    required: bool = False


VARIANTS = ("function", "method", "function_", "internal")

PYTHON_MODULES = ("nn", "linalg", "fft", "special")

TAGS = (
    "core", "pointwise", "reduction", "view_copy", "inplace_view", "nondeterministic_seeded",
    "nondeterministic_bitwise", "dynamic_output_shape", "data_dependent_output", "maybe_aliasing_or_mutating",
    "replayed", "one_device", "mixed_devices",
)  # fmt: skip

TYPE_PROMOTIONS = (
    "default",
    "int_to_float",
    "always_bool",
    "default_with_numbers",
    "default_if_fitting",
    "no_bool",
    "no_integer_quotient",
    "none",
)

AUTOCASTS = ("lower_precision", "fp32", "promote", "lower_result")

# For a tensor given as out=: its dtype, the memory that it may share with the inputs, and what a wrong size does.
OUT_DTYPES = ("castable", "as_cat", "same_dtype", "same_or_uint8", "same_kind", "computed", "any_dtype")
OUT_MEMORY = ("shared", "aligned", "over_self", "apart")
OUT_SIZE = ("quiet", "counted", "counted_aloud", "fixed")
OUT_RESULTS = ("disjoint",)  # several results share no memory

# What a formula gives at a kink, where the slopes of both sides differ.
KINKS = {
    "zero": "zero",
    "side": "the slope of one side",
    "shared": "shared evenly by what is equal there",
    "selected": "the slope of one of the elements that are equal there",
    "nan": "NaN, an error, or numbers without meaning",
}

KEYS = {
    "func": Key("text", "the schema", required=True),
    "kernel": Key("text", "what computes it: `family.function` or an array expression"),
    "scalar": Key("text", "one element of the result of a pointwise operator, computed from one of each argument"),
    "over": Key("text", "the dimensions that `scalar:` combines, for operators on rows of elements"),
    "where": Key("any", "names of values in `scalar:`, beside `over:`"),
    "writes": Key("any", "what it writes to arguments, beside `over:`"),
    "composite": Key("text", "instead of a kernel: `family.function` in composite/, made of other operators"),
    "variants": Key(
        "words", "`function`, `method` or both, `function_` for its in-place variant, or `internal`", VARIANTS
    ),
    "autogen": Key("words", "the variants to derive: `name_`, `name.out`, `name_copy`"),
    "tags": Key("words", "what analysis and tests may rely on", TAGS),
    "python_module": Key("text", "the namespace that it is in, besides the main one", PYTHON_MODULES),
    "top_level": Key("text", "whether an operator of a package is a function of gradloom itself, too", ("true",)),
    "family": Key("text", "the generated file that it goes to, where the kernel does not tell"),
    "type_promotion": Key("text", "how the dtypes of the inputs make the dtype of the result", TYPE_PROMOTIONS),
    "promotes": Key("words", "the tensor arguments that type promotion brings to one dtype; all by default"),
    "accepts_number": Key("words", "the tensor arguments that may also be given as a Python number"),
    "deprecated_order": Key(
        "words", "all arguments in an order by position that callers may still use, with a warning"
    ),
    "deprecated": Key("text", "the call of another operator to write instead; a call warns"),
    "deprecated_because": Key("text", "why it is deprecated; every call warns"),
    "number_overload": Key("text", "the overload that it is if its second argument, a tensor, is a Python number"),
    "infix": Key("text", "how formulas write it: between a tensor and a number", ("+", "-", "*", "/")),
    "batch": Key("text", "how vmap computes it for a batch, where that does not follow from the rest"),
    "shape": Key("text", "how the meta device finds the shapes of its results, where that does not follow"),
    "shard": Key("text", "how it is computed from parts of its tensors, where that does not follow"),
    "onnx": Key("text", "the rule by which it is exported to ONNX"),
    "foreach": Key("text", "what an operator on lists computes for each tensor"),
    "fused": Key("text", "the step of an optimizer that an operator on lists is"),
    "autocast": Key("text", "to which dtype autocast brings its floating tensor arguments, or its result", AUTOCASTS),
    "float8": Key("any", "whether it computes with 8-bit floats, or the error"),
    "sparse": Key("words", "what computes it for sparse tensors: `family.function`, `values` or `stored_values`"),
    "out": Key(
        "words",
        "what it asks of `out=`, where that does not follow",
        (*OUT_DTYPES, *OUT_MEMORY, *OUT_SIZE, *OUT_RESULTS),
    ),
    "out_error": Key("any", "the error for an `out=` tensor of another dtype, where it has one of its own"),
    "half_numbers": Key("text", "`exact` if a number keeps its digits beside half precision", ("exact",)),
    "on_real": Key("text", "`self` where it gives a real tensor back as it is", ("self",)),
    "domain": Key("any", "where tests may take samples from"),
    "differentiable": Key("text", "`false` if its definition gets no derivative", ("false",)),
    "kinks": Key("words", "what its formulas give where it has no derivative", tuple(KINKS)),
}

# Keys of PyTorch's file that this one lacks, with hints.
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
    """Return errors for unknown and missing keys and for values of the wrong kind; none if the entry can be read."""
    errors = []
    for name, key in entry.keys.items():
        if name not in KEYS:
            hint = (
                _PYTORCH_KEYS.get(name)
                or _FOREIGN_KEYS.get(name)
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
        return None if bad is None else bad.error(f"an item of `{name}` is not a word", _WORDS)
    hint = "put the whole value in quotes" if kind == "text" else _WORDS
    return node.error(f"`{name}` is {what}, not text", hint)


def check_domain(entry: Entry, schema: FunctionSchema) -> Node | None:
    """Return the value of `domain:`, two numbers for each argument. Raises SpecError at the offending part."""
    node = entry.get("domain")
    if node is None:
        return None
    if not isinstance(node, TextMap):
        raise node.error("`domain` names no argument", _DOMAIN)
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
    """Return the words of a key, [] if it is absent. Raises SpecError for an empty, repeated or unknown word."""
    node = entry.get(name)
    if node is None:
        return []
    words = node.words() if isinstance(node, Text) else list(node.items)  # type: ignore[union-attr]
    seen: set[str] = set()
    for word in words:
        if not word.value:
            raise word.error(f"an empty word in `{name}`", "remove the extra comma")
        if word.value in seen:
            raise word.error(f"`{shorten(word.value)}` occurs twice in `{name}`", "remove one of them")
        seen.add(word.value)
        _check_known(name, word)
    return words


def word_of(entry: Entry, name: str) -> str | None:
    """Return the word of a text key, None if it is absent. Raises SpecError for an unknown one."""
    node = entry.get(name)
    if not isinstance(node, Text):
        return None
    _check_known(name, node)
    return node.value


def _check_known(name: str, word: Text) -> None:
    known = KEYS[name].known
    if known and word.value not in known:
        hint = did_you_mean(word.value, known) or f"the known words are {', '.join(known)}"
        raise word.error(f"unknown word `{shorten(word.value)}` in `{name}`", hint)


DEFAULT_FAMILY = "elementwise"
SOURCE_FOLDERS = ("kernels", "composite", "formulas")

_BANNER = re.compile(r"^# == (\w+) ==$", re.MULTILINE)


class Families:
    """The families of a package, and the family of each entry of a file.

    The family is given by the first that exists: `family:` in the entry, the only family whose kernels or composite it
    names, the banner above it (a comment line `# == reduction ==`), the default. An entry appended to the end therefore
    needs no banner.
    """

    def __init__(self, package: Path | None, source: Source, default: str = DEFAULT_FAMILY) -> None:
        folders = () if package is None else (package / name for name in SOURCE_FOLDERS)
        self.known = frozenset(family for folder in folders for family in families_in(folder))
        banners = [m for m in _BANNER.finditer(source.text) if m[1] in self.known]
        self._default = default
        self._starts = [m.start() for m in banners]
        self._names = [m[1] for m in banners]

    def banners(self, text: str) -> list[str]:
        """Return the families of the banners in a text, in order."""
        return [m[1] for m in _BANNER.finditer(text) if m[1] in self.known]

    def below(self, banner: str) -> Families:
        """Return the families of entries that stand below a banner, in a text of their own."""
        found = copy(self)
        found._default, found._starts, found._names = banner, [], []
        return found

    def of(self, entry: Entry, kernel: KernelExpr | None, composite: str | None) -> str:
        """Return the family of an entry. Raises SpecError for an unknown word in `family:`."""
        told = word_of(entry, "family")
        if told is not None:
            if told not in self.known:
                hint = did_you_mean(told, sorted(self.known)) or f"the families are {', '.join(sorted(self.known))}"
                raise entry.fields["family"].error(f"unknown family `{told}`", hint)
            return told
        if composite is not None:
            return composite.split(".")[0]
        if kernel is not None and len(kernel.families) == 1:
            return kernel.families[0]
        above = bisect_left(self._starts, entry.start) - 1
        return self._names[above] if above >= 0 else self._default


# The arguments of each rule.
_NAMES, _NAME, _MAYBE_NAME, _COUNT, _OPERATOR, _NOTHING = "names", "name", "a name", "a count", "operator", "nothing"
RULES: Mapping[str, str] = {
    "pointwise": _NOTHING, "aligned": _NOTHING, "reduction": _NAME, "whole": _OPERATOR, "evenly": _OPERATOR,
    "dims": _NAMES, "inserted": _NAMES, "sizes": _NAMES, "fold": _COUNT, "loss": _NOTHING, "loss_backward": _NOTHING,
    "dynamic": _NOTHING, "random": _MAYBE_NAME, "loop": _NOTHING,
}  # fmt: skip
# The rules that name the operator over given dimensions.
WHOLE = frozenset(rule for rule, wants in RULES.items() if wants == _OPERATOR)
# The words besides arguments that `random` takes: a result like the input.
RANDOM_WORDS = ("like",)
_FORM = re.compile(r"\s*([A-Za-z_]\w*(?:\.\w+)?)\s*(?:\(([^()]*)\))?\s*")


@dataclass(frozen=True, slots=True)
class Batch:
    """The value of `batch:`."""

    rule: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}({', '.join(self.arguments)})" if self.arguments else self.rule


def batch_of(entry: Entry, schema: FunctionSchema, rules: FunctionIndex) -> Batch | None:
    """Return the value of an entry's `batch:`. Raises SpecError at the offending word."""
    text = entry.get("batch")
    if not isinstance(text, Text):
        return None
    found = _FORM.fullmatch(text.value)
    if found is None:
        hint = f"write a rule, such as `dims(dim)`, or `family.function`; the rules are {', '.join(RULES)}"
        raise text.error(f"`{shorten(text.value)}` is not a batching rule", hint)
    rule = found[1]
    arguments = tuple(word.strip() for word in found[2].split(",")) if found[2] and found[2].strip() else ()
    if "." in rule:
        check_named(text.word(found.start(1), len(rule)), rules)
        _check_names(text, schema, found, arguments)
    elif rule not in RULES:
        hint = did_you_mean(rule, RULES) or f"the rules are {', '.join(RULES)}"
        raise text.error(f"there is no batching rule `{rule}`", hint, found.start(1), len(rule))
    else:
        _check_arguments(text, schema, found, arguments)
    return Batch(rule, arguments)


def _check_arguments(text: Text, schema: FunctionSchema, found: re.Match[str], arguments: tuple[str, ...]) -> None:
    rule, wants = found[1], RULES[found[1]]
    problem = ""
    if wants == _NOTHING and arguments:
        problem = "takes nothing"
    elif wants in (_NAME, _COUNT, _OPERATOR) and len(arguments) != 1:
        problem = f"takes {'the name of one argument' if wants == _NAME else 'one ' + wants.removeprefix('a ')}"
    elif wants == _COUNT and not arguments[0].isdigit():
        problem = "takes a number of dimensions"
    elif wants == _MAYBE_NAME and len(arguments) > 1:
        problem = "takes at most one name"
    if problem:
        form = {
            _NOTHING: rule,
            _NAME: f"{rule}(dim)",
            _COUNT: f"{rule}(3)",
            _OPERATOR: f"{rule}(sum.dim_IntList)",
            _MAYBE_NAME: f"{rule}(size)",
        }[wants]
        raise text.error(f"`{rule}` {problem}", f"write `{form}`", found.start(1), len(text.value.rstrip()))
    if wants in (_NAMES, _NAME) or wants == _MAYBE_NAME and arguments and arguments[0] not in RANDOM_WORDS:
        _check_names(text, schema, found, arguments)


def _check_names(text: Text, schema: FunctionSchema, found: re.Match[str], arguments: tuple[str, ...]) -> None:
    names = [a.name for a in schema.inputs]
    for word in arguments:
        if word not in names:
            hint = did_you_mean(word, names) or f"its arguments are {', '.join(names) or 'none'}"
            raise text.error(
                f"`{schema.name}` has no argument `{shorten(word)}`",
                hint,
                text.value.index(word, found.start(2)),
                len(word),
            )


# Keys that users may expect from other projects, with hints.
_FOREIGN_KEYS = {
    **dict.fromkeys(("schema", "op"), "the schema is `func:`"),
    **dict.fromkeys(("module", "namespace"), "write `python_module:`"),
    **dict.fromkeys(("promotion", "dtype"), "write `type_promotion:`"),
    **dict.fromkeys(
        "impl implementation compute expression expr forward cpu CPU".split(),
        "`kernel:` says what computes the operator",
    ),
    **dict.fromkeys(
        "self result grad backward derivative formula jvp vjp gradient output_differentiability".split(),
        "how it differentiates is an entry of derivatives.yaml",
    ),
    **dict.fromkeys(
        "doc docs description help comment".split(),
        "the docstring is made of the schema and the derivative; a comment starts with `#`",
    ),
    **dict.fromkeys("out inplace inplace_variant out_variant".split(), "write `autogen: name_, name.out`"),
    "name": "in this file the schema is `func:`",
    "method": "write `variants: method`",
    "amp": "write `autocast:`",
}
