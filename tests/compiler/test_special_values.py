"""Every operator with a scalar definition, compiled, at zeros, infinities, NaN, subnormal and the largest numbers, at
ends of ranges, poles and halves: the kind of its results (NaN, infinity, zero, sign) is that of eager mode.

How exact finite results are is the matter of test_llvm_functions.py. Machine code computes in float32 and float64; the
dtypes of 16 bits, and those of NumPy's expressions, take turns unless GRADLOOM_ALL_SAMPLES=1 asks for all.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gradloom as torch
from gradloom.compiler._api import optimized_of
from gradloom.dispatch import _operators
from gradloom.generated.records import RECORDS
from gradloom.schema import parse
from tests.samples import in_turn

LARGEST = {"float16": 65504.0, "bfloat16": 3.3e38, "float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}
SMALLEST = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}  # normal ones
UNIT = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
NUMBERS = (0.5, -2.0, math.inf)  # for Scalar arguments without default
# Within these, eager mode rounds to half precision, which overflows: the power of two; a gradient times 1 - y, for a y
# that is no sigmoid. A loop rounds the result.
ROUNDS_WITHIN = {("ldexp.Tensor", "float16"), ("ldexp.Tensor", "bfloat16"), ("sigmoid_backward", "float16")}
# Its second tensor is what log_sigmoid_forward computed; other values have no meaning.
UNUSED = {"log_sigmoid_backward"}


def values(dtype: str, few: bool) -> list[float]:
    found = [0.0, math.inf, math.nan, 1.0, 0.5, 2.0, 3.0, SMALLEST[dtype] / 4, LARGEST[dtype]]
    if not few:
        found += [SMALLEST[dtype], 1 + UNIT[dtype], 1 - UNIT[dtype] / 2, math.sqrt(LARGEST[dtype]), math.pi / 2]
        found += [0.25, 0.75, 1.5, 2.5, 4.0, 5.0, 6.0, 10.0, 20.0, 34.0, 50.0, 88.0, 100.0, 171.0, 709.0, 1e-8, 1e4]
    return [sign * v for v in found for sign in (1, -1)]


def operator(name: str):
    written = name.replace(".", "_")
    return getattr(_operators.exact, written, None) or getattr(_operators, written)


def parameters(name: str) -> list[str] | None:
    """Return for each argument without default "tensor", "mask", "number" or "flag"; None for other kinds."""
    kinds = {"Tensor": "tensor", "Scalar": "number", "float": "number", "bool": "flag"}
    needed = [a for a in parse(RECORDS[name].schema).arguments if a.default is None]
    found = ["mask" if a.name in ("condition", "mask") else kinds.get(str(a.type), "") for a in needed]
    return found if all(found) else None


def cases(name: str):
    """Yield arguments, with None for the tensors that follow."""
    kinds = parameters(name)
    if kinds is None:
        kinds = ["tensor", "tensor", "tensor"] if name == "clamp.Tensor" else ["tensor", "number", "number"]
    for number in NUMBERS if "number" in kinds else (None,):
        yield [None if k in ("tensor", "mask") else False if k == "flag" else number for k in kinds], kinds


FLOATS = ["float32", "float64", "float16", "bfloat16"]
DEFINED = [record.name for record in RECORDS.all() if record.scalar is not None]
ONLY_INTEGERS = {n for n in DEFINED if n.startswith("bitwise_") or n in ("gcd", "lcm")}
MEMORY_OF_ONE = {"fill.Tensor"}  # takes a 0-dim tensor
NAMES = [n for n in DEFINED if n not in ONLY_INTEGERS | MEMORY_OF_ONE]


def tensors_of(kinds, dtype: str):
    count = sum(k in ("tensor", "mask") for k in kinds)
    grid = itertools.product(values(dtype, count > 2), repeat=count)
    columns = [
        torch.tensor(column, dtype=torch.float64).to(getattr(torch, dtype)) for column in zip(*grid, strict=True)
    ]
    masks = [k == "mask" for k in kinds if k in ("tensor", "mask")]
    return [c > 0 if is_mask else c for c, is_mask in zip(columns, masks, strict=True)]


CASES = [(name, dtype, "llvm") for name in NAMES for dtype in FLOATS[:2]]
CASES += [(*case, "llvm") for case in in_turn(NAMES, FLOATS[2:])]
CASES += [(*case, "numpy") for case in in_turn(NAMES, FLOATS)]


@pytest.mark.parametrize(("name", "dtype", "each_backend"), CASES, indirect=["each_backend"])
def test_special_values_are_those_of_eager_mode(name, dtype, each_backend):
    function = operator(name)
    for given, kinds in cases(name):
        tensors = tensors_of(kinds, dtype)

        def program(*tensors, given=tuple(given)):
            position, args = 0, []
            for value in given:
                args.append(tensors[position] if value is None else value)
                position = position + (value is None)
            found = function(*args)
            return found.neg() if found.dtype.is_floating_point else ~found

        try:
            expected = program(*tensors)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                torch.compile(program)(*tensors)
            continue
        compiled = torch.compile(program)
        compiled(*tensors)
        found = compiled(*tensors)
        assert optimized_of(compiled).calls[0] == 1, optimized_of(compiled).breaks
        if (name, dtype) in ROUNDS_WITHIN or name in UNUSED:
            continue
        compare(found, expected, tensors, dtype, given)


def compare(found, expected, tensors, dtype, given):
    assert found.dtype == expected.dtype
    if not expected.dtype.is_floating_point:
        assert torch.equal(found, expected)
        return
    a, b = found.double().numpy(), expected.double().numpy()
    inputs = [t.double().numpy() for t in tensors]
    sizes = [np.where(np.isfinite(x), np.abs(x), 0) for x in (b, *inputs)]  # a gradient is a factor, of a difference
    error = 64 * UNIT[dtype] * np.maximum(np.max(sizes, axis=0), 1)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= error)
    # Which of 0 and -0 is larger, no operator says.
    apart = [np.signbit(x) for x in inputs] + [np.full(b.shape, math.copysign(1, g) < 0) for g in given if g == 0.0]
    mixed = np.any([s != apart[0] for s in apart[1:]], axis=0) if len(apart) > 1 else np.zeros(b.shape, bool)
    zeros = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b)) & ~mixed
    wrong = np.flatnonzero(~same | zeros)
    shown = [(*[float(x[i]) for x in inputs], float(a[i]), float(b[i])) for i in wrong[:4]]
    assert not wrong.size, f"{given}: arguments, compiled, eager: {shown}"
