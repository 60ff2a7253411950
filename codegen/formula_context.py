"""What the steps of resolving a formula share: what is known so far, and how to say that a name is wrong."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from .foreign_words import formula_name
from .formula import Formula, FormulaError
from .formula_scope import Helper, Kind, Operator, Scope, Variable
from .schema import did_you_mean

# Python's own functions that a formula may call, and the kind of their results (None: that of the argument).
BUILTINS: dict[str, Kind | None] = {
    "len": Kind.NUMBER, "int": Kind.NUMBER, "float": Kind.NUMBER, "bool": Kind.NUMBER, "range": Kind.NUMBERS,
    "min": Kind.NUMBER, "max": Kind.NUMBER, "abs": Kind.NUMBER, "tuple": None, "list": None,
    "zip": Kind.OTHER,
}  # fmt: skip

SAVE_IF = "wrap_opt_if"  # wrap_opt_if(x, condition): `x` if the condition held in the forward pass, else None
STANDALONE = ("auto_linear", "auto_element_wise", "non_differentiable", "not_implemented")

_CONSTANTS = {"true": "True", "false": "False", "none": "None", "nullptr": "None", "nullopt": "None", "null": "None"}


MATH = {"pi": "3.141592653589793", "e": "2.718281828459045", "inf": 'float("inf")', "nan": 'float("nan")'}


@dataclass(frozen=True, slots=True)
class GradientUse:
    """A gradient in a formula. `how`: 'passed' (as it is, to a helper), 'tested' (`is None`), 'computed'."""

    variable: Variable
    node: ast.expr
    how: str
    index: int | None  # which gradient; None for the whole list


class Names:
    """The names of one formula, as far as its tree has been visited."""

    def __init__(self, formula: Formula, scope: Scope) -> None:
        self.formula, self.scope = formula, scope
        self.callables = scope.callables
        self.kinds: dict[ast.AST, Kind] = {}
        self.variables: dict[ast.Name, Variable] = {}
        self.operators: dict[ast.AST, Operator] = {}
        self.helpers: dict[str, Helper] = {}
        self.constants: dict[ast.Attribute, str] = {}
        self.gradients: list[GradientUse] = []
        self.locals: dict[str, Variable] = {}
        self.how: dict[ast.AST, str] = {}

    def visit(self, node: ast.expr) -> Kind:
        """Resolve an expression. Recursion is bounded by formula.MAX_DEPTH."""
        kind = self.kinds[node] = self.resolve(node)
        return kind

    def resolve(self, node: ast.expr) -> Kind:
        """The kind of an expression, after resolving what is in it."""
        raise NotImplementedError

    def is_math(self, node: ast.Attribute) -> bool:
        """Whether it is `math.<something>`, and `math` is no variable."""
        base = node.value
        return isinstance(base, ast.Name) and base.id == "math" and base.id not in self.scope.variables

    def visit_all(self, nodes: Sequence[ast.expr]) -> list[Kind]:
        return [self.visit(node) for node in nodes]

    def use_gradient(self, variable: Variable, node: ast.expr, index: int | None) -> None:
        self.gradients.append(GradientUse(variable, node, self.how.get(node, "computed"), index))

    def unknown(self, node: ast.Name) -> FormulaError:
        name = node.id
        if name in self.scope.elsewhere:
            return self.formula.error(node, f"`{name}` is not a name here", self.scope.elsewhere[name])
        if name in STANDALONE:
            return self.formula.error(node, f"`{name}` must be the whole formula", "it cannot be part of an expression")
        if name in self.callables.helpers or name in self.callables.operators or name in (*BUILTINS, SAVE_IF):
            return self.formula.error(node, f"`{name}` is a function", f"call it: `{name}(...)`")
        if name in self.callables.namespaces:
            return self.formula.error(node, f"`{name}` is a namespace", f"call an operator of it: `{name}.<name>(...)`")
        if name in _CONSTANTS:
            return self.formula.error(node, f"unknown name `{name}`", f"write `{_CONSTANTS[name]}`")
        known = [*self.scope.variables, *self.locals, "None", "True", "False"]
        names = ", ".join(f"`{n}`" for n in known[:-3])
        known += STANDALONE if node is self.formula.tree else ()
        hint = (
            formula_name(name, known)
            or did_you_mean(name, known)
            or did_you_mean(name, self.functions(), cutoff=0.8)
            or f"this formula may use {names}"
        )
        return self.formula.error(node, f"unknown name `{name}`", hint)

    def functions(self) -> list[str]:
        operators = [o.public_name for o in self.callables.operators.values() if o.is_function]
        return [*self.callables.helpers, *operators, *BUILTINS, *self.callables.namespaces]
