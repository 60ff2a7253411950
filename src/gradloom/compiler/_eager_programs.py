"""The loop programs of eager mode's kernels (`set_kernels`), as text with gaps for sizes and dtypes."""

from __future__ import annotations

import ast
import math


def program_of(definition: str, names: tuple[str, ...], count: int, dtype: str, numbers: tuple[str, ...] = ()) -> str:
    """Return the program that computes a definition for contiguous arrays of `count` elements.

    Args:
        names: the arrays, all of `dtype`; numbers: scalars that are passed at each call.
    """
    lines = [f"loop [{count}] inner 0"]
    lines += [f"input {i}: {dtype} strides [1]" for i in range(len(names))]
    lines += [f"output 0: {dtype} strides [1]", *(f"number {i}: float64" for i in range(len(numbers))), "pass 0:"]
    lines += [f"  {name} = load {i}: {dtype}" for i, name in enumerate(names)]
    for i, name in enumerate(numbers):
        lines += [f"  wide_{name} = number {i}: float64", f"  {name} = cast wide_{name}: {dtype}"]
    writer = _Expression(dtype)
    result = writer.visit(ast.parse(definition, mode="eval").body)
    return "\n".join([*lines, *writer.lines, f"  store 0 {result}"])


_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


class _Expression(ast.NodeVisitor):
    """Writes an expression as instructions; `visit` returns the name of its value."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.lines = dtype, list[str]()

    def value(self, words: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"  {name} = {words}: {self.dtype}")
        return name

    def visit_Name(self, node: ast.Name) -> str:
        return node.id

    def visit_Constant(self, node: ast.Constant) -> str:
        return self.value(f"const {float(node.value)!r}")  # type: ignore[arg-type]

    def visit_UnaryOp(self, node: ast.UnaryOp) -> str:
        return self.value(f"neg {self.visit(node.operand)}")

    def visit_BinOp(self, node: ast.BinOp) -> str:
        left, right = self.visit(node.left), self.visit(node.right)
        return self.value(f"{_OPERATORS[type(node.op)]} {left} {right}")

    def visit_Call(self, node: ast.Call) -> str:
        operands = " ".join(self.visit(argument) for argument in node.args)
        return self.value(f"{node.func.id} {operands}")  # type: ignore[attr-defined]


_HALF_ROOT, _DENSITY, _BETA = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi), math.sqrt(2 / math.pi)
_INNER = f"{_BETA!r} * x * (1 + 0.044715 * x * x)"
DEFINITIONS = {
    "erf": "erf(x)",
    "erfc": "erfc(x)",
    "silu": "x / (1 + exp(-x))",
    "silu_backward": "g * (1 / (1 + exp(-x))) * (1 + x * (1 - 1 / (1 + exp(-x))))",
    "gelu": f"0.5 * x * (1 + erf(x * {_HALF_ROOT!r}))",
    "gelu_backward": f"g * (0.5 * (1 + erf(x * {_HALF_ROOT!r})) + x * {_DENSITY!r} * exp(-0.5 * x * x))",
    "gelu_tanh": f"0.5 * x * (1 + tanh({_INNER}))",
    "gelu_tanh_backward": (
        f"g * (0.5 * (1 + tanh({_INNER})) + 0.5 * x * (1 - tanh({_INNER}) * tanh({_INNER}))"
        f" * {_BETA!r} * (1 + {3 * 0.044715!r} * x * x))"
    ),
}


_SOFTMAX = """
pass 0:
  x = load 0: T
  m = reduce max x: T
pass 1:
  x1 = load 0: T
  c = - x1 m: T
  e = exp c: T
  s = reduce sum e: T
"""
ROWS = {
    "softmax": _SOFTMAX + "pass 2:\n  x2 = load 0: T\n  c2 = - x2 m: T\n  e2 = exp c2: T\n  y = / e2 s: T\n  store 0 y",
    "log_softmax": _SOFTMAX
    + "row:\n  l = log s: T\npass 2:\n  x2 = load 0: T\n  c2 = - x2 m: T\n  y = - c2 l: T\n  store 0 y",
    "softmax_backward": """
pass 0:
  g = load 0: T
  o = load 1: T
  p = * g o: T
  s = reduce sum p: T
pass 1:
  g1 = load 0: T
  o1 = load 1: T
  d = - g1 s: T
  y = * o1 d: T
  store 0 y""",
    "log_softmax_backward": """
pass 0:
  g = load 0: T
  s = reduce sum g: T
pass 1:
  g1 = load 0: T
  o1 = load 1: T
  e = exp o1: T
  d = * e s: T
  y = - g1 d: T
  store 0 y""",
}


def layer_norm(rows: int, count: int, dtype: str, weighted: bool, biased: bool) -> str:
    lines = [f"loop [{rows}, {count}] inner 1", f"input 0: {dtype} strides [{count}, 1]"]
    lines += [f"input {i}: {dtype} strides [0, 1]" for i in range(1, 1 + weighted + biased)]
    lines += [f"output 0: {dtype} strides [{count}, 1]", *(f"output {i}: {dtype} strides [1, 0]" for i in (1, 2))]
    text = """
number 0: float64
pass 0:
  x = load 0: T
  s = reduce sum x: T
row:
  n = const COUNT: T
  mean = / s n: T
  store 1 mean
pass 1:
  x1 = load 0: T
  c = - x1 mean: T
  q = * c c: T
  v = reduce sum q: T
row:
  wide = number 0: float64
  eps = cast wide: T
  one = const 1.0: T
  var = / v n: T
  moved = + var eps: T
  root = sqrt moved: T
  rstd = / one root: T
  store 2 rstd
pass 2:
  x2 = load 0: T
  c2 = - x2 mean: T
  y = * c2 rstd: T
"""
    last = "y"
    if weighted:
        text, last = text + "  w = load 1: T\n  yw = * y w: T\n", "yw"
    if biased:
        text, last = text + f"  b = load {1 + weighted}: T\n  yb = + {last} b: T\n", "yb"
    return "\n".join(lines) + text.replace(": T", f": {dtype}").replace("COUNT", f"{count}.0") + f"  store 0 {last}"


LAYER_NORM_INPUT = """loop [{rows}, {count}] inner 1
input 0: {dtype} strides [{count}, 1]
input 1: {dtype} strides [{count}, 1]
input 2: {dtype} strides [1, 0]
input 3: {dtype} strides [1, 0]
{weight}
output 0: {dtype} strides [{count}, 1]
pass 0:
  mean = load 2: {dtype}
  rstd = load 3: {dtype}
  g = load 0: {dtype}
  x = load 1: {dtype}
  c = - x mean: {dtype}
  h = * c rstd: {dtype}
  {weighted}
  gh = * gw h: {dtype}
  a = reduce sum gw: {dtype}
  b = reduce sum gh: {dtype}
row:
  n = const {count}.0: {dtype}
  am = / a n: {dtype}
  bm = / b n: {dtype}
pass 1:
  mean1 = load 2: {dtype}
  rstd1 = load 3: {dtype}
  g1 = load 0: {dtype}
  x1 = load 1: {dtype}
  c1 = - x1 mean1: {dtype}
  h1 = * c1 rstd1: {dtype}
  {weighted1}
  p = * h1 bm: {dtype}
  d = - gw1 am: {dtype}
  f = - d p: {dtype}
  y = * f rstd1: {dtype}
  store 0 y"""

LAYER_NORM_PARAMETERS = """loop [{count}, {rows}] inner 1
input 0: {dtype} strides [1, {count}]
input 1: {dtype} strides [1, {count}]
input 2: {dtype} strides [0, 1]
input 3: {dtype} strides [0, 1]
output 0: {dtype} strides [1, 0]
output 1: {dtype} strides [1, 0]
pass 0:
  mean = load 2: {dtype}
  rstd = load 3: {dtype}
  g = load 0: {dtype}
  x = load 1: {dtype}
  c = - x mean: {dtype}
  h = * c rstd: {dtype}
  gh = * g h: {dtype}
  w = reduce sum gh: {dtype}
  b = reduce sum g: {dtype}
row:
  store 0 w
  store 1 b"""


NLL_LOSS = """loop [{rows}] inner 1
input 0: {dtype} sizes [{rows}, {classes}] strides [{classes}, 1]
input 1: int64 strides [1]
output 0: {dtype} strides [0]
output 1: {dtype} strides [0]
number 0: int64
pass 0:
  t = load 1: int64
  ignored = number 0: int64
  keep = != t ignored: bool
  first = const 0: int64
  safe = where keep t first: int64
  negative = < safe first: bool
  outside = const {classes}: int64
  checked = where negative outside safe: int64
  i = index 0: int64
  x = gather 0 i checked: {dtype}
  minus = neg x: {dtype}
  zero = const 0.0: {dtype}
  loss = where keep minus zero: {dtype}
  total = reduce sum loss: {dtype}
  one = cast keep: {dtype}
  weight = reduce sum one: {dtype}
row:
  {result}
  store 1 weight"""


ROW_SUM = """loop [{rows}, {count}] inner 1
input 0: {dtype} strides [{count}, 1]
output 0: {dtype} strides [1, 0]
pass 0:
  x = load 0: {dtype}
  s = reduce sum x: {dtype}
row:
  {result}"""
ROW_VARIANCE = """loop [{rows}, {count}] inner 1
input 0: {dtype} strides [{count}, 1]
output 0: {dtype} strides [1, 0]
number 0: float64
pass 0:
  x = load 0: {dtype}
  s = reduce sum x: {dtype}
row:
  n = const {count}.0: {dtype}
  mean = / s n: {dtype}
pass 1:
  x1 = load 0: {dtype}
  c = - x1 mean: {dtype}
  q = * c c: {dtype}
  v = reduce sum q: {dtype}
row:
  wide = number 0: float64
  free = cast wide: {dtype}
  {result}"""
