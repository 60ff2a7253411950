"""Read the source of an operator: its kernel or composite, the functions that these call, and its formulas.

The source says what samples must vary: the numbers and strings that arguments are compared with. It also shows some
mistakes without a call: an optional tensor used without a test for None, a keyword that a function of NumPy lacks.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import numpy as np

from gradloom.types.public import home_of

from .operators import Operator

# Functions whose result has another form on either side of a number.
_KINKED = frozenset("where clip maximum minimum fmax fmin abs absolute sign heaviside select piecewise".split())
# How many calls deep functions are read.
_DEPTH = 3
_LARGEST = 200.0
_UFUNC_KEYWORDS = frozenset("out where axes axis keepdims casting order dtype subok signature".split())


class Source:
    """The syntax trees of an operator's kernel (or composite) and formulas."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    @cached_property
    def expression(self) -> ast.AST | None:
        """The kernel, where it is an expression."""
        kernel = self.operator.joined.function.kernel
        return _parsed(kernel.source) if kernel is not None and kernel.kind == "expression" else None

    @cached_property
    def kernel(self) -> tuple[ast.AST, ...]:
        """The kernel expression, and the functions that it is or calls."""
        function = self.operator.joined.function
        named = [] if function.kernel is None else [(d.partition(".")[2], m) for d, m in function.kernel.modules]
        room = "kernels"
        if function.composite is not None and function.composite_module is not None:
            named, room = [(function.composite.partition(".")[2], function.composite_module)], "composite"
        found = [self.expression] if self.expression is not None else []
        return (*found, *self._read(named, room))

    @cached_property
    def formulas(self) -> tuple[ast.AST, ...]:
        """The formulas of all inputs and outputs, and their helpers."""
        info = self.operator.joined.info
        if info is None:
            return ()
        named = [(name, module) for module, name in (*info.helpers, *info.forward_helpers)]
        return (*self.lines, *self._read(named, "formulas"))

    @cached_property
    def lines(self) -> tuple[ast.AST, ...]:
        """The formulas without their helpers."""
        info = self.operator.joined.info
        lines = [d.source for d in (*info.derivatives, *info.forward)] if info is not None else []
        return tuple(t for t in map(_parsed, lines) if t is not None)

    def _read(self, named: list[tuple[str, str]], room: str) -> Iterator[ast.AST]:
        home = home_of(self.operator.call).partition(".variable_type")[0]
        seen: set[Any] = set()
        for name, module in named:
            for package in (f"{home}.{room}.{module}", f"{home.rpartition('.')[0]}.{room}.{module}", module):
                function = getattr(_imported(package), name, None)
                if callable(function):
                    yield from (tree for _, tree in _functions(function, _DEPTH, seen))
                    break

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that the kernel and the formulas compare with, clip to or select by."""
        found: set[float] = set()
        for tree in (*self.kernel, *self.formulas):
            for node in ast.walk(tree):
                if isinstance(node, ast.Compare) or (isinstance(node, ast.Call) and _called(node) in _KINKED):
                    found |= {float(c) for c in _constants(node) if isinstance(c, (int, float)) and abs(c) <= _LARGEST}
        return tuple(sorted(n for n in found if n == n))[:12]

    def is_compared_with_infinity(self, name: str) -> bool:
        for tree in (*self.kernel, *self.formulas):
            for node in ast.walk(tree):
                if isinstance(node, ast.Compare) and name in _names(node):
                    parts = [getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(node)]
                    if any(p.lower().strip("_") in ("inf", "infinity") for p in parts):
                        return True
        return False

    def strings(self, name: str) -> tuple[str, ...]:
        """Return the strings that an argument is compared with; if none, all strings in comparisons and dicts."""
        near, any_ = [], []
        for tree in (*self.kernel, *self.formulas):
            for node in ast.walk(tree):
                if isinstance(node, (ast.Compare, ast.Dict, ast.match_case, ast.Subscript)):
                    found = [c for c in _constants(node) if isinstance(c, str) and c]
                    any_ += found
                    if isinstance(node, ast.Compare) and name in _names(node):
                        near += found
        return tuple(dict.fromkeys(near or any_))

    def integers(self, name: str) -> tuple[int, ...]:
        """Return the integers that an argument is compared with."""
        found: list[int] = []
        for tree in (*self.kernel, *self.formulas):
            for node in ast.walk(tree):
                if isinstance(node, ast.Compare) and name in _names(node):
                    found += [c for c in _constants(node) if isinstance(c, int) and not isinstance(c, bool)]
        return tuple(dict.fromkeys(n for n in found if abs(n) <= 8))

    @property
    def is_readable(self) -> bool:
        return bool(self.kernel)

    def unused(self, name: str) -> bool:
        """Return whether an argument occurs in the kernel and in no formula."""
        in_kernel = any(name in _names(tree) for tree in self.kernel)
        return in_kernel and bool(self.lines) and not any(_mentions(t, name) for t in self.lines)

    @cached_property
    def ignored(self) -> tuple[str, ...]:
        """The arguments that the kernel, or the composite, takes and never reads, as far as its source shows."""
        names = [a.python_name for a in self.operator.schema.inputs]
        if self.expression is not None:
            return tuple(n for n in names if n not in _names(self.expression))
        body = getattr(self.kernel[0], "body", []) if self.kernel else []
        if not body or not isinstance(body[0], ast.FunctionDef) or body[0].args.vararg or body[0].args.kwarg:
            return ()
        given = body[0].args
        parameters = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        read = {n.id for n in ast.walk(body[0]) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        if len(parameters) == len(names):
            return tuple(n for n, p in zip(names, parameters, strict=True) if p not in read)
        return tuple(n for n in names if n in parameters and n not in read)

    def is_tested(self, name: str) -> bool:
        """Return whether the kernel compares an argument with None, or asks for its truth."""
        for tree in self.kernel:
            for node in ast.walk(tree):
                if isinstance(node, ast.Compare) and name in _names(node) and None in list(_constants(node)):
                    return True
                if isinstance(node, (ast.IfExp, ast.If)) and name in _names(node.test):
                    return True
                if isinstance(node, ast.BoolOp) and any(isinstance(v, ast.Name) and v.id == name for v in node.values):
                    return True
        return False

    def is_computed_with(self, name: str) -> bool:
        """Return whether the kernel expression reads an attribute or element of an argument, or computes with it."""
        for node in ast.walk(self.expression) if self.expression is not None else ():
            parts = {
                ast.BinOp: lambda n: (n.left, n.right),
                ast.UnaryOp: lambda n: (n.operand,),
                ast.Attribute: lambda n: (n.value,),
                ast.Subscript: lambda n: (n.value,),
            }.get(type(node), lambda n: ())(node)
            if any(isinstance(p, ast.Name) and p.id == name for p in parts):
                return True
        return False

    def unknown_keywords(self) -> Iterator[str]:
        """Yield what is wrong with keywords of NumPy functions in the kernel expression."""
        for node in ast.walk(self.expression) if self.expression is not None else ():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.keywords:
                continue
            path = _dotted(node.func)
            function = np
            for part in path[1:] if path[:1] == ["xp"] else [node.func.attr]:
                function = getattr(function, part, None)
            if path[:1] != ["xp"] and path and path[0] not in self._arguments:
                continue  # a kernel, whose keywords the generator has checked
            known = _keywords(function)
            if known is None:
                continue
            for keyword in node.keywords:
                if keyword.arg and keyword.arg not in known:
                    meant = {"dim": "axis", "keepdim": "keepdims"}.get(keyword.arg)
                    hint = f"; write `{meant}`" if meant in known else ""
                    yield f"`{ast.unparse(node.func)}` has no keyword `{keyword.arg}`{hint}"

    @property
    def _arguments(self) -> set[str]:
        return {a.python_name for a in self.operator.schema.inputs}


def _parsed(text: str) -> ast.AST | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None


@cache
def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


@cache
def _tree(function: Callable[..., Any]) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


def _functions(function: Any, depth: int, seen: set[Any]) -> Iterator[tuple[Any, ast.AST]]:
    """Yield a Python function with its syntax tree, and those of its package that it calls."""
    function = inspect.unwrap(function) if callable(function) else function
    if function in seen or not inspect.isfunction(function):
        return
    seen.add(function)
    tree = _tree(function)
    if tree is None:
        return
    yield function, tree
    package = home_of(function).rpartition(".")[0]
    for node in ast.walk(tree) if depth > 1 else ():
        if isinstance(node, ast.Name):
            other = function.__globals__.get(node.id)
            if inspect.isfunction(other) and home_of(other).startswith(package):
                yield from _functions(other, depth - 1, seen)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _mentions(tree: ast.AST, name: str) -> bool:
    """Return whether a formula reads an argument: `x`, `x_p`, or everything, as `auto_linear` does."""
    names = _names(tree)
    return bool(names & {name, f"{name}_p", f"{name}_t"})


def _constants(node: ast.AST) -> Iterator[Any]:
    """Yield the constants in an expression, negative ones too."""
    for child in ast.walk(node):
        if (
            isinstance(child, ast.UnaryOp)
            and isinstance(child.op, ast.USub)
            and isinstance(child.operand, ast.Constant)
        ):
            if isinstance(child.operand.value, (int, float)):
                yield -child.operand.value
        elif isinstance(child, ast.Constant):
            yield child.value


def _dotted(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return [*before, node.attr] if before else []
    return []


def _keywords(function: Any) -> frozenset[str] | None:
    """Return the keywords that a function of NumPy takes; None if any, or if they are unknown."""
    if isinstance(function, np.ufunc):
        return _UFUNC_KEYWORDS
    if not callable(function):
        return None
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)
