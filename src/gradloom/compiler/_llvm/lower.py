"""Operators and functions of loop programs on values of LLVM, with NumPy's meaning.

Note [Undefined in LLVM]
Division by zero, shifts by too much and conversions of numbers out of range are undefined in LLVM. NumPy defines the
first two (0) and has the processor's result for the third, which on x86 is the smallest integer; so does this.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._loops import FLOATS, INTEGERS
from . import exponentials, trigonometry
from .ir import BITS, DOUBLE, FLOAT, I1, I16, I32, I64, PTR, Function, V, copysign, fabs, fma, loop, vector, when
from .plan import Unsupported

ELEMENTS = {
    "bool": I1, "float32": FLOAT, "float64": DOUBLE,
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
# Functions that are long enough to be functions of LLVM too.
LONG: dict[str, Callable[..., V]] = {
    **{name: getattr(exponentials, name) for name in
       "exp exp2 expm1 log log2 log10 log1p tanh sinh cosh arcsinh arccosh arctanh logaddexp logaddexp2 hypot".split()},
    **{name: getattr(trigonometry, name) for name in
       "sin cos tan arctan arctan2 arcsin arccos erf erfc".split()},
    "**": exponentials.power,
}  # fmt: skip
_PREDICATES = {"<": ("olt", "lt"), "<=": ("ole", "le"), ">": ("ogt", "gt"), ">=": ("oge", "ge")}


def operate(op: str, operands: list[V], dtype: str, call: Callable[[str, list[V]], V]) -> V:
    """Return the value of an operator or function on operands of one dtype.

    call: writes a call of a function of LONG. Raises Unsupported.
    """
    x = operands[0]
    if dtype in FLOATS and op in LONG:
        exponent = operands[1].constant if op == "**" else None
        short = None if exponent is None else _short_power(x, exponent)
        return short if short is not None else call(op, operands)
    if op in _SIMPLE:
        return _SIMPLE[op](*operands)
    if op in _PREDICATES:
        ordered, order = _PREDICATES[op]
        return x.compare(ordered, f"{'u' if dtype[0] in 'ub' else 's'}{order}", operands[1])
    if op in ("maximum", "minimum", "fmax", "fmin"):
        return extreme(op, x, operands[1], dtype)
    if dtype in INTEGERS and op in _OF_INTEGERS:
        return _OF_INTEGERS[op](*operands, dtype)
    if dtype in FLOATS and op in _OF_FLOATS:
        return _OF_FLOATS[op](*operands)
    raise Unsupported(f"the llvm backend has no `{op}` of {dtype}")


def greater(x: V, y: V, dtype: str) -> V:
    return x.compare("ogt", "ugt" if dtype[0] in "ub" else "sgt", y)


def extreme(op: str, x: V, y: V, dtype: str) -> V:
    """Return the greater or lesser; `maximum` and `minimum` give NaN if either is, the others the number beside it."""
    chosen = greater(x, y, dtype) if op in ("maximum", "fmax") else greater(y, x, dtype)
    result = chosen.where(x, y)  # y where either is NaN
    if dtype not in FLOATS:
        return result
    return x.is_nan().where(x, result) if op in ("maximum", "minimum") else y.is_nan().where(x, result)


def _short_power(x: V, exponent: float) -> V | None:
    """Return the powers that NumPy computes by other operations too."""
    if exponent == 1:
        return x
    if exponent == 2:
        return x * x
    if exponent == -1:
        return 1.0 / x
    if exponent == 0.5:
        return x.f.intrinsic("sqrt", x)
    return None


def _shift(op: str) -> Callable[..., V]:
    def shift(x: V, y: V, dtype: str) -> V:
        bits = BITS[x.elem]
        valid = y.compare("", "ult", bits)
        safe = valid.where(y, 0)
        if op == "<<":
            return valid.where(x << safe, 0)
        signed = dtype[0] == "i"
        outside = x.shift_right(bits - 1, signed=True) if signed else x.like(0)
        return valid.where(x.shift_right(safe, signed=signed), outside)

    return shift


def _divide(remainder: bool, floor: bool) -> Callable[..., V]:
    def divide(x: V, y: V, dtype: str) -> V:
        x, y = x._pair(y)
        zero = y.equals(0)
        if dtype[0] == "u":
            safe = zero.where(1, y)
            return zero.where(0, x._binary("urem" if remainder else "udiv", safe))
        minus = y.equals(-1)  # the quotient of the smallest number would overflow: negate instead
        safe = (zero | minus).where(1, y)
        rest = minus.where(0, x._binary("srem", safe))
        quotient = minus.where(-x, x._binary("sdiv", safe))
        if floor:
            down = rest.differs(0) & ((rest ^ y) < 0)
            rest = down.where(rest + y, rest)
            quotient = down.where(quotient - 1, quotient)
        return zero.where(0, rest if remainder else quotient)

    return divide


def _integer_power(x: V, y: V, dtype: str) -> V:
    if not isinstance(y.constant, int) or not 0 <= y.constant <= 64:
        raise Unsupported(f"the llvm backend has no `**` of {dtype} but by constants from 0 to 64")
    result, square, left = x.like(1), x, y.constant
    while left:
        if left & 1:
            result = result * square
        square, left = square * square, left >> 1
    return result


def _integer_sign(x: V, dtype: str) -> V:
    positive = greater(x, x.like(0), dtype)
    return positive.where(1, x.shift_right(BITS[x.elem] - 1, signed=True) if dtype[0] == "i" else x.like(0))


def _remainder_parts(x: V, y: V) -> V:
    """Return fmod(x, y): exact, since the quotient is an integer below 2^p; other lanes go to the C library."""
    x, y = x._pair(y)
    f = x.f
    quotient = f.intrinsic("trunc", x / y)
    if not f.module.fma:
        rest = x * math.nan
        quotient = quotient * math.inf
    else:
        rest = quotient.equals(0.0).where(x, fma(-quotient, y, x))  # y may be infinite
    wrong = rest.differs(0.0) & ((rest < 0.0) ^ (x < 0.0))  # the division rounded up
    rest = copysign(wrong.where(rest + copysign(fabs(y), x), rest), x)
    fast = fabs(quotient) < 2.0 ** (exponentials.format_of(x).mantissa - 1)
    kept = f.alloca(x.type, 64)
    f.store(rest, kept, 64)

    def replace() -> None:
        places = [f.alloca(x.type, 64), f.alloca(x.type, 64)]
        f.store(x, places[0], 64)
        f.store(y, places[1], 64)
        function = f.load(f.offset("%library", 8 * len(trigonometry.LIBRARY)), PTR)

        def one(i: V) -> None:
            place = i * (BITS[x.elem] // 8)
            a, b = (f.load(f.offset(p, place), x.elem) for p in places)
            if x.elem == FLOAT:
                a, b = a.convert("fpext", DOUBLE), b.convert("fpext", DOUBLE)
            found = f.emit(f"call double {function.name}(double {a.name}, double {b.name})", DOUBLE)
            f.store(found.convert("fptrunc", FLOAT) if x.elem == FLOAT else found, f.offset(kept, place))

        loop(f, f.const(0, I64), f.const(x.width or 1, I64), 1, one)

    when(f, (~fast).any(), replace)
    return f.load(kept, x.elem, x.width, 64)


def _modulo(x: V, y: V) -> V:
    """Return the remainder of a division that rounds down; zeros have the sign of `x`."""
    rest = _remainder_parts(x, y)
    other = rest.differs(0.0) & ((y < 0.0) ^ (rest < 0.0))
    return other.where(rest + y, rest)


def _floor_divide(x: V, y: V) -> V:
    rest = _remainder_parts(x, y)
    quotient = (x - rest) / y
    down = rest.differs(0.0) & ((y < 0.0) ^ (rest < 0.0))
    quotient = down.where(quotient - 1.0, quotient)
    floor = x.f.intrinsic("floor", quotient)
    result = (quotient - floor > 0.5).where(floor + 1.0, floor)
    result = quotient.equals(0.0).where(copysign(quotient.like(0.0), x / y), result)
    return y.equals(0.0).where(x / y, result)


def _float_sign(x: V) -> V:
    return (x > 0.0).where(1.0, (x < 0.0).where(-1.0, x.equals(0.0).where(0.0, x)))


def _angle(x: V) -> V:
    return x.is_nan().where(x, (x.bits() < 0).where(x.like(math.pi), 0.0))


_SIMPLE: dict[str, Callable[..., V]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y,
    "neg": lambda x: -x, "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y,
    "~": lambda x: ~x, "==": lambda x, y: x.equals(y), "!=": lambda x, y: x.differs(y),
    "conj": lambda x: x, "real": lambda x: x, "imag": lambda x: x.like(0),
}  # fmt: skip
_OF_INTEGERS: dict[str, Callable[..., V]] = {
    "<<": _shift("<<"), ">>": _shift(">>"), "//": _divide(False, True), "%": _divide(True, True),
    "fmod": _divide(True, False), "**": _integer_power, "sign": _integer_sign,
    "abs": lambda x, dtype: x if dtype[0] == "u" else (x < 0).where(-x, x),
}  # fmt: skip
_OF_FLOATS: dict[str, Callable[..., V]] = {
    **{name: (lambda x, name=name: x.f.intrinsic(name, x)) for name in ("floor", "ceil", "trunc", "rint", "sqrt")},
    "abs": fabs, "copysign": copysign, "fma": fma, "sign": _float_sign, "angle": _angle, "fmod": _remainder_parts,
    "%": _modulo, "//": _floor_divide,
    "isnan": lambda x: x.is_nan(), "isfinite": lambda x: fabs(x) < math.inf,
    "isinf": lambda x: fabs(x).equals(math.inf), "signbit": lambda x: x.bits() < 0,
}  # fmt: skip


def cast(x: V, source: str, target: str) -> V:
    """Return a value in another dtype, as NumPy's astype does; see Note [Undefined in LLVM]."""
    elem = ELEMENTS[target]
    if source == target:
        return x
    if target == "bool":
        return x.differs(0)
    if source in FLOATS and target in FLOATS:
        return x.convert("fptrunc" if target == "float32" else "fpext", elem)
    if target in FLOATS:
        return x.convert("sitofp" if source[0] == "i" else "uitofp", elem)
    if source in FLOATS:
        return _to_integer(x, target)
    before, after = BITS[x.elem], BITS[elem]
    if before == after:
        return V(x.f, x.name, elem, x.width, x.constant)
    return x.convert("trunc" if after < before else "sext" if source[0] == "i" else "zext", elem)


def _to_integer(x: V, target: str) -> V:
    if target == "uint64":
        far = x >= 2.0**63
        low = _to_integer(far.where(x - 2.0**63, x), "int64")
        return far.where(low ^ low.like(-(2**63)), low)
    wide = I64 if target in ("int64", "uint32") else I32
    limit = 2.0 ** (BITS[wide] - 1)
    inside = (x >= -limit) & (x < limit)
    result = inside.where(inside.where(x, 0.0).convert("fptosi", wide), x.f.const(-int(limit), wide, x.width))
    return result if ELEMENTS[target] == wide else result.convert("trunc", ELEMENTS[target])


def from_memory(bits: V, dtype: str) -> V:
    """Return the value of loaded bits of a buffer's dtype."""
    if dtype == "bool":
        return bits.differs(0)
    if dtype == "bfloat16":
        return (bits.convert("zext", I32) << 16).as_float()
    if dtype == "float16":
        half = bits.f.emit(f"bitcast {bits.type} {bits.name} to {vector('half', bits.width)}", "half", bits.width)
        return half.convert("fpext", FLOAT)
    return bits.as_float() if dtype in FLOATS else bits


def to_memory(x: V, dtype: str) -> V:
    """Return the bits that a buffer of this dtype holds for a value."""
    if dtype == "bool":
        return x.convert("zext", "i8")
    if dtype == "bfloat16":
        bits = x.bits()
        even = bits.shift_right(16) & 1
        rounded = (bits + even + 0x7FFF).shift_right(16)
        quiet = (bits.shift_right(16) & 0x8000) | 0x7FC0
        return x.is_nan().where(quiet, rounded).convert("trunc", I16)
    if dtype == "float16":
        half = x.convert("fptrunc", "half")
        return half.convert("bitcast", I16)
    return x.bits() if dtype in FLOATS else x


def memory_element(dtype: str) -> str:
    """Return the integer type of a buffer's elements."""
    size = {"bool": 8, "float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}.get(dtype)
    return f"i{size}" if size else ELEMENTS[dtype]


def write_long(module: Any, name: str, elem: str, width: int, inline: bool) -> str:
    """Add a function of LONG for one type to the module; return its name."""
    count = 2 if name in ("**", "arctan2", "logaddexp", "logaddexp2", "hypot") else 1
    full = f"{'power' if name == '**' else name}.{elem}.{width}"
    if full in module.functions:
        return full
    type = vector(elem, width)
    parameters = [(type, f"x{i}") for i in range(count)]
    how = "alwaysinline" if inline else "noinline"
    f = Function(module, full, type, [*parameters, (PTR, "library")], "internal ", how)
    result = LONG[name](*(f.parameter(p, elem, width) for _, p in parameters))
    f.line(f"ret {type} {result.name}")
    f.finish()
    return full
