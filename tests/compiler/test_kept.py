"""Values of rows that a later pass reads instead of computing them again: Note [Kept values] of _llvm/plan.py."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np
import pytest

from gradloom.compiler import _llvm
from gradloom.compiler._interpreter import run
from gradloom.compiler._llvm import plan as plans
from gradloom.compiler._llvm.plan import make_plan
from gradloom.compiler._loops import LoopProgram

pytestmark = pytest.mark.skipif(not _llvm.available(), reason="needs llvmlite: pip install 'gradloom[compile]'")

# A softmax of x / w where a mask says so; the scaled scores and the exponentials are computed twice.
SOFTMAX = """loop [{sizes}] inner {inner}
input 0: {dtype} strides [{x}]
input 1: bool strides [{mask}]
output 0: {dtype} strides [{x}]
output 1: {dtype} strides [{row}]{alias}
number 0: float64
pass 0:
  m0 = load 1: bool
  x0 = load 0: {dtype}
  n0 = number 0: float64
  w0 = cast n0: {dtype}
  low0 = const -50.0: {dtype}
  s0 = / x0 w0: {dtype}
  k0 = where m0 s0 low0: {dtype}
  most = reduce max k0: {dtype}
pass 1:
  m1 = load 1: bool
  x1 = load 0: {dtype}
  n1 = number 0: float64
  w1 = cast n1: {dtype}
  low1 = const -50.0: {dtype}
  s1 = / x1 w1: {dtype}
  k1 = where m1 s1 low1: {dtype}
  d1 = - k1 most: {dtype}
  e1 = exp d1: {dtype}
  total = reduce sum e1: {dtype}
row:
  store 1 total
pass 2:
  m2 = load 1: bool
  x2 = load 0: {dtype}
  n2 = number 0: float64
  w2 = cast n2: {dtype}
  low2 = const -50.0: {dtype}
  s2 = / x2 w2: {dtype}
  k2 = where m2 s2 low2: {dtype}
  d2 = - k2 most: {dtype}
  e2 = exp d2: {dtype}
  y = / e2 total: {dtype}
  store 0 y"""


def contiguous(shape):
    return [prod(shape[d + 1 :]) for d in range(len(shape))]


def softmax(shape, inner, dtype, in_place=False):
    strides = contiguous(shape)
    outer = len(shape) - inner
    mask = [0] * (outer > 0) + strides[outer > 0 :]  # broadcast over the first dimension
    row = [*contiguous(shape[:outer]), *[0] * inner]
    words = {"sizes": shape, "x": strides, "mask": mask, "row": row}
    alias = "\nalias 0 0" if in_place else ""
    text = {name: ", ".join(map(str, numbers)) for name, numbers in words.items()}
    lines = SOFTMAX.format(inner=inner, dtype=dtype, alias=alias, **text).split("\n")
    if in_place:  # numbers come before aliases
        at = lines.index("alias 0 0")
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return LoopProgram.parse("\n".join(lines))


def arrays_of(program, inner, dtype):
    rng = np.random.default_rng(0)
    shape = program.shape
    mask = shape[1:] if len(shape) > inner else shape
    x = rng.standard_normal(shape).astype(dtype) * 3
    return [x, rng.random(mask) < 0.7, np.full(shape, 7, dtype), np.full(shape[: len(shape) - inner], 7, dtype)]


def ops(program):
    return [[i.op for i in part.body if i.op in ("keep", "kept", "exp", "/")] for part in make_plan(program).passes]


@pytest.mark.parametrize("shape", [(4, 1), (4, 7), (3, 16), (5, 33), (2, 3, 128), (3, 1000), (2, 4096), (2, 4097)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in place"])
def test_results_are_those_of_the_interpreter(shape, dtype, in_place):
    program = softmax(shape, 1, dtype, in_place)
    expected, found = arrays_of(program, 1, dtype), arrays_of(program, 1, dtype)
    if in_place:
        found[2] = found[0]
    run(program, expected, [2.5])
    _llvm.compile(program)(found, [2.5])
    for a, b in zip(found[2:], expected[2:], strict=True):
        np.testing.assert_allclose(a, b, rtol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("shape", [(3, 2, 5), (2, 7, 33), (3, 4, 16)])
def test_rows_of_two_dimensions(shape):
    strides = [prod(shape), shape[2] + 3, 1]  # rows of the row are apart, so its dimensions stay two
    text = str(softmax(shape, 2, "float32")).replace(str(contiguous(shape)), str(strides))
    program = LoopProgram.parse(text)
    memory = np.random.default_rng(0).standard_normal((3, shape[0] * strides[0] * 4)).astype("float32")
    mask = np.random.default_rng(1).random(shape[1:]) < 0.7
    laid = partial(np.lib.stride_tricks.as_strided, shape=shape, strides=[4 * s for s in strides])
    found, expected = (
        [laid(memory[0].copy()), mask, laid(memory[1].copy()), np.zeros(shape[0], "float32")] for _ in range(2)
    )
    run(program, expected, [2.5])
    _llvm.compile(program)(found, [2.5])
    for a, b in zip(found[2:], expected[2:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_what_is_dear_is_computed_once():
    assert ops(softmax((4, 128), 1, "float32")) == [["/", "keep"], ["kept", "exp", "keep"], ["kept", "/"]]


def test_long_rows_are_computed_again():
    row = plans.LONGEST + 1
    assert ops(softmax((4, row), 1, "float32")) == [["/"], ["/", "exp"], ["/", "exp", "/"]]


def test_cheap_values_are_computed_again():
    cheap = str(softmax((4, 128), 1, "float32")).replace("= exp d", "= neg d").replace("= / x", "= * x")
    assert ops(LoopProgram.parse(cheap)) == [[], [], ["/"]]


def test_values_along_rows_only_are_not_kept():
    text = """loop [4, 64] inner 1
input 0: float32 strides [64, 1]
input 1: float32 strides [1, 0]
output 0: float32 strides [64, 1]
pass 0:
  a = load 1: float32
  e = exp a: float32
  x = load 0: float32
  y = * x e: float32
  s = reduce sum y: float32
pass 1:
  a2 = load 1: float32
  e2 = exp a2: float32
  x2 = load 0: float32
  y2 = * x2 e2: float32
  z = * y2 s: float32
  store 0 z"""
    assert ops(LoopProgram.parse(text)) == [["exp"], ["exp"]]
