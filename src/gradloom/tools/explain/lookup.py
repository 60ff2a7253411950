"""What `explain` was asked about: a name, a function, a node, a node class or a tensor becomes operators or a class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import gradloom
from gradloom.autograd.node import Node
from gradloom.codegen.derivative_model import DifferentiableFunction
from gradloom.codegen.derivatives import Derivatives
from gradloom.codegen.schema import did_you_mean

_PREFIXES = ("gradloom.", "torch.", "Tensor.", "nn.functional.", "F.", "autograd.graph.", "torch::autograd::", "ops.")
_NAMESPACES = ("linalg", "fft", "special")


class UnknownName(LookupError):
    """Nothing that gradloom has is called so. The message suggests what may have been meant."""


@dataclass(frozen=True)
class Target:
    """What is to be explained.

    title      as people call it
    functions  the operators that it is or stands for
    node       the node that was given, to be shown with what it holds
    written    a class or function that no YAML entry made: a custom Function, AccumulateGrad, gradloom.einsum
    """

    title: str
    functions: tuple[DifferentiableFunction, ...] = ()
    node: Node | None = None
    written: Any = None


def find(target: Any, derivatives: Derivatives) -> Target:
    """Resolves what `explain` was given.

    Raises:
        UnknownName: for a name that nothing has.
        TypeError: for an object that is none of those that can be explained.
    """
    if isinstance(target, str):
        return _by_name(target, derivatives)
    if isinstance(target, gradloom.Tensor):
        if target.grad_fn is None:
            raise TypeError("this tensor has no grad_fn: it is a leaf, or was made without recording. Give explain() "
                            "an operator, a node, or a tensor that operators made from one that requires a gradient")
        target = target.grad_fn
    if isinstance(target, Node):
        found = _by_class(type(target), derivatives)
        return Target(found.title, found.functions, target, found.written)
    if isinstance(target, type) and issubclass(target, Node):
        return _by_class(target, derivatives)
    if isinstance(target, type) and issubclass(target, gradloom.autograd.Function):
        return Target(target.__name__, written=target)
    if callable(target):
        return _by_function(target, derivatives)
    raise TypeError(f"explain() takes an operator's name or function, a node or its class, or a tensor, not "
                    f"{type(target).__name__}")


def _by_name(name: str, derivatives: Derivatives) -> Target:
    bare = name.strip()
    for prefix in _PREFIXES:
        bare = bare.removeprefix(prefix)
    space, _, rest = bare.partition(".")
    if space in _NAMESPACES:
        bare = f"{space}_{rest}"
    if bare in derivatives and bare != derivatives[bare].schema.name.name:
        return Target(bare, (derivatives[bare],))
    overloads = [f for f in derivatives if f.schema.name.name == bare and f.schema.kind != "out"]
    if overloads:
        return Target(bare, tuple(overloads))
    if bare in derivatives:  # out variants, by their full names
        return Target(bare, (derivatives[bare],))
    named = [f for f in derivatives if f.schema.name.unambiguous == bare]
    nodes = _users_of(bare, derivatives) or [
        f for f in derivatives if f.info is not None and f.info.node and f.info.node.rstrip("0123456789") == bare]
    if named or nodes:
        return Target(bare, tuple(named or _entries(nodes)))
    written = _written_by_hand(bare)
    if written is not None:
        return Target(bare, written=written)
    raise UnknownName(f"there is no operator or node `{name}`{_suggestion(bare, derivatives)}")


def _suggestion(name: str, derivatives: Derivatives) -> str:
    names = {f.schema.name.name for f in derivatives} | {str(f.schema.name) for f in derivatives}
    names |= {f.info.node for f in derivatives if f.info is not None and f.info.node}
    short = {n.partition("_")[2] for n in names if n.partition("_")[0] in _NAMESPACES}
    hint = did_you_mean(name, names | short)
    return f": {hint}" if hint else "; `gradloom.explain(function)` takes functions, too"


def _users_of(node: str, derivatives: Derivatives) -> list[DifferentiableFunction]:
    return [f for f in derivatives if f.info is not None and f.info.node == node]


def _entries(functions: Iterable[DifferentiableFunction]) -> list[DifferentiableFunction]:
    """Without the variants that share the entry of another one among them."""
    functions = list(functions)
    own = [f for f in functions if f.info is not None and f.info.name == str(f.schema)]
    return own or functions


def _written_by_hand(name: str) -> Any:
    from gradloom.autograd import node

    found = getattr(node, name, None)
    if isinstance(found, type) and issubclass(found, Node):
        return found
    from gradloom.autograd import views

    found = getattr(views, name, None)
    if isinstance(found, type) and issubclass(found, Node):
        return found
    found = gradloom
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if inspect.isfunction(found) and found.__module__.startswith("gradloom") else None


def _by_class(cls: type[Node], derivatives: Derivatives) -> Target:
    functions = _users_of(cls.__name__, derivatives) if cls.__module__.startswith("gradloom.generated.") else []
    if functions:
        return Target(cls.__name__, tuple(_entries(functions)))
    function = getattr(cls, "_function", None)
    return Target(cls.__name__, written=function if function is not None else cls)


def _by_function(function: Callable[..., Any], derivatives: Derivatives) -> Target:
    function = inspect.unwrap(getattr(function, "__func__", function), stop=lambda f: hasattr(f, "entries"))
    title = getattr(function, "__name__", None) or getattr(function, "name", None) or type(function).__name__
    overloads = getattr(function, "__wrapped__", function)
    wrappers = [e[1] for e in overloads.entries] if hasattr(overloads, "entries") else [function]
    names = [name for name in map(_operator_of, wrappers) if name in derivatives]
    if names:
        return Target(title, tuple(derivatives[name] for name in names))
    module = getattr(function, "__module__", None) or ""
    if inspect.isfunction(function) and module.split(".")[0] == "gradloom":
        same = [f for f in derivatives if f.schema.name.name == title and f.schema.kind != "out"]
        return Target(title, tuple(same)) if same else Target(title, written=function)
    raise TypeError(f"{title} is not one of gradloom's functions: explain() takes operators, functions of gradloom, "
                    "nodes and custom Functions")


def _operator_of(wrapper: Any) -> str:
    """The full name of the operator that a generated wrapper is, which its docstring starts with."""
    doc = getattr(wrapper, "__doc__", None) or ""
    if doc:
        return doc.partition("(")[0]
    return _unambiguous().get(wrapper, "")


def _unambiguous() -> dict[Any, str]:
    """Wrapper -> full name, where Python runs without docstrings."""
    from gradloom.generated import namespaces

    from .facts import library

    found = {}
    for f in library().derivatives:
        wrapper = namespaces.OVERLOADS.get(f.schema.name.unambiguous)
        if wrapper is not None:
            found[wrapper] = f.name
    return found
