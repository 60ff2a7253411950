"""NumPy's own functions on large arrays by machine code (`set_kernels`): by all threads, and past the caches.

One call of NumPy is as fast as machine code while arrays are in the caches of one core. Beyond that, threads and Note
[Large results] count. Generated code calls `xp.add` and its relatives, and `xp` becomes a module whose functions are
gates (Note [Gates]); functions of one array pass large ones to `kernels.elementwise.dtypes.shared` anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from ..types.silence import silence
from ._eager_pointwise import LARGE, remember
from ._eager_programs import pointwise
from ._llvm import Unsupported
from ._llvm.gate import gate
from ._loops import Buffer, Instruction, LoopProgram, Pass
from ._scalar import CannotFuseError

_DTYPES = {"f": "float32", "d": "float64"}
_BINARY = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/"}
_UNARY = {
    name: f"{name}(self)"
    for name in """arccos arccosh arcsin arcsinh arctan arctanh cos cosh exp exp2 expm1 log log10 log2 sin sinh sqrt tan
    tanh""".split()
} | {"negative": "-self"}
ndarray, empty = np.ndarray, np.empty
Kept = dict[Any, Any]


def numpy_gated(kept: Kept, compiled: Callable[..., Any]) -> ModuleType:
    """Return a module like NumPy whose functions of two arrays are gates."""
    found = ModuleType(np.__name__)
    found.__dict__.update(np.__dict__)
    for name in _BINARY:
        found.__dict__[name] = gate(getattr(np, name), binary(name, kept, compiled), LARGE)
    return found


def addition(kept: Kept, compiled: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what makes the replacement of a function that adds two arrays."""
    return lambda original: gate(original, binary("add", kept, compiled, original), LARGE)


def binary(name: str, kept: Kept, compiled: Callable[..., Any], original: Any = None) -> Callable[..., Any]:
    """Return a ufunc of two arrays for large ones: those that are contiguous, or one number for all elements, by
    machine code, and all others by NumPy, or by `original`."""
    original, op = original or getattr(np, name), _BINARY[name]
    recent: dict[Any, Any] = {}

    def find(a: Any, b: Any, in_place: bool) -> Any:
        """Return the code, the shape and the dtype of the result; False if it is left to NumPy."""
        dtype = a.dtype
        if dtype.char not in _DTYPES or b.dtype != dtype:
            return False
        try:
            shape = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            return False
        whole = any(x.shape == shape and x.flags.c_contiguous for x in (a, b))
        if not whole or not shape or 0 in shape or in_place and a.shape != shape:
            return False
        strides = [
            tuple(
                s // dtype.itemsize if n > 1 else 0
                for s, n in zip(np.broadcast_to(x, shape).strides, shape, strict=True)
            )
            for x in (a, b)
        ]
        key = name, shape, dtype.char, *strides, in_place
        code = kept.get(key)
        if code is None:
            code = compiled(key, _binary_program(op, shape, _DTYPES[dtype.char], strides, in_place))
        return code, shape, dtype

    def large(a: Any, b: Any, out: Any = None, **named: Any) -> Any:
        if type(a) is type(b) is ndarray and not named and (out is None or out is a):
            a_flags, b_flags = a.flags, b.flags
            plain_a, plain_b = a_flags.c_contiguous, b_flags.c_contiguous
            if (
                (plain_a or out is None and not any(a.strides)) and (plain_b or not any(b.strides))
                and (out is None or plain_a and a_flags.writeable and not np.may_share_memory(a, b))
            ):  # fmt: skip
                key = a.shape, a.dtype.char, b.shape, b.dtype.char, plain_a, plain_b, out is None
                found = recent.get(key)
                if found is None:
                    found = find(a, b, out is not None)
                    remember(recent, key, found)
                if found:
                    result = empty(found[1], found[2]) if out is None else out
                    if not found[0].call(a, b, result):
                        return result
        if out is None:
            return original(a, b, **named)
        return original(a, b, out=out, **named)

    large.__name__ = name
    return large


def _binary_program(op: str, shape: tuple[int, ...], dtype: str, strides: list[Any], in_place: bool) -> LoopProgram:
    contiguous = tuple(prod(shape[i + 1 :]) if n > 1 else 0 for i, n in enumerate(shape))
    inputs = tuple(Buffer(dtype, s) for s in strides)
    body = (
        Instruction("x", "load", (), dtype, 0),
        Instruction("y", "load", (), dtype, 1),
        Instruction("z", op, ("x", "y"), dtype),
        Instruction("", "store", ("z",), "", 0),
    )
    aliases = ((0, 0),) if in_place else ()
    return LoopProgram(shape, 0, inputs, (Buffer(dtype, contiguous),), (Pass(body),), (), aliases)


def by_code(kept: Kept, compiled: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what makes the replacement of `kernels.elementwise.dtypes.by_code`."""

    def find(key: Any, name: str, x: Any) -> Any:
        dtype = _DTYPES[x.dtype.char]
        try:
            return compiled(key, pointwise(_UNARY[name], {"self": dtype}, x.size, dtype, {}))
        except (CannotFuseError, Unsupported):
            return compiled(key, None)

    def make(original: Any) -> Any:
        def kernel(ufunc: Any, array: Any) -> Any:
            name = ufunc.__name__
            if (
                name not in _UNARY or type(array) is not ndarray or array.dtype.char not in _DTYPES
                or not array.flags.c_contiguous
            ):  # fmt: skip
                return None
            key = name, array.size, array.dtype.char
            code = kept.get(key)
            if code is None:
                code = find(key, name, array)
            if not code:
                return None
            out = empty(array.shape, array.dtype)
            return None if code.call(array, out) else out

        return kernel

    return make


silence(globals())
