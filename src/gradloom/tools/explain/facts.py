"""The facts that `explain` shows: places in files, and what is known of an operator and of a node."""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradloom.codegen.derivatives.model import DifferentiabilityInfo, DifferentiableFunction, SavedAttribute
from gradloom.codegen.notation.equations import Equations
from gradloom.codegen.outputs.support import Row
from gradloom.codegen.reading.python_files import Functions
from gradloom.core.node import Node
from gradloom.utils.viz import saved_values


@dataclass(frozen=True)
class Saved:
    """A saved field of a node.

    form       what is saved, in words
    needed_by  the formulas that use it, as `other: grad * self.conj() (line 26)`
    condition  when it is saved; empty if always
    """

    name: str
    form: str
    needed_by: tuple[str, ...]
    condition: str


@dataclass(frozen=True)
class OperatorFacts:
    """The facts of one operator. Places that do not exist are omitted.

    function    the operator, or the variant that was asked for
    entries     its entries in native_functions.yaml and derivatives.yaml
    generated   (description, place) of the generated wrapper and node
    kernels     (description, place) of its kernel functions, or its composite
    helpers     (description, place) of the helpers of its formulas
    rules       (feature, the rule by which it computes the operator), by the record
    calls       the operators that a composite calls
    proofs      sentences on the proofs of its formulas
    """

    function: DifferentiableFunction
    entries: tuple[Place, ...]
    equations: Equations
    generated: tuple[tuple[str, Place], ...]
    saved: tuple[Saved, ...]
    kernels: tuple[tuple[str, Place], ...]
    helpers: tuple[tuple[str, Place], ...]
    support: Row
    rules: tuple[tuple[str, str], ...] = ()
    calls: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def node(self) -> str | None:
        """The name of the node class; None if a call makes no node."""
        info = self.function.info
        return info.node if info is not None else None

    @property
    def expression(self) -> str | None:
        """What it computes: its definition element by element, or the array expression that is its kernel, if either
        is there."""
        native = self.function.function
        if native.rows is not None:
            return native.rows.source
        if native.scalar is not None:
            return native.scalar.source
        kernel = native.kernel
        return kernel.source if kernel is not None and kernel.kind == "expression" else None


def saved_fields(info: DifferentiabilityInfo | None) -> tuple[Saved, ...]:
    """Return what a node saves, with the formulas that need it."""
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


@dataclass(frozen=True)
class Place:
    """Some lines of a file.

    line      number of the first line, from 1
    text      the lines, without their common indentation
    language  'python' or 'yaml', for highlighting
    """

    path: Path
    line: int
    text: str
    language: str = "python"

    @property
    def shown(self) -> str:
        """`path:line`; the path is relative if it is below the current folder."""
        try:
            path = os.path.relpath(self.path)
        except ValueError:  # another drive
            path = str(self.path)
        return f"{self.path if path.startswith(os.pardir) else path}:{self.line}"


def definition(path: Path, name: str) -> Place | None:
    """Find a top-level function or class of a generated Python file."""
    text = _read(path)
    return None if text is None else definition_in(text, path, name)


def definition_in(text: str, path: Path, name: str) -> Place | None:
    """Find a top-level function or class in the text of a generated file."""
    lines = text.splitlines()
    heads = tuple(f"{word} {name}{mark}" for word in ("def", "class") for mark in "(:")
    start = next((i for i, line in enumerate(lines) if line.startswith(heads)), None)
    if start is None:
        return None
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][0] in " \t)"):
        end += 1
    return Place(path, start + 1, "\n".join(lines[start:end]).rstrip())


def member(functions: Functions, family: str, name: str) -> Place | None:
    """Find a name of a folder's module where it is defined, not where it is imported."""
    module, own = functions.origin(family, name)
    tree = functions.definition(module, own)
    if tree is None:
        return None
    first = min([tree.lineno, *(d.lineno for d in getattr(tree, "decorator_list", ()))])
    path = functions.path(module)
    lines = path.read_text(encoding="utf-8").splitlines()
    return Place(path, first, "\n".join(lines[first - 1 : tree.end_lineno]))


def entry(path: Path, key: str, name: str) -> Place | None:
    """Find the entry of a YAML file whose `key:` (`func`, `name`) is the schema of an operator."""
    text = _read(path)
    return None if text is None else entry_in(text, path, key, name)


def entry_in(text: str, path: Path, key: str, name: str) -> Place | None:
    """Find such an entry in the text of a file."""
    lines = text.splitlines()
    wanted = re.compile(rf"[-\s]\s*['\"]?{key}['\"]?\s*:\s*['\"]?{re.escape(name)}\s*\(")
    for start, line in enumerate(lines):
        if not wanted.match(line):
            continue
        while start and not lines[start].startswith("-"):
            start -= 1
        end = start + 1
        while end < len(lines) and (not lines[end].strip() or lines[end][0] in " \t"):
            end += 1
        return Place(path, start + 1, "\n".join(lines[start:end]).rstrip(), "yaml")
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


@dataclass(frozen=True)
class NodeFacts:
    """The state of a node.

    name        name of the node
    gradients   shape and dtype of each gradient that it receives
    saved       (field, description of its value)
    next        for each input, the node that its gradient goes to
    made_at     the user's lines that made it, if anomaly mode recorded them
    """

    name: str
    gradients: tuple[str, ...]
    saved: tuple[tuple[str, str], ...]
    next: tuple[str, ...]
    made_at: str


def node_facts(node: Node) -> NodeFacts:
    """Read a node without unpacking saved tensors, so that no hooks run."""
    metadata = [f"{tuple(m.shape)} {m.dtype}" if m is not None else "undefined" for m in node._input_metadata]
    following = [
        f"{fn.name()}, input {nr}" if fn is not None else "nothing: no gradient is wanted there"
        for fn, nr in node.next_functions
    ]
    trace = node.hooks.trace if node.hooks is not None else None
    return NodeFacts(
        node.name(),
        tuple(metadata),
        tuple(saved_values(node)),
        tuple(following),
        "".join(trace.lines()).rstrip() if trace is not None else "",
    )


def written_by_hand(thing: Any) -> Place | None:
    """Find the source of a class or function; None if it is not available, as in an interactive session."""
    try:
        lines, start = inspect.getsourcelines(thing)
        path = inspect.getsourcefile(thing)
    except (OSError, TypeError):
        return None
    return Place(Path(path), max(start, 1), inspect.cleandoc("\n" + "".join(lines))) if path else None
