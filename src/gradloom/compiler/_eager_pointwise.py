"""Pointwise kernels of eager mode from the definitions in native_functions.yaml (`scalar:`).

Each is one loop over contiguous float32 or float64 arrays of one shape. What is not that goes to the kernel that it
replaces, and so does the first call of each kind, which must not be refused there. Kernels that refuse numbers by their
value, and those that are one call of NumPy already, are not replaced.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from ._eager_programs import pointwise
from ._scalar import table

ndarray, empty = np.ndarray, np.empty
RECENT = 64  # parameters of one operator that are remembered with its code

# For each module of kernels: the operators, each with the number of its arrays, which are its first parameters.
POINTWISE: dict[str, dict[str, int]] = {
    "activation.smooth": {
        "elu": 1, "gelu": 1, "gelu_backward": 2, "silu": 1, "silu_backward": 2, "mish": 1, "softplus": 1,
    },
    "activation.piecewise": {
        "relu": 1, "threshold": 1, "threshold_backward": 2, "hardtanh": 1, "leaky_relu": 1, "hardsigmoid": 1,
        "hardshrink": 1,
    },
    "elementwise.special": {
        "erf": 1, "erfc": 1, "sigmoid": 1, "sigmoid_backward": 2, "tanh_backward": 2, "sinc": 1, "logit": 1,
    },
    "elementwise.functions": {
        "sign": 1, "sgn": 1, "hypot": 2, "xlogy": 2, "logaddexp": 2, "logaddexp2": 2, "heaviside": 2,
    },
    "elementwise.arithmetic": {
        "rsqrt": 1, "remainder": 2, "fmod": 2, "floor_divide": 2, "addcmul": 3, "addcdiv": 3,
    },
    "elementwise.choices": {"lerp": 3, "clamp": 1},
}  # fmt: skip


def definition(name: str) -> tuple[str, list[str]]:
    """Return what an operator computes, and its parameters."""
    known = table()
    source, parameters, *_ = known.get(name) or known[f"{name}.Tensor"]
    return source, parameters.split(", ")


def _deciding(source: str) -> set[str]:
    """Return the parameters whose values choose a branch of a definition."""
    found: set[str] = set()
    for choice in ast.walk(ast.parse(source, mode="eval")):
        if isinstance(choice, ast.IfExp):
            for test in ast.walk(choice.test):
                if isinstance(test, ast.Compare) and not isinstance(test.ops[0], (ast.Is, ast.IsNot)):
                    found.update(x.id for x in ast.walk(test) if isinstance(x, ast.Name))
    return found


def replacement(name: str, count: int, kept: dict[Any, Any], compiled: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what makes the replacement of a kernel from the kernel.

    kept: compiled programs. compiled: compiles one for a key.
    """
    source, names = definition(name)
    deciding = [n in _deciding(source) for n in names[count:]]

    def marked(parameters: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return parameters with `float` in the place of numbers, which code takes at each call."""
        return tuple(
            float if not decides and (value.__class__ is float or value.__class__ is int) else value
            for value, decides in zip(parameters, deciding, strict=True)
        )

    def build(key: Any, arrays: tuple[Any, ...], parameters: tuple[Any, ...], call: Callable[[], Any]) -> Any:
        """Return the code for a key after a call of the kernel, which may refuse; False if it stays with the kernel."""
        call()
        x = arrays[0]
        dtype = {"f": "float32", "d": "float64"}.get(x.dtype.char)
        same = all(type(a) is ndarray and a.dtype == x.dtype and a.shape == x.shape for a in arrays)
        if dtype is None or not same or x.ndim == 0:
            return compiled(key, None)
        given = dict(zip(names[count:], parameters, strict=True))
        marks = key[-1] if parameters else ()
        numbers = tuple(n for n, mark in zip(given, marks, strict=True) if mark is float)
        known = {n: value for n, value in given.items() if n not in numbers}
        program = pointwise(source, dict.fromkeys(names[:count], dtype), x.size, dtype, known, numbers)
        return compiled(key, program)

    def of_one(original: Any) -> Any:
        def kernel(self: Any) -> Any:
            if type(self) is ndarray and self.flags.c_contiguous:
                shape, dtype = self.shape, self.dtype
                key = name, shape, dtype.char
                code = kept.get(key)
                if code is None:
                    code = build(key, (self,), (), lambda: original(self))
                if code:
                    out = empty(shape, dtype)
                    code.call(self, out)
                    return out
            return original(self)

        return kernel

    def of_two(original: Any) -> Any:
        def kernel(self: Any, other: Any) -> Any:
            if type(self) is type(other) is ndarray and self.flags.c_contiguous and other.flags.c_contiguous:
                shape, dtype = self.shape, self.dtype
                key = name, shape, dtype.char, other.shape, other.dtype.char
                code = kept.get(key)
                if code is None:
                    code = build(key, (self, other), (), lambda: original(self, other))
                if code:
                    out = empty(shape, dtype)
                    code.call(self, other, out)
                    return out
            return original(self, other)

        return kernel

    def general(original: Any) -> Any:
        def kernel(*given: Any, **named: Any) -> Any:
            arrays, parameters = given[:count], given[count:]
            if named or len(given) != len(names):
                return original(*given, **named)
            layout: list[Any] = [name]
            for x in arrays:
                if type(x) is not ndarray or not x.flags.c_contiguous:
                    return original(*given)
                layout += x.shape, x.dtype.char
            if any(value.__class__ is ndarray for value in parameters):
                return original(*given)
            marks = marked(parameters)
            key = (*layout, marks)
            code = kept.get(key)
            if code is None:
                code = build(key, arrays, parameters, lambda: original(*given))
            if not code:
                return original(*given)
            out = empty(arrays[0].shape, arrays[0].dtype)
            code.call(*arrays, out, *[value for value, mark in zip(parameters, marks, strict=True) if mark is float])
            return out

        return kernel

    def with_parameters(original: Any) -> Any:
        """Return `general` with a short cut for one array and parameters that came before."""
        recent: dict[Any, Any] = {}
        whole = general(original)

        def kernel(self: Any, *parameters: Any, **named: Any) -> Any:
            if type(self) is ndarray and self.flags.c_contiguous and not named:
                shape, dtype = self.shape, self.dtype
                try:
                    found = recent.get((shape, dtype.char, parameters))
                except TypeError:  # an array among the parameters
                    return original(self, *parameters)
                if found is not None:
                    code, numbers = found
                    out = empty(shape, dtype)
                    code.call(self, out, *numbers)
                    return out
                result = whole(self, *parameters)
                if len(parameters) != len(deciding):
                    return result
                marks = marked(parameters)
                code = kept.get((name, shape, dtype.char, marks))
                if code and 0 not in parameters:  # 0.0 and -0.0 are equal
                    if len(recent) >= RECENT:
                        recent.clear()
                    numbers = [value for value, mark in zip(parameters, marks, strict=True) if mark is float]
                    recent[shape, dtype.char, parameters] = code, numbers
                return result
            return original(self, *parameters, **named)

        return kernel

    if count == len(names) <= 2:
        return of_one if count == 1 else of_two
    return with_parameters if count == 1 else general
