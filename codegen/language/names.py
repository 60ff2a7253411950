"""Resolve every name of a formula, or report the wrong one.

    resolved = resolve(parse("grad * exponent"), scope)
    resolved.kinds[node]          # the Kind of each expression
    resolved.gradients            # which gradients it uses, and how

After `resolve`, each name of the formula is a variable of the operator, a helper, an operator, or a method of tensors.
All else is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import did_you_mean
from .formula import Formula, FormulaError, constant_int
from .scope import (
    ATTRIBUTE_NAMES,
    DTYPE_ATTRIBUTES,
    DTYPE_METHODS,
    METHOD_NAMES,
    NUMBER_ATTRIBUTES,
    NUMBER_METHODS,
    TENSOR_ATTRIBUTES,
    TENSOR_METHODS,
    Helper,
    Kind,
    Operator,
    Role,
    Scope,
    Variable,
    metadata_read,
)

# Names in a formula -> the name that is meant, if the formula has it.
_FORMULA_NAMES = {
    **dict.fromkeys("input x inp tensor a".split(), "self"),
    **dict.fromkeys("output out y z ret outputs".split(), "result"),
    **dict.fromkeys("grad_output grad_out dout dy dz g gy grad_y cotangent upstream gradient".split(), "grad"),
    **dict.fromkeys("mask output_mask needs_input_grad".split(), "grad_input_mask"),
    **dict.fromkeys("tangent dx x_t input_t".split(), "self_t"),
    **dict.fromkeys("x_p primal".split(), "self_p"),
    **dict.fromkeys("keep_graph retain_graph".split(), "retain_variables"),
    "grad_outputs": "grads",
}
_BY_NAME = "operators are called by their names, without a module: `exp(...)`, or `linalg.inv(...)`"
_FORMULA_HINTS = {
    **dict.fromkeys(("torch", "np", "numpy", "xp", "ops", "at", "aten", "F", "nn", "gradloom", "jnp"), _BY_NAME),
    "ctx": "what a formula names is saved by itself: name arguments and results directly",
    "pi": "write `math.pi`",
    "inf": "write `math.inf`",
    "nan": "write `math.nan`",
}
FORMULA_METHODS = {
    "defined": "write `x is not None`",
    "requires_grad": "`grad_input_mask[i]` says whether an input needs a gradient",
    "data": "formulas are differentiated, too: use the tensor itself",
    "options": "unpack it: `zeros(size, **self.options())`",
    "length": "write `len(...)`",
    "rank": "write `.dim()`",
}


def formula_name(word: str, known: Container[str]) -> str:
    """Return a hint about an unknown name in a formula that has the names `known`; '' if there is none."""
    meant = _FORMULA_NAMES.get(word)
    if meant is not None and meant in known:
        return f"did you mean `{meant}`?"
    return _FORMULA_HINTS.get(word, "")


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
    """A use of a gradient in a formula. `how`: 'passed' (unchanged, to a helper), 'tested' (`is None`), 'computed'."""

    variable: Variable
    node: ast.expr
    how: str
    index: int | None  # which gradient; None for the whole list


_METHODS_HINT = "a formula may call operators with a method variant, and what reads sizes, strides and types"


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """A formula with all names resolved."""

    formula: Formula
    scope: Scope
    kinds: Mapping[ast.AST, Kind]  # the kind of every expression of the tree
    variables: Mapping[ast.Name, Variable]  # what each name that reads a variable refers to
    # what each called function name (a Name, or an Attribute of a namespace) refers to
    operators: Mapping[ast.AST, Operator]
    helpers: Mapping[str, Helper]  # the helpers that are called, by name
    constants: Mapping[ast.Attribute, str]  # the text of each constant, such as `math.pi`
    gradients: tuple[GradientUse, ...]  # every use of a gradient, in the order of the text

    def first(self, *roles: Role) -> ast.Name | None:
        """Return the first name in the text that refers to a variable with one of the roles."""
        found = [node for node, variable in self.variables.items() if variable.role in roles]
        return min(found, key=lambda node: node.col_offset, default=None)

    def names(self, *roles: Role) -> tuple[str, ...]:
        """Return the arguments or returns of the variables with these roles (`self` for `self_t`), in text order."""
        found = [(node.col_offset, v.of or v.name) for node, v in self.variables.items() if v.role in roles]
        return tuple(dict.fromkeys(name for _, name in sorted(found)))


def resolve(formula: Formula, scope: Scope) -> Resolved:
    """Resolve all names of a formula. Raises FormulaError for a name that is not in scope, or is misused."""
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


class _Resolver:
    """Walks the tree of a formula and resolves its names."""

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
        kind = self.kinds[node] = _RULES[type(node)](self, node)
        return kind

    def is_math(self, node: ast.Attribute) -> bool:
        """Return whether a node is `math.<something>`, and `math` is not a variable."""
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

    # Attributes and calls

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
        """Return `linalg` for `linalg.inv`, unless `linalg` is a variable."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.value.id
            if name in self.callables.namespaces and name not in self.scope.variables and name not in self.locals:
                return name
        return None

    def call(self, node: ast.Call) -> Kind:
        if isinstance(node.func, ast.Name):
            return self._function_call(node, node.func)
        assert isinstance(node.func, ast.Attribute)  # `formula.parse` accepts no other calls
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
        wrong = helper.signature.misuse(len(node.args), [k.arg for k in node.keywords if k.arg])
        if wrong is not None and all(k.arg for k in node.keywords):
            at = next((k for k in node.keywords if k.arg == wrong[0]), node.func)
            message = f"`{helper.name}` cannot be called like this: {wrong[1]}"
            raise self.formula.error(at, message, f"its definition is `{helper.name}({helper.signature})`")
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
        if name in {Kind.NUMBER: NUMBER_METHODS, Kind.DTYPE: DTYPE_METHODS}.get(kind, ()) and not arguments:
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
        """Refuse a write to a tensor that others may hold; only an in-place operator's tangent may be written."""
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

    # Leaves

    def constant(self, node: ast.Constant) -> Kind:
        return Kind.NUMBER if isinstance(node.value, (int, float, complex)) else Kind.OTHER

    def name(self, node: ast.Name) -> Kind:
        variable = self.locals.get(node.id) or self.scope.variables.get(node.id)
        if variable is None:
            raise self.unknown(node)
        self.variables[node] = variable
        if variable.role in (Role.GRADIENT, Role.GRADIENTS):
            self.use_gradient(variable, node, variable.index if variable.role is Role.GRADIENT else None)
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
        """Check that the index in `grads[1]` or `grad_input_mask[0]` exists."""
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
        self.visit_all(generator.ifs)
        element = self.visit(node.elt)
        self.locals = outer
        if element is Kind.NUMBER:
            return Kind.NUMBERS
        return Kind.TENSORS if element.may_be_tensor else Kind.OTHER

    def _define(self, target: ast.Name, kind: Kind) -> None:
        name = target.id
        taken = (self.scope.variables, self.locals, self.callables.helpers, BUILTINS)
        if any(name in names for names in taken):
            raise self.formula.error(
                target, f"`{name}` is already the name of something else", "choose another name for the variable"
            )
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
