"""Everything that is known of an operator, gathered from where it is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gradloom.codegen.derivative_model import DifferentiabilityInfo, DifferentiableFunction, SavedAttribute
from gradloom.codegen.derivatives import Derivatives
from gradloom.codegen.notation import Equations, Notation
from gradloom.codegen.source_functions import Functions
from gradloom.codegen.support import Row
from gradloom.codegen.target import FILES, Target, own

from ..support import own_support, support_row
from .places import Place, definition, entry, member


@dataclass(frozen=True)
class Saved:
    """A field of a node: what it holds, why, and when.

    form       what is kept, in words
    needed_by  the formulas that use it, as `other: grad * self.conj() (line 26)`
    condition  when it is kept; empty where that is always
    """

    name: str
    form: str
    needed_by: tuple[str, ...]
    condition: str


@dataclass(frozen=True)
class OperatorFacts:
    """What `explain` says of one operator. Places that do not exist are None or left out.

    function    the operator, or the variant that was asked for
    entries     its entries in native_functions.yaml and derivatives.yaml
    generated   (what it is, where) of the generated wrapper and node
    kernels     (what it is, where) of what computes it: kernel functions, or the composite
    helpers     the same for the helpers of its formulas
    """

    function: DifferentiableFunction
    entries: tuple[Place, ...]
    equations: Equations
    generated: tuple[tuple[str, Place], ...]
    saved: tuple[Saved, ...]
    kernels: tuple[tuple[str, Place], ...]
    helpers: tuple[tuple[str, Place], ...]
    support: Row

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def node(self) -> str | None:
        """The name of the node class; None where a call makes none."""
        info = self.function.info
        return info.node if info is not None else None

    @property
    def kernel_expression(self) -> str | None:
        """The array expression that computes it, where the YAML file has one."""
        kernel = self.function.function.kernel
        return kernel.source if kernel is not None and kernel.kind == "expression" else None


class Library:
    """gradloom's own operators with the folders that they are written in."""

    def __init__(self, target: Target) -> None:
        assert target.source is not None and target.output is not None
        self.target = target
        self.derivatives: Derivatives = own_support()[0]
        self.notation = Notation(target.source / "formulas")
        self.kernels = Functions(target.source / "kernels")
        self.composites = Functions(target.source / "composite")
        self.generated = target.output

    def facts(self, function: DifferentiableFunction) -> OperatorFacts:
        """All facts of an operator."""
        return OperatorFacts(
            function=function, entries=self._entries(function), equations=self.notation.of(function),
            generated=self._generated(function), saved=saved_fields(function.info), kernels=self._kernels(function),
            helpers=self._helpers(function), support=support_row(function.name))

    def _entries(self, function: DifferentiableFunction) -> tuple[Place, ...]:
        found = [entry(self.target.path(FILES[0]), "func", function.function.name)]
        info = function.info
        if info is not None:
            names = [info.name.partition("(")[0], function.function.name]
            found.append(next((p for n in names if (p := entry(self.target.path(FILES[1]), "name", n))), None))
        return tuple(place for place in found if place is not None)

    def _generated(self, function: DifferentiableFunction) -> tuple[tuple[str, Place], ...]:
        family = function.function.family
        wrapper = self.generated / "variable_type" / f"{family}.py"
        found = [("wrapper", self._wrapper(wrapper, function))]
        if function.info is not None and function.info.node is not None:
            node = function.info.node
            folder = self.generated / "functions"
            files = [folder / f"{family}.py", *sorted(folder.glob("*.py"))]
            found.append(("node", next((p for f in files if (p := definition(f, node))), None)))
        return tuple((what, place) for what, place in found if place is not None)

    def _wrapper(self, path: Path, function: DifferentiableFunction) -> Place | None:
        """The wrapper of an operator, by the schema in its docstring: overloads are called otherwise than operators."""
        name = function.schema.name
        for candidate in (name.unambiguous, f"{name.unambiguous}_overload", name.name):
            place = definition(path, candidate)
            if place is not None and f'"""{function.name}(' in place.text:
                return place
        return None

    def _kernels(self, function: DifferentiableFunction) -> tuple[tuple[str, Place], ...]:
        native = function.function
        if native.composite is not None:
            family, _, name = native.composite.partition(".")
            return self._named("composite", self.composites, [(family, name)])
        if native.kernel is None:
            return ()
        names = re.findall(r"\b([a-z_]\w*)\.([a-z_]\w*)", native.kernel.source)
        return self._named("kernel", self.kernels, [(f, n) for f, n in names if f in native.kernel.families])

    def _helpers(self, function: DifferentiableFunction) -> tuple[tuple[str, Place], ...]:
        info = function.info
        names = () if info is None else dict.fromkeys((*info.helpers, *info.forward_helpers))
        return self._named("helper", self.notation.helpers, names)

    @staticmethod
    def _named(what: str, functions: Functions, names) -> tuple[tuple[str, Place], ...]:
        found = [(f"{what} {family}.{name}", member(functions, family, name)) for family, name in names]
        return tuple((title, place) for title, place in found if place is not None)


@cache
def library() -> Library:
    """The operators of the gradloom that is imported, loaded once."""
    return Library(own())


def saved_fields(info: DifferentiabilityInfo | None) -> tuple[Saved, ...]:
    """What a node keeps, with the formulas that need it."""
    if info is None or info.node is None:
        return ()
    return tuple(Saved(s.name, _form(s), _users(info, s), _condition(s)) for s in info.saved)


def _users(info: DifferentiabilityInfo, s: SavedAttribute) -> tuple[str, ...]:
    users = [f"{', '.join(d.inputs)}: {d.source}" + (f" (line {d.place.line})" if d.place is not None else "")
             for d in info.derivatives if s.name in d.saved]
    if not users and any(i.size == s.name for i in info.inputs):
        return ("the node, to know where the edges of the list end",)
    return tuple(users)


def _form(s: SavedAttribute) -> str:
    if s.kind == "tensor_list":
        return f"the tensors of {s.of}, each with its version"
    if s.kind == "tensor":
        if s.is_output:
            return f"the output {s.of}, without a reference cycle to its own node"
        if s.clone:
            return f"a copy of {s.of}, which the operator overwrites"
        return f"the tensor {s.of}, with its version"
    return f"the value of {s.of}" if s.read == s.of else f"only {s.read}"


def _condition(s: SavedAttribute) -> str:
    if s.condition is None:
        return ""
    return "if " + re.sub(r"needs_(\w+)", r"\1 needs a gradient", s.condition)
