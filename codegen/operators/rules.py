"""The keys `shape:`, `shard:`, `onnx:`, `foreach:` and `fused:`: rules, which are functions in the room of a feature.

Note [Rules in entries]
A rule is a function in a folder of `src/gradloom`: `images.pool` is `pool` in images.py there, and a name without a dot
is in general.py. The room calls it with parameters of its own and the arguments that the entry gives, as in
`images.pool(2, 2)`. The annotations of the parameters say what an entry may give:

    int             a number
    ArgumentName    an argument of the operator
    OperatorName    an operator of the same file
    Literal["sum"]  one of the words
    str             a name that the room knows

A new rule is therefore a function, and this module knows none by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import did_you_mean, shorten
from ..language.kernels import check_named
from ..reading.python_files import FunctionIndex, Signature
from ..reading.yaml_files import Entry, Text
from ..schema import FunctionSchema


@dataclass(frozen=True, slots=True)
class Room:
    """A feature whose rules entries name: the key, the folder of the rules, and the parameters that the feature gives
    to each; what the entry gives comes after them, or before them if the operator's arguments come after."""

    key: str
    folder: str
    given: tuple[str, ...]
    takes_arguments: bool = False

    def of_entry(self, signature: Signature) -> tuple[str, ...] | None:
        """Return the parameters that an entry gives to a rule; None for a function that is no rule."""
        names, count = signature.first if self.takes_arguments else signature.positional or (), len(self.given)
        at = names.index(self.given[0]) if self.takes_arguments and self.given[0] in names else 0
        if names[at : at + count] != self.given:
            return None
        return names[:at] if self.takes_arguments else names[count:]


SHAPE = Room("shape", "meta/rules", ("run", "values"))
SHARD = Room("shard", "distributed/tensor/rules", ("call",))
ONNX = Room("onnx", "onnx/rules", ("b", "node"), takes_arguments=True)
FOREACH = Room("foreach", "ops/lists", ("record",))
FUSED = Room("fused", "optim/fused_rules", ("lists", "options"))
ROOMS = (SHAPE, SHARD, ONNX, FOREACH, FUSED)


@dataclass(frozen=True, slots=True)
class Rule:
    """The value of a key: the function of the room, what the entry gives it, and the operators among that."""

    name: str
    arguments: tuple[int | str, ...] = ()
    operators: tuple[Text, ...] = ()

    @property
    def fact(self) -> tuple[int | str, ...]:
        """The value of the record."""
        return (self.name, *self.arguments)


_FORM = re.compile(r"\s*([A-Za-z_]\w*(?:\.\w+)?)\s*(?:\(([^()]*)\))?\s*")
_NOTATION = re.compile(r"\+?[A-Za-z.]*(,\+?[A-Za-z.]*)*->[A-Za-z.]*(,[A-Za-z.]*)*")
_GENERAL = "general"


def rule_of(entry: Entry, schema: FunctionSchema, room: Room, index: FunctionIndex) -> Rule | None:
    """Return the value of a room's key in an entry, None if it is absent. Raises SpecError at the offending word."""
    text = entry.get(room.key)
    if not isinstance(text, Text):
        return None
    if "->" in text.value and room is SHARD:
        return Rule("indices", (_checked_notation(text, schema),))
    found = _FORM.fullmatch(text.value)
    if found is None:
        hint = f"write `rule` or `rule(argument)`; the rules are in {room.folder}/: {', '.join(_general(room, index))}"
        raise text.error(f"`{shorten(text.value)}` is not the name of a rule", hint)
    signature = _signature(text, found, room, index)
    words = list(_words(text, found))
    names = room.of_entry(signature) or ()
    required = [name for name in names if name in signature.required]
    if not len(required) <= len(words) <= len(names):
        hint = f"write `{found[1]}({', '.join(names)})`" if names else f"write `{found[1]}`"
        takes = ", ".join(f"`{name}`" for name in names) or "nothing"
        raise text.error(f"`{found[1]}` takes {takes}", hint, found.start(1), len(text.value.rstrip()))
    values, operators = [], []
    for word, name in zip(words, names, strict=False):
        kind = signature.words.get(name, frozenset())
        values.append(_value(word, kind, found[1], name, schema))
        if "OperatorName" in kind:
            operators.append(word)
    return Rule(found[1], tuple(values), tuple(operators))


def _signature(text: Text, found: re.Match[str], room: Room, index: FunctionIndex) -> Signature:
    """Return the signature of the function that a value names. Raises SpecError if it is no rule."""
    name = text.word(found.start(1), len(found[1]))
    if "." not in name.value:
        general = _general(room, index)
        if name.value not in general:
            hint = did_you_mean(name.value, general) or f"the rules are {', '.join(general)}, or `file.function`"
            raise name.error(f"there is no rule `{name.value}` in {room.folder}/{_GENERAL}.py", hint)
        return general[name.value]
    check_named(name, index)
    file, _, function = name.value.partition(".")
    signature = index.functions(file)[function]
    if room.of_entry(signature) is None:
        hint = f"it lacks the parameters `{', '.join(room.given)}`, or a decorator hides them"
        raise name.error(f"`{name.value}` is not a rule", hint)
    return signature


def _general(room: Room, index: FunctionIndex) -> dict[str, Signature]:
    """Return the rules that need no file before their name."""
    return {name: s for name, s in index.functions(_GENERAL).items() if room.of_entry(s) is not None}


def _words(text: Text, found: re.Match[str]) -> Iterator[Text]:
    """Yield the arguments between the parentheses."""
    if found[2] is None or not found[2].strip():
        return
    start = found.start(2)
    for part in found[2].split(","):
        inner = part.strip()
        yield text.word(start + len(part) - len(part.lstrip()), len(inner))
        start += len(part) + 1


def _value(word: Text, kind: frozenset[str], rule: str, name: str, schema: FunctionSchema) -> int | str:
    """Return an argument of a rule. Raises SpecError if its parameter is for something else."""
    if "int" in kind:
        if word.value.isdigit():
            return int(word.value)
        raise word.error(f"`{name}` of `{rule}` is a number", f"write a number instead of `{shorten(word.value)}`")
    if "OperatorName" in kind:
        return word.value
    if "str" in kind:
        if word.value.isidentifier():
            return word.value
        raise word.error(f"`{name}` of `{rule}` is a name", f"write a name instead of `{shorten(word.value)}`")
    if "ArgumentName" in kind:
        known = [a.name for a in schema.inputs]
        hint = did_you_mean(word.value, known) or f"its arguments are {', '.join(known) or 'none'}"
        message = f"`{schema.name}` has no argument `{shorten(word.value)}`"
    else:
        known = sorted(text.strip("'") for text in kind if text.startswith("'"))
        hint = did_you_mean(word.value, known) or f"it is one of {', '.join(known)}"
        message = f"`{name}` of `{rule}` is not `{shorten(word.value)}`"
    if word.value not in known:
        raise word.error(message, hint)
    return word.value


def _checked_notation(text: Text, schema: FunctionSchema) -> str:
    """Return a rule in index notation that fits the tensors of a schema. Raises SpecError."""
    value = text.value.replace(" ", "")
    if _NOTATION.fullmatch(value) is None:
        hint = "write letters for the dimensions of each tensor, as in `ik,kj->ij`"
        raise text.error(f"`{shorten(text.value)}` is not index notation", hint)
    left, _, right = value.partition("->")
    tensors = [a.name for a in schema.inputs if a.type.is_tensor_like]
    for labels, names, what in (
        (left, tensors, "tensor argument(s)"),
        (right, [str(r) for r in schema.returns], "result(s)"),
    ):
        count = len(labels.split(","))
        if count != len(names):
            hint = f"they are {', '.join(names) or 'none'}"
            raise text.error(f"`{text.value}` is for {count} {what}, `{schema.name}` has {len(names)}", hint)
    return value
