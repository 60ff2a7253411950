"""Formulas in the scalar language: calls of operators by their definitions, calls of helpers by their bodies.

Numbers are real here: a conjugate is its argument. A helper is read from its source: assignments, `if` and `return`
become one expression. What has no place in the scalar language raises OpenError, which says what it was.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from gradloom.codegen.language.scalars import FUNCTIONS, NUMBERS, filled
from gradloom.codegen.notation.read import Rewrite, table
from gradloom.codegen.operators.model import NativeFunction
from gradloom.codegen.reading.python_files import Functions

_LONGEST = 20_000  # characters of a formula with everything put in
_MOST = 24  # helpers and operators within one another


class OpenError(Exception):
    """A part of a formula that is not translated."""


# What neither a definition nor a rule of the notation writes, for real numbers; `x` and `y` are the arguments.
_BUILT_IN = dict(min="minimum", max="maximum", abs="abs")  # Python's own functions in the scalar language
_FORMS = {
    "conj": "conj(x)",
    "conjugate": "conj(x)",
    "detach": "detach(x)",
    "sgn": "sign(x)",
    "polygamma": "polygamma(x, y)",
}


def python(formula: str) -> ast.expr:
    """Return a formula of derivatives.yaml as a syntax tree."""
    return ast.parse(formula.strip(), mode="eval").body


class Reader:
    """Reads formulas, by the operators and helpers that they may call.

    Args:
        operators: entries, which formulas call by name.
        folders: the folders of helpers.

    Attributes:
        names_read: the names that were looked up, of operators, functions, helpers and their constants.
        helpers_read: the helpers that formulas called themselves.
    """

    def __init__(self, operators: Sequence[NativeFunction], folders: Sequence[Path]) -> None:
        self.names_read, self.helpers_read = set[str](), set[str]()
        self.helpers = Functions(*folders)
        self._operators: dict[str, list[NativeFunction]] = {}
        for function in operators:
            if function.scalar is not None and function.rows is None:
                name = function.schema.name
                for key in {name.name, name.unambiguous}:
                    self._operators.setdefault(key, []).append(function)

    def read(self, formula: ast.expr, names: Collection[str], tensors: Collection[str]) -> ast.expr:
        """Return a formula in the scalar language.

        Args:
            names: the variables of the formula; each stands for itself.
            tensors: those that are tensors.

        Raises OpenError for a part that has no place in it.
        """
        own: dict[str, ast.expr] = {name: ast.Name(name, ast.Load()) for name in names}
        return _Reading(self, own, frozenset(tensors), 0).expression(formula)

    def definitions(self, name: str) -> Sequence[NativeFunction]:
        return self._operators.get(name, ())

    def constant(self, name: str, module: str | None) -> ast.expr | None:
        """Return the value of a constant of a module of helpers."""
        found = None if module is None else self.helpers.definition(*self.helpers.origin(module, name))
        return None if isinstance(found, ast.FunctionDef) else found


class _Reading:
    """Reads one formula, or one helper of a module, whose names stand for `names`."""

    def __init__(
        self, reader: Reader, names: Mapping[str, ast.expr], tensors: frozenset[str], depth: int,
        module: str | None = None,
    ) -> None:  # fmt: skip
        self.reader, self.names, self.tensors, self.depth = reader, dict(names), tensors, depth
        self.module = module
        if depth > _MOST:
            raise OpenError("helpers that call one another without end")

    def expression(self, node: ast.expr) -> ast.expr:
        found = self._expression(node)
        if len(ast.unparse(found)) > _LONGEST:
            raise OpenError("a formula that becomes too long")
        return found

    def _expression(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Name(id=name):
                return self.name(name)
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return node
            case ast.BinOp(left=left, op=op, right=right) if not isinstance(op, ast.MatMult):
                return ast.BinOp(self.expression(left), op, self.expression(right))
            case ast.UnaryOp(op=op, operand=operand):
                return ast.UnaryOp(op, self.expression(operand))
            case ast.BoolOp(op=op, values=values):
                return _simplified_bool(op, [self.expression(v) for v in values])
            case ast.Compare(left=left, ops=ops, comparators=others):
                return _simplified(ast.Compare(self.expression(left), ops, [self.expression(o) for o in others]))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.choice(
                    self.expression(test), lambda: self.expression(body), lambda: self.expression(orelse)
                )
            case ast.Attribute(value=ast.Name(id="math"), attr=attr) if attr in NUMBERS:
                return ast.Name(attr, ast.Load())
            case ast.Attribute(attr="is_complex"):
                return ast.Constant(False)
            case ast.Attribute(attr="dtype" | "shape" | "device"):
                return ast.Constant("metadata")
            case ast.Attribute(value=value, attr="T" | "mT" | "H" | "real"):
                return self.expression(value)
            case ast.Tuple(elts=elts):
                return ast.Tuple([self.expression(e) for e in elts], ast.Load())
            case ast.Call():
                return self.call(node)
        raise OpenError(f"`{_shown(node)}`")

    def choice(self, test: ast.expr, yes, no) -> ast.expr:
        """Return `yes` or `no`, or both where the condition is not known."""
        if isinstance(test, ast.Constant):
            return yes() if test.value else no()
        return ast.IfExp(test, yes(), no())

    def name(self, name: str) -> ast.expr:
        found = self.names.get(name)
        if found is not None:
            return found
        if name in NUMBERS:
            return ast.Name(name, ast.Load())
        self.reader.names_read.add(name)
        value = self.reader.constant(name, self.module)
        if value is not None:
            return self.expression(value)
        raise OpenError(f"`{name}`")

    def call(self, node: ast.Call) -> ast.expr:
        method = is_attribute = isinstance(node.func, ast.Attribute)
        if isinstance(node.func, ast.Attribute):
            name, base = node.func.attr, node.func.value
            if isinstance(base, ast.Name) and base.id == "math" and name in FUNCTIONS:
                return ast.Call(ast.Name(name, ast.Load()), [self.expression(a) for a in node.args], [])
            if isinstance(base, ast.Name) and base.id in ("ops", "linalg", "special") and base.id not in self.names:
                method = False
        elif isinstance(node.func, ast.Name):
            name = node.func.id
        else:
            raise OpenError(f"`{_shown(node)}`")
        if name in ("isinstance", "is_differentiated", "is_unseen", "is_complex", "is_floating_point"):
            return self.known(name, node)
        given = [*([node.func.value] if method else []), *node.args]  # type: ignore[attr-defined]
        if any(isinstance(a, ast.Starred) for a in given) or any(k.arg is None for k in node.keywords):
            raise OpenError(f"`{_shown(node)}`")
        if name in ("float", "int", "bool") and len(given) == 1:
            return self.expression(given[0])
        if name in _BUILT_IN:
            name = _BUILT_IN[name]
            return ast.Call(ast.Name(name, ast.Load()), [self.expression(a) for a in given], [])
        arguments = [self.expression(a) for a in given]
        named = {k.arg: self.expression(k.value) for k in node.keywords if k.arg not in ("dtype", "out")}
        if name == "to":
            return arguments[0]
        self.reader.names_read.add(name)
        helper = None if is_attribute else self.reader.helpers.find(name, self.module)
        if helper is not None:
            return self.called(helper[0], helper[1], arguments, named)
        for function in self.reader.definitions(name):
            found = self.defined(function, arguments, named)
            if found is not None:
                return found
        for rewrite in table().rewrites.get(name, ()):
            bound = _bound(rewrite, arguments, named)
            if bound is not None:
                return _Reading(self.reader, bound, self.tensors, self.depth + 1).expression(rewrite.body)
        if name in _FORMS and not named:
            names = dict(zip("xyz", arguments, strict=False))
            return _simplified(filled(ast.parse(_FORMS[name], mode="eval").body, names))
        if FUNCTIONS.get(name) == len(arguments) and not named:
            return ast.Call(ast.Name(name, ast.Load()), arguments, [])
        raise OpenError(f"`{name}`, which has no definition,")

    def known(self, name: str, node: ast.Call) -> ast.expr:
        """Return what is known of real tensors that are differentiated."""
        if name == "isinstance":
            value = self.expression(node.args[0])
            if ast.unparse(node.args[1]) == "complex":
                return ast.Constant(False)
            is_tensor = bool(_names(value) & self.tensors)
            return ast.Constant(is_tensor if "Tensor" in ast.unparse(node.args[1]) else not is_tensor)
        return ast.Constant(name in ("is_differentiated", "is_floating_point"))

    def defined(
        self, function: NativeFunction, arguments: Sequence[ast.expr], named: Mapping[str | None, ast.expr]
    ) -> ast.expr | None:
        """Return an operator's definition for these arguments; None if it is another overload that takes them."""
        inputs = function.schema.inputs
        if len(arguments) > len(inputs) or not {*named} <= {a.python_name for a in inputs}:
            return None
        values = dict(zip([a.python_name for a in inputs], arguments, strict=False))
        values |= {k: v for k, v in named.items() if k is not None}
        for a in inputs:
            value = values.get(a.python_name)
            if value is None:
                if a.default is None:
                    return None
                values[a.python_name] = ast.parse(repr(a.default_value), mode="eval").body
            elif str(a.type) != "Tensor" and _names(value) & self.tensors:
                return None
        assert function.scalar is not None
        return _Reading(self.reader, values, self.tensors, self.depth + 1).scalar(function.scalar.tree)

    def scalar(self, tree: ast.expr) -> ast.expr:
        """Return a definition with the arguments put in, and choices that are known made."""
        return _Settled().visit(filled(tree, self.names))  # type: ignore[no-any-return]

    def called(
        self, module: str, helper: ast.FunctionDef, arguments: Sequence[ast.expr],
        named: Mapping[str | None, ast.expr],
    ) -> ast.expr:  # fmt: skip
        if not self.depth:
            self.reader.helpers_read.add(helper.name)
        parameters = [*helper.args.posonlyargs, *helper.args.args]
        defaults = dict(zip([p.arg for p in parameters][::-1], helper.args.defaults[::-1], strict=False))
        defaults |= {
            p.arg: d for p, d in zip(helper.args.kwonlyargs, helper.args.kw_defaults, strict=True) if d is not None
        }
        values = dict(zip([p.arg for p in parameters], arguments, strict=False))
        values |= {k: v for k, v in named.items() if k is not None}
        if helper.args.vararg is not None or len(arguments) > len(parameters):
            raise OpenError(f"`{helper.name}`")
        for p in (*parameters, *helper.args.kwonlyargs):
            if p.arg not in values:
                if p.arg not in defaults:
                    raise OpenError(f"`{helper.name}`")
                values[p.arg] = _Reading(self.reader, {}, self.tensors, self.depth + 1, module).expression(
                    defaults[p.arg]
                )
        inner = _Reading(self.reader, values, self.tensors, self.depth + 1, module)
        try:
            return inner.body(helper.body)
        except OpenError as error:
            if "helper" in str(error):
                raise
            raise OpenError(f"{error} in the helper `{helper.name}`") from None

    def body(self, statements: Sequence[ast.stmt]) -> ast.expr:
        """Return the value that statements return."""
        for number, statement in enumerate(statements):
            rest = statements[number + 1 :]
            match statement:
                case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Assert():
                    continue
                case ast.Return(value=value) if value is not None:
                    return self.expression(value)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names[name] = self.expression(value)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                    found = self.expression(value)
                    if not isinstance(found, ast.Tuple) or len(found.elts) != len(targets):
                        raise OpenError(f"`{_shown(statement)}`")
                    self.names |= {ast.unparse(t): v for t, v in zip(targets, found.elts, strict=True)}
                case ast.If(test=test, body=body, orelse=orelse):
                    return self.choice(
                        self.expression(test),
                        lambda b=body, r=rest: self._again().body([*b, *r]),
                        lambda o=orelse, r=rest: self._again().body([*o, *r]),
                    )
                case ast.Raise():
                    return ast.Name("nan", ast.Load())
                case _:
                    raise OpenError(f"`{_shown(statement)}`")
        raise OpenError("nothing is returned")

    def _again(self) -> _Reading:
        return _Reading(self.reader, self.names, self.tensors, self.depth, self.module)


class _Settled(ast.NodeTransformer):
    """Makes the choices whose conditions are known."""

    def condition(self, node: ast.expr) -> ast.expr:
        """Visit a condition, or a part of one."""
        return self.visit(node)  # type: ignore[no-any-return]

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test = self.condition(node.test)
        if isinstance(test, ast.Constant):
            return self.visit(node.body if test.value else node.orelse)  # type: ignore[no-any-return]
        return ast.IfExp(test, self.visit(node.body), self.visit(node.orelse))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        sides = [self.condition(c) for c in node.comparators]
        return _simplified(ast.Compare(self.condition(node.left), node.ops, sides))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return _simplified_bool(node.op, [self.condition(v) for v in node.values])


def _bound(
    rewrite: Rewrite, arguments: Sequence[ast.expr], named: Mapping[str | None, ast.expr]
) -> dict[str, ast.expr] | None:
    """Return the arguments of a call by their names in a rule of the notation; None if the rule is for other calls."""
    count = len(rewrite.arguments)
    if rewrite.keywords or len(arguments) < count or ((len(arguments) > count or named) and not rewrite.takes_rest):
        return None
    found: dict[str, ast.expr] = {}
    for parameter, argument in zip(rewrite.arguments, arguments, strict=False):
        if isinstance(parameter, ast.Name):
            found[parameter.id] = argument
        elif ast.unparse(parameter) != ast.unparse(argument):
            return None
    return found


CONJUGATE = "_conj"  # behind the name of a variable


def of_numbers(tree: ast.expr, is_holomorphic: bool) -> ast.expr:
    """Return an expression for finite numbers, with mathematical constants for the floats next to them: `log(2)` for
    0.6931471805599453.

    Args:
        is_holomorphic: whether it is of complex numbers, and made of functions f with conj(f(x)) = f(conj(x)): then the
            conjugate of a variable is a variable of its own. Else numbers are real.
    """
    return _OfNumbers(is_holomorphic).visit(ast.parse(ast.unparse(tree), mode="eval").body)  # type: ignore[no-any-return]


_CONSTANTS = (
    "log(2)", "log(10)", "1 / log(2)", "1 / log(10)", "2 / sqrt(pi)", "sqrt(pi) / 2", "sqrt(2)", "1 / sqrt(2)",
    "sqrt(2 / pi)", "sqrt(1 / (2 * pi))", "sqrt(2 * pi)", "pi", "pi / 180", "180 / pi", "1 / sqrt(pi)",
)  # fmt: skip
_VALUES = {
    text: eval(text, {"__builtins__": {}}, {n: getattr(math, n) for n in ("log", "sqrt", "pi")}) for text in _CONSTANTS
}


def conjugated(tree: ast.expr) -> ast.expr:
    """Return the conjugate of an expression of which `of_numbers` says how."""
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    others = {n: n.removesuffix(CONJUGATE) if n.endswith(CONJUGATE) else n + CONJUGATE for n in _names(tree)}
    return filled(tree, {n: ast.Name(o, ast.Load()) for n, o in others.items() if n not in NUMBERS | called})


class _OfNumbers(_Settled):
    def __init__(self, is_holomorphic: bool) -> None:
        self.is_holomorphic = is_holomorphic
        self.in_condition = False

    def condition(self, node: ast.expr) -> ast.expr:
        """Visit a condition, which is not differentiated, so that `detach` changes nothing in it."""
        before, self.in_condition = self.in_condition, True
        try:
            return super().condition(node)
        finally:
            self.in_condition = before

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = node.func.id  # type: ignore[attr-defined]  # the scalar language has no other
        if name == "conj" or name == "real":
            of = self.visit(node.args[0])
            return conjugated(of) if self.is_holomorphic else of
        if name == "detach":
            if not self.in_condition:
                raise OpenError("`detach`, which hides a derivative,")
            return self.visit(node.args[0])  # type: ignore[no-any-return]
        if name.startswith("is"):  # isnan, isinf, isfinite
            return ast.Constant(name == "isfinite")
        arguments = [self.condition(a) if name == "where" and not n else self.visit(a) for n, a in enumerate(node.args)]
        if name == "where" and isinstance(arguments[0], ast.Constant):
            return arguments[1 if arguments[0].value else 2]  # type: ignore[no-any-return]
        return ast.Call(node.func, arguments, [])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not | ast.Invert) and _is_bool(operand):
            return ast.Constant(not operand.value)
        return ast.UnaryOp(node.op, operand)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        sides = [self.visit(node.left), self.visit(node.right)]
        if isinstance(node.op, ast.BitAnd | ast.BitOr) and any(map(_is_bool, sides)):
            one, other = sides if _is_bool(sides[0]) else sides[::-1]
            return one if one.value is isinstance(node.op, ast.BitOr) else other  # type: ignore[no-any-return]
        return ast.BinOp(sides[0], node.op, sides[1])

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, float) and not (node.value * 1000).is_integer():
            for text, value in _VALUES.items():
                if abs(node.value - value) <= 2 * math.ulp(value):
                    return ast.parse(text, mode="eval").body
        return node


def _simplified_bool(op: ast.boolop, values: Sequence[ast.expr]) -> ast.expr:
    ends = isinstance(op, ast.Or)
    left: list[ast.expr] = []
    for value in values:
        if isinstance(value, ast.Constant):
            if bool(value.value) == ends:
                return ast.Constant(ends)
        else:
            left.append(value)
    return ast.Constant(not ends) if not left else left[0] if len(left) == 1 else ast.BoolOp(op, left)


def _simplified(node: ast.expr) -> ast.expr:
    """Return a comparison of constants as its value."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = node.left, node.comparators[0]
        if isinstance(node.ops[0], ast.Is | ast.IsNot) and isinstance(right, ast.Constant):
            if isinstance(left, ast.Constant):
                return ast.Constant((left.value is right.value) is isinstance(node.ops[0], ast.Is))
            if not isinstance(left, ast.Name):
                return ast.Constant(isinstance(node.ops[0], ast.IsNot))
        elif isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            compare = _COMPARISONS.get(type(node.ops[0]))
            try:
                return node if compare is None else ast.Constant(bool(compare(left.value, right.value)))
            except TypeError:
                return node
    return node


def _is_bool(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


_COMPARISONS = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) < 60 else f"{text[:57]}..."
