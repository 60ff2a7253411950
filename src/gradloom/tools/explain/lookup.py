"""Resolve the argument of `explain` (name, function, node, node class or tensor) to operators or a class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import gradloom
from gradloom.codegen.derivatives.derivatives import Derivatives
from gradloom.codegen.derivatives.model import DifferentiableFunction
from gradloom.codegen.errors import did_you_mean
from gradloom.codegen.wrappers.wrappers import chosen_from
from gradloom.core.node import Node
from gradloom.dispatch.records import Record, name_of, record_of
from gradloom.ops.lists import LISTS
from gradloom.types.public import home_of

from .library import Library

_PREFIXES = "gradloom. torch. Tensor. nn.functional. F. autograd.graph. torch::autograd:: ops. aten. aten::".split()
_NAMESPACES = ("linalg", "fft", "special")


class UnknownName(LookupError):
    """No operator or node has this name. The message suggests a similar one."""


@dataclass(frozen=True)
class Target:
    """What to explain.

    title      its name
    functions  its operators
    node       the node that was passed, to be shown with its saved values
    written    a class or function without a YAML entry: a custom Function, AccumulateGrad, gradloom.einsum
    lists      its operators on lists, which have records and no functions
    """

    title: str
    functions: tuple[tuple[Library, DifferentiableFunction], ...] = ()
    node: Node | None = None
    written: Any = None
    lists: tuple[Record, ...] = ()


def find(target: Any, libraries: Sequence[Library]) -> Target:
    """Resolve the argument of `explain` among the operators of some libraries, gradloom's first.

    Raises:
        UnknownName: for an unknown name.
        TypeError: for an object that cannot be explained.
    """
    if isinstance(target, str):
        return _by_name(target, libraries)
    if isinstance(target, gradloom.Tensor):
        if target.grad_fn is None:
            raise TypeError(
                "this tensor has no grad_fn: it is a leaf, or was made in no_grad mode. Pass explain() "
                "an operator, a node, or a tensor computed from one that requires grad"
            )
        target = target.grad_fn
    if isinstance(target, Node):
        found = _by_class(type(target), libraries)
        return Target(found.title, found.functions, target, found.written)
    if isinstance(target, type) and issubclass(target, Node):
        return _by_class(target, libraries)
    if isinstance(target, type) and issubclass(target, gradloom.autograd.Function):
        return Target(target.__name__, written=target)
    if callable(target):
        return _by_function(target, libraries)
    raise TypeError(
        f"explain() takes an operator's name or function, a node or its class, or a tensor, not {type(target).__name__}"
    )


def _by_name(name: str, libraries: Sequence[Library]) -> Target:
    bare = name.strip()
    for prefix in _PREFIXES:
        bare = bare.removeprefix(prefix)
    for library in libraries:
        space = library.target.namespace
        local = bare.removeprefix(f"{space}.").removeprefix(f"{space}::") if space else bare
        found = _named(local, library.derivatives)
        if found:
            return Target(local, tuple([(library, f) for f in found]))
    if lists := _on_lists(bare):
        return Target(bare, lists=lists)
    written = _written_by_hand(bare)
    if written is not None:
        return Target(bare, written=written)
    raise UnknownName(f"there is no operator or node `{name}`{_suggestion(bare, libraries)}")


def _named(bare: str, functions: Derivatives) -> list[DifferentiableFunction]:
    """Return the operators that a name selects: one overload, all overloads, or those whose node has the name."""
    space, _, rest = bare.partition(".")
    if space in _NAMESPACES:
        bare = f"{space}_{rest}"
    if bare in functions and bare != functions[bare].schema.name.name:
        return [functions[bare]]
    overloads = [f for f in functions if f.schema.name.name == bare and f.schema.kind != "out"]
    if overloads:
        return list(chosen_from(overloads, lambda f: f.function.variants))
    if bare in functions:  # out variants, by their full names
        return [functions[bare]]
    nodes = _users_of(bare, functions) or [
        f for f in functions if f.info is not None and f.info.node and f.info.node.rstrip("0123456789") == bare
    ]
    return [f for f in functions if f.schema.name.unambiguous == bare] or _entries(nodes)


def _on_lists(bare: str) -> tuple[Record, ...]:
    """Return the records of the operators on lists that a name selects: all overloads, or one."""
    name = bare.partition(".")[0]
    return tuple(r for r in LISTS.of_operator(name) if bare in (name, r.name)) if name in LISTS.operators else ()


def _suggestion(name: str, libraries: Sequence[Library]) -> str:
    functions = [f for library in libraries for f in library.derivatives]
    names = {f.schema.name.name for f in functions} | {str(f.schema.name) for f in functions}
    names |= set(LISTS.operators)
    names |= {f.info.node for f in functions if f.info is not None and f.info.node}
    names |= {
        f"{lib.target.namespace}.{f.schema.name.name}"
        for lib in libraries
        if lib.target.namespace
        for f in lib.derivatives
    }
    short = {n.partition("_")[2] for n in names if n.partition("_")[0] in _NAMESPACES}
    hint = did_you_mean(name, names | short)
    return f": {hint}" if hint else "; `gradloom.explain(function)` takes functions, too"


def _users_of(node: str, functions: Iterable[DifferentiableFunction]) -> list[DifferentiableFunction]:
    return [f for f in functions if f.info is not None and f.info.node == node]


def _entries(functions: Iterable[DifferentiableFunction]) -> list[DifferentiableFunction]:
    """Drop the variants that share the entry of another function in the list."""
    functions = list(functions)
    own = [f for f in functions if f.info is not None and f.info.name == str(f.schema)]
    return own or functions


def _written_by_hand(name: str) -> Any:
    from gradloom.core import node, views

    for module in (node, views):
        found = getattr(module, name, None)
        if isinstance(found, type) and issubclass(found, Node):
            return found
    found = gradloom
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if inspect.isfunction(found) and home_of(found).startswith("gradloom") else None


def _by_class(cls: type[Node], libraries: Sequence[Library]) -> Target:
    library = _home(cls.__module__, libraries)
    functions = _users_of(cls.__name__, library.functions) if library is not None else []
    if library is not None and functions:
        if cls.__module__.endswith(".overrides"):
            functions = [f for f in functions if f in library.specification.overrides]
        return Target(cls.__name__, tuple([(library, f) for f in _entries(functions)]))
    function = getattr(cls, "_forward_cls", None)
    return Target(cls.__name__, written=function if function is not None else cls)


def _home(module: str, libraries: Sequence[Library]) -> Library | None:
    """Return the library whose generated code contains a module."""
    return next((lib for lib in libraries if module.startswith(f"{lib.target.generated}.")), None)


def _by_function(function: Callable[..., Any], libraries: Sequence[Library]) -> Target:
    function = inspect.unwrap(getattr(function, "__func__", function), stop=lambda f: hasattr(f, "entries"))
    title = getattr(function, "__name__", None) or getattr(function, "name", None) or type(function).__name__
    wrappers = [e[1] for e in function.entries] if hasattr(function, "entries") else [function]
    if getattr(gradloom, title, None) in (function, getattr(function, "public", None)) and (lists := _on_lists(title)):
        return Target(title, lists=lists)
    library = _home(home_of(wrappers[0]), libraries)
    if library is not None:
        names = [name for name in map(_operator_of, wrappers) if name in library.derivatives]
        if names:
            return Target(title, tuple([(library, library.derivatives[name]) for name in names]))
    if inspect.isfunction(function) and home_of(function).split(".")[0] == "gradloom":
        same = [f for f in libraries[0].derivatives if f.schema.name.name == title and f.schema.kind != "out"]
        found = tuple([(libraries[0], f) for f in same])
        return Target(title, found, written=None if found else function)
    raise TypeError(
        f"{title} is not a function of gradloom: explain() takes operators, functions of gradloom, "
        "nodes and custom Functions"
    )


def _operator_of(wrapper: Any) -> str:
    """Return the full name of a generated wrapper's operator; that of a copy stands at the start of its docstring."""
    doc = getattr(wrapper, "__doc__", None)
    return str(doc).partition("(")[0] if record_of(wrapper) is None and doc else name_of(wrapper)
