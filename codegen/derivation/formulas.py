"""The derivatives of a definition as formulas of derivatives.yaml: `grad * (beta * result * sigmoid(-beta * self))`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence

from ..language.scalars import names_in
from .branches import Branches, Leaf

ZERO = ast.Constant(0)
_NAMES = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2", "rint": "round",
}  # fmt: skip
# Operators that take tensors only.
_OF_TENSORS = frozenset("atan2 maximum minimum fmax fmin hypot logaddexp logaddexp2 copysign".split())
_CLAMPS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # of a tensor and a number
_EXACT = 40  # from here on, softplus(x) is x in float64


class Formulas:
    """Writes formulas for one operator."""

    def __init__(self, tensors: Collection[str], is_holomorphic: bool) -> None:
        self.tensors = frozenset((*tensors, "result"))
        self.is_holomorphic = is_holomorphic

    def backward(self, derivative: Branches) -> str:
        """Return the formula of an input's gradient."""
        if isinstance(derivative, Leaf) and is_zero(derivative.tree):
            return "zeros_like(grad)"
        return self._chosen(derivative, lambda tree: self._product("grad", tree))

    def forward(self, derivatives: Mapping[str, Branches]) -> str:
        """Return the formula of the result's tangent, given the derivative by each input; these are alike but for their
        leaves."""
        (first, *_) = derivatives.values()
        if isinstance(first, Leaf):
            terms = [
                self._product(f"{name}_t", d.tree)
                for name, d in derivatives.items()
                if isinstance(d, Leaf) and not is_zero(d.tree)
            ]
            return " + ".join(terms).replace("+ -", "- ") or "0"
        yes = self.forward({name: d.yes for name, d in derivatives.items()})  # type: ignore[union-attr]
        no = self.forward({name: d.no for name, d in derivatives.items()})  # type: ignore[union-attr]
        if yes == no:
            return yes
        return self._choice(first.test, first.of_elements, yes, no)

    def _chosen(self, found: Branches, write: Callable[[ast.expr], str]) -> str:
        if isinstance(found, Leaf):
            return write(found.tree)
        yes, no = self._chosen(found.yes, write), self._chosen(found.no, write)
        return self._choice(found.test, found.of_elements, yes, no)

    def _choice(self, test: ast.expr, of_elements: bool, yes: str, no: str) -> str:
        condition = self.text(test)
        if of_elements:
            return f"where({condition}, {yes}, {no})"
        return f"({yes} if {condition} else {no})"

    def _product(self, gradient: str, tree: ast.expr) -> str:
        """Return the product of a gradient or tangent with a derivative."""
        match tree:
            case ast.Constant(value=1):
                return gradient
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
                return f"-{gradient}"
            case ast.Constant(value=0):
                return "0"
            case ast.BinOp(left=ast.Constant(value=1), op=ast.Div(), right=below):
                return f"{gradient} / {self._conjugated(below, gradient)}"
            case ast.BinOp(left=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)), op=ast.Div(), right=below):
                return f"-{gradient} / {self._conjugated(below, gradient)}"
            case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
                return f"-{gradient} * {self._conjugated(operand, gradient)}"
        return f"{gradient} * {self._conjugated(tree, gradient)}"

    def _conjugated(self, tree: ast.expr, gradient: str) -> str:
        text = self.text(tree)
        whole = isinstance(tree, ast.Name | ast.Call | ast.Constant)
        if not self.is_holomorphic or gradient != "grad" or not names_in(tree) & self.tensors:
            return text if whole else f"({text})"
        return f"{text}.conj()" if whole else f"({text}).conj()"

    def text(self, tree: ast.expr) -> str:
        """Return an expression of the scalar language in the language of formulas."""
        return ast.unparse(Calls(self.tensors).visit(ast.parse(ast.unparse(tree), mode="eval").body))


class Calls(ast.NodeTransformer):
    """Writes functions of numbers as calls of operators."""

    def __init__(self, tensors: frozenset[str]) -> None:
        self.tensors = tensors

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = node.func.id  # type: ignore[attr-defined]
        given = [self.visit(a) for a in node.args]
        name = _NAMES.get(name, name)
        if name == "softplus":
            return _call("softplus", [*given, ast.Constant(1), ast.Constant(_EXACT)])
        if name == "polygamma":
            return _call(name, given)
        if name in _CLAMPS and len(given) == 2:
            given.sort(key=lambda a: not names_in(a) & self.tensors)
            if not names_in(given[1]) & self.tensors:
                return _call(_CLAMPS[name], given)
        first = next((t for a in given for t in sorted(names_in(a) & self.tensors)), None)
        if (name in _OF_TENSORS or len(given) == 1) and any(not names_in(a) & self.tensors for a in given):
            like = ast.Name(first or "grad", ast.Load())
            given = [a if names_in(a) & self.tensors else _call("full_like", [like, a]) for a in given]
        if len(given) == 1 and isinstance(given[0], ast.Name | ast.Call):
            return ast.Call(ast.Attribute(given[0], name, ast.Load()), [], [])
        return _call(name, given)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in ("pi", "e", "inf", "nan"):
            return ast.Attribute(ast.Name("math", ast.Load()), node.id, ast.Load())
        return ast.Constant(0.5772156649015329) if node.id == "euler_gamma" else node


def _call(name: str, arguments: Sequence[ast.expr]) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def is_zero(tree: ast.expr) -> bool:
    """Return whether an expression is the number 0."""
    return isinstance(tree, ast.Constant) and tree.value == 0
