"""Load derivatives.yaml, and join the derivatives to the operators of native_functions.yaml.

    functions = native_functions.load("native_functions.yaml")
    derivatives = load("derivatives.yaml", functions)
    derivatives["mul.Tensor"].info.node              # 'MulBackward0'
    derivatives["mul.Tensor"].info.derivatives       # the formulas, ready to be printed
    derivatives.infos                                # one per node class, in the order of the file

model.py describes an info. Everything is checked before anything is returned; all errors of the file are collected and
raised together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import MAX_ERRORS, SpecError, did_you_mean, raise_all, shorten
from ..language.names import Resolved
from ..language.scope import Callables, Helper, Infix, describe_operators, find_helpers
from ..operators.entries import parse_func
from ..operators.keys import TYPE_PROMOTIONS
from ..operators.model import NativeFunction, NativeFunctions, Variant
from ..operators.native_functions import package_folder
from ..reading.yaml_files import Entry, Source, Text, entries_in, load_entries
from ..schema import FunctionSchema
from ..target import OPERATORS
from .entries import (
    CHOSEN,
    DEFAULT,
    DEFINITION,
    DERIVED,
    NAME,
    OVERRIDE,
    Section,
    check_styles,
    derivative_key,
    find_outputs,
    sections,
    styled_uses,
)
from .formulas import LINEAR, analyse_backward, analyse_forward, linear_call, parse_lines
from .model import DifferentiabilityInfo, DifferentiableFunction


class Derivatives:
    """All operators with their derivatives. `infos` has all nodes, `entries` the file's entries by full name.

    Iteration yields a DifferentiableFunction for each operator and derived variant, in the order of
    native_functions.yaml; `[]` and `in` take full names.
    """

    def __init__(
        self,
        infos: tuple[DifferentiabilityInfo, ...],
        functions: tuple[DifferentiableFunction, ...],
        entries: Mapping[str, Mapping[str, DifferentiabilityInfo]],
    ) -> None:
        self.infos, self.entries = infos, entries
        self._by_name = {f.name: f for f in functions}

    def __iter__(self) -> Iterator[DifferentiableFunction]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> DifferentiableFunction:
        """Return the operator or variant of that full name (`add_.Tensor`). Raises KeyError."""
        return self._by_name[name]


def load(
    path: str | os.PathLike[str], functions: NativeFunctions, *, shown: str | None = None, package: Path | None = None
) -> Derivatives:
    """Load the derivatives of a YAML file, which errors name as `shown`, and join them to the operators; `package`
    holds formulas/. Raises SpecError, or SpecErrors for several errors."""
    package = package_folder(path) if package is None else package
    callables = callables_of(functions, find_helpers(package / "formulas", "src/gradloom/formulas"))
    return analyse_entries(load_entries(path, shown), functions, callables)


def callables_of(functions: NativeFunctions, helpers: Mapping[str, Helper], home: str = OPERATORS) -> Callables:
    """Return what formulas may call of a package: its helpers, and its operators, which code finds in the module
    `home`."""
    infixes = {}
    for f in functions:
        if f.infix is not None:
            values = ", ".join(["{}", "{}", *(str(a.default) for a in f.schema.inputs[2:])])
            infixes[f.infix] = Infix(f"{home}.{f.schema.name.unambiguous}({values})", f"{home}.{f.schema.name.name}")
    operators = describe_operators(_callable_schemas(functions), home)
    return Callables(helpers, operators, array_forms(functions), infixes)


def analyse_entries(
    entries: Sequence[Entry],
    functions: NativeFunctions,
    callables: Callables,
    home: str = OPERATORS,
    *,
    replaces: bool = False,
) -> Derivatives:
    """Analyse entries and join their derivatives to the operators, whose module generated code calls `home`; with
    `replaces`, entries may say `override: true`. Raises SpecError, or SpecErrors."""
    return _Loader(functions, callables, home, replaces).load(entries)


def _callable_schemas(functions: NativeFunctions) -> Iterator[tuple[FunctionSchema, tuple[str, ...], str]]:
    """Yield every schema with the variants in which formulas may call it, and its namespace."""
    for function in functions:
        for schema in function.schemas:
            variants = function.variants_of(schema)
            if schema is not function.schema:
                derived = {"functional": ("function",), "inplace": ("method",) if "method" in variants else ()}
                variants = derived.get(schema.kind, ())
            yield schema, variants, function.python_module or ""


class _Loader:
    def __init__(self, functions: NativeFunctions, callables: Callables, home: str, replaces: bool) -> None:
        self.functions, self.callables, self.home, self.replaces = functions, callables, home, replaces
        self.counts: dict[str, int] = {}
        self.entries: dict[str, Text] = {}
        self.nodes: dict[str, Text] = {}

    def load(self, entries: Sequence[Entry]) -> Derivatives:
        infos: dict[str, dict[str, DifferentiabilityInfo]] = {}
        errors = []
        for entry in entries:
            try:
                schema = self.schema(entry)
                infos[str(schema.name)] = self.infos(entry, schema)
            except SpecError as error:
                errors.append(error)
                if len(errors) >= MAX_ERRORS:
                    break
        raise_all(errors)
        return join(self.functions, infos, self.home)

    def schema(self, entry: Entry) -> FunctionSchema:
        """Return the schema of an entry's operator; refuse one that is spelled differently in the two files."""
        text = entry.get(NAME)
        if not isinstance(text, Text) or not text.value.strip():
            hint = "write `- name: <schema>`, as in native_functions.yaml"
            if text is not None:
                raise entry.keys[NAME].error("`name` is not a schema", hint)
            close = next((key for word, key in entry.keys.items() if did_you_mean(word, [NAME])), None)
            if close is not None:
                raise close.error(f"unknown key `{shorten(close.value)}`", did_you_mean(close.value, [NAME]))
            if "func" in entry:
                raise entry.keys["func"].error("unknown key `func`", derivative_key("func", ()))
            raise entry.error("the entry has no `name`", hint)
        self.check_override(entry)
        for key in (DEFINITION, CHOSEN):
            if key in entry and text.path != DERIVED:
                hint = f"remove it; it belongs to {DERIVED}, which `gradloom generate` writes"
                raise entry.keys[key].error(f"unknown key `{key}`", hint)
        schema = parse_func(text)
        name = str(schema.name)
        known = self.functions.schema(name)
        if known is None:
            raise text.error(f"unknown operator `{name}`", self.hint_for(schema), 0, len(name))
        if str(known) != str(schema):
            raise _disagreement(text, str(known))
        if known.kind == "out":
            message = f"`{name}` has out=, which is never differentiable"
            raise text.error(message, "remove the entry, or write that of the functional operator", 0, len(name))
        if name in self.entries:
            hint = f"the first is in line {self.entries[name].line}; remove one of them"
            raise text.error(f"duplicate entry `{name}`", hint, 0, len(name))
        self.entries[name] = text
        return known

    def check_override(self, entry: Entry) -> None:
        flag = entry.get(OVERRIDE)
        if flag is None:
            return
        if not isinstance(flag, Text) or flag.value != "true":
            raise entry.keys[OVERRIDE].error(f"`{OVERRIDE}` is not `true`", "write `override: true`, or remove the key")
        if not self.replaces:
            hint = "remove the key; it is for a package that replaces a derivative of gradloom's"
            raise entry.keys[OVERRIDE].error(f"`{OVERRIDE}` for an operator of the same file's own", hint)

    def hint_for(self, schema: FunctionSchema) -> str:
        """Return the hint for an operator that native_functions.yaml does not have."""
        overloads = [
            str(s.name) for f in self.functions for s in f.schemas
            if s.name.name == schema.name.name and s.kind != "out"
        ]  # fmt: skip
        if overloads:
            close = did_you_mean(str(schema.name), overloads, cutoff=0.8)
            return close or f"the overloads are {', '.join(f'`{o}`' for o in overloads)}"
        close = did_you_mean(str(schema.name), self.functions.names) or did_you_mean(
            schema.name.name, {n.partition(".")[0] for n in self.functions.names}
        )
        return close or "add it to native_functions.yaml first"

    def infos(self, entry: Entry, schema: FunctionSchema) -> dict[str, DifferentiabilityInfo]:
        """Analyse the sections of an entry; the infos go by dispatch key."""
        return self.named(schema, analysed(entry, schema, self.callables))

    def named(
        self, schema: FunctionSchema, infos: Iterable[tuple[DifferentiabilityInfo, Text | None]]
    ) -> dict[str, DifferentiabilityInfo]:
        """Name the nodes of an entry, some of which its `node:` names; the infos go by dispatch key."""
        found = {}
        for info, written in infos:
            if info.inputs:
                node = written.value if written is not None else self.node_name(schema, info.dispatch_key)
                self.check_node(node, written or info.place)
                info = replace(info, node=node)
            found[info.dispatch_key] = info
        return found

    def check_node(self, node: str, place: Text | None) -> None:
        """Refuse a second entry for a node class."""
        assert place is not None
        if node in self.nodes:
            hint = f"line {self.nodes[node].line} has it; write another `node:`"
            raise place.error(f"a second node class `{node}`", hint)
        self.nodes[node] = place

    def node_name(self, schema: FunctionSchema, dispatch_key: str) -> str:
        """Return PyTorch's name for the node class: overloads are numbered in the order of the file."""
        stem = node_stem(schema) + ("" if dispatch_key == DEFAULT else dispatch_key)
        number = self.counts.get(stem, 0)
        self.counts[stem] = number + 1
        return f"{stem}{number}"


class Single:
    """Analyses entries one by one, each in a text of its own, and names their nodes in the order of the file."""

    def __init__(self, functions: NativeFunctions, callables: Callables) -> None:
        self._functions, self._callables = functions, callables
        self._naming = _Loader(functions, callables, OPERATORS, False)

    def analysed(self, source: Source) -> tuple[str, tuple[tuple[DifferentiabilityInfo, Text | None], ...]]:
        """Analyse the entry of a text: return its operator, and its infos with their `node:`. Raises SpecError."""
        (entry,) = entries_in(source)
        schema = _Loader(self._functions, self._callables, OPERATORS, False).schema(entry)
        return str(schema.name), tuple(analysed(entry, schema, self._callables))

    def named(
        self, name: str, infos: Iterable[tuple[DifferentiabilityInfo, Text | None]]
    ) -> dict[str, DifferentiabilityInfo]:
        """Name the nodes of the next entry of the file. Raises SpecError."""
        schema = self._functions.schema(name)
        assert schema is not None
        return self._naming.named(schema, infos)


def node_stem(schema: FunctionSchema) -> str:
    """Return `MulBackward` for `mul.Tensor` and `mul_`: words are capitalised, a final `Forward` is dropped."""
    words = "".join(word.title() for word in schema.name.base.split("_"))
    return f"{words}Backward".replace("ForwardBackward", "Backward")


def analysed(
    entry: Entry, schema: FunctionSchema, callables: Callables
) -> Iterator[tuple[DifferentiabilityInfo, Text | None]]:
    """Yield the infos of the sections of an entry, whose nodes are not named yet, and their `node:`."""
    for section in sections(entry, schema):
        yield analyse(section, schema, callables), section.node


def analyse(section: Section, schema: FunctionSchema, callables: Callables) -> DifferentiabilityInfo:
    """Analyse one section of an entry, whose node is not named yet. Raises SpecError for its first error."""
    formulas = parse_lines(section.inputs)
    uses = styled_uses(formulas, schema)
    outputs = find_outputs(section, schema, uses, callables)
    check_styles(uses, outputs)
    backward = analyse_backward(formulas, schema, outputs, callables)
    if backward.inputs and not any(o.is_differentiable for o in outputs):
        message = f"`{section.inputs[0].of[0]}` has a formula, but no output of `{schema.name}` is differentiable"
        raise (section.inputs[0].names[0].error(message, "remove the formula, or correct `output_differentiability`"))
    forward = analyse_forward(section.outputs, schema, outputs, backward, callables)
    resolved = [r for r in backward.resolved if r is not None]
    return DifferentiabilityInfo(
        name=str(schema),
        dispatch_key=section.dispatch_key,
        schema=schema,
        node=None,
        inputs=backward.inputs,
        outputs=outputs,
        derivatives=backward.derivatives,
        forward=forward.derivatives,
        saved=backward.saved,
        helpers=_helpers(resolved),
        forward_helpers=_helpers(forward.resolved),
        uses_operators=any(d.formula and "ops." in d.formula for d in backward.derivatives),
        unnamed=_unnamed(section, schema) if backward.inputs else (),
        place=section.place,
    )


def _unnamed(section: Section, schema: FunctionSchema) -> tuple[str, ...]:
    """Return the tensors of a schema, lists excepted, that no key of a section names."""
    named = {name for line in section.inputs for name in line.of}
    return tuple(a.python_name for a in schema.inputs if a.type.is_tensor and a.python_name not in named)


def _helpers(resolved: Sequence[Resolved]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({(helper.module, helper.name) for r in resolved for helper in r.helpers.values()}))


def _disagreement(text: Text, known: str) -> SpecError:
    """Return the error for an entry whose schema is not the operator's, at the first word that differs."""
    words = re.compile(r"\w+(?:\.\w+)*|[^\w\s]")
    ours = list(words.finditer(text.value))
    theirs = [match[0] for match in words.finditer(known)]
    place = next((i for i, match in enumerate(ours) if i >= len(theirs) or match[0] != theirs[i]), len(ours))
    hint = f"native_functions.yaml has `{known}`"
    if place == len(ours):
        return text.error(f"the schema ends before `{theirs[place]}`", hint, ours[-1].start(), len(ours[-1][0]))
    match = ours[place]
    expected = f"`{theirs[place]}`" if place < len(theirs) else "nothing"
    message = f"`{shorten(match[0])}` here is {expected} in native_functions.yaml"
    return text.error(message, hint, match.start(), len(match[0]))


def join(
    functions: Iterable[NativeFunction], infos: Mapping[str, Mapping[str, DifferentiabilityInfo]], home: str = OPERATORS
) -> Derivatives:
    """Join each operator and derived variant to its derivative: its own entry, or that of its functional form."""
    by_base: dict[str, list[Mapping[str, DifferentiabilityInfo]]] = {}  # entries of functional operators
    for found in infos.values():
        schema = next(iter(found.values())).schema
        if schema.kind == "functional":
            by_base.setdefault(schema.name.base, []).append(found)
    joined: list[DifferentiableFunction] = []
    extra: list[DifferentiabilityInfo] = []
    for function in functions:
        variants: list[Variant | None] = [None, *function.derived]
        for variant in variants:
            schema = function.schema if variant is None else variant.schema
            own: Mapping[str, DifferentiabilityInfo] | None = infos.get(str(schema.name))
            if own is None and schema.kind == "inplace":
                shared = _with_signature(by_base.get(schema.name.base, ()), schema)
                own = {key: info.for_inplace(schema) for key, info in shared.items()}
            elif own is None and variant is not None and variant.kind == "copy":
                own = {k: _for_copy(info, schema, home) for k, info in infos.get(function.name, {}).items()}
                extra += own.values()
            elif own is not None and schema.kind == "inplace":
                own = {key: info.for_inplace(schema) for key, info in own.items()}
            own = own or {}
            joined.append(DifferentiableFunction(function, schema, variant, _strategy(function, schema, own), own))
    nodes = [info for found in infos.values() for info in found.values()]
    return Derivatives(tuple(nodes + extra), tuple(joined), infos)


def _with_signature(
    entries: Iterable[Mapping[str, DifferentiabilityInfo]], schema: FunctionSchema
) -> Mapping[str, DifferentiabilityInfo]:
    """Return the first of some entries that has the signature of a schema; an empty one if none has."""
    wanted = schema.signature()
    return next((found for found in entries if next(iter(found.values())).schema.signature() == wanted), {})


def _for_copy(info: DifferentiabilityInfo, schema: FunctionSchema, home: str) -> DifferentiabilityInfo:
    """Return the info of a view's copy variant, which has its own node class: `ExpandBackward0_copy` in PyTorch."""
    linear = linear_call(schema, [i.name for i in info.inputs], home)
    forward = tuple(replace(f, formula=linear) if f.kind == LINEAR else f for f in info.forward)
    node = info.node and f"{info.node}_copy"
    return replace(info, schema=schema, name=str(schema), node=node, forward=forward)


def _strategy(function: NativeFunction, schema: FunctionSchema, infos: Mapping[str, DifferentiabilityInfo]) -> str:
    if schema.kind == "out":
        return "out"
    default = infos.get(DEFAULT)
    if default is not None:
        return "formula" if default.node is not None else "not_differentiable"
    if function.composite is not None:
        return "composition"
    has_tensors = any(r.type.is_tensor_like for r in schema.returns) or schema.kind in ("inplace", "mutable")
    takes_tensors = any(a.type.is_tensor_like for a in schema.inputs)
    never = not has_tensors or not takes_tensors or function.type_promotion == "always_bool"
    return "not_differentiable" if never else "not_implemented"


_SAME_DTYPE = frozenset(TYPE_PROMOTIONS) - {"always_bool", "none"} | {None}


def array_forms(functions: Iterable[NativeFunction]) -> dict[str, str]:
    """Return operators of one tensor with their forms on real floating arrays: `xp.cos`, or '' for the array itself."""
    groups: dict[str, list[NativeFunction]] = {}
    for function in functions:
        groups.setdefault(function.schema.name.name, []).append(function)
    forms = {name: array_form(group[0]) for name, group in groups.items() if len(group) == 1}
    return {name: form for name, form in forms.items() if form is not None}


def array_form(function: NativeFunction) -> str | None:
    """Return the form of an operator on real floating arrays, as far as its entry determines it."""
    kernel, inputs = function.kernel, function.schema.inputs
    if len(inputs) != 1 or not inputs[0].type.is_tensor:
        return None
    if function.on_real is not None:
        return ""
    if kernel is None or kernel.ufunc is None or kernel.operands != (inputs[0].python_name,):
        return None
    return f"xp.{kernel.ufunc}" if function.type_promotion in _SAME_DTYPE else None
