"""Collect the facts of operators of gradloom, of packages and of `gradloom.ops.define`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from gradloom.codegen.derivatives.entries import DERIVED
from gradloom.codegen.derivatives.model import DifferentiableFunction
from gradloom.codegen.derivatives.specification import Specification, load
from gradloom.codegen.notation.equations import Notation
from gradloom.codegen.outputs.support import Support
from gradloom.codegen.reading.python_files import Functions
from gradloom.codegen.reading.yaml_files import Text
from gradloom.codegen.target import installed, own

from ..define import Definition, definitions
from ..prove import certificates
from ..support import own_support, whole_row
from ..verify.operators import Operator, join, operators_of, own_operators, own_specification
from .facts import (
    OperatorFacts,
    Place,
    definition,
    definition_in,
    entry,
    entry_in,
    member,
    saved_fields,
    written_by_hand,
)


class Library:
    """Operators and the files, or the texts in memory, that define them."""

    specification: Specification
    definition: Definition | None
    notation: Notation
    kernels: Functions
    composites: Functions

    def __init__(self, specification: Specification, definition: Definition | None = None) -> None:
        self.specification, self.definition = specification, definition
        self.target = specification.target
        self.derivatives = specification.derivatives
        base, mine = own().source, self.target.source
        assert base is not None
        self._sources = tuple(dict.fromkeys(p for p in (mine, base) if p is not None))
        self.notation = Notation(*[source / "formulas" for source in self._sources])
        self.kernels = Functions(*([mine / "kernels"] if mine is not None else []))
        self.composites = Functions(*([mine / "composite"] if mine is not None else []))

    @property
    def functions(self) -> tuple[DifferentiableFunction, ...]:
        """Its operators, and gradloom's operators whose derivatives it replaces."""
        return (*self.derivatives, *self.specification.overrides)

    @cached_property
    def support(self) -> Support:
        if self.target.is_own:
            return own_support()[1]
        return Support((*self.functions, *own_specification().derivatives), *self._sources)

    def operators(self) -> tuple[Operator, ...]:
        """Return its operators with the functions that call them."""
        if self.target.is_own:
            return own_operators()
        if self.definition is not None:
            return operators_of(self.definition)
        return join(self.derivatives, import_module(f"{self.target.generated}.namespaces").OVERLOADS)

    def facts(self, function: DifferentiableFunction) -> OperatorFacts:
        """Return all facts of an operator."""
        return OperatorFacts(
            function=function,
            entries=self._entries(function),
            equations=self.notation.of(function),
            generated=self._generated(function),
            saved=saved_fields(function.info),
            kernels=self._kernels(function),
            helpers=self._helpers(function),
            support=whole_row(function, self.support, self.operators),
            rules=self._rules(function),
            calls=self._calls(function),
            proofs=self._proofs(function),
        )

    @cached_property
    def _certificates(self) -> dict[str, certificates.Certificate]:
        return certificates.up_to_date(self.target)

    def _proofs(self, function: DifferentiableFunction) -> tuple[str, ...]:
        found = None if function in self.specification.overrides else self._certificates.get(function.function.name)
        return () if found is None else tuple(certificates.in_words(found.formulas))

    # Entries

    def _entries(self, function: DifferentiableFunction) -> tuple[Place, ...]:
        info = function.info
        names = [] if info is None else [info.name.partition("(")[0], function.function.name]
        written = info.place if info is not None else None
        found = [
            self._entry("func", [function.function.name], function.function.text),
            self._entry("name", names, written),
        ]
        return tuple(place for place in found if place is not None)

    def _entry(self, key: str, names: Iterable[str], written: Text | None) -> Place | None:
        """Find an entry in its file, or in the text for operators defined in memory."""
        if written is not None and written.path == DERIVED:
            path = self._output / DERIVED if self.definition is None else Path(f"<{DERIVED}>")
            return next((p for n in names if (p := entry_in(written.source.text, path, key, n))), None)
        if written is not None and self.target.specification is None and written.path.startswith("<"):
            return next((p for n in names if (p := entry_in(written.source.text, Path(written.path), key, n))), None)
        file = {"func": "native_functions.yaml", "name": "derivatives.yaml"}[key]
        folders = [t.specification for t in (self.target, own()) if t.specification is not None]
        return next((p for folder in folders for n in names if (p := entry(folder / file, key, n))), None)

    def entry_on_lists(self, name: str) -> Place | None:
        """Find the entry of an operator on lists, or that which it is derived from."""
        functions = self.specification.functions.on_lists
        names = [f.name for f in functions if name in [str(schema.name) for schema in f.schemas]]
        return self._entry("func", names, None)

    # Generated code

    def _generated(self, function: DifferentiableFunction) -> tuple[tuple[str, Place], ...]:
        is_override = function in self.specification.overrides
        family = function.function.family
        found = [("wrapper", None if is_override else self._wrapper(f"variable_type/{family}.py", function))]
        if function.info is not None and function.info.node is not None:
            node = function.info.node
            places = (self._definition(file, node) for file in self._node_files(family))
            found.append(("node", next((place for place in places if place is not None), None)))
        return tuple((what, place) for what, place in found if place is not None)

    def _wrapper(self, file: str, function: DifferentiableFunction) -> Place | None:
        """Find the wrapper of an operator by the schema in its docstring; overloads have other names than operators."""
        name = function.schema.name
        for candidate in (name.unambiguous, f"{name.unambiguous}_overload", name.name):
            place = self._definition(file, candidate)
            if place is not None and f'"""{function.name}(' in place.text:
                return place
        return None

    def _node_files(self, family: str) -> list[str]:
        names = (
            self.definition.sources
            if self.definition is not None
            else [p.relative_to(self._output).as_posix() for p in sorted(self._output.rglob("*.py"))]
        )
        folders = ("functions/", "overrides")
        return [f"functions/{family}.py", *[n for n in names if n.startswith(folders)]]

    @property
    def _output(self) -> Path:
        assert self.target.output is not None
        return self.target.output

    def _definition(self, file: str, name: str) -> Place | None:
        if self.definition is None:
            return definition(self._output / file, name)
        module = sys.modules.get(f"{self.target.generated}.{file.removesuffix('.py').replace('/', '.')}")
        text = self.definition.sources.get(file)
        return None if module is None or text is None else definition_in(text, Path(str(module.__file__)), name)

    def _rules(self, function: DifferentiableFunction) -> tuple[tuple[str, str], ...]:
        """Return the rules that features have for an operator, by its record in the generated package."""
        records = import_module(f"{self.target.generated}.records").RECORDS
        record = records.get(function.name) if function.function.composite is None else None
        if record is None or record.is_out:
            return ()
        rules = (
            ("vmap", record.batch, ""),
            ("meta device", record.shape, "runs on small arrays"),
            ("DTensor", record.shard, "gathers its arguments" if record.batch else ""),
            ("ONNX", record.onnx, ""),
        )
        return tuple((feature, _call(rule) or default) for feature, rule, default in rules if rule or default)

    # Kernels and helpers

    def _kernels(self, function: DifferentiableFunction) -> tuple[tuple[str, Place], ...]:
        native = function.function
        if native.composite is not None and native.composite_module is not None:
            return self._named("composite", self.composites, [(native.composite, native.composite_module)])
        return () if native.kernel is None else self._named("kernel", self.kernels, native.kernel.modules)

    def _calls(self, function: DifferentiableFunction) -> tuple[str, ...]:
        """Return the operators that a composite calls, as far as its source shows."""
        return () if function.function.composite is None else tuple(sorted(self.support.composite_calls(function)))

    def _helpers(self, function: DifferentiableFunction) -> tuple[tuple[str, Place], ...]:
        info = function.info
        helpers = () if info is None else dict.fromkeys((*info.helpers, *info.forward_helpers))
        names = [(f"{module}.{name}", module) for module, name in helpers]
        return self._named("helper", self.notation.helpers, names)

    def _named(
        self, what: str, functions: Functions, names: Iterable[tuple[str, str]]
    ) -> tuple[tuple[str, Place], ...]:
        """Find (family.function, module) pairs; for helpers of a package, modules have full names."""
        found = []
        for dotted, module in names:
            name = dotted.rpartition(".")[2]
            inner = module.removeprefix(f"{self.target.package}.formulas.")
            place = self._given(module, name) or member(functions, inner, name) or self._borrowed(inner, name)
            if place is not None:
                found.append((f"{what} {'.'.join(dotted.split('.')[-2:])}", place))
        return tuple(found)

    def _given(self, module: str, name: str) -> Place | None:
        """Find a Python function that was passed to `define`."""
        if self.definition is None:
            return None
        for full in (module, f"{self.target.generated}.kernels.{module}"):
            function = getattr(sys.modules.get(full), name, None)
            if inspect.isfunction(function):
                return written_by_hand(function)
        return None

    def _borrowed(self, module: str, name: str) -> Place | None:
        """Find a kernel of gradloom that a package uses."""
        return None if self.target.is_own else member(library().kernels, module, name)


def _call(rule: tuple[Any, ...]) -> str:
    """Return a record's rule and its arguments; empty if there is none."""
    name, arguments = "".join(rule[:1]), ", ".join(map(str, rule[1:]))
    return f"{name}({arguments})" if arguments else name


@cache
def library() -> Library:
    """Return the operators of the imported gradloom, loaded once."""
    return Library(own_specification())


def libraries() -> tuple[Library, ...]:
    """Return gradloom's operators, then those of the packages and definitions that are registered."""
    from gradloom.ops._registry import registered

    packages = [_package(name.removesuffix(".generated")) for name, r in registered().items() if r.is_package]
    return (library(), *packages, *[Library(d.specification, d) for d in definitions()])


@cache
def _package(name: str) -> Library:
    return Library(load(installed(name)))
