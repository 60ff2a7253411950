"""Rules of pointwise operators that ONNX has no operator for, or one with other conventions."""

from __future__ import annotations

import math
from typing import Any, Literal

import gradloom as gl

from ...fx.node import Node
from .._builder import Builder, Unsupported


def added(kind: Literal["Add", "Sub"], b: Builder, node: Node, x: Any, y: Any, alpha: Any = 1) -> Any:
    """Add or subtract a multiple of the second operand; of booleans, return their union."""
    dtype = b.dtype(node)
    left, right = b.operands(dtype, x, y)
    if alpha != 1:
        right = b.op("Mul", right, b.constant(alpha, dtype))
    return b.op("Or" if dtype == gl.bool else kind, left, right)


def rsub(b: Builder, node: Node, x: Any, y: Any, alpha: Any = 1) -> Any:
    """Subtract a multiple of the first operand from the second."""
    dtype = b.dtype(node)
    left, right = b.operands(dtype, x, y)
    return b.op("Sub", right, left if alpha == 1 else b.op("Mul", left, b.constant(alpha, dtype)))


def mul(b: Builder, node: Node, x: Any, y: Any) -> Any:
    """Multiply; of booleans, return the intersection."""
    dtype = b.dtype(node)
    return b.op("And" if dtype == gl.bool else "Mul", *b.operands(dtype, x, y))


def div(b: Builder, node: Node, x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    """Divide, and round."""
    dtype = b.dtype(node)
    left, right = b.operands(dtype, x, y)
    if not dtype.is_floating_point:  # ONNX truncates
        rest = b.op("Mod", left, right) if rounding_mode == "floor" else None
        return b.op("Div", left if rest is None else b.op("Sub", left, rest), right)
    found = b.op("Div", left, right)
    if rounding_mode is None:
        return found
    return b.op("Floor", found) if rounding_mode == "floor" else _truncated(b, found)


def floor_divide(b: Builder, node: Node, x: Any, y: Any) -> Any:
    """Divide, and round down."""
    return div(b, node, x, y, rounding_mode="floor")


def _truncated(b: Builder, value: str) -> Any:
    return b.op("Mul", b.op("Sign", value), b.op("Floor", b.op("Abs", value)))


def remainder(b: Builder, node: Node, x: Any, y: Any) -> Any:
    """Return the remainder of the quotient rounded down."""
    dtype = b.dtype(node)
    left, right = b.operands(dtype, x, y)
    if not dtype.is_floating_point:
        return b.op("Mod", left, right)
    return b.op("Sub", left, b.op("Mul", right, b.op("Floor", b.op("Div", left, right))))


def fmod(b: Builder, node: Node, x: Any, y: Any) -> Any:
    """Return the remainder of the truncated quotient."""
    return b.op("Mod", *b.operands(b.dtype(node), x, y), fmod=1)


def hypot(b: Builder, node: Node, x: Any, y: Any) -> Any:
    """Return the square root of the sum of squares."""
    squares = [b.op("Mul", value, value) for value in b.operands(b.dtype(node), x, y)]
    return b.op("Sqrt", b.op("Add", *squares))


def ne(b: Builder, node: Node, x: Any, y: Any) -> Any:
    """Return where operands differ."""
    return b.op("Not", b.op("Equal", *b.operands(b.common(x, y), x, y)))


def logical_not(b: Builder, node: Node, x: Node) -> Any:
    """Negate truth values."""
    return b.op("Not", b.cast(x, gl.bool))


def bitwise_not(b: Builder, node: Node, x: Node) -> Any:
    """Negate booleans, or the bits of integers."""
    return b.op("Not" if b.dtype(x) == gl.bool else "BitwiseNot", x)


def where(b: Builder, node: Node, condition: Node, x: Any, y: Any) -> Any:
    """Choose from two operands."""
    return b.op("Where", b.cast(condition, gl.bool), *b.operands(b.dtype(node), x, y))


def masked_fill(b: Builder, node: Node, x: Node, mask: Node, value: Any) -> Any:
    """Overwrite elements by a value."""
    return b.op("Where", mask, b.cast(value, b.dtype(node)), x)


def clamp(b: Builder, node: Node, x: Any, low: Any = None, high: Any = None) -> Any:
    """Clip to bounds."""
    dtype = b.dtype(node)
    found = b.cast(x, dtype)
    if low is not None:
        found = b.op("Max", found, b.cast(low, dtype))
    return found if high is None else b.op("Min", found, b.cast(high, dtype))


def clamp_max(b: Builder, node: Node, x: Any, high: Any) -> Any:
    """Clip to an upper bound."""
    return clamp(b, node, x, None, high)


def hardtanh(b: Builder, node: Node, x: Any, low: Any = -1, high: Any = 1) -> Any:
    """Clip to -1 and 1, or to bounds."""
    return clamp(b, node, x, low, high)


def added_term(
    kind: Literal["Mul", "Div"], b: Builder, node: Node, x: Node, y: Node, z: Node, *, value: Any = 1
) -> Any:
    """Add a multiple of a product or quotient."""
    dtype = b.dtype(node)
    term = b.op(kind, *b.operands(dtype, y, z))
    return b.op("Add", b.cast(x, dtype), b.op("Mul", term, b.constant(value, dtype)))


def lerp(b: Builder, node: Node, x: Node, end: Node, weight: Any) -> Any:
    """Interpolate."""
    return b.op("Add", x, b.op("Mul", b.cast(weight, b.dtype(node)), b.op("Sub", end, x)))


# --- functions of one tensor ---


def _scaled(b: Builder, x: Any, factor: float, dtype: Any) -> Any:
    return b.op("Mul", x, b.constant(factor, dtype))


def rsqrt(b: Builder, node: Node, x: Node) -> Any:
    """Return 1 / sqrt(x)."""
    return b.op("Reciprocal", b.op("Sqrt", b.cast(x, b.dtype(node))))


def exp2(b: Builder, node: Node, x: Node) -> Any:
    """Return 2 ** x."""
    dtype = b.dtype(node)
    return b.op("Pow", b.constant(2, dtype), b.cast(x, dtype))


def log(base: int, b: Builder, node: Node, x: Node) -> Any:
    """Return the logarithm to a base."""
    dtype = b.dtype(node)
    return _scaled(b, b.op("Log", b.cast(x, dtype)), 1 / math.log(base), dtype)


def log1p(b: Builder, node: Node, x: Node) -> Any:
    """Return log(1 + x)."""
    dtype = b.dtype(node)
    return b.op("Log", b.op("Add", b.cast(x, dtype), b.constant(1, dtype)))


def expm1(b: Builder, node: Node, x: Node) -> Any:
    """Return exp(x) - 1."""
    dtype = b.dtype(node)
    return b.op("Sub", b.op("Exp", b.cast(x, dtype)), b.constant(1, dtype))


def square(b: Builder, node: Node, x: Node) -> Any:
    """Return x ** 2."""
    value = b.cast(x, b.dtype(node))
    return b.op("Mul", value, value)


def trunc(b: Builder, node: Node, x: Node) -> Any:
    """Round towards 0."""
    return _truncated(b, b.cast(x, b.dtype(node)))


def frac(b: Builder, node: Node, x: Node) -> Any:
    """Return the part after the decimal point."""
    value = b.cast(x, b.dtype(node))
    return b.op("Sub", value, _truncated(b, value))


def silu(b: Builder, node: Node, x: Node) -> Any:
    """Return x * sigmoid(x)."""
    return b.op("Mul", x, b.op("Sigmoid", x))


def log_sigmoid_forward(b: Builder, node: Node, x: Node) -> list[Any]:
    """Return log(sigmoid(x)), and as the buffer for the gradient the same."""
    found = b.op("Neg", b.op("Softplus", b.op("Neg", x)))
    return [found, found]


def gelu(b: Builder, node: Node, x: Node, *, approximate: str = "none") -> Any:
    """Return x * Phi(x)."""
    dtype = b.dtype(x)
    if approximate == "tanh":
        cube = _scaled(b, b.op("Mul", b.op("Mul", x, x), x), 0.044715, dtype)
        inner = b.op("Tanh", _scaled(b, b.op("Add", x, cube), math.sqrt(2 / math.pi), dtype))
    else:
        inner = b.op("Erf", _scaled(b, b.name(x), math.sqrt(0.5), dtype))
    return _scaled(b, b.op("Mul", x, b.op("Add", inner, b.constant(1, dtype))), 0.5, dtype)


def mish(b: Builder, node: Node, x: Node) -> Any:
    """Return x * tanh(softplus(x))."""
    return b.op("Mul", x, b.op("Tanh", b.op("Softplus", x)))


def softplus(b: Builder, node: Node, x: Node, beta: float = 1, threshold: float = 20) -> Any:
    """Return log(1 + exp(beta * x)) / beta."""
    dtype = b.dtype(x)
    scaled = _scaled(b, b.name(x), beta, dtype)
    soft = _scaled(b, b.op("Softplus", scaled), 1 / beta, dtype)
    return b.op("Where", b.op("Greater", scaled, b.constant(threshold, dtype)), x, soft)


def elu(b: Builder, node: Node, x: Node, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    """Return x where it is positive, a multiple of exp(x) - 1 elsewhere."""
    if input_scale != 1:
        raise Unsupported("input_scale")
    found = b.op("Elu", x, alpha=float(alpha))
    return found if scale == 1 else _scaled(b, found, scale, b.dtype(x))


def celu(b: Builder, node: Node, x: Node, alpha: float = 1) -> Any:
    """Return x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere."""
    return b.op("Celu", x, alpha=float(alpha))


def leaky_relu(b: Builder, node: Node, x: Node, slope: float = 0.01) -> Any:
    """Return x where it is positive, a multiple of it elsewhere."""
    return b.op("LeakyRelu", x, alpha=float(slope))


def prelu(b: Builder, node: Node, x: Node, weight: Node) -> Any:
    """Return x where it is positive, its product with the weight elsewhere."""
    return b.op("PRelu", x, weight)


def hardsigmoid(b: Builder, node: Node, x: Node) -> Any:
    """Return (x + 3) / 6, clipped to 0 and 1."""
    return b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


def threshold(b: Builder, node: Node, x: Node, threshold: float, value: float) -> Any:
    """Return x where it exceeds a threshold, a value elsewhere."""
    dtype = b.dtype(x)
    return b.op("Where", b.op("Greater", x, b.constant(threshold, dtype)), x, b.constant(value, dtype))


def hardshrink(b: Builder, node: Node, x: Node, lambd: float = 0.5) -> Any:
    """Return x where its absolute value exceeds a bound, 0 elsewhere."""
    return b.op("Shrink", x, lambd=float(lambd), bias=0.0)


def softshrink(b: Builder, node: Node, x: Node, lambd: float = 0.5) -> Any:
    """Move x towards 0."""
    return b.op("Shrink", x, lambd=float(lambd), bias=float(lambd))


def nan_to_num(b: Builder, node: Node, x: Node, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Replace NaN and infinities."""
    dtype = b.dtype(x)
    limits = gl.finfo(dtype)
    found = b.op("Where", b.op("IsNaN", x), b.constant(nan or 0.0, dtype), x)
    for value, limit, signs in (
        (posinf, limits.max, dict(detect_negative=0)),
        (neginf, limits.min, dict(detect_positive=0)),
    ):
        filler = b.constant(limit if value is None else value, dtype)
        found = b.op("Where", b.op("IsInf", x, **signs), filler, found)
    return found


def glu(b: Builder, node: Node, x: Node, dim: int = -1) -> Any:
    """Multiply the first half by the sigmoid of the second."""
    left, right = b.op("Split", x, outputs=2, axis=dim, num_outputs=2)
    return b.op("Mul", left, b.op("Sigmoid", right))
