"""Read the formulas of PyTorch's derivatives.yaml: expressions of C++ in, syntax trees of Python out.

    parsed("n.has_value() ? grad * M_LN2 : at::zeros({}, grad.options())")
    # grad * log(2) if n is not None else zeros('list', 'metadata')

Calls keep their names, without namespaces and without the underscore of variants in place. What formulas have of C++
beyond expressions (casts, lambdas, templates) raises OpenError.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from .reading import OpenError

IS_GRADIENT_RECORDED = "is_gradient_recorded"  # the variable for `GradMode::is_enabled()`
METADATA = "metadata"
_OF_COMPLEX = ("is_complex", "isComplex")
_LOGICAL = (ast.BitAnd, ast.BitOr)

_TOKEN = re.compile(
    r"""\s*(?:/\*.*?\*/\s*)*(?:
    (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fFlL]?
    |(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)
    |(?P<text>"[^"]*")
    |(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,&|()\[\]{}])
    |(?P<end>$))""",
    re.VERBOSE,
)
_CONSTANTS = {
    "M_PI": "pi", "M_E": "e", "M_LN2": "log(2)", "M_LN10": "log(10)", "M_SQRT2": "sqrt(2)", "M_SQRT1_2": "1 / sqrt(2)",
    "M_2_SQRTPI": "2 / sqrt(pi)", "M_1_PI": "1 / pi", "M_2_PI": "2 / pi", "M_PI_2": "pi / 2", "M_PI_4": "pi / 4",
    "INFINITY": "inf", "NAN": "nan", "true": "True", "false": "False", "nullopt": "None",
}  # fmt: skip
# Methods and functions with another form in gradloom's formulas; `x` and `y` are what they are called with.
_FORMS = {
    **dict.fromkeys(("toDouble", "toFloat", "toComplexDouble", "value", "contiguous", "expand_as"), "x"),
    **dict.fromkeys(("scalar_type", "options", "sym_sizes", "sizes", "dim", "layout", "device"), repr(METADATA)),
    **dict.fromkeys(("new_zeros", "new_zeros_symint", "zeros", "zeros_symint"), "0"),
    "has_value": "x is not None",
    "defined": "True",
    "handle_r_to_c": "y",
    "scalar_tensor": "x",
    "is_enabled": IS_GRADIENT_RECORDED,
}
# PyTorch's functions that gradloom has under another name.
_NAMES = {"masked_fill_inplace_if_safe": "masked_fill"}
_BINARY: Mapping[str, tuple[int, type]] = {
    "||": (1, ast.Or), "&&": (2, ast.And), "|": (3, ast.BitOr), "&": (4, ast.BitAnd), "==": (5, ast.Eq),
    "!=": (5, ast.NotEq), "<": (6, ast.Lt), "<=": (6, ast.LtE), ">": (6, ast.Gt), ">=": (6, ast.GtE), "+": (7, ast.Add),
    "-": (7, ast.Sub), "*": (8, ast.Mult), "/": (8, ast.Div), "%": (8, ast.Mod),
}  # fmt: skip


def parsed(formula: str, is_complex: bool = False) -> ast.expr:
    """Return a formula of C++ as a syntax tree of Python. Raises OpenError where it is more than an expression.

    Args:
        is_complex: the value of conditions such as `self.is_complex()`.
    """
    return _Parser(formula, is_complex).whole()


def asks_for_complex(formula: str) -> bool:
    """Return whether a formula has another form for complex numbers."""
    return any(f"{name}()" in formula for name in _OF_COMPLEX)


class _Parser:
    def __init__(self, formula: str, is_complex: bool) -> None:
        self.is_complex = is_complex
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while not self.tokens or self.tokens[-1][0] != "end":
            match = _TOKEN.match(formula, place)
            if match is None:
                raise OpenError(f"`{formula[place:].strip()[:30]}`")
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind]))
            place = match.end()
        self.place = 0

    def whole(self) -> ast.expr:
        found = self.choice()
        if self.tokens[self.place][0] != "end":
            raise OpenError(f"`{self.tokens[self.place][1]}`")
        return found

    def next(self) -> tuple[str, str]:
        self.place += 1
        return self.tokens[self.place - 1]

    def takes(self, sign: str) -> bool:
        """Return whether the next token is a sign, and go past it if so."""
        found = self.tokens[self.place] == ("sign", sign)
        self.place += found
        return found

    def needs(self, sign: str) -> None:
        if not self.takes(sign):
            raise OpenError(f"`{self.tokens[self.place][1]}`")

    def choice(self) -> ast.expr:
        test = self.binary(0)
        if not self.takes("?"):
            return test
        yes = self.choice()
        self.needs(":")
        no = self.choice()
        if isinstance(test, ast.Constant):
            return yes if test.value else no
        return ast.IfExp(test, yes, no)

    def binary(self, least: int) -> ast.expr:
        left = self.unary()
        while True:
            kind, sign = self.tokens[self.place]
            level, op = _BINARY.get(sign, (0, ast.Add)) if kind == "sign" else (0, ast.Add)
            if level <= least:
                return left
            self.place += 1
            left = _joined(op, left, self.binary(level))

    def unary(self) -> ast.expr:
        for sign, op in (("-", ast.USub()), ("+", ast.UAdd()), ("!", ast.Not())):
            if self.takes(sign):
                return ast.UnaryOp(op, self.unary())
        return self.postfix(self.primary())

    def primary(self) -> ast.expr:
        kind, text = self.next()
        if kind == "number":
            return ast.Constant(int(text) if text.isdigit() else float(text))
        if kind == "text":
            return ast.Constant(text[1:-1])
        if kind == "name":
            name = text.rpartition("::")[2]
            constant = _CONSTANTS.get(name)
            return ast.Name(name, ast.Load()) if constant is None else ast.parse(constant, mode="eval").body
        if text == "(":
            found = self.choice()
            self.needs(")")
            return found
        if text == "{":
            self.listed("}")
            return ast.Constant("list")
        raise OpenError(f"`{text or 'the end of the formula'}`")

    def postfix(self, found: ast.expr) -> ast.expr:
        while True:
            if self.takes("("):
                found = self.called(found, self.listed(")"))
            elif self.takes("."):
                found = ast.Attribute(found, self.next()[1], ast.Load())
            elif self.takes("["):
                raise OpenError(f"`{ast.unparse(found)}[`")
            else:
                return found

    def listed(self, end: str) -> list[ast.expr]:
        """Return expressions up to the sign that ends them."""
        found: list[ast.expr] = []
        while not self.takes(end):
            if found:
                self.needs(",")
            found.append(self.choice())
        return found

    def called(self, function: ast.expr, arguments: list[ast.expr]) -> ast.expr:
        """Return a call; that of a method has its object as the first argument where it has another form here."""
        if isinstance(function, ast.Attribute):
            function = ast.Attribute(function.value, _in_gradloom(function.attr), ast.Load())
            name, given = function.attr, [function.value, *arguments]
        elif isinstance(function, ast.Name):
            function = ast.Name(_in_gradloom(function.id), ast.Load())
            name, given = function.id, arguments
        else:
            raise OpenError(f"`{ast.unparse(function)}(`")
        if name in _OF_COMPLEX:
            return ast.Constant(self.is_complex)
        return _in_form(name, given) or ast.Call(function, arguments, [])


def _in_form(name: str, given: list[ast.expr]) -> ast.expr | None:
    """Return a call that has another form in gradloom's formulas; None for others."""
    if name == "to":
        return _number(given[0])
    form = _FORMS.get(name)
    if form is None:
        return None
    if form in ("x", "y"):
        place = ("x", "y").index(form)
        if len(given) <= place:
            raise OpenError(f"`{name}`")
        return given[place]
    tree = ast.parse(form, mode="eval").body
    if isinstance(tree, ast.Compare):
        return ast.Compare(given[0], tree.ops, tree.comparators)
    return tree


def _in_gradloom(name: str) -> str:
    return _NAMES.get(name, name[:-1] if name.endswith("_") and not name.startswith("_") else name)


def _joined(op: type, left: ast.expr, right: ast.expr) -> ast.expr:
    if issubclass(op, ast.boolop):
        return ast.BoolOp(op(), [left, right])
    if issubclass(op, ast.cmpop):
        if isinstance(left, ast.Compare):  # a template, or a truth value as a number
            raise OpenError(f"`{ast.unparse(left)}` and another sign")
        return ast.Compare(left, [op()], [right])
    if op is ast.Div and _is_int(left) and _is_int(right):
        op = ast.FloorDiv
    return ast.BinOp(left, op(), right) if issubclass(op, _LOGICAL) else ast.BinOp(_number(left), op(), _number(right))


def _number(node: ast.expr) -> ast.expr:
    """Return a condition that is used as a number as 1 or 0."""
    match node:
        case ast.Compare() | ast.BoolOp() | ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
            pass
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name.startswith(("logical_", "is")):
            pass
        case _:
            return node
    return ast.Call(ast.Name("where", ast.Load()), [node, ast.Constant(1), ast.Constant(0)], [])


def _is_int(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int
