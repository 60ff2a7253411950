"""From the scalar definitions of operators to instructions of loop programs.

A definition (`scalar:` in native_functions.yaml) becomes an expression: a graph of
`Expr`, in which equal parts are one object. Values are computed in the dtype to which the operator promotes its
arguments, and converted to the dtype of its result, as the kernel does.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..dispatch.promotion import result_type_of
from ..dispatch.records import Record, RecordIndex
from ..types.dtype import FLOATING, bfloat16, default, float16
from ..types.silence import silence
from ._graph import Content, Node, Value, dtype_name
from ._loops import FLOATS, HALVES, OPERATORS, VALUE_DTYPES, widened
from ._numbers import TRACED, called as called_on_numbers

# Operators with a meaning of their own for integers: division by zero raises, overflow wraps ...
_FLOAT_ONLY = frozenset("/ // % ** << >> fmod gcd lcm".split())
# Functions that are expensive to compute again.
COSTLY = frozenset(
    """exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh
    arctan2 hypot erf erfc erfinv lgamma digamma logaddexp logaddexp2 **""".split()
)


_OF_SPACING = frozenset(("nextafter",))  # functions that depend on the precision of a dtype
COMBINE = frozenset(("sum", "prod", "max", "min", "any", "all", "argmax", "argmin"))  # what reduces a row


class CannotFuseError(Exception):
    """An operator cannot be part of a loop program; the message says why."""


class Expr:
    """A part of an expression: an operation of _loops.py with its operands.

    Attributes:
        op: as in Instruction; `load` has a place (a key of the fuser) as its attribute.
        dtype: a NumPy dtype name.
    """

    __slots__ = ("op", "args", "dtype", "attribute")

    def __init__(self, op: str, args: tuple[Expr, ...], dtype: str, attribute: Any) -> None:
        self.op, self.args, self.dtype, self.attribute = op, args, dtype, attribute


class Exprs:
    """Makes expressions; equal ones are one object."""

    def __init__(self) -> None:
        self.known: dict[Any, Expr] = {}
        self.numbers: dict[tuple[str, str], int] = {}  # source and dtype of the graph's numbers -> their order

    def make(self, op: str, args: tuple[Expr, ...], dtype: str, attribute: Any = None) -> Expr:
        key = op, tuple(map(id, args)), dtype, attribute
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = Expr(op, args, dtype, attribute)
        return found

    def const(self, value: Any, dtype: str) -> Expr:
        """Return a constant, or a number of the graph. Raises CannotFuseError if the dtype does not have it."""
        if type(value) in TRACED and dtype != "bool":
            return self._number(value, dtype)
        if dtype == "bool":
            value = bool(value)
        elif dtype.startswith("float"):
            value = float(value)
        elif isinstance(value, float) and not value.is_integer():
            raise CannotFuseError(f"{value} in {dtype}")
        else:
            value = int(value)
            low, high = limits_of(dtype)
            if not low <= value < high:
                raise CannotFuseError(f"{value} does not fit {dtype}")
        return self.make("const", (), dtype, repr(value))

    def _number(self, value: Any, dtype: str) -> Expr:
        kind = "float64" if value.__class__ is float else "int64"
        if kind == "float64" and not dtype.startswith("float"):
            raise CannotFuseError(f"a float in {dtype}")
        if not dtype.startswith("float"):
            low, high = limits_of(dtype)
            if not low <= value < high:
                raise CannotFuseError(f"{value} does not fit {dtype}")
        number = self.numbers.setdefault((value.source, kind), len(self.numbers))
        return self.cast(self.make("number", (), kind, number), dtype)

    def cast(self, arg: Expr, dtype: str) -> Expr:
        return arg if arg.dtype == dtype else self.make("cast", (arg,), dtype)

    def operation(self, op: str, *args: Expr) -> Expr:
        """Return an operator or function of the scalar language. Raises CannotFuseError outside of its dtypes."""
        count, allowed, result = OPERATORS[op]
        kind = args[0].dtype
        if len(args) != count or any(a.dtype != kind for a in args) or kind not in allowed:
            raise CannotFuseError(f"`{op}` of {', '.join(a.dtype for a in args)}")
        if op in _FLOAT_ONLY and not kind.startswith("float"):
            raise CannotFuseError(f"`{op}` of integers")
        if kind.startswith("complex"):
            raise CannotFuseError("complex numbers")
        return self.make(op, args, kind if result in ("", "part") else result)

    def where(self, condition: Expr, yes: Expr, no: Expr) -> Expr:
        return self.make("where", (condition, yes, no), yes.dtype)

    def index(self, dim: int, space: tuple[int, ...]) -> Expr:
        """Return the number of an element along a dimension of the space."""
        if space[dim] == 1:
            return self.const(0, "int64")
        return self.make("index", (), "int64", dim)

    def rounded(self, arg: Expr, numpy_type: str) -> Expr:
        """Return a value as a buffer of a dtype holds it."""
        if numpy_type not in HALVES:
            return self.cast(arg, numpy_type)
        arg = self.cast(arg, "float32")
        return (
            arg
            if arg.op == "round" and arg.attribute == numpy_type
            else self.make("round", (arg,), "float32", numpy_type)
        )


def limits_of(dtype: str) -> tuple[int, int]:
    """Return the least integer of a dtype, and the first beyond it."""
    bits = int("".join(c for c in dtype if c.isdigit()))
    low = 0 if dtype.startswith("u") else -(1 << bits - 1)
    return low, low + (1 << bits)


class Stage(NamedTuple):
    """What a node of a decomposed operator computes.

    Attributes:
        source: its definition, in the language of rows.
        names: of the node's arguments.
        space, axes: sizes of the loops, and which of them a row consists of.
        dtype: NumPy dtype name in which it computes.
        combines: whether it reduces rows.
    """

    source: str
    names: tuple[str, ...]
    space: tuple[int, ...]
    axes: tuple[int, ...]
    dtype: str
    combines: bool

    @property
    def kept(self) -> tuple[int, ...]:
        """The shape of a row value, with sizes of one."""
        return tuple([1 if d in self.axes else n for d, n in enumerate(self.space)])

    @property
    def dropped(self) -> tuple[int, ...]:
        """The shape of a row value without the dimensions of the row."""
        return tuple([n for d, n in enumerate(self.space) if d not in self.axes])

    @property
    def length(self) -> int:
        """The number of elements of a row."""
        return math.prod(self.space[d] for d in self.axes)


def record_of_node(node: Node) -> Record | None:
    """Return the record of the operator that a node calls; None if it is none of gradloom's own."""
    found = own_records().get(node.name)
    return found if found is not None and node.wrapper.__class__ is FunctionType else None


@lru_cache(1)
def own_records() -> RecordIndex:
    """Return the records of gradloom's own operators."""
    return import_module("gradloom.generated.records").RECORDS  # type: ignore[no-any-return]


def definition_of(node: Node) -> Record | None:
    """Return the record with the definition of what a node computes, which is that of `add.Tensor` for `add_.Tensor`;
    None if it has no definition."""
    record = record_of_node(node)
    found = None if record is None else own_records().get(record.functional)
    return found if found is not None and found.scalar is not None else None


@lru_cache(1024)
def parsed(source: str) -> ast.expr:
    return ast.parse(source, mode="eval").body


@lru_cache(1024)
def names_in(source: str) -> frozenset[str]:
    """Return the names in a definition, those of functions included."""
    return frozenset(n.id for n in ast.walk(parsed(source)) if isinstance(n, ast.Name))


@lru_cache(1024)
def tables_in(source: str) -> frozenset[str]:
    """Return the arguments that a definition reads single elements of, as in `self[target]`."""
    return frozenset(n.value.id for n in ast.walk(parsed(source)) if isinstance(n, ast.Subscript))  # type: ignore[attr-defined]


def tables_of(node: Node) -> set[Content]:
    """Return the contents that a node reads single elements of."""
    stage = node.wrapper
    if stage.__class__ is not Stage:
        return set()
    tables = tables_in(stage.source)
    return {v.content for name, v in zip(stage.names, node.args, strict=True) if name in tables}


def loads(exprs: Exprs) -> Callable[..., Expr]:
    """Return an `operand` for `lower` that loads each tensor from its own place."""

    def operand(value: Value, *indices: Expr) -> Expr:
        return exprs.make("gather" if indices else "load", indices, widened(dtype_name(value.dtype)), value)

    return operand


def lower(node: Node, exprs: Exprs, operand: Callable[..., Expr], result_dtype: str) -> Expr:
    """Return the expression of a pointwise node's result.

    Args:
        operand: returns the expression of a tensor argument, in `widened` of its dtype; with an index for each of its
            dimensions, that of one element.
        result_dtype: NumPy dtype name of the result.

    Raises:
        CannotFuseError: if the operator has no definition, or not for these dtypes.
    """
    if node.wrapper.__class__ is Stage:
        return _lower_stage(node, exprs, operand, result_dtype)
    record = definition_of(node)
    if record is None:
        raise CannotFuseError("it has no scalar definition")
    source, promotion, promotes, half_numbers = record.scalar, record.promotion, record.promotes, record.keeps_numbers
    assert source is not None
    arguments = dict(zip([a.name for a in record.arguments], node.args, strict=False))
    common = _common(arguments, promotion, promotes)
    if common not in VALUE_DTYPES and common not in HALVES or common.startswith("complex"):
        raise CannotFuseError(f"dtype {common}")
    if common in HALVES and not _OF_SPACING.isdisjoint(names_in(source)):
        raise CannotFuseError(f"the next number of {common} is another than that of float32")
    env: dict[str, Any] = {}
    for name, value in arguments.items():
        number = getattr(value, "_wrapped_number", None)
        if value.__class__ is Value:
            found = operand(value)
            kind = dtype_name(value.dtype)
            if name in promotes or not promotes and kind != "bool":
                if common in HALVES and kind != common and not (half_numbers and not value.shape):
                    found = exprs.rounded(found, common)
                found = exprs.cast(found, widened(common))
            env[name] = found
        elif number is not None:
            env[name] = number
        else:
            env[name] = value
        takes_part = number is not None or promotion == "default_with_numbers"
        if common in HALVES and not half_numbers and takes_part and isinstance(env[name], (int, float)):
            env[name] = _in_half_precision(env[name], common, number is not None, exprs)
    result: Any = expression(source, env, exprs, widened(common))
    if not isinstance(result, Expr):
        result = exprs.const(result, widened(result_dtype))
    return exprs.rounded(result, result_dtype)


def _in_half_precision(number: Any, dtype: str, is_wrapped: bool, exprs: Exprs) -> Any:
    """Return a number that is an operand in half precision as its kernel has it."""
    if is_wrapped:
        return exprs.rounded(exprs.const(number, "float32"), dtype)
    if type(number) in TRACED:
        raise CannotFuseError("a number that varies, in half precision")  # a definition may choose by it
    with np.errstate(over="ignore"):
        return float(np.float64(number).astype((float16 if dtype == "float16" else bfloat16).numpy))


def _lower_stage(node: Node, exprs: Exprs, operand: Callable[..., Expr], result_dtype: str) -> Expr:
    stage: Stage = node.wrapper
    kind = widened(stage.dtype)
    env: dict[str, Any] = {"count": stage.length}
    if len(stage.axes) == 1 and "index" in names_in(stage.source):
        env["index"] = exprs.index(stage.axes[0], stage.space)
    tables = tables_in(stage.source)
    for name, value in zip(stage.names, node.args, strict=True):
        env[name] = value
        if name in tables:
            env[name] = Table(exprs, stage, value, operand)
        elif value.__class__ is Value:
            found = operand(value)
            env[name] = exprs.cast(found, kind) if {found.dtype, kind} <= FLOATS else found
    result: Any = expression(stage.source, env, exprs, kind)
    if not isinstance(result, Expr):
        result = exprs.const(result, widened(result_dtype))
    return exprs.rounded(result, result_dtype)


def expression(source: str, env: dict[str, Any], exprs: Exprs, dtype: str) -> Expr:
    """Return a definition's expression; `env` has an Expr of `dtype` or a Python value for each of its names."""
    return Evaluator(exprs, env, dtype).value(parsed(source))  # type: ignore[no-any-return]


def ordered(roots: Iterable[Expr], known: Callable[[Expr], bool] = lambda _: False) -> list[Expr]:
    """Return expressions and all of their parts, each after its operands; without those that are `known`."""
    order: list[Expr] = []
    seen: set[int] = set()
    for root in roots:
        stack = [] if known(root) else [(root, iter(root.args))]
        while stack:
            expr, args = stack[-1]
            following = next((a for a in args if id(a) not in seen and not known(a)), None)
            if following is not None:
                stack.append((following, iter(following.args)))
                continue
            stack.pop()
            if id(expr) not in seen:
                seen.add(id(expr))
                order.append(expr)
    return order


def _common(arguments: dict[str, Any], promotion: str, promotes: Sequence[str]) -> str:
    """Return the NumPy dtype name in which an operator computes."""
    tensors = [_Typed(v) for n, v in arguments.items() if _is_tensor(v) and (not promotes or n in promotes)]
    if not tensors:
        tensors = [_Typed(v) for v in arguments.values() if _is_tensor(v)]
    if not tensors:
        raise CannotFuseError("it has no tensor arguments")
    if promotion == "none":
        kinds = {dtype_name(t._array.dtype) for t in tensors if t._wrapped_number is None}
        if len(kinds) > 1:
            kinds.discard("bool")  # of a mask
        if len(kinds) != 1:
            raise CannotFuseError("tensors of different dtypes")
        return kinds.pop()
    numbers: tuple[Any, ...] = ()
    if promotion == "default_with_numbers":
        numbers = tuple(v for v in arguments.values() if isinstance(v, (bool, int, float, complex)))
    found = result_type_of(tensors, numbers)
    if promotion == "int_to_float" and found.category < FLOATING:
        return str(default.numpy_float)
    return str(found.numpy)


def _is_tensor(value: Any) -> bool:
    return value.__class__ is Value or getattr(value, "_wrapped_number", None) is not None


class _Typed:
    """A Value or number, with what type promotion reads of a tensor."""

    __slots__ = ("_array", "_wrapped_number")

    def __init__(self, value: Any) -> None:
        self._wrapped_number = getattr(value, "_wrapped_number", None)
        self._array = value._array if self._wrapped_number is not None else _Array(value)


class _Array:
    __slots__ = ("dtype", "ndim")

    def __init__(self, value: Value) -> None:
        self.dtype, self.ndim = value.dtype, len(value.shape)


_SYMBOLS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.Eq: "==",
    ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "euler_gamma": 0.5772156649015329}
_BY_NUMBERS: dict[str, Callable[..., Any]] = {
    "abs": abs, "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "minimum": min, "maximum": max,
    "conj": lambda x: x, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip


class Table:
    """A tensor of which a definition reads single elements.

    An index is that of the dimension of classes: number 1, or the only one. In the others, an element is where the one
    is that is computed.
    """

    def __init__(self, exprs: Exprs, stage: Stage, value: Value, operand: Callable[..., Expr]) -> None:
        self.exprs, self.stage, self.value, self.operand = exprs, stage, value, operand

    def at(self, index: Expr) -> Expr:
        """Return the expression of an element; a negative number is outside of the table."""
        exprs, space, count = self.exprs, self.stage.space, len(self.value.shape)
        along = class_dimension(count)
        if count == 1:
            dims: list[int] = []
        elif count - len(space) in (0, 1):
            dims = [d for d in range(count) if d != along]
        else:
            raise CannotFuseError("a tensor of another number of dimensions")
        lead = count > len(space)  # the space has no dimension of classes
        places = [exprs.index(d - (lead and d > along), space) for d in dims]
        index = exprs.cast(index, "int64")
        outside = exprs.const(self.value.shape[along], "int64")
        places.insert(along, exprs.where(exprs.operation("<", index, exprs.const(0, "int64")), outside, index))
        return self.operand(self.value, *places)


def class_dimension(count: int) -> int:
    """Return which dimension of a tensor with `count` of them has an element for each class."""
    return 1 if count > 1 else 0


class Evaluator:
    """Evaluates a definition: on numbers by Python, on elements of tensors to expressions."""

    def __init__(self, exprs: Exprs, env: dict[str, Any], dtype: str) -> None:
        self.exprs, self.env, self.dtype = exprs, env, dtype

    def value(self, tree: ast.expr) -> Any:
        return getattr(self, f"_{type(tree).__name__}")(tree)

    def _Name(self, tree: ast.Name) -> Any:
        if tree.id in self.env:
            found = self.env[tree.id]
            if found.__class__ is Table:
                raise CannotFuseError(f"{tree.id} is a table")
            return found
        if tree.id not in _CONSTANTS:
            raise CannotFuseError(f"the argument {tree.id} is not given")
        return _CONSTANTS[tree.id]

    def _Subscript(self, tree: ast.Subscript) -> Any:
        index = self.value(tree.slice)
        table = self.env[tree.value.id]  # type: ignore[attr-defined]
        return table.at(index if isinstance(index, Expr) else self.exprs.const(index, "int64"))

    def _Constant(self, tree: ast.Constant) -> Any:
        return tree.value

    def _IfExp(self, tree: ast.IfExp) -> Any:
        return self.value(tree.body if self._known(tree.test) else tree.orelse)

    def _known(self, tree: ast.expr) -> Any:
        found = self.value(tree)
        if isinstance(found, Expr):
            raise CannotFuseError("it chooses by the values of a tensor")
        return found

    def _BoolOp(self, tree: ast.BoolOp) -> Any:
        values = [self._known(v) for v in tree.values]
        return all(values) if isinstance(tree.op, ast.And) else any(values)

    def _UnaryOp(self, tree: ast.UnaryOp) -> Any:
        value = self.value(tree.operand)
        if isinstance(tree.op, ast.Not):
            return not value
        if not isinstance(value, Expr):
            return -value if isinstance(tree.op, ast.USub) else ~value if isinstance(tree.op, ast.Invert) else value
        return self.exprs.operation("neg" if isinstance(tree.op, ast.USub) else "~", value)

    def _BinOp(self, tree: ast.BinOp) -> Any:
        return self._apply(_SYMBOLS[type(tree.op)], self.value(tree.left), self.value(tree.right))

    def _Compare(self, tree: ast.Compare) -> Any:
        left, right = self.value(tree.left), self.value(tree.comparators[0])
        if len(tree.ops) > 1:
            raise CannotFuseError("a chain of comparisons")
        if isinstance(tree.ops[0], ast.Is):
            return left is right
        if isinstance(tree.ops[0], ast.IsNot):
            return left is not right
        return self._apply(_SYMBOLS[type(tree.ops[0])], left, right)

    def _apply(self, symbol: str, left: Any, right: Any) -> Any:
        exprs = self.exprs
        if not isinstance(left, Expr) and not isinstance(right, Expr):
            return _on_numbers(symbol, left, right)
        if symbol == "**" and right.__class__ in (int, float) and right in (2, 3, -2):  # as the kernel of pow
            square = exprs.operation("*", left, left)
            if right == -2:
                return exprs.operation("/", exprs.const(1, square.dtype), square)
            return square if right == 2 else exprs.operation("*", square, left)
        if symbol == "**" and _is_one(right):
            return left
        if symbol == "*" and (_is_one(left) or _is_one(right)):
            return right if _is_one(left) else left
        left, right = self._alike(left, right)
        return exprs.operation(symbol, left, right)

    def _alike(self, *values: Any) -> list[Expr]:
        """Return operands in one dtype."""
        kinds = {v.dtype for v in values if isinstance(v, Expr)}
        if len(kinds) > 1:
            kinds = {self.dtype}
        kind = kinds.pop() if kinds else self.dtype
        if kind == "bool" and any(
            not isinstance(v, (Expr, bool)) and v not in (0, 1) or v.__class__ is float for v in values
        ):
            kind = self.dtype
        return [self.exprs.cast(v, kind) if isinstance(v, Expr) else self.exprs.const(v, kind) for v in values]

    def _Call(self, tree: ast.Call) -> Any:
        name = tree.func.id  # type: ignore[attr-defined]
        args = [self.value(a) for a in tree.args]
        if name in COMBINE:
            return self._combined(name, args[0])
        if name == "where":
            condition, yes, no = args
            if not isinstance(condition, Expr):
                return yes if condition else no
            if condition.dtype != "bool":
                condition = self.exprs.operation("!=", condition, self.exprs.const(0, condition.dtype))
            return self.exprs.where(condition, *self._alike(yes, no))
        if not any(isinstance(a, Expr) for a in args):
            found = called_on_numbers(_BY_NUMBERS.get(name), *args)
            if found is not NotImplemented:
                return found
            if name not in _BY_NUMBERS:
                raise CannotFuseError(f"{name} of numbers")
            return _BY_NUMBERS[name](*args)
        if name in ("conj", "real"):
            return args[0]
        if name == "imag":
            return self.exprs.const(0, args[0].dtype)
        if name in ("isnan", "isinf", "isfinite") and not args[0].dtype.startswith("float"):
            return self.exprs.const(name == "isfinite", "bool")
        if name in ("floor", "ceil", "trunc", "rint") and not args[0].dtype.startswith("float"):
            return args[0]
        return self.exprs.operation(name, *self._alike(*args))

    def _combined(self, kind: str, value: Any) -> Expr:
        exprs = self.exprs
        if not isinstance(value, Expr):
            value = exprs.const(value, self.dtype)
        if kind in ("any", "all"):
            value = exprs.cast(value, "bool")
        elif kind in ("sum", "prod"):
            value = exprs.cast(value, self.dtype)
        return exprs.make("reduce", (value,), "int64" if kind.startswith("arg") else value.dtype, kind)


def _is_one(value: Any) -> bool:
    return value.__class__ in (int, float) and value == 1


def _on_numbers(symbol: str, left: Any, right: Any) -> Any:
    functions: dict[str, Callable[[Any, Any], Any]] = {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
        "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b, "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b, "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    }  # fmt: skip
    try:
        return functions[symbol](left, right)
    except (ArithmeticError, KeyError, TypeError) as error:
        raise CannotFuseError(f"{left} {symbol} {right}") from error


silence(globals())
