"""Numbers as arguments of pointwise operators, among them those that take another branch of a kernel, or are refused.

The calls come from the schemas: every Scalar and float of every pointwise operator, and every tensor that may be a
number. gradloom is compared with PyTorch: the class of an error, the dtype, where NaN, infinities and zeros of either
sign are, and the other numbers to the tolerances of `compare.py`. Then kernels of machine code are compared with
NumPy's. What stays different is in KNOWN, with its reason.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

import torch

import gradloom
from gradloom.generated.records import RECORDS
from gradloom.schema import Argument, parse
from tests.releases import pytorch_before

from .library import PYTORCH, Library
from .opinfo_runner import quiet
from .proxy import candidate_library
from .records import dtype_name
from .test_special_values import unequal

NUMBERS = (
    0, 2, -7, -0.0, 0.5, -2.5, math.inf, -math.inf, math.nan, 1e-300, 1e308, 300, 2**53 + 1, 2**63, 2**64, -(2**63) - 1,
    True, 1j, 2 + 0j,
)  # fmt: skip
VALUES = {
    "float32": [1.5, -2.25, 0.0, -0.0, 3.0, 0.5, math.inf, -math.inf, math.nan, 0.25, -7.0, 40.0],
    "float16": [1.5, -2.25, 0.0, -0.0, 3.0, 0.5, math.inf, -math.inf, math.nan, 0.25, -7.0, 40.0],
    "int64": [1, -2, 0, 5, 3, -1, 7, 100, -100, 2, -7, 9],
    "bool": [True, False, True, True],
}
#: Patterns of differences that stay, with their reasons.
KNOWN: dict[str, tuple[str, ...]] = {
    "The dtype of the tensor is refused before an integer of more than 64 bits": (
        "* s=-9223372036854775809 *: OverflowError expected, got *Error",
        "* s=18446744073709551616 *: OverflowError expected, got *Error",
    ),
    "uint64, the dtype of 2**63, is promoted with bool": (
        "* s=9223372036854775808 bool: RuntimeError expected, got *",
    ),
    "Complex numbers beside real tensors: there is no complex32, and checks have another order": (
        "* s=1j *: *Error expected, got *",
        "* s=(2+0j) *: *Error expected, got *",
        "*clamp*s=(2+0j) float*: no error expected, got *",
    ),
    "Tolerances that are NaN are compared": ("L.isclose(* s=nan *: RuntimeError expected, got no error",),
    "Half precision has all special functions": (
        "L.special.zeta(* float16: NotImplementedError expected, got no error",
    ),
    "Exponents: not checked in half precision, not rounded to 0; (-0) ** 0.5 is a root": (
        "*t0*s* float16: RuntimeError expected, got no error",
        "*t0*s* s=1e-300 *: value: *",
        "*t0*s* s=0.5 float16: value: 0.0 expected*",
    ),
    "The terms of zeta for an infinite exponent or a large q are 0": (
        "L.special.zeta(* value: nan expected at *, got 0.0 *",
    ),
    "zeta of NaN is NaN": ("L.special.zeta(* value: inf expected at *, got nan *",),
}
if pytorch_before("2.15"):
    KNOWN["2.15 has another class of error for dtypes"] = ("*: RuntimeError expected, got NotImplementedError",)
    KNOWN["2.15 takes an upper bound that is beyond 64 bits"] = (
        "*clamp*(*max*s) s=9223372036854775808 int64: RuntimeError expected, got no error",
        "*clamp_max*(*s) s=9223372036854775808 int64: RuntimeError expected, got no error",
    )
#: Gradients; and polynomials, because PyTorch computes one of degree 2**53 step by step.
LEFT_OUT = ("backward", "polynomial_t", "polynomial_u", "polynomial_v", "polynomial_w", "polynomial_h", "polynomial_he")
LEFT_OUT += ("polynomial_l", "polynomial_p")
#: Python's infix operators.
INFIX = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "<", "==")


def calls() -> Iterator[tuple[str, int]]:
    """Yield expressions that call the library `L` on a number `s` and tensors `t0`, `t1` ..., and how many tensors."""
    for operator in INFIX:
        yield f"t0 {operator} s", 1
        yield f"s {operator} t0", 1
    for record in RECORDS.all():
        if "pointwise" not in record.tags or record.is_out or record.operator.endswith(LEFT_OUT):
            continue
        arguments = parse(record.schema).arguments
        for place, argument in enumerate(arguments):
            is_number = base(argument) in ("Scalar", "float") or argument.name in record.numbers
            if is_number and (found := call_of(record.operator, arguments, place)):
                yield found


def base(argument: Argument) -> str:
    return re.sub(r"\(.*?\)", "", str(argument.type)).rstrip("?")


def call_of(name: str, arguments: Any, place: int) -> tuple[str, int] | None:
    """Return the call of an operator by its name in Python, with `s` as one argument; None without such a name."""
    words, tensors = [], 0
    for i, argument in enumerate(arguments):
        kind = base(argument)
        if i == place:
            word = "s"
        elif kind == "Tensor" and argument.name not in ("condition", "mask"):
            word, tensors = f"t{tensors}", tensors + 1
        elif argument.default is not None:
            continue
        elif kind == "Scalar":
            word = "2"
        elif argument.name == "rounding_mode":
            word = "'floor'"
        else:
            return None
        words.append(word if not argument.kwarg_only and len(words) == i else f"{argument.name}={word}")
    if name.endswith("_") and hasattr(torch.Tensor, name):
        return (f"t0.clone().{name}({', '.join(words[1:])})", tensors) if words[0] == "t0" else None
    for prefix in ("L", "L.nn.functional", "L.special"):
        short = name.removeprefix("special_") if prefix == "L.special" else name
        if callable(getattr(eval(prefix, {"L": torch}), short, None)):
            return f"{prefix}.{short}({', '.join(words)})", tensors
    return None


CALLS = sorted(set(calls()))


def outcome(library: Library, call: Any, count: int, dtype: str, number: Any) -> Any:
    """Return the result of a call as an array and the name of its dtype, or the exception."""
    module = library.module
    values = VALUES[dtype]
    turned = [[values[(i * (1 + 2 * k) + k) % len(values)] for i in range(len(values))] for k in range(count)]
    tensors = [module.tensor(v, dtype=getattr(module, dtype)) for v in turned]
    try:
        found = call(module, number, *tensors)
    except Exception as error:
        return error
    if dtype_name(found.dtype) == "complex32":
        found = found.to(module.complex64)
    return library.array(found), dtype_name(found.dtype)


def difference(expected: Any, found: Any) -> str | None:
    if isinstance(expected, Exception) or isinstance(found, Exception):
        classes = [
            type(x).__name__.removeprefix("_") if isinstance(x, Exception) else "no error" for x in (expected, found)
        ]
        return None if classes[0] == classes[1] else f"{classes[0]} expected, got {classes[1]}"
    if expected[1] != found[1]:
        return f"dtype {expected[1]} expected, got {found[1]}"
    reason = unequal(expected[0], found[0], found[1], 4, not found[1].startswith("complex"))
    return reason and f"value: {reason}"


def compiled(text: str, count: int) -> Any:
    names = ", ".join(["L", "s", *[f"t{i}" for i in range(count)]])
    return eval(f"lambda {names}: {text}")


def differences(backend: str) -> Iterator[str]:
    candidate = candidate_library(gradloom)
    for text, count in CALLS:
        call = compiled(text, count)
        for dtype in VALUES if backend == "torch" else ("float32",):
            for number in NUMBERS:
                if backend == "torch":
                    expected = outcome(PYTORCH, call, count, dtype, number)
                    found = outcome(candidate, call, count, dtype, number)
                else:
                    expected = outcome(candidate, call, count, dtype, number)
                    with gradloom.set_kernels(backend):
                        outcome(candidate, call, count, dtype, number)  # NumPy's kernels see the first calls
                        found = outcome(candidate, call, count, dtype, number)
                reason = difference(expected, found)
                if reason:
                    yield f"{text} s={number!r} {dtype}: {reason}"


@pytest.mark.parametrize("backend", ["torch", "llvm"])
def test_numbers_do_what_pytorch_does_with_all_kernels(backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite")
    patterns = {pattern: pattern.replace("[", "[[]") for patterns in KNOWN.values() for pattern in patterns}
    new, seen = [], set()
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in differences(backend):
            matching = [pattern for pattern, escaped in patterns.items() if fnmatchcase(line, escaped)]
            seen.update(matching)
            if not matching:
                new.append(line)
    assert not new, "\n".join([f"{len(new)} calls differ:", *new])
    assert backend != "torch" or not set(patterns) - seen, "listed, but the same as in PyTorch"
    assert len(CALLS) > 140
