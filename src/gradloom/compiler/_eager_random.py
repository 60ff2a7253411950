"""Loop programs of random numbers: PyTorch's normal numbers, bit by bit.

`kernels/random/normal.py` has the mathematics, and emulates each fused multiply-add in float64. Here each is one
instruction, so on processors without one NumPy's kernel stays.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from ..kernels.random import normal
from ..types.silence import silence


def _number(value: Any) -> str:
    return repr(float(np.float32(value)))


def _polynomial(result: str, x: str, coefficients: Any) -> list[str]:
    """Return Horner's scheme in fused multiply-adds, highest power first."""
    lines = [f"{result}0 = const {_number(coefficients[0])}"]
    for i, c in enumerate(coefficients[1:], 1):
        lines += [f"{result}_{i} = const {_number(c)}", f"{result}{i} = fma {result}{i - 1} {x} {result}_{i}"]
    return lines


_ONES = """
one = const 1.0
half = const 0.5
minus_half = const -0.5
"""
_LOG_HEAD = """
g0 = load 0
u = - one g0
bits = bitcast u: int32
root = const 1060439283: int32
above = - bits root: int32
places = const 23: int32
exponent = >> above places: int32
scale = << exponent places: int32
reduced = - bits scale: int32
mantissa = bitcast reduced
x = - mantissa one
z = * x x
power = cast exponent
"""
_LOG_TAIL = """
y = * p8 x
low = const LN2_LOW
power_low = * power low
y1 = fma y z power_low
z1 = * z half
y2 = - y1 z1
x1 = + x y2
high = const LN2_HIGH
power_high = * power high
log = + x1 power_high
minus_two = const -2.0
square = * log minus_two
radius = sqrt square
"""
_ANGLE = """
g1 = load 1
two_pi = const TWO_PI
angle = * g1 two_pi
octants = const FOUR_OVER_PI
turns = * angle octants
whole = cast turns: int32
unit = const 1: int32
next = + whole unit: int32
even = const -2: int32
octant = & next even: int32
n = cast octant
a0 = const HIGH0
a1 = const HIGH1
a2 = const LOW
r0 = fma n a0 angle
r1 = fma n a1 r0
r = fma n a2 r1
q = * r r
"""
_ENDS = """
cz = * c2 q
hq = * q minus_half
cr = fma cz q hq
cosine = + cr one
sz = * s2 q
sine = fma sz r r
two = const 2: int32
four = const 4: int32
none = const 0: int32
swapping = & octant two: int32
swap = != swapping none: bool
cos0 = where swap sine cosine
sin0 = where swap cosine sine
quarter = + octant two: int32
cos_bit = & quarter four: int32
sin_bit = & octant four: int32
cos_minus = != cos_bit none: bool
sin_minus = != sin_bit none: bool
cos_neg = neg cos0
sin_neg = neg sin0
cos1 = where cos_minus cos_neg cos0
sin1 = where sin_minus sin_neg sin0
first = * cos1 radius
second = * sin1 radius
wide_mean = number 0: float64
wide_std = number 1: float64
mean = cast wide_mean
std = cast wide_std
out0 = fma first std mean
out1 = fma second std mean
store 0 out0
store 1 out1
"""


# Uniforms in the place of `load`: the low 24 bits of each word, see `Stream.uniform24`.
_FROM_WORD = """
w# = load #: WORD
k# = & w# low24: WORD
i# = cast k#: int32
f# = cast i#
g# = * f# unit24
"""
_WORD_CONSTANTS = """
low24 = const 16777215: WORD
unit24 = const 5.960464477539063e-08
"""


def box_muller(groups: int, word: str | None = None) -> str:
    """Return the program that makes normal numbers of groups of 16 uniforms; see `normal.box_muller`.

    Its arrays are the first and the last eight of each group, then those of the results; its numbers are the mean and
    the standard deviation. The uniforms are overwritten; or they are words of the generator, of the dtype `word`.
    """
    values = {
        "LN2_LOW": normal._LN2_LOW, "LN2_HIGH": normal._LN2_HIGH, "TWO_PI": 2 * math.pi, "FOUR_OVER_PI": 4 / math.pi,
        "HIGH0": normal._QUARTER_PI_HIGH[0], "HIGH1": normal._QUARTER_PI_HIGH[1], "LOW": normal._QUARTER_PI_LOW,
    }  # fmt: skip
    body = [*_ONES.split("\n"), *_LOG_HEAD.split("\n"), *_polynomial("p", "x", normal._LOG), *_LOG_TAIL.split("\n")]
    body += [*_ANGLE.split("\n"), *_polynomial("c", "q", normal._COS), *_polynomial("s", "q", normal._SIN)]
    body += _ENDS.split("\n")
    text = "\n".join(f"  {line}" + ("" if ":" in line or "store" in line else ": float32") for line in body if line)
    text = re.sub(r"const ([A-Z]\w*)", lambda m: f"const {_number(values[m[1]])}", text)
    if word is not None:
        constants = _WORD_CONSTANTS.strip().replace("WORD", word).split("\n")
        for i in "01":
            lines = [*constants, *_FROM_WORD.strip().replace("WORD", word).replace("#", i).split("\n")]
            made = "\n".join(f"  {line}" + ("" if ":" in line else ": float32") for line in lines)
            text, constants = text.replace(f"  g{i} = load {i}: float32", made), []
    aliases = ["alias 0 0", "alias 1 1"] if word is None else []
    buffers = [("input", word or "float32"), ("output", "float32")]
    head = [f"loop [{groups}, 8] inner 0"]
    head += [f"{way} {i}: {dtype} strides [16, 1]" for way, dtype in buffers for i in (0, 1)]
    return "\n".join([*head, "number 0: float64", "number 1: float64", *aliases, "pass 0:", text])


silence(globals())
