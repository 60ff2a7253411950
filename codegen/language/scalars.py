"""The scalar language: the values of `scalar:`, one element of a result computed from one element of each argument.

    scalar: self / (1 + exp(-self))
    scalar: where(self > 0, self, negative_slope * self)
    scalar: self if p == 1 else self ** p

Names are the arguments, constants and the functions listed here, all of numbers. Tensors stand for their elements; a
condition on them is `where(condition, yes, no)`, and `a if condition else b` chooses by other arguments. An entry
without a `kernel:` gets the array expression that `array_expression` writes. `from_kernel` goes the other way, for an
entry whose kernel is an elementwise expression, and so its own definition.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..errors import SpecError, did_you_mean, shorten
from ..reading.yaml_files import Text
from ..schema import FunctionSchema
from .array_language import CONSTANTS, constant_problem, parse_expression
from .kernels import KernelExpr, dotted_name

# The number of arguments of each function. All but those of `SPECIAL` have the same name in NumPy.
SPECIAL = dict.fromkeys("erf erfc erfinv lgamma digamma".split(), 1)
FUNCTIONS = {
    **dict.fromkeys(
        """abs exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
        arctanh floor ceil trunc rint sign isnan isinf isfinite signbit conj real imag angle""".split(),
        1,
    ),
    **dict.fromkeys(
        "arctan2 maximum minimum fmax fmin fmod hypot copysign nextafter logaddexp logaddexp2 gcd lcm".split(), 2
    ),
    "where": 3,
    **SPECIAL,
}
NUMBERS = CONSTANTS - {"newaxis"}

_PARTS = (
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Load, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop,
)  # fmt: skip
_OUTSIDE = ast.MatMult | ast.In | ast.NotIn
_HINT = "write arguments, numbers, operators and functions of numbers, such as `self / (1 + exp(-self))`"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A checked definition: its source on one line, and its tree."""

    source: str
    tree: ast.expr


def analyse_scalar(text: Text, schema: FunctionSchema) -> Scalar:
    """Check a `scalar:` value against the language and the schema. Raises SpecError at the offending word."""
    tree, lead = parse_expression(text)
    Checker(text, lead, schema).visit(tree)
    return Scalar(ast.unparse(tree), tree)


class Checker:
    """Checks an expression of the language; `functions` has the number of arguments of each function."""

    functions = FUNCTIONS

    def __init__(self, text: Text, lead: int, schema: FunctionSchema) -> None:
        self.text, self.lead = text, lead
        self.arguments = [a.python_name for a in schema.inputs]
        self.tensors = {a.python_name for a in schema.inputs if a.type.is_tensor_like}

    def error(self, node: ast.expr, message: str, hint: str = _HINT) -> SpecError:
        length = (node.end_col_offset or node.col_offset + 1) - node.col_offset
        return self.text.error(message, hint, self.lead + node.col_offset, length)

    def visit(self, node: ast.AST) -> None:
        wrong = constant_problem(node)
        if wrong is not None:
            raise self.error(*wrong)
        if isinstance(node, ast.Name):
            if node.id not in self.arguments and node.id not in NUMBERS:
                known = (*self.arguments, *sorted(NUMBERS))
                raise self.error(node, f"unknown name `{node.id}`", did_you_mean(node.id, known) or _HINT)
        elif isinstance(node, ast.Constant):
            if not isinstance(node.value, bool | int | float | str | None):
                raise self.error(node, f"a constant of type {type(node.value).__name__}")
        elif isinstance(node, ast.Call):
            self.call(node)
        elif isinstance(node, _PARTS) and not any(isinstance(n, _OUTSIDE) for n in ast.iter_child_nodes(node)):
            if isinstance(node, ast.IfExp | ast.BoolOp) and self.tensors & names_in(
                node.test if isinstance(node, ast.IfExp) else node, beside_none=False
            ):
                what = "`if`" if isinstance(node, ast.IfExp) else "`and`, `or`"
                hint = "write `where(condition, yes, no)`, and `&`, `|` between conditions"
                raise self.error(node, f"{what} on the elements of a tensor", hint)
            for child in ast.iter_child_nodes(node):
                self.visit(child)
        else:
            shown = shorten(ast.unparse(node))
            raise self.error(node, f"`{shown}` is outside the scalar language")  # type: ignore[arg-type]

    def call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in self.functions:
            close = did_you_mean(name.rpartition(".")[2], sorted(self.functions))
            raise self.error(node.func, f"`{name}` is not a function of numbers", close or _HINT)
        if node.keywords or len(node.args) != self.functions[name]:
            raise self.error(node, f"`{name}` takes {self.functions[name]} argument(s), by position", _HINT)
        for argument in node.args:
            self.visit(argument)


def names_in(node: ast.AST, beside_none: bool = True) -> set[str]:
    """Return the names in an expression; without `beside_none`, not those that are only compared with None."""
    if not beside_none and isinstance(node, ast.Compare) and all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
        return set()
    found = {node.id} if isinstance(node, ast.Name) else set()
    return found.union(*(names_in(child, beside_none) for child in ast.iter_child_nodes(node)))


def has_derivative(scalar: Scalar) -> bool:
    """Return whether a definition has a derivative: its values are neither conditions nor integers by nature."""
    return not _is_discrete(scalar.tree)


_DISCRETE = frozenset("isnan isinf isfinite signbit gcd lcm".split())
_BITS = ast.BitAnd | ast.BitOr | ast.BitXor | ast.LShift | ast.RShift


def _is_discrete(tree: ast.expr) -> bool:
    match tree:
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Invert() | ast.Not()):
            return True
        case ast.BinOp(op=op) if isinstance(op, _BITS):
            return True
        case ast.Call(func=ast.Name(id=name)) if name in _DISCRETE:
            return True
        case ast.Call(func=ast.Name(id="where"), args=[_, yes, no]) | ast.IfExp(body=yes, orelse=no):
            return _is_discrete(yes) and _is_discrete(no)
    return False


def array_expression(scalar: Scalar) -> str:
    """Return the kernel expression that computes a definition for whole arrays. Functions that NumPy lacks are kernels
    of gradloom's family `elementwise`."""
    return ast.unparse(ToArrays().visit(ast.parse(scalar.source, mode="eval").body))


# Operations that NumPy computes for one number after the other, and machine code for several at once; and those that
# have no machine code.
ONE_BY_ONE = frozenset("FloorDiv Mod fmod hypot logaddexp logaddexp2 erf erfc".split())
NOT_OF_FLOATS = frozenset("LShift RShift BitAnd BitOr BitXor Invert conj".split())
WITHOUT_CODE = frozenset("erfinv lgamma digamma gcd lcm nextafter".split())


def is_worth_code(scalar: Scalar) -> bool:
    """Return whether machine code computes a definition faster than NumPy: it is more than one operation, or one of
    ONE_BY_ONE. Of alternatives (`a if condition else b`) the first counts, which is the usual one."""
    found = {_name_of(node) for node in ast.walk(scalar.tree)}
    return not WITHOUT_CODE & found and (bool(ONE_BY_ONE & found) or _operations(scalar.tree) > 1)


def is_worth_code_if_large(scalar: Scalar) -> bool:
    """Return whether machine code computes a definition of floats, on all threads, faster than one call of NumPy."""
    found = {_name_of(node) for node in ast.walk(scalar.tree)}
    return not (WITHOUT_CODE | NOT_OF_FLOATS) & found and _operations(scalar.tree) > 0


def _name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else type(node).__name__


def _operations(node: ast.expr) -> int:
    """Return the number of operations on arrays of the first alternative."""
    if isinstance(node, ast.IfExp):
        return _operations(node.body)
    if isinstance(node, ast.Call):
        return 1 + sum(_operations(argument) for argument in node.args)
    if not names_in(node) - NUMBERS:
        return 0
    parts = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    return (not isinstance(node, ast.Name)) + sum(_operations(part) for part in parts)


def _member(name: str, of: str = "xp") -> ast.expr:
    return ast.Attribute(ast.Name(of, ast.Load()), name, ast.Load())


class ToArrays(ast.NodeTransformer):
    """Writes a definition as an array expression."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node.args = [self.visit(argument) for argument in node.args]
        name = node.func.id  # type: ignore[attr-defined]  # checked by Checker
        node.func = _member(name, "elementwise" if name in SPECIAL else "xp")
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _member(node.id) if node.id in NUMBERS else node


def from_kernel(kernel: KernelExpr | None) -> Scalar | None:
    """Return the definition that a kernel is, if it is an elementwise expression; else None."""
    if kernel is None or kernel.kind != "expression":
        return None
    try:
        tree = _FromArrays().visit(ast.parse(kernel.source, mode="eval").body)
    except ValueError:
        return None
    return Scalar(ast.unparse(tree), tree)


class _FromArrays(ast.NodeTransformer):
    """Writes an array expression as a definition. Raises ValueError for a part that has no place in one."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        path = dotted_name(node.func)
        arguments = [self.visit(argument) for argument in node.args]
        if len(path) != 2 or path[0] != "xp" or node.keywords:
            raise ValueError(ast.unparse(node))
        form = _FORMS.get(path[1])
        if form is not None:
            filled: ast.expr = _Filled(dict(zip("xy", arguments, strict=False))).visit(
                ast.parse(form, mode="eval").body
            )
            return filled
        if FUNCTIONS.get(path[1]) != len(arguments):
            raise ValueError(ast.unparse(node))
        return ast.Call(ast.Name(path[1], ast.Load()), arguments, [])

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        path = dotted_name(node)
        if len(path) != 2 or path[0] != "xp" or path[1] not in NUMBERS:
            raise ValueError(ast.unparse(node))
        return ast.Name(path[1], ast.Load())

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, (*_PARTS, ast.Name, ast.Constant)):
            raise ValueError(ast.unparse(node))
        return super().generic_visit(node)


def filled(tree: ast.expr, arguments: Mapping[str, ast.expr]) -> ast.expr:
    """Return a copy of an expression with expressions in the place of names."""
    found: ast.expr = _Filled(arguments).visit(ast.parse(ast.unparse(tree), mode="eval").body)
    return found


class _Filled(ast.NodeTransformer):
    """Puts arguments for names."""

    def __init__(self, arguments: Mapping[str, ast.expr]) -> None:
        self.arguments = arguments

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.arguments.get(node.id, node)


Defined = Mapping[str, Sequence[tuple[Scalar, FunctionSchema]]]  # operators with a definition, by name


def from_formula(formula: str, tensors: Collection[str], operators: Defined) -> Scalar | None:
    """Return the definition that a formula of derivatives.yaml has for real numbers; None if it calls an operator
    without a definition. That of `grad * other.conj()` is `grad * other`.

    Args:
        tensors: the names of tensors in it.
        operators: the operators with a definition.
    """
    try:
        tree = _FromFormula(frozenset(tensors), operators).visit(ast.parse(formula, mode="eval").body)
    except ValueError:
        return None
    return Scalar(ast.unparse(tree), tree) if names_in(tree) & set(tensors) else None


class _FromFormula(ast.NodeTransformer):
    """Writes a formula as a definition. Raises ValueError for a part that no definition can have."""

    def __init__(self, tensors: frozenset[str], operators: Defined) -> None:
        self.tensors, self.operators = tensors, operators

    def visit_Call(self, node: ast.Call) -> ast.expr:
        given: list[ast.expr] = []
        if isinstance(node.func, ast.Attribute):
            name, given = node.func.attr, [node.func.value]
        else:
            name = ast.unparse(node.func)
        if name == "of_real_numbers":
            return self.visit(node.args[0])  # type: ignore[no-any-return]
        arguments = [self.visit(argument) for argument in (*given, *node.args)]
        if name == "conj" and len(arguments) == 1:
            return arguments[0]  # type: ignore[no-any-return]
        named = {k.arg: self.visit(k.value) for k in node.keywords}
        for scalar, schema in self.operators.get(name, ()):
            filled = self._filled(schema, arguments, named)
            if filled is not None:
                written: ast.expr = _Filled(filled).visit(ast.parse(scalar.source, mode="eval").body)
                return written
        raise ValueError(ast.unparse(node))

    def _filled(
        self, schema: FunctionSchema, arguments: list[ast.expr], named: dict[str | None, ast.expr]
    ) -> dict[str, ast.expr] | None:
        """Return the arguments of an overload by name; None if it does not take them."""
        names = [a.python_name for a in schema.inputs]
        if len(arguments) > len(names) or not {*named} <= {*names[len(arguments) :]}:
            return None
        found = dict(zip(names, arguments, strict=False)) | {k: v for k, v in named.items() if k is not None}
        for a in schema.inputs:
            if a.python_name not in found:
                if a.default is None:
                    return None
                found[a.python_name] = ast.Constant(a.default_value)  # type: ignore[arg-type]  # a number, str or None
            if (str(a.type) == "Tensor") != bool(names_in(found[a.python_name]) & self.tensors):
                return None
        return found

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, (*_PARTS, ast.Name, ast.Constant)) or isinstance(node, ast.IfExp | ast.BoolOp):
            raise ValueError(ast.unparse(node))
        return super().generic_visit(node)


# Functions of NumPy that the language writes by operators.
_FORMS = {
    "add": "x + y", "subtract": "x - y", "multiply": "x * y", "true_divide": "x / y", "divide": "x / y",
    "floor_divide": "x // y", "remainder": "x % y", "power": "x ** y", "negative": "-x", "reciprocal": "1 / x",
    "square": "x * x", "equal": "x == y", "not_equal": "x != y", "less": "x < y", "less_equal": "x <= y",
    "greater": "x > y", "greater_equal": "x >= y", "bitwise_and": "x & y", "bitwise_or": "x | y",
    "bitwise_xor": "x ^ y", "invert": "~x", "logical_not": "x == 0", "logical_and": "(x != 0) & (y != 0)",
    "logical_or": "(x != 0) | (y != 0)", "logical_xor": "(x != 0) ^ (y != 0)",
}  # fmt: skip
