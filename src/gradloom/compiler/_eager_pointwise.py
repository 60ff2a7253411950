"""Pointwise kernels of eager mode from the definitions in native_functions.yaml (`scalar:`).

Each is one loop over contiguous float32 or float64 arrays of one shape. What is not that goes to the kernel that it
replaces, and so does the first call of each kind: it tells the dtype of the result, and which parameters are refused.
Records name the kernels, which are those that take NumPy more than one call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..types.silence import silence
from ._eager_programs import pointwise
from ._llvm import Unsupported
from ._loops import LoopProgram
from ._scalar import CannotFuseError, own_records

ndarray, empty = np.ndarray, np.empty
RECENT = 256  # kinds of calls of one operator that are remembered with its code
_DTYPES = {"f": "float32", "d": "float64"}
_NUMBERS = (bool, int, float)
_AMBIGUOUS = object()  # a kind of call whose key has equals: `exact` goes into the key
_BOOL = np.dtype(np.bool_)
# Instructions that are no call of NumPy, and those that NumPy computes for one number after the other.
_FREE = frozenset("load number const cast store".split())
_MANY = 4096  # elements, from which on machine code is faster than SciPy's erf of float64
LARGE = 1 << 17  # elements, from which on machine code is faster than one call of NumPy: threads and memory count
_ONE_BY_ONE = frozenset("// % fmod hypot logaddexp logaddexp2 erf erfc".split())


def definition(name: str) -> tuple[str, list[str]]:
    """Return what an operator computes, and its parameters."""
    record = own_records()[name]
    assert record.scalar is not None
    return record.scalar, [a.name for a in record.arguments]


def deciding_in(source: str) -> set[str]:
    """Return the parameters whose values choose a branch of a definition."""
    found: set[str] = set()
    for choice in ast.walk(ast.parse(source, mode="eval")):
        if isinstance(choice, ast.IfExp):
            for test in ast.walk(choice.test):
                if isinstance(test, ast.Compare) and not isinstance(test.ops[0], (ast.Is, ast.IsNot)):
                    found.update(x.id for x in ast.walk(test) if isinstance(x, ast.Name))
    return found


def is_worth_code(program: LoopProgram) -> bool:
    """Return whether NumPy computes a program by more than one call, or one number after the other, and slower; for
    large arrays always."""
    if program.shape[0] >= LARGE:
        return True
    body = [i for i in program.passes[0].body if i.op not in _FREE]
    if program.shape[0] < _MANY and any(i.op in ("erf", "erfc") and i.dtype == "float64" for i in body):
        return False
    return len(body) > 1 or any(i.op in _ONE_BY_ONE for i in body)


def replacement(
    operator: str, places: tuple[int, ...], kept: dict[Any, Any], compiled: Callable[..., Any]
) -> Callable[[Any], Any]:
    """Return what makes the replacement of a kernel from the kernel.

    Args:
        operator: the operator whose definition it computes.
        places: those of the arrays among its parameters.
        kept: compiled programs.
        compiled: compiles one for a key.
    """
    return replacement_by(*definition(operator), operator, places, kept, compiled)


def replacement_by(
    source: str,
    names: list[str],
    operator: str,
    places: tuple[int, ...],
    kept: dict[Any, Any],
    compiled: Callable[..., Any],
) -> Callable[[Any], Any]:
    """Return the same as `replacement`, but for a definition `source` with the parameters `names`.

    `operator` only tells the keys of `kept` apart.
    """
    arrays_of = [names[i] for i in places]
    others = [i for i in range(len(names)) if i not in places]
    deciding = deciding_in(source)

    def build(arrays: tuple[Any, ...], parameters: dict[str, Any], result: Any) -> tuple[Any, Any, list[Any]]:
        """Return the code for such a call, False if it stays with the kernel; the dtype of the result; and the numbers
        that the code takes. `result` is what the kernel returned."""
        x = arrays[0]
        dtype = _DTYPES.get(x.dtype.char)
        alike = all(a.dtype == x.dtype and a.shape == x.shape for a in arrays)
        expanded = [name for name, a in zip(arrays_of, arrays, strict=True) if not a.flags.c_contiguous]
        if (
            dtype is None or not alike or not x.ndim or not x.size or len(expanded) == len(arrays)
            or type(result) is not ndarray or result.shape != x.shape or result.dtype not in (x.dtype, _BOOL)
        ):  # fmt: skip
            return False, None, []
        numbers = [n for n, v in parameters.items() if n not in deciding and v.__class__ in (int, float)]
        known = {n: v for n, v in parameters.items() if n not in numbers}
        key = operator, x.shape, x.dtype.char, *known.values(), *numbers, *expanded, exact(known.values())
        code = kept.get(key)
        if code is None:
            inputs = dict.fromkeys(arrays_of, dtype)
            try:
                program = pointwise(source, inputs, x.size, dtype, known, tuple(numbers), result.dtype.name, expanded)
                code = compiled(key, program if is_worth_code(program) else None)
            except (CannotFuseError, Unsupported):
                code = compiled(key, None)
        return code, result.dtype, [parameters[n] for n in numbers]

    def of_one(original: Any) -> Any:
        recent: dict[Any, Any] = {}

        def kernel(self: Any) -> Any:
            if type(self) is ndarray and self.flags.c_contiguous:
                shape, dtype = self.shape, self.dtype
                found = recent.get((shape, dtype.char))
                if found is None:
                    result = original(self)
                    remember(recent, (shape, dtype.char), build((self,), {}, result))
                    return result
                if found[0]:
                    out = empty(shape, found[1])
                    if not found[0].call(self, out):
                        return out
            return original(self)

        return kernel

    def of_two(original: Any) -> Any:
        recent: dict[Any, Any] = {}

        def kernel(self: Any, other: Any) -> Any:
            if type(self) is type(other) is ndarray and other.flags.c_contiguous:
                shape, dtype, kind = self.shape, self.dtype, other.dtype.char
                if not self.flags.c_contiguous:
                    if any(self.strides):
                        return original(self, other)
                    kind += "expanded"  # one number, such as the gradient of a sum
                key = shape, dtype.char, other.shape, kind
                found = recent.get(key)
                if found is None:
                    result = original(self, other)
                    remember(recent, key, build((self, other), {}, result))
                    return result
                if found[0]:
                    out = empty(shape, found[1])
                    if not found[0].call(self, other, out):
                        return out
            return original(self, other)

        return kernel

    def of_one_with_parameters(original: Any) -> Any:
        recent: dict[Any, Any] = {}

        def kernel(self: Any, *parameters: Any, **named: Any) -> Any:
            if type(self) is ndarray and self.flags.c_contiguous and not named:
                shape, dtype = self.shape, self.dtype
                key: Any = shape, dtype.char, parameters
                try:
                    found = recent.get(key)
                except TypeError:  # an array among the parameters
                    return original(self, *parameters)
                if found is _AMBIGUOUS:
                    key = *key, exact(parameters)
                    found = recent.get(key)
                if found is None:
                    result = original(self, *parameters)
                    learn(recent, key, (self,), parameters, result)
                    return result
                if found[0]:
                    out = empty(shape, found[1])
                    if not found[0].call(self, out, *found[2]):
                        return out
            return original(self, *parameters, **named)

        return kernel

    def general(original: Any) -> Any:
        recent: dict[Any, Any] = {}

        def kernel(*given: Any, **named: Any) -> Any:
            if named or len(given) != len(names):
                return original(*given, **named)
            arrays = tuple([given[i] for i in places])
            layout: list[Any] = []
            for x in arrays:
                if type(x) is not ndarray:
                    return original(*given)
                layout += x.shape, x.dtype.char
                if not x.flags.c_contiguous:
                    if any(x.strides):
                        return original(*given)
                    layout.append("expanded")  # one number, such as the gradient of a sum
            parameters = tuple([given[i] for i in others])
            key: Any = (*layout, parameters)
            try:
                found = recent.get(key)
            except TypeError:
                return original(*given)
            if found is _AMBIGUOUS:
                key = *key, exact(parameters)
                found = recent.get(key)
            if found is None:
                result = original(*given)
                learn(recent, key, arrays, parameters, result)
                return result
            if not found[0]:
                return original(*given)
            out = empty(arrays[0].shape, found[1])
            return original(*given) if found[0].call(*arrays, out, *found[2]) else out

        return kernel

    def learn(recent: dict[Any, Any], key: Any, arrays: Any, parameters: tuple[Any, ...], result: Any) -> None:
        if len(parameters) != len(others) or any(p.__class__ is complex for p in parameters):
            return  # a complex number may equal a real one, for which there is code
        if key[-1] is parameters and any(p.__class__ in _NUMBERS and p in (0, 1) for p in parameters):
            remember(recent, key, _AMBIGUOUS)
            key = *key, exact(parameters)
        named = dict(zip([names[i] for i in others], parameters, strict=True))
        # Of zeros that are equal, maxima and minima may take either: -0.0 is left to the kernel.
        found = (False, None, []) if "-0.0" in key[-1] else build(arrays, named, result)
        remember(recent, key, found)

    if not others and len(places) <= 2:
        return of_one if len(places) == 1 else of_two
    return of_one_with_parameters if places == (0,) else general


def exact(parameters: Iterable[Any]) -> tuple[str, ...]:
    """Return what tells parameters apart that are equal: 0, -0.0 and False, 1 and True."""
    return tuple([repr(p) for p in parameters])


def remember(recent: dict[Any, Any], key: Any, found: Any) -> None:
    if len(recent) >= RECENT:
        recent.clear()
    recent[key] = found


silence(globals())
