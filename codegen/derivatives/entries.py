"""The entries of derivatives.yaml: their keys, the outputs that are differentiable, the names in scope.

- name: <schema>                     the operator, as in native_functions.yaml
  self: <formula>                    one input
  self, other: <formula>             several inputs: the formula gives a tuple
  result: <formula>                  an output: forward mode
  output_differentiability: [...]    which outputs are differentiable
  override: true                     the entry replaces the derivative of an operator of gradloom's
  node: <name>                       the class of the backward node, where the rule for it does not give PyTorch's
  dispatch:                          instead of the above: a section with the same keys for each dispatch key
    Default: {...}

Note [Gradient styles]
Formulas call gradients `grad` (if there is one), `grads[i]` or `grad_<output>`; one entry uses one style. If an
operator has several outputs and its formulas use `grad`, only the first output is differentiable, unless
`output_differentiability` says otherwise. Operators that return `(values, indices)` are written so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import SpecError, did_you_mean, shorten
from ..language.formula import Formula, FormulaError, parse
from ..language.names import resolve
from ..language.saving import write_forward
from ..language.scope import Callables, Kind, Role, Scope, Variable, kind_of_type
from ..reading.yaml_files import Entry, Node, Text, TextList
from ..schema import FunctionSchema
from .model import Output

_FOREIGN_KEYS = {
    **dict.fromkeys("input x".split(), "self"),
    **dict.fromkeys("output out outputs jvp forward tangent y".split(), "result"),
}
_KEY_HINTS = {
    **dict.fromkeys(
        "backward vjp grad gradient formula derivative".split(),
        "write a key for each input, such as `self:`, with the formula of its gradient",
    ),
    **dict.fromkeys(("func", "schema"), "in this file the schema is `name:`"),
    **dict.fromkeys(
        "kernel variants autogen tags python_module composite family type_promotion domain kinks autocast".split(),
        "it belongs to the entry in native_functions.yaml",
    ),
}


def derivative_key(word: str, known: Container[str]) -> str:
    """Return a hint about an unknown key of an entry that may have the keys `known`; '' if there is none."""
    meant = _FOREIGN_KEYS.get(word)
    if meant is not None and meant in known:
        return f"did you mean `{meant}`?"
    return _KEY_HINTS.get(word, "")


NAME, DISPATCH, DIFFERENTIABILITY, NODE = "name", "dispatch", "output_differentiability", "node"
OVERRIDE = "override"
DERIVED = "derived.yaml"  # the file of entries that were derived (Note [Derived entries])
DEFINITION = "definition"  # there, the definition from which an entry was derived
CHOSEN = "chosen"  # there, how its formulas were chosen
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
    """A key that holds a formula: the names in it, and the formula's text. `of` has the names as strings."""

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
        """Parse the formula. Raises SpecError at the word outside of the formula language."""
        try:
            return parse(self.text.value)
        except FormulaError as error:
            raise self.error(error) from None

    def error(self, error: FormulaError) -> SpecError:
        return self.text.error(error.message, error.hint, error.offset, error.length)


@dataclass(frozen=True, slots=True)
class Section:
    """The content of an entry for one dispatch key."""

    dispatch_key: str
    # inputs, outputs: the backward and the forward formulas, in the order of the file
    inputs: tuple[FormulaLine, ...]
    outputs: tuple[FormulaLine, ...]
    differentiability: Node | None  # the value of `output_differentiability`, or None
    node: Text | None  # the value of `node`, or None
    place: Text  # the text for errors about the whole section


def return_names(schema: FunctionSchema) -> tuple[str, ...]:
    """Return the outputs' names in formulas: the schema's, else `result`, or `result0`, `result1` ... for several. The
    arguments that an in-place operator returns count as results."""
    count = len(schema.returns)
    fallback = ["result"] if count == 1 else [f"result{i}" for i in range(count)]
    return tuple(r.name or f for r, f in zip(schema.returns, fallback, strict=True))


def sections(entry: Entry, schema: FunctionSchema) -> tuple[Section, ...]:
    """Return the sections of an entry, one for each dispatch key. Raises SpecError for a key that is neither known nor
    an input or output of the operator."""
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
        if word in (DIFFERENTIABILITY, NODE, DEFINITION, CHOSEN):
            continue
        key = entry.keys[word]
        names = tuple(key.words())
        if not all(name.value for name in names):
            raise key.error(f"an empty name in the key `{shorten(word)}`", "remove the extra comma")
        for name in names:
            if name.value not in arguments or not _is_non_differentiable(value):
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


def _is_non_differentiable(value: Node) -> bool:
    """Return whether a value is `non_differentiable`, which an argument of any type may have."""
    return isinstance(value, Text) and value.value.strip() == NON_DIFFERENTIABLE


def _check_name(name: Text, schema: FunctionSchema, arguments: set[str], returns: tuple[str, ...]) -> None:
    """Refuse a key that names neither an input that can have a gradient nor an output."""
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
    """Return the hint for `result` if outputs are named or several, or for `result0` if there is only one."""
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


GRAD, GRADS, MASK, RETAIN = "grad", "grads", "grad_input_mask", "retain_variables"


def backward_scope(
    schema: FunctionSchema, outputs: tuple[Output, ...], names: tuple[str, ...], callables: Callables
) -> Scope:
    """Return the names that the formula of the inputs `names` may use."""
    variables = {v.name: v for v in _gradients(outputs)}
    variables[MASK] = Variable(MASK, Kind.NUMBERS, Role.MASK, size=len(names))
    variables[RETAIN] = Variable(RETAIN, Kind.NUMBER, Role.FLAG)
    arguments = [v for v in _arguments(schema) if v.name not in (GRAD, GRADS)]
    variables.update({v.name: v for v in (*_results(outputs), *arguments)})
    elsewhere = {}
    for variable in arguments:
        for suffix, what in (("_t", "tangents"), ("_p", "primals")):
            hint = f"{what} belong to `{_example(outputs)}:` formulas; write `{variable.name}`"
            elsewhere[f"{variable.name}{suffix}"] = hint
    elsewhere.update(_other_outputs(outputs))
    for output in outputs:
        if not output.is_differentiable:
            elsewhere[f"grad_{output.name}"] = f"output `{output.name}` is not differentiable"
    return Scope(variables, {k: v for k, v in elsewhere.items() if k not in variables}, callables)


def forward_scope(
    schema: FunctionSchema, outputs: tuple[Output, ...], inputs: Iterable[str], callables: Callables
) -> Scope:
    """Return the names that a formula of outputs may use. `inputs` are the differentiable inputs."""
    inputs = tuple(inputs)
    variables = {v.name: v for v in _results(outputs)}
    elsewhere = dict(_other_outputs(outputs))
    for variable in _arguments(schema):
        name, kind = variable.name, variable.kind
        if name not in inputs:
            variables[name] = variable
            continue
        variables[f"{name}_t"] = Variable(f"{name}_t", kind, Role.TANGENT, name, variable.type)
        for primal in (f"{name}_p", name):
            variables[primal] = Variable(primal, kind, Role.PRIMAL, name, variable.type)
    tangents = ", ".join(f"`{name}_t`" for name in inputs)
    for word in (GRAD, GRADS, MASK, RETAIN, *(f"grad_{o.name}" for o in outputs)):
        elsewhere[word] = f"it belongs to the formulas of inputs; write tangents here: {tangents}"
    for argument in schema.inputs:
        name = argument.python_name
        if argument.type.is_tensor_like and name not in inputs:
            elsewhere[f"{name}_t"] = elsewhere[f"{name}_p"] = f"`{name}` has no formula, so it has no tangent"
    elsewhere = {k: v for k, v in elsewhere.items() if k not in variables}
    return Scope(variables, elsewhere, callables, writes_tangent=schema.kind == "inplace")


def condition_scope(schema: FunctionSchema, callables: Callables) -> Scope:
    """Return the names that a condition in `output_differentiability` may use: the arguments."""
    return Scope({v.name: v for v in _arguments(schema)}, {}, callables)


def _arguments(schema: FunctionSchema) -> list[Variable]:
    return [Variable(a.python_name, kind_of_type(a.type), Role.ARGUMENT, a.python_name, a.type) for a in schema.inputs]


def _results(outputs: tuple[Output, ...]) -> list[Variable]:
    return [Variable(o.name, kind_of_type(o.type), Role.RESULT, o.name, o.type) for o in outputs]


def _gradients(outputs: tuple[Output, ...]) -> list[Variable]:
    """Return the variables `grad`, `grads` and `grad_<name>`."""
    differentiable = [o for o in outputs if o.is_differentiable]
    known = None if any(o.is_list for o in differentiable) else len(differentiable)
    found = [Variable(GRAD, Kind.TENSOR, Role.GRADIENT), Variable(GRADS, Kind.TENSORS, Role.GRADIENTS, size=known)]
    for number, output in enumerate(differentiable if known is not None else []):
        found.append(Variable(f"grad_{output.name}", Kind.TENSOR, Role.GRADIENT, output.name, index=number))
    return found


def _example(outputs: tuple[Output, ...]) -> str:
    return outputs[0].name if outputs else "result"


def _other_outputs(outputs: tuple[Output, ...]) -> dict[str, str]:
    """Return hints for `result`, `result1` and so on if the outputs have other names."""
    names = [o.name for o in outputs]
    wrong = {f"result{i}": f"write `{name}`" for i, name in enumerate(names)}
    wrong["result"] = (
        f"write `{names[0]}`" if len(names) == 1 else f"the outputs are {', '.join(f'`{n}`' for n in names)}"
    )
    for i in range(len(names), len(names) + 8):
        wrong[f"result{i}"] = (
            f"there {'is' if len(names) == 1 else 'are'} {len(names)} output{'s' * (len(names) != 1)}: "
            + (", ".join(f"`{n}`" for n in names))
        )
    return {word: hint for word, hint in wrong.items() if word not in names}


@dataclass(frozen=True, slots=True)
class StyledUse:
    """A use of a gradient in a formula: its style and its position."""

    style: str
    line: FormulaLine
    formula: Formula
    node: ast.Name

    def error(self, message: str, hint: str) -> SpecError:
        return self.line.error(self.formula.error(self.node, message, hint))


def styled_uses(formulas: Mapping[FormulaLine, Formula], schema: FunctionSchema) -> list[StyledUse]:
    """Return all uses of gradients in the backward formulas, in the order of the file."""
    names = return_names(schema)
    named = {f"grad_{n}" for n in names} - {a.python_name for a in schema.inputs}
    uses = []
    for line, formula in formulas.items():
        found = [node for node in ast.walk(formula.tree) if isinstance(node, ast.Name)]
        for node in sorted(found, key=lambda n: n.col_offset):
            if node.id in (GRAD, GRADS):
                uses.append(StyledUse(node.id, line, formula, node))
            elif node.id in named:
                uses.append(StyledUse("grad_<output>", line, formula, node))
    return uses


def check_styles(uses: Sequence[StyledUse], outputs: Iterable[Output]) -> None:
    """Refuse mixed styles, and an ambiguous `grad`. Raises SpecError at the first use that does not fit."""
    differentiable = [o for o in outputs if o.is_differentiable]
    for use in uses:
        word = use.formula.source(use.node)
        if use.style != uses[0].style:
            first = uses[0].formula.source(uses[0].node)
            place = f"in line {uses[0].line.text.line}" if use.line is not uses[0].line else "before"
            message = f"`{word}` here and `{first}` {place}: an entry names gradients in one way"
            raise use.error(message, f"use {_in_style(uses[0], differentiable)} throughout")
        if not differentiable:
            raise use.error(f"`{word}`: no output is differentiable", f"see `{DIFFERENTIABILITY}` of this entry")
        if use.style == GRAD and differentiable[0].is_list:
            raise use.error(
                f"`{word}`: the output is a list of tensors", f"write `{GRADS}`, the list of their gradients"
            )
        if use.style == GRAD and len(differentiable) > 1:
            options = ", ".join(f"`grad_{o.name}`" for o in differentiable)
            message = f"`{word}`: there are {len(differentiable)} differentiable outputs"
            raise use.error(message, f"write `{GRADS}[0]`, `{GRADS}[1]` ... or {options}")


def _in_style(use: StyledUse, differentiable: Sequence[Output]) -> str:
    if use.style == GRAD:
        return f"`{GRAD}`"
    if use.style == GRADS:
        return f"`{GRADS}[i]`"
    return ", ".join(f"`grad_{o.name}`" for o in differentiable)


def find_outputs(
    section: Section, schema: FunctionSchema, uses: Sequence[StyledUse], callables: Callables
) -> tuple[Output, ...]:
    """Return all outputs, with their numbers among the differentiable ones. Raises SpecError for an
    `output_differentiability` that does not fit the operator."""
    told = section.differentiability
    if told is not None:
        flags = _differentiability(told, schema, callables)
    else:
        flags = [r.type.is_tensor_like for r in schema.returns]
        if uses and uses[0].style == GRAD and flags.count(True) > 1:
            first = flags.index(True)
            flags = [i == first for i in range(len(flags))]
    outputs, number = [], 0
    for index, (name, ret, flag) in enumerate(zip(return_names(schema), schema.returns, flags, strict=True)):
        differentiable = flag is not False
        condition = flag if isinstance(flag, str) else None
        outputs.append(Output(name, index, ret.type, number if differentiable else None, condition))
        number += differentiable
    return tuple(outputs)


def _differentiability(node: Node, schema: FunctionSchema, callables: Callables) -> list[bool | str]:
    """Return the value of `output_differentiability`: for each output True, False or a condition."""
    hint = "write one of True, False or a condition for each output, as in `[True, False]`"
    items = node.items if isinstance(node, TextList) else (node,)
    count = len(schema.returns)
    if len(items) != count:
        message = f"`{DIFFERENTIABILITY}` has {len(items)} values, `{schema.name}` has {count} outputs"
        raise node.error(message, hint)
    flags: list[bool | str] = []
    for item, ret in zip(items, schema.returns, strict=True):
        if not isinstance(item, Text) or not item.value.strip():
            raise item.error(f"a value of `{DIFFERENTIABILITY}` is not text", hint)
        word = item.value.strip()
        flag: bool | str = {"true": True, "false": False}.get(word.lower(), word)
        if flag is not False and not ret.type.is_tensor_like:
            raise item.error(f"an output of type {ret.type} cannot be differentiable", "write False")
        flags.append(_condition(item, schema, callables) if isinstance(flag, str) else flag)
    return flags


def _condition(item: Text, schema: FunctionSchema, callables: Callables) -> str:
    try:
        resolved = resolve(parse(item.value), condition_scope(schema, callables))
        tree = resolved.formula.tree
        if isinstance(tree, (ast.Constant, ast.Tuple, ast.List, ast.ListComp)) or (
            resolved.kinds[tree] in (Kind.TENSOR, Kind.TENSORS, Kind.NUMBERS, Kind.DTYPE)
        ):
            message = "a condition that is neither true nor false"
            raise resolved.formula.error(tree, message, "write one such as `dtype is None`, or True or False")
        return write_forward(resolved)
    except FormulaError as error:
        raise item.error(error.message, error.hint, error.offset, error.length) from None
