"""Rules of elementwise operators."""

from __future__ import annotations

import math
from typing import Any

import gradloom as gl

from ..fx.node import Node
from ._builder import RULES, Builder, Unsupported, rule

_UNARY = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "isinf": "IsInf",
    "isnan": "IsNaN",
    "log": "Log",
    "neg": "Neg",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "round": "Round",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}
_SAME_DTYPE = ("abs", "ceil", "floor", "neg", "relu", "round", "sign", "isnan", "isinf")
_COMPARISONS = {
    "eq": "Equal",
    "ge": "GreaterOrEqual",
    "gt": "Greater",
    "le": "LessOrEqual",
    "lt": "Less",
    "ne": "Equal",
}
_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_BITWISE = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor"}


def _unary(name: str, kind: str) -> None:
    def convert(b: Builder, node: Node, x: Node, **options: Any) -> str:
        if options.get("decimals"):
            raise Unsupported("decimals")
        dtype = b.dtype(x)
        if kind in ("Ceil", "Floor", "Round", "IsNaN", "IsInf") and not dtype.is_floating_point:
            return b.name(x) if kind[:2] != "Is" else b.op("Not", b.op("Equal", x, x))
        return str(b.op(kind, x if name in _SAME_DTYPE else b.cast(x, b.dtype(node))))

    RULES[name] = convert


for _name, _kind in _UNARY.items():
    _unary(_name, _kind)


@rule("add", "sub", "rsub")
def _add(b: Builder, node: Node, x: Any, y: Any, alpha: Any = 1) -> str:
    dtype = b.dtype(node)
    left, right = b.operands(dtype, x, y)
    if node_name(node) == "rsub":
        left, right = right, left
    if alpha != 1:
        right = b.op("Mul", right, b.constant(alpha, dtype))
    if dtype == gl.bool:
        return str(b.op("Or", left, right))
    return str(b.op("Add" if node_name(node) == "add" else "Sub", left, right))


def node_name(node: Node) -> str:
    """Return the name of a node's operator, without its namespace, overload and the underscore of a write."""
    name: str = node.target.name().partition("::")[2].partition(".")[0]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


@rule("mul")
def _mul(b: Builder, node: Node, x: Any, y: Any) -> str:
    dtype = b.dtype(node)
    return str(b.op("And" if dtype == gl.bool else "Mul", *b.operands(dtype, x, y)))


@rule("div", "floor_divide")
def _div(b: Builder, node: Node, x: Any, y: Any, *, rounding_mode: str | None = None) -> str:
    mode = "floor" if node_name(node) == "floor_divide" else rounding_mode
    dtype = b.dtype(node)
    if dtype.is_floating_point:
        return _rounded(b, b.op("Div", *b.operands(dtype, x, y)), mode)
    left, right = b.operands(dtype, x, y)
    if mode == "trunc":
        return str(b.op("Div", left, right))
    return str(b.op("Div", b.op("Sub", left, b.op("Mod", left, right)), right))


def _rounded(b: Builder, value: str, mode: str | None) -> str:
    if mode is None:
        return value
    if mode == "floor":
        return str(b.op("Floor", value))
    return str(b.op("Mul", b.op("Sign", value), b.op("Floor", b.op("Abs", value))))


@rule("pow", "maximum", "minimum")
def _binary(b: Builder, node: Node, x: Any, y: Any) -> str:
    kind = {"pow": "Pow", "maximum": "Max", "minimum": "Min"}[node_name(node)]
    return str(b.op(kind, *b.operands(b.dtype(node), x, y)))


@rule("remainder", "fmod")
def _remainder(b: Builder, node: Node, x: Any, y: Any) -> str:
    dtype = b.dtype(node)
    left, right = b.operands(dtype, x, y)
    if node_name(node) == "fmod":
        return str(b.op("Mod", left, right, fmod=1))
    if not dtype.is_floating_point:
        return str(b.op("Mod", left, right))
    return str(b.op("Sub", left, b.op("Mul", right, b.op("Floor", b.op("Div", left, right)))))


@rule("hypot")
def _hypot(b: Builder, node: Node, x: Any, y: Any) -> str:
    squares = [b.op("Mul", value, value) for value in b.operands(b.dtype(node), x, y)]
    return str(b.op("Sqrt", b.op("Add", *squares)))


@rule(*_COMPARISONS)
def _compare(b: Builder, node: Node, x: Any, y: Any) -> str:
    dtype = b.common(x, y)
    if dtype == gl.bool and node_name(node) not in ("eq", "ne"):
        dtype = gl.int32
    found = b.op(_COMPARISONS[node_name(node)], *b.operands(dtype, x, y))
    return str(b.op("Not", found) if node_name(node) == "ne" else found)


@rule(*_LOGICAL)
def _logical(b: Builder, node: Node, x: Node, y: Node) -> str:
    return str(b.op(_LOGICAL[node_name(node)], *b.operands(gl.bool, x, y)))


@rule(*_BITWISE)
def _bitwise(b: Builder, node: Node, x: Any, y: Any) -> str:
    dtype = b.dtype(node)
    kind = _BITWISE[node_name(node)]
    return str(b.op(kind if dtype == gl.bool else f"Bitwise{kind}", *b.operands(dtype, x, y)))


@rule("logical_not", "bitwise_not")
def _not(b: Builder, node: Node, x: Node) -> str:
    if node_name(node) == "bitwise_not" and b.dtype(x) != gl.bool:
        return str(b.op("BitwiseNot", x))
    return str(b.op("Not", b.cast(x, gl.bool)))


@rule("where")
def _where(b: Builder, node: Node, condition: Node, x: Any, y: Any) -> str:
    return str(b.op("Where", b.cast(condition, gl.bool), *b.operands(b.dtype(node), x, y)))


@rule("masked_fill")
def _masked_fill(b: Builder, node: Node, x: Node, mask: Node, value: Any) -> str:
    return str(b.op("Where", mask, b.cast(value, b.dtype(node)), x))


@rule("clamp", "clamp_min", "clamp_max", "hardtanh")
def _clamp(b: Builder, node: Node, x: Any, low: Any = None, high: Any = None) -> str:
    kind, dtype = node_name(node), b.dtype(node)
    if kind == "clamp_max":
        low, high = None, low
    if kind == "hardtanh":
        low, high = -1 if low is None else low, 1 if high is None else high
    found = b.cast(x, dtype)
    if low is not None:
        found = b.op("Max", found, b.cast(low, dtype))
    return found if high is None else str(b.op("Min", found, b.cast(high, dtype)))


@rule("addcmul", "addcdiv")
def _addc(b: Builder, node: Node, x: Node, y: Node, z: Node, *, value: Any = 1) -> str:
    dtype = b.dtype(node)
    term = b.op("Mul" if node_name(node) == "addcmul" else "Div", *b.operands(dtype, y, z))
    return str(b.op("Add", b.cast(x, dtype), b.op("Mul", term, b.constant(value, dtype))))


@rule("lerp")
def _lerp(b: Builder, node: Node, x: Node, end: Node, weight: Any) -> str:
    return str(b.op("Add", x, b.op("Mul", b.cast(weight, b.dtype(node)), b.op("Sub", end, x))))


# --- functions that ONNX has no operator for, or one with other conventions ---


def _scaled(b: Builder, x: str, factor: float, dtype: Any) -> str:
    return str(b.op("Mul", x, b.constant(factor, dtype)))


@rule("rsqrt", "exp2", "log2", "log10", "log1p", "expm1", "square", "silu", "frac", "trunc", "log_sigmoid_forward")
def _formula(b: Builder, node: Node, x: Node) -> Any:
    name = node_name(node)
    dtype = b.dtype(x if name == "log_sigmoid_forward" else node)
    value, one = b.cast(x, dtype), b.constant(1, dtype)
    if name == "rsqrt":
        return b.op("Reciprocal", b.op("Sqrt", value))
    if name == "exp2":
        return b.op("Pow", b.constant(2, dtype), value)
    if name in ("log2", "log10"):
        return _scaled(b, b.op("Log", value), 1 / math.log(2 if name == "log2" else 10), dtype)
    if name == "log1p":
        return b.op("Log", b.op("Add", value, one))
    if name == "expm1":
        return b.op("Sub", b.op("Exp", value), one)
    if name == "square":
        return b.op("Mul", value, value)
    if name == "silu":
        return b.op("Mul", value, b.op("Sigmoid", value))
    if name == "log_sigmoid_forward":
        found = b.op("Neg", b.op("Softplus", b.op("Neg", value)))
        return [found, found]
    whole = b.op("Mul", b.op("Sign", value), b.op("Floor", b.op("Abs", value)))
    return whole if name == "trunc" else b.op("Sub", value, whole)


@rule("gelu")
def _gelu(b: Builder, node: Node, x: Node, *, approximate: str = "none") -> str:
    dtype = b.dtype(x)
    if approximate == "tanh":
        cube = _scaled(b, b.op("Mul", b.op("Mul", x, x), x), 0.044715, dtype)
        inner = b.op("Tanh", _scaled(b, b.op("Add", x, cube), math.sqrt(2 / math.pi), dtype))
    else:
        inner = b.op("Erf", _scaled(b, b.name(x), math.sqrt(0.5), dtype))
    return _scaled(b, b.op("Mul", x, b.op("Add", inner, b.constant(1, dtype))), 0.5, dtype)


@rule("mish")
def _mish(b: Builder, node: Node, x: Node) -> str:
    return str(b.op("Mul", x, b.op("Tanh", b.op("Softplus", x))))


@rule("softplus")
def _softplus(b: Builder, node: Node, x: Node, beta: float = 1, threshold: float = 20) -> str:
    dtype = b.dtype(x)
    scaled = _scaled(b, b.name(x), beta, dtype)
    soft = _scaled(b, b.op("Softplus", scaled), 1 / beta, dtype)
    return str(b.op("Where", b.op("Greater", scaled, b.constant(threshold, dtype)), x, soft))


@rule("elu")
def _elu(b: Builder, node: Node, x: Node, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> str:
    if input_scale != 1:
        raise Unsupported("input_scale")
    found = b.op("Elu", x, alpha=float(alpha))
    return str(found) if scale == 1 else _scaled(b, found, scale, b.dtype(x))


@rule("celu")
def _celu(b: Builder, node: Node, x: Node, alpha: float = 1) -> str:
    return str(b.op("Celu", x, alpha=float(alpha)))


@rule("leaky_relu")
def _leaky_relu(b: Builder, node: Node, x: Node, slope: float = 0.01) -> str:
    return str(b.op("LeakyRelu", x, alpha=float(slope)))


@rule("_prelu_kernel")
def _prelu(b: Builder, node: Node, x: Node, weight: Node) -> str:
    return str(b.op("PRelu", x, weight))


@rule("hardsigmoid", "hardswish")
def _hardsigmoid(b: Builder, node: Node, x: Node) -> str:
    if node_name(node) == "hardswish":
        return str(b.op("HardSwish", x))
    return str(b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))


@rule("threshold")
def _threshold(b: Builder, node: Node, x: Node, threshold: float, value: float) -> str:
    dtype = b.dtype(x)
    return str(b.op("Where", b.op("Greater", x, b.constant(threshold, dtype)), x, b.constant(value, dtype)))


@rule("hardshrink", "softshrink")
def _shrink(b: Builder, node: Node, x: Node, lambd: float = 0.5) -> str:
    bias = lambd if node_name(node) == "softshrink" else 0.0
    return str(b.op("Shrink", x, lambd=float(lambd), bias=float(bias)))


@rule("nan_to_num")
def _nan_to_num(b: Builder, node: Node, x: Node, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> str:
    dtype = b.dtype(x)
    limits = gl.finfo(dtype)
    found = b.op("Where", b.op("IsNaN", x), b.constant(nan or 0.0, dtype), x)
    for value, limit, signs in (
        (posinf, limits.max, dict(detect_negative=0)),
        (neginf, limits.min, dict(detect_positive=0)),
    ):
        filler = b.constant(limit if value is None else value, dtype)
        found = b.op("Where", b.op("IsInf", x, **signs), filler, found)
    return str(found)


@rule("glu")
def _glu(b: Builder, node: Node, x: Node, dim: int = -1) -> str:
    left, right = b.op("Split", x, outputs=2, axis=dim, num_outputs=2)
    return str(b.op("Mul", left, b.op("Sigmoid", right)))


@rule("_to_copy", "clone", "alias", "detach", "contiguous", "lift_fresh_copy")
def _copy(b: Builder, node: Node, x: Node, **options: Any) -> str:
    dtype = b.dtype(node)
    return str(b.op("Identity", x)) if dtype == b.dtype(x) else b.cast(x, dtype)


@rule("copy", "fill")
def _overwritten(b: Builder, node: Node, x: Node, value: Any, *rest: Any) -> str:
    return str(b.op("Expand", b.cast(value, b.dtype(x)), b.op("Shape", x)))
