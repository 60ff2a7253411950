"""Follows values through formulas and their helpers, to see which operators get something that is differentiated."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection

from .formula_metadata import ATTRIBUTE_NAMES, METHOD_NAMES, TENSOR_ATTRIBUTES, TENSOR_METHODS
from .source_functions import OPERATORS, Functions

_READS = (ATTRIBUTE_NAMES - TENSOR_ATTRIBUTES) | (METHOD_NAMES - {"to"} | (set(TENSOR_METHODS) - {"to"}))
MAX_DEPTH = 12


class Flow:
    """One pass over a formula.

    answer   the name of an operator -> whether it is differentiable: 'yes', 'part', 'no', 'none'; None for another name
    stopped  the operators that are not and get something that is differentiated, filled by `expression`
    """

    def __init__(self, functions: Functions, answer: Callable[[str], str | None]) -> None:
        self.functions, self.answer = functions, answer
        self.stopped: set[str] = set()
        self.depth = 0

    def expression(self, node: ast.expr, names: Collection[str], module: str | None) -> bool:
        """Whether the value of an expression depends differentiably on one of the names."""
        if isinstance(node, ast.Name):
            return node.id in names
        if isinstance(node, ast.Compare):
            for part in (node.left, *node.comparators):
                self.expression(part, names, module)
            return False
        if isinstance(node, ast.IfExp):
            self.expression(node.test, names, module)
            return self.any_of([node.body, node.orelse], names, module)
        if isinstance(node, ast.Attribute):
            return self.expression(node.value, names, module) and node.attr not in _READS
        if isinstance(node, ast.Call):
            return self.call(node, names, module)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            inner = set(names)
            for generator in node.generators:
                if self.expression(generator.iter, inner, module):
                    inner |= _names_in(generator.target)
            return self.expression(node.elt, inner, module)
        return self.any_of([n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)], names, module)

    def any_of(self, nodes: list[ast.expr], names: Collection[str], module: str | None) -> bool:
        """Whether one of them depends on a name; all are looked at, for what they call."""
        return True in [self.expression(node, names, module) for node in nodes]

    def call(self, node: ast.Call, names: Collection[str], module: str | None) -> bool:
        given = [self.expression(a, names, module) for a in node.args]
        words = {k.arg: self.expression(k.value, names, module) for k in node.keywords}
        depends = any(given) or any(words.values())
        func = node.func
        if isinstance(func, ast.Attribute):
            is_operator = isinstance(func.value, ast.Name) and func.value.id in OPERATORS
            if not is_operator:
                depends = self.expression(func.value, names, module) or depends
                if func.attr in _READS:
                    return False
            return self.through(func.attr, depends)
        if not isinstance(func, ast.Name):
            return depends
        found = self.functions.find(func.id, module)
        if found is None:
            return depends
        return self.function(*found, given, words) if depends else False

    def through(self, name: str, depends: bool) -> bool:
        answer = self.answer(name)
        if depends and answer == "no":
            self.stopped.add(name)
        return depends and answer not in ("no", "none")

    def function(
        self, module: str, definition: ast.FunctionDef, given: list[bool], words: dict[str | None, bool]
    ) -> bool:
        """A call of a helper, with which of its arguments depend on what is differentiated."""
        if self.depth >= MAX_DEPTH:
            return True
        self.depth += 1
        spec = definition.args
        parameters = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        names = {p for p, depends in zip(parameters, given, strict=False) if depends}
        names |= {word for word, depends in words.items() if word and depends}
        if spec.vararg and any(given[len(parameters) :]):
            names.add(spec.vararg.arg)
        result = self.statements(definition.body, names, module)
        self.depth -= 1
        return result

    def statements(self, body: list[ast.stmt], names: set[str], module: str) -> bool:
        """Whether what the statements return depends on the names; `names` grows by what is assigned."""
        result = False
        for statement in body:
            if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and statement.value is not None:
                for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                    names |= self.assigned(target, statement.value, names, module)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                result = self.expression(statement.value, names, module) or result
            elif isinstance(statement, ast.For):
                if self.expression(statement.iter, names, module):
                    names |= _names_in(statement.target)
                result = self.statements([*statement.body, *statement.body], names, module) or result
            elif isinstance(statement, (ast.If, ast.While)):
                self.expression(statement.test, names, module)
                body = statement.body * (2 if isinstance(statement, ast.While) else 1)
                result = self.statements([*body, *statement.orelse], names, module) or result
            elif isinstance(statement, ast.Expr):
                self.expression(statement.value, names, module)
        return result

    def assigned(self, target: ast.expr, value: ast.expr, names: Collection[str], module: str) -> set[str]:
        """The names that an assignment makes depend on what is differentiated."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = zip(target.elts, value.elts, strict=True)
            return {name for t, v in pairs for name in self.assigned(t, v, names, module)}
        return _names_in(target) if self.expression(value, names, module) else set()


def _names_in(target: ast.expr) -> set[str]:
    """The names that an assignment to a target gives a value; of `x[i] = y`, x."""
    if isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
        return _names_in(target.value)
    if isinstance(target, (ast.Tuple, ast.List)):
        return {name for item in target.elts for name in _names_in(item)}
    return {target.id} if isinstance(target, ast.Name) else set()
