"""What `explain` says of an operator, and of what its node saves."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gradloom.codegen.derivatives.model import DifferentiabilityInfo, DifferentiableFunction, SavedAttribute
from gradloom.codegen.notation.equations import Equations
from gradloom.codegen.outputs.support import Row

from .places import Place


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
    calls       the operators that a composite calls
    """

    function: DifferentiableFunction
    entries: tuple[Place, ...]
    equations: Equations
    generated: tuple[tuple[str, Place], ...]
    saved: tuple[Saved, ...]
    kernels: tuple[tuple[str, Place], ...]
    helpers: tuple[tuple[str, Place], ...]
    support: Row
    calls: tuple[str, ...] = ()

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


def saved_fields(info: DifferentiabilityInfo | None) -> tuple[Saved, ...]:
    """What a node keeps, with the formulas that need it."""
    if info is None or info.node is None:
        return ()
    return tuple(Saved(s.name, _form(s), _users(info, s), _condition(s)) for s in info.saved)


def _users(info: DifferentiabilityInfo, s: SavedAttribute) -> tuple[str, ...]:
    users = [
        f"{', '.join(d.inputs)}: {d.source}" + (f" (line {d.place.line})" if d.place is not None else "")
        for d in info.derivatives
        if s.name in d.saved
    ]
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
