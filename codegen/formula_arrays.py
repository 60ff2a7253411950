"""Formulas of which the generated code has a second form, on arrays.

Note [Formulas on arrays]
In a backward pass that nobody differentiates, a formula such as `grad * self.cos()` needs no tensors between its
operators: where all its tensors have one real floating dtype, it is the same expression on their arrays, and costs half
as much for small ones. A formula has this form if it is made of Python's arithmetic and of operators whose kernel is
one NumPy function of one tensor, or that give a real tensor back (`on_real: self` in native_functions.yaml). The
generated node looks whether the case is given; the formula on tensors stays beside it for all others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .formula_metadata import NUMBER_METHODS
from .formula_names import Resolved
from .formula_saving import Capture
from .formula_scope import Kind, Role
from .native_functions import NativeFunction

GRADIENT = "grad"
GRADIENT_ARRAY = "grad_"  # what the generated code calls the array of `grad`
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_SAME_DTYPE = (None, "default", "default_with_numbers", "int_to_float", "no_bool")


@dataclass(frozen=True, slots=True)
class OnArrays:
    """A formula on arrays, and the saved tensors whose dtype must be that of the gradient."""

    text: str
    tensors: tuple[str, ...]


def array_forms(functions: Iterable[NativeFunction]) -> dict[str, str]:
    """What operators of one tensor are on a real floating array, by name: `xp.cos`, or '' for the array itself."""
    groups: dict[str, list[NativeFunction]] = {}
    for function in functions:
        groups.setdefault(function.schema.name.name, []).append(function)
    forms = {name: _form(group[0]) for name, group in groups.items() if len(group) == 1}
    return {name: form for name, form in forms.items() if form is not None}


def _form(function: NativeFunction) -> str | None:
    kernel, inputs = function.kernel, function.schema.inputs
    if len(inputs) != 1 or not inputs[0].type.is_tensor:
        return None
    if function.on_real is not None:
        return ""
    if kernel is None or kernel.ufunc is None or kernel.operands != (inputs[0].python_name,):
        return None
    return f"xp.{kernel.ufunc}" if function.type_promotion in _SAME_DTYPE else None


def on_arrays(resolved: Resolved, captures: Sequence[Capture]) -> OnArrays | None:
    """The form of a formula on arrays; None if it has none."""
    tree = resolved.formula.tree
    if isinstance(tree, ast.Name):  # the gradient itself, which is no new tensor
        return None
    writer = _Writer(resolved, {c.name for c in captures if c.is_whole and c.condition is None})
    try:
        written = writer.write(tree)
    except _OnTensorsOnly:
        return None
    return OnArrays(ast.unparse(written), tuple(dict.fromkeys(writer.tensors)))


class _OnTensorsOnly(Exception):
    """The formula has a part that is not known to be the same on arrays."""


class _Writer:
    def __init__(self, resolved: Resolved, whole: set[str]) -> None:
        self.resolved, self.whole = resolved, whole
        self.tensors: list[str] = []

    def write(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Constant(value=int() | float()):
                return node
            case ast.Name():
                return self.name(node)
            case ast.BinOp(op=op) if isinstance(op, _ARITHMETIC):
                return ast.BinOp(self.write(node.left), op, self.write(node.right))
            case ast.UnaryOp(op=ast.USub()):
                return ast.UnaryOp(node.op, self.write(node.operand))
            case ast.Call(keywords=[], func=ast.Attribute(value=base, attr=attr), args=[]):
                return self.call(node.func, base, attr)
            case ast.Call(keywords=[], func=ast.Name(id=name), args=[argument]) if node.func in self.resolved.operators:
                return self.call(node.func, argument, name)
        raise _OnTensorsOnly

    def name(self, node: ast.Name) -> ast.expr:
        variable = self.resolved.variables[node]
        if variable.role is Role.GRADIENT and node.id == GRADIENT:
            return ast.Name(GRADIENT_ARRAY)
        if variable.role not in (Role.ARGUMENT, Role.RESULT) or variable.is_optional or node.id not in self.whole:
            raise _OnTensorsOnly
        if variable.kind is Kind.NUMBER:
            return ast.Name(node.id)
        if variable.kind is not Kind.TENSOR:
            raise _OnTensorsOnly
        self.tensors.append(node.id)
        return ast.Attribute(ast.Name(node.id), "_array")

    def call(self, func: ast.expr, argument: ast.expr, name: str) -> ast.expr:
        kind = self.resolved.kinds.get(argument)
        if kind is Kind.NUMBER and name in NUMBER_METHODS:
            return ast.Call(ast.Attribute(self.write(argument), NUMBER_METHODS[name]), [], [])
        form = self.resolved.scope.callables.array_forms.get(name)
        if kind is not Kind.TENSOR or form is None:
            raise _OnTensorsOnly
        written = self.write(argument)
        return ast.Call(ast.parse(form, mode="eval").body, [written], []) if form else written
