"""Resolves the attributes and calls of a formula: helpers, operators, methods, metadata."""

from __future__ import annotations

import ast

from .foreign_words import FORMULA_METHODS
from .formula import FormulaError
from .formula_context import BUILTINS, MATH, SAVE_IF, STANDALONE, Names
from .formula_metadata import (
    ATTRIBUTE_NAMES,
    DTYPE_ATTRIBUTES,
    DTYPE_METHODS,
    METHOD_NAMES,
    NUMBER_ATTRIBUTES,
    NUMBER_METHODS,
    TENSOR_ATTRIBUTES,
    TENSOR_METHODS,
    metadata_read,
)  # fmt: skip
from .formula_scope import Helper, Kind, Operator, Role, Variable
from .schema import did_you_mean

_METHODS_HINT = "a formula may call operators with a method variant, and what reads sizes, strides and types"


class Calls(Names):
    """What can follow a dot, and what can be called."""

    def attribute(self, node: ast.Attribute) -> Kind:
        namespace = self._namespace_of(node)
        if namespace is not None:
            raise self.formula.error(node, f"`{self.formula.source(node)}` is a function", "call it")
        if self.is_math(node):
            if node.attr not in MATH:
                hint = f"it has the constants {', '.join(f'`{name}`' for name in MATH)}"
                raise self.formula.attribute_error(node, f"formulas have no `math.{node.attr}`", hint)
            self.constants[node] = MATH[node.attr]
            return Kind.NUMBER
        kind = self.visit(node.value)
        if kind is Kind.DTYPE and node.attr in DTYPE_ATTRIBUTES | DTYPE_METHODS:
            if node.attr in DTYPE_METHODS:
                raise self.formula.attribute_error(node, f"`{node.attr}` is a method", f"call it: `.{node.attr}()`")
            return Kind.NUMBER
        if kind is Kind.NUMBER and node.attr in NUMBER_ATTRIBUTES:
            return kind
        if not kind.may_be_tensor:
            raise self._no_attribute(node, kind)
        read = metadata_read(node)
        if read is not None:
            return read.kind
        if node.attr in TENSOR_ATTRIBUTES:
            return Kind.TENSOR
        if node.attr in METHOD_NAMES or self.callables.is_method(node.attr):
            raise self.formula.attribute_error(node, f"`{node.attr}` is a method", f"call it: `.{node.attr}(...)`")
        raise self._no_attribute(node, kind)

    def _no_attribute(self, node: ast.Attribute, kind: Kind) -> FormulaError:
        base = self.formula.source(node.value)
        if kind.may_be_tensor:
            known = [*ATTRIBUTE_NAMES, *METHOD_NAMES, *self.callables.methods]
            hint = (
                FORMULA_METHODS.get(node.attr)
                or did_you_mean(node.attr, known)
                or f"they have {', '.join(f'`{n}`' for n in sorted(ATTRIBUTE_NAMES))}"
            )
            return self.formula.attribute_error(node, f"tensors have no attribute `{node.attr}`", hint)
        members = {Kind.NUMBER: (*NUMBER_ATTRIBUTES, *NUMBER_METHODS), Kind.DTYPE: (*DTYPE_ATTRIBUTES, *DTYPE_METHODS)}
        have = sorted(members.get(kind, ()))
        hint = f"it has {', '.join(f'`{h}`' for h in have)}" if have else "remove it"
        if kind is Kind.TENSORS:
            hint = f"write `[x.{node.attr} for x in {base}]`"
        return self.formula.attribute_error(node, f"`{base}` is {kind.value}, it has no `{node.attr}`", hint)

    def _namespace_of(self, node: ast.expr) -> str | None:
        """`linalg` for `linalg.inv`, unless `linalg` is a variable."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.value.id
            if name in self.callables.namespaces and name not in self.scope.variables and name not in self.locals:
                return name
        return None

    def call(self, node: ast.Call) -> Kind:
        if isinstance(node.func, ast.Name):
            return self._function_call(node, node.func)
        assert isinstance(node.func, ast.Attribute)  # formula.py accepts calls of nothing else
        if self.is_math(node.func):
            hint = "write an operator's method, or a power such as `x ** 0.5`"
            raise self.formula.error(node.func, f"formulas have no `math.{node.func.attr}`", hint)
        namespace = self._namespace_of(node.func)
        if namespace is None:
            return self._method_call(node, node.func)
        members, attr = self.callables.namespaces[namespace], node.func.attr
        operator = members.get(attr)
        if operator is None or not operator.is_function:
            hint = did_you_mean(attr, members) or f"it has {', '.join(f'`{m}`' for m in sorted(members))}"
            raise self.formula.attribute_error(node.func, f"`{namespace}` has no operator `{attr}`", hint)
        return self._operator_call(node, operator)

    def _arguments(self, node: ast.Call) -> list[Kind]:
        for item in node.keywords:
            if item.arg is None:
                self.how[item.value] = "unpacked"
        return self.visit_all([*node.args, *(k.value for k in node.keywords)])

    def _function_call(self, node: ast.Call, func: ast.Name) -> Kind:
        name = func.id
        variable = self.locals.get(name) or self.scope.variables.get(name)
        if name == SAVE_IF:
            return self._save_if(node)
        if name in self.callables.helpers:
            self._check_not_hidden(func, variable, "helper")
            return self._helper_call(node, self.callables.helpers[name])
        operator = self.callables.operators.get(name)
        is_operator = operator is not None and operator.is_function
        if name in BUILTINS:
            kinds = self._arguments(node)
            if not (is_operator and any(kind.may_be_tensor for kind in kinds)):
                self._check_not_hidden(func, variable, "function")
                returns = BUILTINS[name]
                return returns if returns is not None else (kinds[0] if kinds else Kind.OTHER)
        if is_operator:
            return self._operator_call(node, operator)  # type: ignore[arg-type]
        if variable is not None:
            message = f"`{name}` is {variable.kind.value}, it cannot be called"
            hint = did_you_mean(name, self.functions()) or "write `*` to multiply, `[...]` to take an element"
            raise self.formula.error(func, message, hint)
        if name in STANDALONE or name in self.scope.elsewhere:
            raise self.unknown(func)
        if operator is not None:
            raise self.formula.error(func, f"operator `{name}` is a method only", f"write `x.{name}(...)`")
        known = self.functions()
        hint = did_you_mean(name, [*known, *STANDALONE])
        hint = hint or "a formula may call operators and the public functions in formulas/"
        raise self.formula.error(func, f"unknown function `{name}`", hint)

    def _check_not_hidden(self, func: ast.Name, variable: Variable | None, what: str) -> None:
        if variable is not None:
            message = f"{what} `{func.id}` is hidden by the {variable.role.value} of that name"
            raise self.formula.error(func, message, "call it in a helper in formulas/")

    def _helper_call(self, node: ast.Call, helper: Helper) -> Kind:
        for value in (*node.args, *(k.value for k in node.keywords)):
            self.how[value] = "passed"
        self._arguments(node)
        self.helpers[helper.name] = helper
        wrong = helper.misuse(len(node.args), [k.arg for k in node.keywords if k.arg])
        if wrong is not None and all(k.arg for k in node.keywords):
            word, message = wrong
            at = next((k for k in node.keywords if k.arg == word), node.func)
            hint = "its arguments are " + ", ".join(f"`{p}`" for p in (*helper.positional, *sorted(helper.keywords)))
            raise self.formula.error(at, message, hint)
        return helper.returns

    def _operator_call(self, node: ast.Call, operator: Operator) -> Kind:
        self._arguments(node)
        self._check_keywords(node, operator)
        self.operators[node.func] = operator
        return operator.returns

    def _check_keywords(self, node: ast.Call, operator: Operator) -> None:
        for item in node.keywords:
            if item.arg is not None and item.arg not in operator.arguments:
                message = f"`{operator.public_name}` has no argument `{item.arg}`"
                names = ", ".join(f"`{name}`" for name in sorted(operator.arguments))
                hint = did_you_mean(item.arg, operator.arguments) or f"its arguments are {names}"
                raise self.formula.error(item, message, hint)

    def _method_call(self, node: ast.Call, func: ast.Attribute) -> Kind:
        kind = self.visit(func.value)
        arguments = self._arguments(node)
        name = func.attr
        if kind is Kind.NUMBER and name in NUMBER_METHODS and not arguments:
            return kind
        if kind is Kind.DTYPE and name in DTYPE_METHODS and not arguments:
            return kind
        if not kind.may_be_tensor:
            raise self._no_attribute(func, kind)
        read = metadata_read(node)
        if read is not None:
            return read.kind
        if name == "options" and self.how.get(node) != "unpacked":
            message = "`options()` gives keyword arguments: dtype and device"
            raise self.formula.attribute_error(func, message, "unpack them: `zeros(size, **self.options())`")
        if name in TENSOR_METHODS and not self.callables.is_method(name):
            return TENSOR_METHODS[name]
        if self.callables.is_method(name):
            operator = self.callables.operators[name]
            self._check_keywords(node, operator)
            if operator.is_inplace:
                self._check_write(func)
            return operator.returns
        if name in ATTRIBUTE_NAMES:
            raise self.formula.attribute_error(func, f"`{name}` is not a method", f"write `.{name}`")
        if name in self.callables.helpers or name in self.callables.operators:
            hint = f"call it as a function: `{name}({self.formula.source(func.value)}, ...)`"
            raise self.formula.attribute_error(func, f"tensors have no method `{name}`", hint)
        hint = (
            FORMULA_METHODS.get(name) or did_you_mean(name, [*self.callables.methods, *METHOD_NAMES]) or _METHODS_HINT
        )
        raise self.formula.attribute_error(func, f"tensors have no method `{name}`", hint)

    def _check_write(self, func: ast.Attribute) -> None:
        """A formula must not write to what others hold; only an in-place operator's tangent is its own."""
        variable = self.variables.get(func.value) if isinstance(func.value, ast.Name) else None
        if self.scope.writes_tangent and variable is not None and variable.role is Role.TANGENT:
            return
        message = f"`{func.attr}` writes to its tensor, which others may hold"
        raise self.formula.attribute_error(func, message, f"write `{func.attr[:-1]}`")

    def _save_if(self, node: ast.Call) -> Kind:
        if len(node.args) != 2 or node.keywords:
            message = f"`{SAVE_IF}` takes a tensor and a condition"
            raise self.formula.error(node, message, f"write `{SAVE_IF}(self, grad_input_mask[0])`")
        tensor, condition = node.args
        variable = self.scope.variables.get(tensor.id) if isinstance(tensor, ast.Name) else None
        if variable is None or variable.role not in (Role.ARGUMENT, Role.RESULT) or variable.kind is not Kind.TENSOR:
            message = f"`{self.formula.source(tensor)}` is not an argument of type Tensor"
            raise self.formula.error(tensor, message, "only a saved tensor can be saved under a condition")
        self.visit_all([tensor, condition])
        indexed = {part.value for part in ast.walk(condition) if isinstance(part, ast.Subscript)}
        for part in ast.walk(condition):
            used = self.variables.get(part) if isinstance(part, ast.Name) else None
            plain = used is None or (used.role is Role.ARGUMENT and used.kind is not Kind.TENSOR)
            plain = plain or (used.role is Role.MASK and part in indexed)  # type: ignore[union-attr]
            if not plain or isinstance(part, (ast.Call, ast.Attribute)):
                raise self.formula.error(
                    part, f"`{self.formula.source(part)}` in a condition for saving",
                    "it may use `grad_input_mask[i]` and arguments that are not tensors",
                )  # fmt: skip
        return Kind.TENSOR
