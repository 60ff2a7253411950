"""Resolves every name of a formula, or says which one is wrong.

    resolved = resolve(parse("grad * exponent"), scope)
    resolved.kinds[node]          # the Kind of each expression
    resolved.gradients            # which gradients it uses, and how

After `resolve` each word of the formula is known: a variable of the operator, a helper, an operator, a method
that tensors have. Nothing else gets through.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .formula import Formula, constant_int
from .formula_calls import Calls
from .formula_context import BUILTINS, GradientUse
from .formula_metadata import metadata_read
from .formula_scope import Helper, Kind, Operator, Role, Scope, Variable


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """A formula whose names are all known.

    Attributes:
        kinds: the kind of every expression of the tree.
        variables: what each name that reads a variable refers to.
        operators: what each called function name (a Name, or an Attribute of a namespace) refers to.
        helpers: the helpers that are called, by name.
        constants: the text of each constant, such as `math.pi`.
        gradients: every use of a gradient, in the order of the text.
    """

    formula: Formula
    scope: Scope
    kinds: Mapping[ast.AST, Kind]
    variables: Mapping[ast.Name, Variable]
    operators: Mapping[ast.AST, Operator]
    helpers: Mapping[str, Helper]
    constants: Mapping[ast.Attribute, str]
    gradients: tuple[GradientUse, ...]

    def first(self, *roles: Role) -> ast.Name | None:
        """The first name of the text that refers to a variable of one of the roles."""
        found = [node for node, variable in self.variables.items() if variable.role in roles]
        return min(found, key=lambda node: node.col_offset, default=None)

    def names(self, *roles: Role) -> tuple[str, ...]:
        """What the variables of these roles belong to (`self` for `self_t`), in the order of the text."""
        found = [(node.col_offset, v.of or v.name) for node, v in self.variables.items() if v.role in roles]
        return tuple(dict.fromkeys(name for _, name in sorted(found)))


def resolve(formula: Formula, scope: Scope) -> Resolved:
    """Resolve all names of a formula.

    Raises:
        FormulaError: for a name that is not in scope, or is used as what it is not.
    """
    resolver = _Resolver(formula, scope)
    resolver.visit(formula.tree)
    gradients = sorted(resolver.gradients, key=lambda use: use.node.col_offset)
    return Resolved(
        formula,
        scope,
        resolver.kinds,
        resolver.variables,
        resolver.operators,
        resolver.helpers,
        resolver.constants,
        tuple(gradients),
    )


class _Resolver(Calls):
    """Walks the tree of a formula."""

    def resolve(self, node: ast.expr) -> Kind:
        return _RULES[type(node)](self, node)

    # Leaves

    def constant(self, node: ast.Constant) -> Kind:
        return Kind.NUMBER if isinstance(node.value, (int, float, complex)) else Kind.OTHER

    def name(self, node: ast.Name) -> Kind:
        variable = self.locals.get(node.id) or self.scope.variables.get(node.id)
        if variable is None:
            raise self.unknown(node)
        self.variables[node] = variable
        if variable.role is Role.GRADIENT:
            self.use_gradient(variable, node, variable.index)
        elif variable.role is Role.GRADIENTS:
            self.use_gradient(variable, node, None)
        return variable.kind

    # Operators of Python

    def binop(self, node: ast.BinOp) -> Kind:
        kinds = {self.visit(node.left), self.visit(node.right)}
        if kinds == {Kind.NUMBER} or kinds == {Kind.NUMBERS}:
            return kinds.pop()
        if kinds == {Kind.NUMBER, Kind.NUMBERS}:  # (0,) * dim
            return Kind.NUMBERS
        return Kind.TENSOR if Kind.TENSOR in kinds else Kind.UNKNOWN

    def unaryop(self, node: ast.UnaryOp) -> Kind:
        kind = self.visit(node.operand)
        return Kind.NUMBER if isinstance(node.op, ast.Not) else kind

    def boolop(self, node: ast.BoolOp) -> Kind:
        return _common(self.visit_all(node.values))

    def compare(self, node: ast.Compare) -> Kind:
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            self._check_none_test(node)
            self.how[node.left] = "tested"
        kinds = self.visit_all([node.left, *node.comparators])
        return Kind.TENSOR if Kind.TENSOR in kinds else Kind.NUMBER

    def _check_none_test(self, node: ast.Compare) -> None:
        right = node.comparators[0]
        if len(node.ops) > 1 or not (isinstance(right, ast.Constant) and right.value is None):
            operator = "is not" if isinstance(node.ops[0], ast.IsNot) else "is"
            raise self.formula.error(right, f"`{operator}` with something that is not None", "compare with `==`")

    def ifexp(self, node: ast.IfExp) -> Kind:
        self.visit(node.test)
        branches = [n for n in (node.body, node.orelse) if not (isinstance(n, ast.Constant) and n.value is None)]
        for branch in (node.body, node.orelse):
            if branch not in branches:
                self.visit(branch)
        return _common(self.visit_all(branches)) if branches else Kind.OTHER

    # Containers

    def tuple(self, node: ast.Tuple | ast.List) -> Kind:
        kinds = set(self.visit_all(node.elts))
        if kinds == {Kind.NUMBER}:
            return Kind.NUMBERS
        return Kind.TENSORS if kinds == {Kind.TENSOR} else Kind.OTHER

    def slice(self, node: ast.Slice) -> Kind:
        self.visit_all([part for part in (node.lower, node.upper, node.step) if part is not None])
        return Kind.OTHER

    def subscript(self, node: ast.Subscript) -> Kind:
        base = node.value
        variable = self.scope.variables.get(base.id) if isinstance(base, ast.Name) else None
        if variable is not None and variable.role in (Role.GRADIENTS, Role.MASK):
            return self._element(node, variable)
        read = metadata_read(node)
        kind = self.visit(base)
        self.visit(node.slice)
        if read is not None and self.kinds[read.base].may_be_tensor:
            return read.kind
        if isinstance(node.slice, ast.Slice) or kind in (Kind.TENSOR, Kind.UNKNOWN, Kind.OTHER):
            return Kind.UNKNOWN if kind is Kind.OTHER else kind
        if kind in (Kind.NUMBER, Kind.DTYPE):
            message = f"`{self.formula.source(base)}` is {kind.value}, it has no elements"
            raise self.formula.error(base, message, "remove the brackets behind it")
        return Kind.TENSOR if kind is Kind.TENSORS else Kind.NUMBER

    def _element(self, node: ast.Subscript, variable: Variable) -> Kind:
        """`grads[1]` and `grad_input_mask[0]`: the index must exist."""
        base = node.value
        self.variables[base] = variable  # type: ignore[index]
        self.kinds[base] = variable.kind
        index = constant_int(node.slice)
        if variable.size is None:
            self.visit(node.slice)
            if variable.role is Role.GRADIENTS:
                self.use_gradient(variable, node, None)
            return Kind.TENSOR
        if index is None:
            message = f"the index of `{variable.name}` is not a constant"
            raise self.formula.error(node.slice, message, f"write `{variable.name}[0]`")
        if not 0 <= index < variable.size:
            what = "differentiable outputs" if variable.role is Role.GRADIENTS else "inputs in this key"
            message = f"`{self.formula.source(node)}`: the index is out of range"
            last = f"`{variable.name}[{variable.size - 1}]`"
            hint = f"there are {variable.size} {what}; the last is {last}" if variable.size else f"there are no {what}"
            raise self.formula.error(node.slice, message, hint)
        if variable.role is Role.GRADIENTS:
            self.use_gradient(variable, node, index)
            return Kind.TENSOR
        return Kind.NUMBER

    def listcomp(self, node: ast.ListComp) -> Kind:
        generator = node.generators[0]
        kind = self.visit(generator.iter)
        targets = generator.target.elts if isinstance(generator.target, ast.Tuple) else [generator.target]
        kinds = [_element_kind(kind)] * len(targets)
        if isinstance(generator.iter, ast.Call) and isinstance(generator.iter.func, ast.Name):
            if generator.iter.func.id == "zip":
                kinds = [_element_kind(self.kinds[argument]) for argument in generator.iter.args]
                if len(kinds) != len(targets):
                    raise self.formula.error(
                        generator.target, f"{len(targets)} variables for {len(kinds)} lists", "write one for each"
                    )
        outer = dict(self.locals)
        for target, target_kind in zip(targets, kinds, strict=True):
            self._define(target, target_kind)  # type: ignore[arg-type]
        self.visit_all([*generator.ifs])
        element = self.visit(node.elt)
        self.locals = outer
        if element is Kind.NUMBER:
            return Kind.NUMBERS
        return Kind.TENSORS if element.may_be_tensor else Kind.OTHER

    def _define(self, target: ast.Name, kind: Kind) -> None:
        name = target.id
        taken = (self.scope.variables, self.locals, self.callables.helpers, BUILTINS)
        if any(name in names for names in taken):
            raise self.formula.error(target, f"`{name}` is a name already", "choose another name for the variable")
        self.locals[name] = Variable(name, kind, Role.LOCAL)


def _common(kinds: list[Kind]) -> Kind:
    return kinds[0] if len(set(kinds)) == 1 else Kind.UNKNOWN


def _element_kind(kind: Kind) -> Kind:
    return {Kind.TENSORS: Kind.TENSOR, Kind.NUMBERS: Kind.NUMBER}.get(kind, Kind.UNKNOWN)


_RULES: dict[type[ast.expr], Callable[[_Resolver, Any], Kind]] = {
    ast.Constant: _Resolver.constant, ast.Name: _Resolver.name, ast.BinOp: _Resolver.binop,
    ast.UnaryOp: _Resolver.unaryop, ast.BoolOp: _Resolver.boolop, ast.Compare: _Resolver.compare,
    ast.IfExp: _Resolver.ifexp, ast.Tuple: _Resolver.tuple, ast.List: _Resolver.tuple,
    ast.Slice: _Resolver.slice, ast.Subscript: _Resolver.subscript, ast.ListComp: _Resolver.listcomp,
    ast.Attribute: _Resolver.attribute, ast.Call: _Resolver.call,
}  # fmt: skip
