"""Smooth definitions as expressions of SymPy, and expressions of SymPy in the scalar language.

Arguments are real symbols. Functions that SymPy lacks, or would rewrite into something else, are functions of this file
with their derivatives; those that are constant between their steps have the derivative 0.

The way back may write some functions more than definitions have: `sigmoid`, `softplus`, `rsqrt`, `polygamma`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from ..language.scalars import names_in


class NoRuleError(ValueError):
    """A part of a definition has no derivative rule; `node` is that part."""

    def __init__(self, node: ast.expr, message: str, hint: str) -> None:
        super().__init__(message)
        self.node, self.message, self.hint = node, message, hint

    def place_in(self, text: str) -> tuple[int, int | None]:
        """Return where the part stands in the text of the definition, and its length."""
        wanted = ast.unparse(self.node)
        lead = len(text) - len(text.lstrip())
        for node in ast.walk(ast.parse(text.strip().replace("\n", " "), mode="eval")):
            if isinstance(node, ast.expr) and ast.unparse(node) == wanted:
                return lead + node.col_offset, (node.end_col_offset or 0) - node.col_offset
        return 0, None


@cache
def functions() -> dict[str, Any]:
    """Return the functions of this file, classes of SymPy, by name."""
    import sympy

    def made(name: str, *slopes: Callable[..., Any]) -> Any:
        def fdiff(self: Any, argindex: int = 1) -> Any:
            return slopes[argindex - 1](*self.args)

        return type(name, (sympy.Function,), {"fdiff": fdiff, "nargs": len(slopes), "is_real": True})

    def zero(*_: Any) -> Any:
        return sympy.S.Zero

    f: dict[str, Any] = {name: made(name, zero) for name in ("floor", "ceil", "trunc", "rint", "sign", "signbit")}
    f |= {name: made(name, zero) for name in ("isnan", "isinf", "isfinite")}
    f["abs"] = made("abs", lambda x: f["sign"](x))
    f["copysign"] = made("copysign", lambda x, y: f["sign"](x) * f["copysign"](1, y), zero)
    f["sigmoid"] = made("sigmoid", lambda x: f["sigmoid"](x) * f["sigmoid"](-x))
    f["softplus"] = made("softplus", lambda x: f["sigmoid"](x))
    f["hypot"] = made("hypot", lambda x, y: x / f["hypot"](x, y), lambda x, y: y / f["hypot"](x, y))
    f["arctan2"] = made("arctan2", lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y))
    f["logaddexp"] = made("logaddexp", lambda x, y: f["sigmoid"](x - y), lambda x, y: f["sigmoid"](y - x))
    two = sympy.log(2)
    f["logaddexp2"] = made(
        "logaddexp2", lambda x, y: f["sigmoid"]((x - y) * two), lambda x, y: f["sigmoid"]((y - x) * two)
    )
    f["erfc"] = made("erfc", lambda x: -2 / sympy.sqrt(sympy.pi) * sympy.exp(-x * x))
    f["expm1"] = made("expm1", lambda x: sympy.exp(x))
    f["log1p"] = made("log1p", lambda x: 1 / (1 + x))
    f["rsqrt"] = made("rsqrt", lambda x: -(x ** sympy.Rational(-3, 2)) / 2)
    return f


# Functions of the scalar language, which SymPy has under another name or by a formula.
NAMED = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "lgamma": "loggamma", "digamma": "digamma",
    **{name: name for name in "exp log sqrt sin cos tan sinh cosh tanh erf erfc erfinv".split()},
}  # fmt: skip
_BACK = {"Abs": "abs", **{theirs: ours for ours, theirs in NAMED.items()}}
_OWN = frozenset(
    """floor ceil trunc rint sign signbit isnan isinf isfinite abs copysign hypot arctan2 logaddexp logaddexp2 sigmoid
    softplus rsqrt""".split()
)
STEPS = frozenset("floor ceil trunc rint sign signbit isnan isinf isfinite".split())
OF_COMPLEX = frozenset("conj real imag angle".split())
# What is defined for complex numbers and has a complex derivative.
HOLOMORPHIC = frozenset(
    """exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
    arctanh""".split()
)


def is_holomorphic(tree: ast.expr, tensors: Sequence[str]) -> bool:
    """Return whether a definition has a complex derivative: it is made of operators, and of functions that have one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id not in HOLOMORPHIC and names_in(node) & set(tensors):
                return False
        elif isinstance(node, ast.Mod | ast.FloorDiv):
            return False
        elif isinstance(node, ast.Compare) and names_in(node) & set(tensors):
            return False
    return True


def symbol(name: str) -> Any:
    """Return the symbol of an argument."""
    import sympy

    return sympy.Symbol(name, real=True)


def to_sympy(
    tree: ast.expr, called: Callable[[ast.Call, Callable[[ast.expr], Any]], Any] = lambda _node, _converted: None
) -> Any:
    """Return a smooth definition as an expression. Raises NoRuleError at the part that has no rule.

    Args:
        called: gets each call, and what converts its arguments; returns the expression, or None for the rule of the
            function.
    """
    import sympy

    def converted(node: ast.expr) -> Any:
        own = called(node, converted) if isinstance(node, ast.Call) else None
        if own is not None:
            return own
        match node:
            case ast.Name(id=name):
                return _constant(name) if name in _CONSTANTS else symbol(name)
            case ast.Constant(value=bool(value)):
                return sympy.Integer(int(value))
            case ast.Constant(value=int(value)):
                return sympy.Integer(value)
            case ast.Constant(value=float(value)):
                return _exact(value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -converted(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return converted(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return _OPERATIONS[type(op)](converted(left), converted(right))
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                raise NoRuleError(node, "a condition as a number has no derivative", "write `where(condition, 1, 0)`")
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return _called(node, name, [converted(a) for a in arguments])
        raise NoRuleError(node, f"`{ast.unparse(node)}` has no derivative", "write the formulas into derivatives.yaml")

    return converted(tree)


def _called(node: ast.expr, name: str, arguments: list[Any]) -> Any:
    import sympy

    if name in _OWN:
        return functions()[name](*arguments)
    if name == "polygamma":
        return sympy.polygamma(*arguments)
    if name in NAMED:
        return getattr(sympy, NAMED[name])(*arguments)
    if name in _FORMULAS:
        return _FORMULAS[name](*arguments)
    if name in OF_COMPLEX:
        hint = "write the formulas into derivatives.yaml, or a definition of real numbers"
        raise NoRuleError(node, f"`{name}` is of complex numbers, and has no complex derivative", hint)
    raise NoRuleError(node, f"`{name}` has no derivative rule", "write the formulas into derivatives.yaml")


def _exact(value: float) -> Any:
    """Return the decimal number that a float was written as."""
    import sympy

    if not math.isfinite(value):
        return sympy.oo if value > 0 else -sympy.oo if value < 0 else sympy.nan
    return sympy.Rational(repr(value))


_CONSTANTS = frozenset("pi e inf nan euler_gamma".split())


def _constant(name: str) -> Any:
    import sympy

    return {
        "pi": sympy.pi, "e": sympy.E, "inf": sympy.oo, "nan": sympy.nan, "euler_gamma": sympy.EulerGamma,
    }[name]  # fmt: skip


def _floored(x: Any, y: Any) -> Any:
    return functions()["floor"](x / y)


_OPERATIONS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.Div: lambda x, y: x / y,
    ast.Pow: lambda x, y: x**y,
    ast.FloorDiv: _floored,
    ast.Mod: lambda x, y: x - y * _floored(x, y),
}


def _logarithm(base: int) -> Callable[[Any], Any]:
    def log(x: Any) -> Any:
        import sympy

        return sympy.log(x) / sympy.log(base)

    return log


def _exponential(x: Any) -> Any:
    import sympy

    return sympy.exp(x)


def _natural(x: Any) -> Any:
    import sympy

    return sympy.log(x)


_FORMULAS: Mapping[str, Callable[..., Any]] = {
    "exp2": lambda x: 2**x,
    "log2": _logarithm(2),
    "log10": _logarithm(10),
    "expm1": lambda x: _exponential(x) - 1,
    "log1p": lambda x: _natural(1 + x),
    "fmod": lambda x, y: x - y * functions()["trunc"](x / y),
}


def to_tree(expression: Any, apart: bool = False) -> ast.expr:
    """Return an expression in the scalar language.

    Args:
        apart: whether quotients of products are written as products of quotients, whose parts are of similar size.
    """
    return _Writer(apart).written(expression)


class _Writer:
    def __init__(self, apart: bool) -> None:
        self.apart = apart

    def written(self, x: Any) -> ast.expr:
        import sympy

        if not x.free_symbols:
            return _number(x)
        if x.is_Symbol:
            return ast.Name(x.name, ast.Load())
        if x.is_Add:
            return self._sum(x)
        if x.is_Mul or (x.is_Pow and x.base is not sympy.E and x.exp.could_extract_minus_sign()):
            return self._product(x)
        if isinstance(x, sympy.exp):
            return _call("exp", self.written(x.args[0]))
        if x.is_Pow:
            return self._power(x.base, x.exp)
        name = type(x).__name__
        if name == "polygamma":
            order, of = x.args
            return (
                _call("digamma", self.written(of))
                if order == 0
                else _call("polygamma", _number(order), self.written(of))
            )
        return _call(_BACK.get(name, name), *map(self.written, x.args))

    def _sum(self, x: Any) -> ast.expr:
        import sympy

        terms = sorted(x.args, key=lambda t: (t.could_extract_minus_sign(), sympy.default_sort_key(t)))
        found = self.written(terms[0])
        for term in terms[1:]:
            if term.could_extract_minus_sign():
                found = ast.BinOp(found, ast.Sub(), self.written(-term))
            else:
                found = ast.BinOp(found, ast.Add(), self.written(term))
        return found

    def _product(self, x: Any) -> ast.expr:
        import sympy

        constant, above, below = sympy.S.One, [], []
        for factor in sympy.Mul.make_args(x):
            base, exponent = factor.as_base_exp()
            if not factor.free_symbols:
                constant *= factor
            elif base is sympy.E or not exponent.could_extract_minus_sign():
                above.append(factor)
            elif self.apart and exponent.is_Integer:
                below += [base] * min(-int(exponent), 4) if exponent >= -4 else [base**-exponent]
            else:
                below.append(base**-exponent)
        negative = bool(constant.is_negative)
        constant = abs(constant)
        parts = [self.written(f) for f in sorted(above, key=sympy.default_sort_key)]
        divisors = [self.written(f) for f in sorted(below, key=sympy.default_sort_key)]
        if constant.is_Rational and constant.q != 1 and not _is_short(constant):
            divisors.insert(0, ast.Constant(int(constant.q)))
            constant = sympy.Integer(constant.p)
        if constant != 1 or not parts:
            parts.insert(0, _number(constant))
        if negative:
            parts[0] = ast.UnaryOp(ast.USub(), parts[0])
        return self._quotient(parts, divisors)

    def _quotient(self, parts: list[ast.expr], divisors: list[ast.expr]) -> ast.expr:
        if self.apart and divisors:
            found = parts[0]
            for index, divisor in enumerate(divisors):
                found = ast.BinOp(found, ast.Div(), divisor)
                if index + 1 < len(parts):
                    found = ast.BinOp(found, ast.Mult(), parts[index + 1])
            return _times(found, parts[len(divisors) + 1 :])
        found = _times(parts[0], parts[1:])
        return ast.BinOp(found, ast.Div(), _times(divisors[0], divisors[1:])) if divisors else found

    def _power(self, base: Any, exponent: Any) -> ast.expr:
        import sympy

        if exponent == sympy.Rational(1, 2):
            return _call("sqrt", self.written(base))
        if exponent == 2:
            found = self.written(base)
            return ast.BinOp(found, ast.Mult(), found)
        if base == 2:
            return _call("exp2", self.written(exponent))
        return ast.BinOp(self.written(base), ast.Pow(), self.written(exponent))


def _times(first: ast.expr, others: list[ast.expr]) -> ast.expr:
    for other in others:
        first = ast.BinOp(first, ast.Mult(), other)
    return first


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _is_short(x: Any) -> bool:
    """Return whether a rational number is a decimal number of few digits."""
    import sympy

    text = repr(float(x))
    return len(text) < 12 and bool(sympy.Rational(text) == x)


def _number(x: Any) -> ast.expr:
    """Return a constant expression as a number."""
    import sympy

    if x.is_Integer:
        value: int | float = int(x)
    elif x in (sympy.oo, -sympy.oo, sympy.nan, sympy.zoo):
        raise ArithmeticError("a derivative that is not finite")
    else:
        value = float(x.evalf(30))
    found: ast.expr = ast.Constant(abs(value))
    return ast.UnaryOp(ast.USub(), found) if value < 0 else found
