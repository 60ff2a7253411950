"""Sorts the keys of an entry in derivatives.yaml: formulas of inputs, formulas of outputs, the rest.

- name: <schema>                     the operator, as in native_functions.yaml
  self: <formula>                    one input
  self, other: <formula>             several inputs: the formula gives a tuple
  result: <formula>                  an output: forward mode
  output_differentiability: [...]    which outputs are differentiable
  override: true                     the derivative is for an operator of gradloom's, instead of what that has
  node: <name>                       the class of the backward node, where the rule for it does not give PyTorch's
  dispatch:                          instead of the above: a section with the same keys for each dispatch key
    Default: {...}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .errors import SpecError, shorten
from .foreign_words import derivative_key
from .formula import Formula, FormulaError, parse
from .schema import FunctionSchema, did_you_mean
from .text import Entry, Node, Text, TextList

NAME, DISPATCH, DIFFERENTIABILITY, NODE = "name", "dispatch", "output_differentiability", "node"
OVERRIDE = "override"
DEFAULT = "Default"
_NODE = re.compile(r"[A-Z][A-Za-z0-9]*Backward[A-Za-z0-9_]*")
NON_DIFFERENTIABLE = "non_differentiable"
_BACKENDS = (
    "CPU", "CUDA", "HIP", "XLA", "MTIA", "MAIA", "MPS", "XPU", "HPU", "Lazy", "Meta", "IPU", "Functionality",
    "Other", "NestedTensor", "PrivateUse1", "PrivateUse2", "PrivateUse3",
)  # fmt: skip
DISPATCH_KEYS = (DEFAULT, *(f"Autograd{backend}" for backend in _BACKENDS))


@dataclass(frozen=True, slots=True)
class FormulaLine:
    """A key that holds a formula: the names in it and the formula's text. `of` has the names as strings."""

    names: tuple[Text, ...]
    text: Text

    @property
    def of(self) -> tuple[str, ...]:
        return tuple(name.value for name in self.names)

    @property
    def word(self) -> str:
        """The formula without white space around it, to compare with `non_differentiable` and the like."""
        return self.text.value.strip()

    def parse(self) -> Formula:
        """Raises SpecError at the word that is outside of the formula language."""
        try:
            return parse(self.text.value)
        except FormulaError as error:
            raise self.error(error) from None

    def error(self, error: FormulaError) -> SpecError:
        return self.text.error(error.message, error.hint, error.offset, error.length)


@dataclass(frozen=True, slots=True)
class Section:
    """What an entry says for one dispatch key.

    Attributes:
        inputs, outputs: the formulas of either direction, in the order of the file.
        differentiability: the value of `output_differentiability`, or None.
        node: the value of `node`, or None.
        place: the text to which errors about the section as a whole belong.
    """

    dispatch_key: str
    inputs: tuple[FormulaLine, ...]
    outputs: tuple[FormulaLine, ...]
    differentiability: Node | None
    node: Text | None
    place: Text


def return_names(schema: FunctionSchema) -> tuple[str, ...]:
    """What formulas call the outputs: the schema's names, else `result`, or `result0` and so on if several.

    An operator that writes to its arguments returns those; they are results like others here.
    """
    count = len(schema.returns)
    fallback = ["result"] if count == 1 else [f"result{i}" for i in range(count)]
    return tuple(r.name or f for r, f in zip(schema.returns, fallback, strict=True))


def sections(entry: Entry, schema: FunctionSchema) -> tuple[Section, ...]:
    """The sections of an entry, one for each dispatch key.

    Raises:
        SpecError: for a key that is neither known nor an input or output of the operator.
    """
    name = entry.fields[NAME]
    assert isinstance(name, Text)
    dispatch = entry.get(DISPATCH)
    if dispatch is None:
        fields = {word: value for word, value in entry.fields.items() if word not in (NAME, OVERRIDE)}
        return (_section(entry, fields, schema, DEFAULT, name),)
    other = next((key for word, key in entry.keys.items() if word not in (NAME, DISPATCH, OVERRIDE)), None)
    if other is not None:
        hint = f"move it below a dispatch key, such as `{DEFAULT}:`"
        raise other.error(f"`{shorten(other.value)}` beside `{DISPATCH}:`", hint)
    if not isinstance(dispatch, Entry) or not dispatch.fields:
        key = entry.keys[DISPATCH]
        raise key.error("`dispatch` has no sections", f"write `{DEFAULT}:` and the formulas below it")
    return tuple(_dispatch_section(dispatch, word, schema) for word in dispatch.fields)


def _dispatch_section(dispatch: Entry, word: str, schema: FunctionSchema) -> Section:
    key, value = dispatch.keys[word], dispatch.fields[word]
    if word not in DISPATCH_KEYS:
        hint = did_you_mean(word, DISPATCH_KEYS) or f"the keys are {', '.join(DISPATCH_KEYS)}"
        raise key.error(f"unknown dispatch key `{shorten(word)}`", hint)
    if not isinstance(value, Entry):
        raise key.error(f"`{word}` has no formulas below it", "indent `<input>: <formula>` lines below it")
    return _section(value, value.fields, schema, word, key)


def _section(
    entry: Entry, fields: Mapping[str, Node], schema: FunctionSchema, dispatch_key: str, place: Text
) -> Section:
    inputs: list[FormulaLine] = []
    outputs: list[FormulaLine] = []
    seen: dict[str, Text] = {}
    arguments = {a.python_name for a in schema.inputs}
    returns = return_names(schema)
    for word, value in fields.items():
        if word in (DIFFERENTIABILITY, NODE):
            continue
        key = entry.keys[word]
        names = tuple(key.words())
        if not all(name.value for name in names):
            raise key.error(f"an empty name in the key `{shorten(word)}`", "remove the comma too many")
        for name in names:
            if name.value not in arguments or not _says_non_differentiable(value):
                _check_name(name, schema, arguments, returns)
            if name.value in seen:
                hint = f"it has one in line {seen[name.value].line}; remove one of them"
                raise name.error(f"a second formula for `{name.value}`", hint)
            seen[name.value] = name
        line = FormulaLine(names, _formula_text(key, value))
        kinds = {name.value in arguments for name in names}
        if len(kinds) > 1:
            raise key.error("inputs and outputs in one key", "write one key for inputs and one for outputs")
        (inputs if kinds.pop() else outputs).append(line)
    node = _node_name(entry.keys[NODE], fields[NODE]) if NODE in fields else None
    return Section(dispatch_key, tuple(inputs), tuple(outputs), fields.get(DIFFERENTIABILITY), node, place)


def _node_name(key: Text, value: Node) -> Text:
    if not isinstance(value, Text) or not _NODE.fullmatch(value.value):
        raise key.error("`node` is not the name of a node class", "write one, such as `CopyBackwards`")
    return value


def _says_non_differentiable(value: Node) -> bool:
    """Which is true of every argument, whatever its type."""
    return isinstance(value, Text) and value.value.strip() == NON_DIFFERENTIABLE


def _check_name(name: Text, schema: FunctionSchema, arguments: set[str], returns: tuple[str, ...]) -> None:
    """A key must name an input that can have a gradient, or an output."""
    word = name.value
    if word in arguments:
        argument = next(a for a in schema.inputs if a.python_name == word)
        if not argument.type.is_tensor_like:
            message = f"formula for `{word}`, which is of type {argument.type}"
            tensors = ", ".join(f"`{a.python_name}`" for a in schema.inputs if a.type.is_tensor_like)
            hint = f"only tensors have gradients: {tensors}" if tensors else "only tensors have gradients"
            raise name.error(message, f"remove it; {hint}")
        return
    if word in returns:
        type_ = schema.returns[returns.index(word)].type
        if not type_.is_tensor_like:
            raise name.error(f"formula for output `{word}`, which is of type {type_}", "only tensors have tangents")
        return
    if schema.argument(word) is not None:
        hint = "an operator with out= is never differentiable; write the functional operator's entry"
        raise name.error(f"formula for `{word}`, which is written to", hint)
    known = [*arguments, *returns, DIFFERENTIABILITY, DISPATCH, NODE]
    hint = _result_hint(word, returns) or derivative_key(word, known) or did_you_mean(word, known)
    what = ", ".join(f"`{a.python_name}`" for a in schema.inputs if a.type.is_tensor_like) or "no tensors"
    message = f"`{schema.name}` has no input or output `{shorten(word)}`"
    raise name.error(message, hint or f"its inputs are {what}, its outputs {', '.join(f'`{r}`' for r in returns)}")


def _result_hint(word: str, returns: tuple[str, ...]) -> str:
    """`result` of an operator that names its outputs, or has several; `result0` of one that has one."""
    if not word.startswith("result") or not returns:
        return ""
    digits = word.removeprefix("result")
    if digits and not digits.isdigit():
        return ""
    if len(returns) == 1:
        return f"write `{returns[0]}`: it is the only output"
    index = int(digits) if digits else 0
    if index < len(returns):
        return f"write `{returns[index]}`"
    return f"there are {len(returns)} outputs; the last is `{returns[-1]}`"


def _formula_text(key: Text, value: Node) -> Text:
    shown = shorten(key.value)
    if not isinstance(value, Text):
        what = "a list" if isinstance(value, TextList) else "a mapping"
        raise value.error(f"the formula of `{shown}` is {what} in YAML", "put the whole formula in quotes")
    if not value.value.strip():
        raise key.error(f"`{shown}` has an empty formula", "write an expression, or remove the line")
    return value
