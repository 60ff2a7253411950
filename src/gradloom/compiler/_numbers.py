"""Numbers that are arguments of a compiled graph, and what stands for them while the graph is made.

Note [Numbers]
A number that a compiled function gets or reads is a guard (Note [Guards]). One that had another value at the same place
when the function was recorded before, as that of a schedule, becomes an argument of the graph instead. What stands for
it carries the value of this call, and the source of the Python expression that gives it in others. Arithmetic makes
further such numbers, so that Python computes them in each call, exactly. A comparison or a test has the outcome of this
call, and the outcome is a guard; everything else that reads the value makes the value a guard. So code may choose by a
number, that of the program or of the library (`alpha == 1`, the powers that have formulas of their own). Kernels that a
loop replaces are run once for what they ask of numbers (`Tracer._probe`).

While the program runs, `FreeFloat` and `FreeInt` stand for numbers. They are floats and ints, which C code reads
without a method; hooks see all calls of such code. In the tracer `TracedFloat` and `TracedInt` do: the library takes
them for floats and ints by their `__class__`, and whatever wants their value has to ask for it by a method.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from ..core.tensor import wrap, wrapped_number
from ..dispatch.overloads.registry import types
from ..types.silence import silence

LARGEST = 1 << 53  # integers up to here are exact as float64


def same_number(found: Any, value: Any) -> bool:
    return found is value or found.__class__ is value.__class__ and found == value


def same_float(found: Any, value: float) -> bool:
    """Whether two floats are equal, signed zeros distinguished and NaN equal to itself."""
    if found.__class__ is not float:
        return False
    if value != value:
        return found != found  # type: ignore[no-any-return]
    return found == value and math.copysign(1, found) == math.copysign(1, value)


class NumberIsKeyError(Exception):
    """A number is a key, or an element of a set, of the library, which may keep it longer than the trace."""


class Numbers:
    """The numbers that are arguments of one graph.

    In the source of expressions and conditions, `n` is the tuple of their values in a call.

    Attributes:
        values: in this call.
        names: for each, what it is, for `explain`.
        conditions: what else must hold in a call that the graph serves.
        read: which of them a condition fixes, alone or together with others.
        is_recording: False when the program has run: FreeFloats and FreeInts that are left over are plain.
        is_probing: whether values may be read, and only comparisons are guards.
    """

    def __init__(self, values: tuple[Any, ...] = ()) -> None:
        self.values = list(values)
        self.names: list[str] = []
        self.conditions: dict[str, None] = {}
        self.read: set[int] = set()
        self.is_recording = True
        self.is_probing = False

    def new(self, value: Any, name: str) -> Any:
        """Return what stands for one more number while the program runs."""
        self.values.append(value)
        self.names.append(name)
        found = _FREE[value.__class__](value, f"n[{len(self.values) - 1}]", self)
        if value.__class__ is int:
            self.need(f"{-LARGEST} < {found.source} < {LARGEST}")
        return found

    def hold(self, condition: str) -> None:
        """Add a condition."""
        self.conditions[condition] = None

    def need(self, condition: str) -> None:
        """Add a condition without which an expression raises an error, or has another type."""
        self.hold(condition)

    def fix(self, source: str, value: Any) -> None:
        """Require that an expression has a value."""
        if self.is_probing:
            return
        test = "same_float" if value.__class__ is float else "same_number"
        self.hold(f"{test}({source}, {_literal(value)})")
        self.read.update(i for i in range(len(self.values)) if f"n[{i}]" in source)

    def fix_all(self) -> None:
        """Require all values of this call."""
        for i, value in enumerate(self.values):
            self.fix(f"n[{i}]", value)

    def traced(self, number: Any) -> Any:
        """Return what stands in the tracer for a number of the recording."""
        return self.standing_for(number.source)

    def standing_for(self, source: str) -> Any:
        """Return what stands in the tracer for an expression."""
        value = evaluated(source, self.values)
        return _TRACED[value.__class__](value, source, self)


# --- arithmetic -------------------------------------------------------------------------------------------------------

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_COMPUTED: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow,
}  # fmt: skip
# Functions of numbers, by their names in sources.
_FUNCTIONS: dict[Any, str] = {
    **{getattr(math, name): f"math.{name}" for name in """sqrt exp expm1 log log2 log10 log1p sin cos tan asin acos
    atan atan2 sinh cosh tanh asinh acosh atanh erf erfc hypot fabs copysign pow floor ceil trunc degrees
    radians""".split()},
    abs: "abs", min: "min", max: "max", sum: "sum", pow: "pow", float: "float", int: "int", math.prod: "math.prod",
    math.fsum: "math.fsum",
}  # fmt: skip
NAMES: dict[str, Any] = {
    "math": math, "inf": math.inf, "nan": math.nan, "same_float": same_float, "same_number": same_number,
}  # fmt: skip


@lru_cache(4096)
def function_of(source: str) -> Callable[[Any], Any]:
    """Return the function of the numbers of a call that an expression is."""
    return eval(f"lambda n: {source}", dict(NAMES))  # type: ignore[no-any-return]


def evaluated(source: str, values: Any) -> Any:
    """Return the value of an expression of the numbers of a call."""
    return function_of(source)(values)


def hold(conditions: Iterable[str], values: Any) -> bool:
    """Return whether conditions hold for the numbers of a call."""
    try:
        return all(evaluated(condition, values) for condition in conditions)
    except (ArithmeticError, ValueError):
        return False


def _literal(value: Any) -> str:
    text = repr(value)
    return f"({text})" if text.startswith("-") else text


def is_free(value: Any) -> bool:
    """Return whether an object stands for a number of the graph."""
    cls = type(value)
    return cls in TRACED or cls in FREE and value.numbers.is_recording


def plain(value: Any) -> Any:
    """Return a number without what it carries; other objects as they are."""
    cls = type(value)
    return value.value if cls in FREE or cls in TRACED else value


def fixed(value: Any) -> Any:
    """Return a number without what it carries, and require its value; other objects as they are."""
    if is_free(value):
        value.numbers.fix(value.source, value.value)
    return plain(value)


def _source(value: Any) -> str:
    if value.__class__ is list or value.__class__ is tuple:
        return f"({''.join(f'{_source(v)}, ' for v in value)})"
    return value.source if is_free(value) else _literal(plain(value))  # type: ignore[no-any-return]


def _made(value: Any, source: str, like: Any) -> Any:
    """Return a number that was computed of others."""
    numbers = like.numbers
    if value.__class__ is int:
        if not -LARGEST < value < LARGEST:
            numbers.fix(source, value)
            return value
        numbers.need(f"{-LARGEST} < {source} < {LARGEST}")
    return (_TRACED if type(like) in TRACED else _FREE)[value.__class__](value, source, numbers)


def computed(symbol: str, *operands: Any) -> Any:
    """Return the result of an operator on numbers, one of which is the graph's."""
    like = next((o for o in operands if is_free(o)), None)
    values = [plain(o) for o in operands]
    if len(operands) == 1:
        value = -values[0] if symbol == "neg" else +values[0]
        if like is None or symbol == "pos":
            return value if like is None else operands[0]
        return _made(value, f"(-{like.source})", like)
    if symbol in _COMPARED:
        outcome = _COMPARED[symbol](*values)
        if like is not None:
            left, right = map(_source, operands)
            if symbol in ("==", "!="):
                symbol = "==" if (symbol == "==") is outcome else "!="
                like.numbers.hold(f"{left} {symbol} {right}")
            else:
                like.numbers.hold(f"{left} {symbol} {right}" if outcome else f"not {left} {symbol} {right}")
        return outcome
    value = _COMPUTED[symbol](*values)
    if like is None:
        return value
    if value.__class__ not in _FREE or any(v.__class__ not in _FREE for v in values):
        for o in operands:
            fixed(o)
        return value
    source = f"({_source(operands[0])} {symbol} {_source(operands[1])})"
    if symbol in ("/", "//", "%") and is_free(operands[1]):
        like.numbers.need(f"{operands[1].source} != 0")
    elif symbol == "**":
        like.numbers.need(f"{source}.__class__ is {value.__class__.__name__}")
    return _made(value, source, like)


def called(function: Any, *args: Any) -> Any:
    """Return the result of a function of numbers; NotImplemented if it is not one whose calls are expressions."""
    numbers = [n for a in args for n in (a if a.__class__ is list or a.__class__ is tuple else (a,))]
    like = next((n for n in numbers if is_free(n)), None)
    if like is None or function not in _FUNCTIONS or any(plain(n).__class__ not in _FREE for n in numbers):
        return NotImplemented
    if function is plain(like).__class__ and len(args) == 1:
        return like
    value = function(*[replaced(a, plain) for a in args])
    if value.__class__ not in _FREE:
        return NotImplemented
    source = f"{_FUNCTIONS[function]}({', '.join(map(_source, args))})"
    # Evaluated before the graph runs: where the function raises an error, the call is left to Python.
    like.numbers.need(f"{source}.__class__ is {value.__class__.__name__}")
    return _made(value, source, like)


class _Number:
    """The operators of numbers of a graph.

    Attributes:
        value: in this call.
        source: of the expression that gives it in other calls.
        numbers: those of the graph.
    """

    __slots__ = ()
    value: Any
    source: str
    numbers: Numbers

    def __bool__(self) -> bool:
        return computed("!=", self, 0)  # type: ignore[no-any-return]

    def __neg__(self) -> Any:
        return computed("neg", self)

    def __pos__(self) -> Any:
        return computed("pos", self)

    def __abs__(self) -> Any:
        return called(abs, self) if is_free(self) else abs(self.value)

    def conjugate(self) -> Any:
        return self

    @property
    def real(self) -> Any:
        return self

    @property
    def imag(self) -> Any:
        return self.value.__class__(0)

    def is_integer(self) -> bool:
        outcome = self.value.is_integer()
        if is_free(self):
            self.numbers.hold(f"{self.source}.is_integer() is {outcome}")
        return outcome  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        return hash(fixed(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.value.__class__, (fixed(self),)


def _operator(symbol: str, reverse: bool) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if type(other) not in _KNOWN:
            if type(self) in FREE:
                fixed(self)  # the other operand may read it; of a _Traced, only by its methods
            return NotImplemented
        return computed(symbol, other, self) if reverse else computed(symbol, self, other)

    return method


def _reading(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        return getattr(fixed(self), name)(*args)

    return method


for _symbol, _name in zip(_COMPUTED, "add sub mul truediv floordiv mod pow".split(), strict=True):
    setattr(_Number, f"__{_name}__", _operator(_symbol, False))
    setattr(_Number, f"__r{_name}__", _operator(_symbol, True))
for _symbol, _name in zip(_COMPARED, "eq ne lt le gt ge".split(), strict=True):
    setattr(_Number, f"__{_name}__", _operator(_symbol, False))
for _name in "repr str format float int round trunc floor ceil divmod rdivmod".split():
    setattr(_Number, f"__{_name}__", _reading(f"__{_name}__"))


class FreeFloat(_Number, float):
    """A float of a graph while the program runs."""

    def __new__(cls, value: float, source: str, numbers: Numbers) -> FreeFloat:
        made = float.__new__(cls, value)
        made.value, made.source, made.numbers = value, source, numbers
        return made


class FreeInt(_Number, int):
    """An int of a graph while the program runs."""

    def __new__(cls, value: int, source: str, numbers: Numbers) -> FreeInt:
        made = int.__new__(cls, value)
        made.value, made.source, made.numbers = value, source, numbers
        return made

    __index__ = _reading("__index__")


class _Traced(_Number):
    """A number in the tracer; `__class__` is that of the number."""

    __slots__ = ("value", "source", "numbers")

    def __init__(self, value: Any, source: str, numbers: Numbers) -> None:
        self.value, self.source, self.numbers = value, source, numbers

    def __hash__(self) -> int:
        raise NumberIsKeyError

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(function, method)(*map(fixed, inputs), **options)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Return a 0-dimensional array; only that of an operator's operand does not read the value."""
        reads = sys._getframe(1).f_code is not wrapped_number.__code__
        import numpy as np

        return np.array(fixed(self) if reads else self.value, dtype)


class TracedFloat(_Traced):
    """A float in the tracer."""

    __slots__ = ()
    __class__ = property(lambda self: float)  # type: ignore[assignment]


class TracedInt(_Traced):
    """An int in the tracer."""

    __slots__ = ()
    __class__ = property(lambda self: int)  # type: ignore[assignment]
    __index__ = _reading("__index__")


FREE = (FreeFloat, FreeInt)
TRACED = (TracedFloat, TracedInt)
types.stand_ins.update({TracedFloat: float, TracedInt: int})
_FREE: dict[Any, Any] = {float: FreeFloat, int: FreeInt}
_TRACED: dict[Any, Any] = {float: TracedFloat, int: TracedInt}
_KNOWN = frozenset((float, int, bool, complex, *FREE, *TRACED))


# --- in containers ----------------------------------------------------------------------------------------------------


def replaced(value: Any, each: Callable[[Any], Any]) -> Any:
    """Return nested tuples, lists, dictionaries and slices with `each` in place of the graph's numbers.

    Containers without such numbers are not copied.
    """
    cls = type(value)
    if cls in FREE or cls in TRACED:
        return each(value)
    if cls is tuple or cls is list:
        found = [replaced(v, each) for v in value]
        return value if all(map(operator.is_, found, value)) else cls(found)
    if cls is dict:
        members = {k: replaced(v, each) for k, v in value.items()}
        return value if all(map(operator.is_, members.values(), value.values())) else members
    if cls is slice:
        parts = value.start, value.stop, value.step
        made = [replaced(v, each) for v in parts]
        return value if all(map(operator.is_, made, parts)) else slice(*made)
    if isinstance(value, tuple) and hasattr(cls, "_make"):
        found = [replaced(v, each) for v in value]
        return value if all(map(operator.is_, found, value)) else cls._make(found)
    return value


def cleared(value: Any, seen: frozenset[int] = frozenset()) -> Any:
    """Return a result of the program without the graph's numbers; lists, dictionaries and data classes are changed."""
    cls = type(value)
    if cls in FREE:
        return value.value
    if id(value) in seen:
        return value
    inside = seen | {id(value)}
    if isinstance(value, tuple):
        found = [cleared(v, inside) for v in value]
        if all(map(operator.is_, found, value)):
            return value
        return cls._make(found) if hasattr(cls, "_make") else tuple(found)
    if cls is list:
        members: Any = enumerate(value)
    elif cls is dict:
        members = value.items()
    elif "__dataclass_fields__" in vars(cls):
        cleared(vars(value), inside)
        return value
    else:
        return value
    for k, v in list(members):
        found = cleared(v, inside)
        if found is not v:
            value[k] = found
    return value


def math_module() -> Any:
    """Return what sources call `math`; programs on disk name it so."""
    return math


# --- as operands of operators -----------------------------------------------------------------------------------------


def number_of(value: Any) -> Any:
    """Return the number of the graph that an argument of a node is, as itself or as a wrapped number; else None."""
    if type(value) in TRACED:
        return value
    number = getattr(value, "_wrapped_number", None)
    return number if type(number) in TRACED else None


def operand(value: Any, dtype: Any) -> Any:
    """Return a number as an operand of an operator, as `wrapped_number` does, in a dtype of NumPy."""
    import numpy as np

    out = wrap(np.array(value, dtype))
    out._wrapped_number = value
    return out


silence(globals())
