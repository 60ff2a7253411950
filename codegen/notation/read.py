"""Read formulas, kernel expressions and helpers as mathematics: Python's syntax tree in, an `Expr` out.

Nothing is executed. Names are looked up in an environment. A call is rewritten according to notation.yaml, replaced by
the return value of a short helper, or stays a call. A helper is replaced if it consists of assignments, cases and a
short returned expression; see `Reader.helper`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..reading.python_files import Functions
from .expressions import (
    UNDEFINED,
    Expr,
    Form,
    both,
    cases,
    conj,
    is_awkward,
    matmul,
    negative,
    number,
    power,
    product,
    quotient,
    rebuild,
    substitute,
    total,
    transpose,
    value_of,
)

LONGEST = 40  # expressions in a helper's result; with more, it remains a call
LARGEST = 400  # expressions in any replacement: a part that is written out may occur more than once
MOST_STEPS = 500  # statements read for one formula, over all branches of all helpers
MAX_DEPTH = 12  # depth of calls within calls
MASK = "grad_input_mask"
_SHAPES = ("dim", "numel")
TRUE, FALSE = Expr("word", name="True"), Expr("word", name="False")

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "=", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "=",
    ast.IsNot: "!=", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_TRANSPOSED = {"T": transpose, "mT": transpose, "H": lambda e: conj(transpose(e)), "mH": lambda e: conj(transpose(e))}


class Unreadable(Exception):
    """Raised for a part that is not an expression of mathematics, such as a loop in a helper."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A line of `rewrite:`: the pattern's arguments (a name, or a constant that must be equal), and the replacement."""

    arguments: tuple[ast.expr, ...]
    keywords: tuple[tuple[str, ast.expr], ...]
    takes_rest: bool
    body: ast.expr

    def match(self, args: list[Expr], keywords: dict[str, Expr]) -> dict[str, Expr] | None:
        """Return the arguments by their names in the pattern; None if the call does not fit."""
        if len(args) < len(self.arguments) or (len(args) > len(self.arguments) or keywords) and not self.takes_rest:
            if len(args) != len(self.arguments) or not self.keywords or {k for k, _ in self.keywords} != set(keywords):
                return None
        found: dict[str, Expr] = {}
        given = [*args[: len(self.arguments)], *(keywords[k] for k, _ in self.keywords if k in keywords)]
        for pattern, value in zip([*self.arguments, *(v for _, v in self.keywords)], given, strict=False):
            if isinstance(pattern, ast.Name):
                found[pattern.id] = value
            elif Reader({}).read(pattern) != value:
                return None
        return found if len(given) == len(self.arguments) + len(self.keywords) else None


@dataclass(frozen=True, slots=True)
class Table:
    """The contents of notation.yaml."""

    rewrites: Mapping[str, tuple[Rewrite, ...]]
    forms: Mapping[str, Form]
    numbers: Mapping[str, Form]


@cache
def table() -> Table:
    """Return the contents of notation.yaml, read when first needed."""
    import yaml

    text = (Path(__file__).parent / "notation.yaml").read_text(encoding="utf-8")
    data = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    rewrites: dict[str, list[Rewrite]] = {}
    for pattern, body in data["rewrite"].items():
        call = ast.parse(pattern, mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name), pattern
        rest = any(isinstance(a, ast.Starred) for a in call.args)
        rewrites.setdefault(call.func.id, []).append(
            Rewrite(
                tuple(a for a in call.args if not isinstance(a, ast.Starred)),
                tuple((k.arg, k.value) for k in call.keywords if k.arg),
                rest,
                ast.parse(str(body), mode="eval").body,
            )
        )
    return Table(
        {name: tuple(group) for name, group in rewrites.items()},
        {str(name): Form(*map(str, forms)) for name, forms in data["write"].items()},
        {str(name): Form(*map(str, forms)) for name, forms in data["numbers"].items()},
    )


@dataclass
class Reader:
    """Reads expressions whose names are in `names`."""

    names: Mapping[str, Expr]  # name -> Expr
    helpers: Functions | None = None  # the helpers that may be replaced by their return value; None for none
    module: str | None = None  # the module of formulas/ that the text is in; None for one of YAML
    tensors: frozenset[str] = frozenset()  # names of symbols that are tensors
    calls: list[str] = field(default_factory=list)  # the public helpers that remained calls, filled while reading
    depth: int = 0
    steps: list[int] = field(default_factory=lambda: [0])

    def read(self, node: ast.AST) -> Expr:
        """Read an expression. Raises Unreadable if it is not an expression of mathematics."""
        rule = _RULES.get(type(node))
        if rule is None:
            raise Unreadable(type(node).__name__)
        return rule(self, node)

    def inside(self, names: Mapping[str, Expr], module: str | None) -> Reader:
        if self.depth > MAX_DEPTH:
            raise Unreadable("calls within calls")
        return Reader(names, self.helpers, module, self.tensors, self.calls, self.depth + 1, self.steps)

    # Leaves

    def constant(self, node: ast.Constant) -> Expr:
        value = node.value
        if value is None:
            return UNDEFINED
        if isinstance(value, (bool, str, bytes)) or value is Ellipsis:
            return Expr("word", name="…" if value is Ellipsis else str(value))
        if repr(value) in table().numbers:
            return Expr("number", name=repr(value))
        is_round = isinstance(value, float) and value.is_integer() and abs(value) < 1e6
        return number(str(int(value)) if is_round else repr(value))  # type: ignore[arg-type]

    def name(self, node: ast.Name) -> Expr:
        if node.id in table().numbers and node.id not in self.names:
            return Expr("number", name=node.id)
        found = self.names.get(node.id)
        if found is None and self.module is not None:
            raise Unreadable(node.id)
        return found if found is not None else Expr("symbol", name=node.id)

    # Operators

    def binop(self, node: ast.BinOp) -> Expr:
        left, right = self.read(node.left), self.read(node.right)
        make = _BINARY.get(type(node.op))
        if make is None:
            raise Unreadable(type(node.op).__name__)
        return make(left, right)

    def unaryop(self, node: ast.UnaryOp) -> Expr:
        inner = self.read(node.operand)
        if isinstance(node.op, ast.UAdd):
            return inner
        return negative(inner) if isinstance(node.op, ast.USub) else _not(inner)

    def boolop(self, node: ast.BoolOp) -> Expr:
        is_and = isinstance(node.op, ast.And)
        parts = []
        for part in node.values:
            found = self.read(part)
            decided = truth(found)
            if decided is not None and decided is not is_and:
                return found
            if decided is None:
                parts.append(found)
        return both("and" if is_and else "or", parts) if parts else (TRUE if is_and else FALSE)

    def compare(self, node: ast.Compare) -> Expr:
        parts = []
        left = self.read(node.left)
        for op, item in zip(node.ops, node.comparators, strict=True):
            right = self.read(item)
            if self.helpers is None and isinstance(op, (ast.Is, ast.IsNot)) and truth(right) is not None:
                # kernels use truth values as numbers
                parts.append(FALSE if isinstance(op, ast.Is) else TRUE)
                continue
            parts.append(self.one_comparison(_COMPARISONS[type(op)], left, right))
            left = right
        undecided = [part for part in parts if part is not TRUE]
        return FALSE if FALSE in undecided else both("and", undecided) if undecided else TRUE

    def one_comparison(self, sign: str, left: Expr, right: Expr) -> Expr:
        if right is UNDEFINED and sign in ("=", "!="):
            if left is UNDEFINED:
                return TRUE if sign == "=" else FALSE
            if left.kind != "symbol":  # an undefined gradient or tangent counts as zero
                return FALSE if sign == "=" else TRUE
        numbers = value_of(left), value_of(right)
        if None not in numbers and sign in ("=", "!="):
            return TRUE if (numbers[0] == numbers[1]) is (sign == "=") else FALSE
        if left.kind == right.kind == "word" and sign in ("=", "!="):
            return TRUE if (left == right) is (sign == "=") else FALSE
        return Expr("compare", (left, right), sign)

    def ifexp(self, node: ast.IfExp) -> Expr:
        condition = self.read(node.test)
        decided = truth(condition)
        if decided is not None:
            return self.read(node.body if decided else node.orelse)
        return choice(condition, self.read(node.body), self.read(node.orelse))

    # Containers

    def tuple(self, node: ast.Tuple | ast.List) -> Expr:
        return Expr("tuple", tuple([self.read(item) for item in node.elts]))

    def subscript(self, node: ast.Subscript) -> Expr:
        base = self.read(node.value)
        if base.kind == "mask":
            return TRUE
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        index = [self.read(item) for item in items]
        if base.kind == "gradient" and not base.name and base.args:  # the list of all gradients
            return (
                Expr("gradient", name=index[0].name)
                if value_of(index[0]) is not None
                else Expr("index", (base, *index))
            )
        value = value_of(index[0])
        if base.kind == "tuple" and value is not None and -len(base.args) <= value < len(base.args):
            return base.args[int(value)]
        return Expr("index", (base, *index))

    def slice(self, node: ast.Slice) -> Expr:
        parts = [node.lower, node.upper] + ([node.step] if node.step else [])
        return Expr("slice", tuple([UNDEFINED if p is None else self.read(p) for p in parts]))

    def each(self, node: ast.ListComp | ast.GeneratorExp) -> Expr:
        generator = node.generators[0]
        if len(node.generators) > 1 or not isinstance(generator.target, ast.Name) or generator.ifs:
            raise Unreadable("a comprehension")
        items = self.read(generator.iter)
        target = generator.target.id
        if items.kind == "tuple":
            return Expr(
                "tuple", tuple([self.inside({**self.names, target: i}, self.module).read(node.elt) for i in items.args])
            )
        variable = Expr("symbol", name=target)
        element = self.inside({**self.names, target: variable}, self.module).read(node.elt)
        return Expr("tuple", (Expr("each", (element, variable, items)),))

    # Attributes and calls

    def attribute(self, node: ast.Attribute) -> Expr:
        if isinstance(node.value, ast.Name) and node.value.id in ("math", "ops") and node.value.id not in self.names:
            if node.attr in table().numbers:
                return Expr("number", name=node.attr)
            return Expr("symbol", name=node.attr)
        base = self.read(node.value)
        turned = _TRANSPOSED.get(node.attr)
        return turned(base) if turned is not None else self.function(node.attr, [base], {})

    def call(self, node: ast.Call) -> Expr:
        func = node.func
        keywords = {}
        for item in node.keywords:
            if item.arg is not None:  # `**x.options()` sets dtype and device: no mathematics
                keywords[item.arg] = self.read(item.value)
        if isinstance(func, ast.Attribute):
            is_module = isinstance(func.value, ast.Name) and func.value.id not in self.names
            args = [] if is_module else [self.read(func.value)]
            return self.function(func.attr, args + [self.read(a) for a in node.args], keywords)
        if not isinstance(func, ast.Name):
            raise Unreadable("a call")
        if func.id == "isinstance" and len(node.args) == 2:
            return self.is_tensor(self.read(node.args[0]))
        return self.function(func.id, [self.read(a) for a in node.args], keywords, is_name=True)

    def is_tensor(self, e: Expr) -> Expr:
        if e.kind == "symbol":
            return TRUE if e.name in self.tensors else FALSE
        if value_of(e) is not None or e is UNDEFINED:
            return FALSE
        raise Unreadable("isinstance")

    def function(self, name: str, args: list[Expr], keywords: dict[str, Expr], is_name: bool = False) -> Expr:
        """Return the expression for a call of that name; `is_name` if it may be a helper, not a method."""
        if name in ("conj", "conjugate") and len(args) == 1:
            return conj(args[0])
        if name == "wrap_opt_if":
            return args[0]
        if name in ("is_unseen", "is_differentiated"):  # another way to the same value
            return FALSE
        if name == "itemsize":  # of half precision there may be such ways, too
            return Expr("number", name="8")
        for rewrite in table().rewrites.get(name, ()):
            found = rewrite.match(args, keywords)
            if found is not None:
                made = self.inside(found, None).read(rewrite.body)
                return made if made.size <= LARGEST else _call(name, args, keywords)
        if is_name and self.helpers is not None:
            helper = self.helpers.find(name, self.module)
            if helper is not None:
                return self.helper(*helper, args, keywords)
        return _call(name, args, keywords)

    def helper(self, module: str, function: ast.FunctionDef, args: list[Expr], keywords: dict[str, Expr]) -> Expr:
        """Return a helper's return value if that is short and readable; else the call, if the helper is public."""
        before = len(self.calls)
        try:
            inner = self.inside(_bound(function, args, keywords), module)
            made = inner.body(function.body)
            if not is_awkward(made) and made.size <= min(max(LONGEST, 3 * sum([a.size for a in args])), LARGEST):
                return made
        except Unreadable:
            pass
        del self.calls[before:]
        if function.name.startswith("_") or module.startswith("_"):
            raise Unreadable(function.name)
        self.calls.append(function.name)
        return _call(function.name, args, keywords)

    def body(self, statements: list[ast.stmt]) -> Expr:
        """Return the value that a sequence of statements returns."""
        names = dict(self.names)
        reader = Reader(names, self.helpers, self.module, self.tensors, self.calls, self.depth, self.steps)
        for position, statement in enumerate(statements):
            rest = statements[position + 1 :]
            self.steps[0] += 1
            if self.steps[0] > MOST_STEPS:
                raise Unreadable("too long")
            if isinstance(statement, ast.Return) and statement.value is not None:
                return reader.read(statement.value)
            if isinstance(statement, ast.If):
                condition = reader.read(statement.test)
                decided = truth(condition)
                if decided is not None:
                    return reader.body([*(statement.body if decided else statement.orelse), *rest])
                return choice(condition, reader.body([*statement.body, *rest]), reader.body([*statement.orelse, *rest]))
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                reader.assign(statement.targets[0], reader.read(statement.value), names)
            elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                raise Unreadable(type(statement).__name__)
        raise Unreadable("no return")

    def assign(self, target: ast.expr, value: Expr, names: dict[str, Expr]) -> None:
        if value.size > LARGEST:
            raise Unreadable("too large")
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Tuple) and value.kind == "tuple" and len(value.args) == len(target.elts):
            for part, item in zip(target.elts, value.args, strict=True):
                self.assign(part, item, names)
        else:
            raise Unreadable("an assignment")


def choice(condition: Expr, yes: Expr, no: Expr) -> Expr:
    """Return `yes` if the condition holds, else `no`; for tuples, element by element."""
    if yes.kind == no.kind == "tuple" and len(yes.args) == len(no.args):
        return Expr("tuple", tuple([choice(condition, y, n) for y, n in zip(yes.args, no.args, strict=True)]))
    if condition.kind == "call" and condition.name == "is_complex":
        # the real part of a real value is the value itself
        if substitute(yes, Expr("call", condition.args, "real"), condition.args[0]) == no:
            return yes
    if condition.kind == "compare" and condition.name == "=" and substitute(no, *condition.args) == yes:
        return no  # the special case of a general expression
    return cases([(yes, condition)], no)


def truth(e: Expr) -> bool | None:
    """Return whether a condition holds, if that is known without values."""
    if e.kind == "call" and e.name in _SHAPES and len(e.args) == 1:
        return True  # special cases of scalars and empty tensors are omitted
    return {TRUE: True, FALSE: False}.get(e)


def _not(e: Expr) -> Expr:
    opposite = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in", "not in": "in"}
    if e.kind == "compare":
        return rebuild(Expr("compare", e.args, opposite[e.name]), list(e.args))
    decided = truth(e)
    return Expr("not", (e,)) if decided is None else FALSE if decided else TRUE


def _call(name: str, args: list[Expr], keywords: dict[str, Expr]) -> Expr:
    shown = [a for a in args if a.kind != "mask"]
    while shown and shown[-1] is UNDEFINED:
        shown.pop()
    return Expr("call", (*shown, *[Expr("keyword", (v,), k) for k, v in keywords.items()]), name)


def _bound(function: ast.FunctionDef, args: list[Expr], keywords: dict[str, Expr]) -> dict[str, Expr]:
    """Bind the arguments of a call to the parameters of a helper."""
    spec = function.args
    if spec.vararg or spec.kwarg:
        raise Unreadable("variadic")
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    found = dict(zip(names, args, strict=False)) | keywords
    defaults = dict(zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True))
    defaults |= {a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None}
    for name, default in defaults.items():
        if name not in found:
            found[name] = Reader({}).read(default)
    if set(found) != set(names) | {a.arg for a in spec.kwonlyargs}:
        raise Unreadable("arguments")
    return found


def _floor_of(left: Expr, right: Expr) -> Expr:
    return Expr("call", (quotient(left, right),), "floor")


_BINARY: dict[type[ast.operator], Callable[[Expr, Expr], Expr]] = {
    ast.Add: total, ast.Sub: lambda a, b: total(a, negative(b)), ast.Mult: product, ast.Div: quotient,
    ast.Pow: power, ast.MatMult: matmul, ast.FloorDiv: _floor_of,
    ast.Mod: lambda a, b: Expr("call", (a, b), "mod"),
}  # fmt: skip
_RULES: dict[type[ast.AST], Callable[[Reader, Any], Expr]] = {
    ast.Constant: Reader.constant, ast.Name: Reader.name, ast.BinOp: Reader.binop, ast.UnaryOp: Reader.unaryop,
    ast.BoolOp: Reader.boolop, ast.Compare: Reader.compare, ast.IfExp: Reader.ifexp, ast.Tuple: Reader.tuple,
    ast.List: Reader.tuple, ast.Subscript: Reader.subscript, ast.Slice: Reader.slice, ast.ListComp: Reader.each,
    ast.GeneratorExp: Reader.each, ast.Attribute: Reader.attribute, ast.Call: Reader.call,
}  # fmt: skip
