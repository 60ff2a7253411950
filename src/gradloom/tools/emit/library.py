"""PyTorch and JAX as libraries that formulas are translated to, and the functions that a written module carries along.

PyTorch has gradloom's operators under the same names. For JAX, `jax_functions.jinja` has the operators that move
elements or read types; others come from their definitions: in place if they are one operation, else as operators of the
module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from gradloom.codegen.language.scalars import filled
from gradloom.codegen.language.scope import METHOD_NAMES
from gradloom.codegen.operators.model import NativeFunction
from gradloom.codegen.outputs.render import TEMPLATES

from .translation import OPERATORS, PACKAGE, Library, dotted

TORCH, JAX = "torch", "jax"
# Operators of gradloom's own that PyTorch lacks.
_OWN = frozenset("linalg_matrix_sqrth linalg_polar _linalg_nuclear_norm _linalg_lyapunov".split())
_MODULES = ("linalg", "special", "fft")
_REQUEST = Callable[[NativeFunction], str]


class Functions:
    """Functions that a module carries along from a file of them: those that are used, and those that these use."""

    def __init__(self, name: str) -> None:
        self.texts = _functions(name)
        self.used: set[str] = set()

    def use(self, name: str) -> str:
        if name not in self.used:
            self.used.add(name)
            for other in re.findall(r"\w+", self.texts[name]):
                if other in self.texts:
                    self.use(other)
        return name

    @property
    def text(self) -> list[str]:
        """The functions that are used, in the order of the file."""
        return [text for name, text in self.texts.items() if name in self.used]


@cache
def _functions(name: str) -> Mapping[str, str]:
    text = (TEMPLATES / "emit" / f"{name}_functions.jinja").read_text("utf-8")
    found: dict[str, str] = {}
    for node in ast.parse(text).body:
        part = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
        if isinstance(node, ast.FunctionDef):
            found[node.name] = part
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = part
    return found


class _Named(Library):
    """A library with the operators of gradloom and of a package by name.

    Args:
        operators: gradloom's, for OPERATORS, and the package's, for PACKAGE.
        request: makes an operator a part of the module, and returns the function's name there.
    """

    def __init__(self, operators: Mapping[str, Iterable[NativeFunction]], namespace: str, request: _REQUEST) -> None:
        self.namespace, self.request = namespace, request
        # The definition of one operation, which definitions.py writes.
        self.in_place: Callable[[NativeFunction, Any], ast.expr] | None = None
        self.is_definable: Callable[[NativeFunction], bool] = lambda function: False
        self.functions = Functions(self.name)
        self.operators: dict[tuple[str, str], list[NativeFunction]] = {}
        for of, group in operators.items():
            for function in group:
                for schema in function.schemas:
                    for key in {schema.name.name, schema.name.unambiguous}:
                        self.operators.setdefault((of, key), []).append(function)


class Torch(_Named):
    """PyTorch."""

    name = TORCH

    def member(self, path: Sequence[str]) -> ast.expr | None:
        return dotted(TORCH, *path)

    def operator(self, name: str, of: str) -> ast.expr | None:
        if name == "Tensor":
            return dotted(TORCH, name)
        found = self.operators.get((of, name), [])
        if not found or name in _OWN:
            return None
        if of == PACKAGE:
            for function in found:
                self.request(function)
        schema = next(s for f in found for s in f.schemas if name in (s.name.name, s.name.unambiguous))
        full = [schema.name.name] if name == schema.name.name else [schema.name.name, schema.name.overload]
        if of == PACKAGE:
            return dotted(TORCH, "ops", self.namespace, *full)
        is_public = any(
            "function" in f.variants and f.python_module is None for f in self.operators[of, schema.name.name]
        )
        if len(full) == 1 and is_public:
            return dotted(TORCH, name)
        module, _, rest = name.partition("_")
        if len(full) == 1 and module == found[0].python_module and module in _MODULES:
            return dotted(TORCH, module, rest)
        if not is_public and len(found) == 1 and self.is_definable(found[0]):
            # PyTorch may have no derivative for it, as for silu_backward.
            self.request(found[0])
            return dotted(TORCH, "ops", self.namespace, *full)
        return dotted(TORCH, "ops", "aten", *full)


class Jax(_Named):
    """JAX, with jax.numpy as `jnp`."""

    name = JAX

    def member(self, path: Sequence[str]) -> ast.expr | None:
        return self.operator(path[-1], OPERATORS)

    def operator(self, name: str, of: str) -> ast.expr | None:
        if name == "Tensor":
            return dotted(JAX, "Array")
        if of == OPERATORS and f"_{name}" in self.functions.texts:
            return ast.Name(self.functions.use(f"_{name}"), ast.Load())
        found = [f for f in self.operators.get((of, name), []) if of == PACKAGE or f.scalar is not None or f.rows]
        return ast.Name(self.request(found[0]), ast.Load()) if found else None

    def call(self, name: str, of: str, node: ast.Call) -> ast.expr | None:
        if of == OPERATORS and f"_{name}" not in self.functions.texts:
            found = self.operators.get((of, name), [])
            # A number may stand for an array: the overload with most arrays takes both.
            for function in sorted(found, key=lambda f: -sum(a.type.is_tensor_like for a in f.schema.inputs)):
                bound = _bound(function, node)
                if bound is not None and self.in_place and function.scalar is not None and _is_one_operation(function):
                    return filled(self.in_place(function, self), bound)
                if bound is not None and (function.scalar is not None or function.rows is not None):
                    return ast.Call(ast.Name(self.request(function), ast.Load()), node.args, node.keywords)
        return super().call(name, of, node)

    def method(self, node: ast.Call) -> ast.expr | None:
        assert isinstance(node.func, ast.Attribute)
        name = node.func.attr
        for of in (OPERATORS, PACKAGE):
            called = ast.Call(node.func, [node.func.value, *node.args], node.keywords)
            if f"_{name}" in self.functions.texts or (of, name) in self.operators:
                return self.call(name, of, called)
        return None if name in METHOD_NAMES and not name.startswith("to_") else node

    def attribute(self, node: ast.Attribute) -> ast.expr:
        if node.attr in ("is_meta", "device"):
            return ast.Constant(False if node.attr == "is_meta" else None)
        name = f"_{node.attr}_of"
        if name in self.functions.texts:
            return ast.Call(ast.Name(self.functions.use(name), ast.Load()), [node.value], [])
        return node

    def member_call(self, path: Sequence[str], node: ast.Call) -> ast.expr | None:
        return self.call(path[-1], OPERATORS, node)

    def dtype(self, name: str) -> ast.expr:
        return dotted("jnp", "bool_" if name == "bool" else name)


def _bound(function: NativeFunction, node: ast.Call) -> dict[str, ast.expr] | None:
    """Return the arguments of a call by name; None if the overload does not take them."""
    inputs = function.schema.inputs
    named: dict[str, ast.expr] = {str(k.arg): k.value for k in node.keywords}
    if len(node.args) > len(inputs) or not {*named} <= {a.python_name for a in inputs}:
        return None
    found = dict(zip([a.python_name for a in inputs], node.args, strict=False)) | named
    for a in inputs:
        if a.python_name not in found:
            if a.default is None:
                return None
            found[a.python_name] = ast.Constant(a.default_value)  # type: ignore[arg-type]  # a number, str or None
    return found


def _is_one_operation(function: NativeFunction) -> bool:
    """Return whether a definition may stand in the place of a call: without a choice, each argument at most once."""
    assert function.scalar is not None
    nodes = list(ast.walk(function.scalar.tree))
    names = [n.id for n in nodes if isinstance(n, ast.Name)]
    arguments = [a.python_name for a in function.schema.inputs]
    return all(names.count(a) <= 1 for a in arguments) and not any(isinstance(n, ast.IfExp | ast.BoolOp) for n in nodes)


def make(name: str, operators: Mapping[str, Iterable[NativeFunction]], namespace: str, request: _REQUEST) -> Any:
    """Return the library of that name."""
    return {TORCH: Torch, JAX: Jax}[name](operators, namespace, request)
