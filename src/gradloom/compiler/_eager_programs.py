"""The loop programs of eager mode's kernels (`set_kernels`).

Pointwise ones follow from the definitions in native_functions.yaml (`pointwise`), and those on rows, too
(`_eager_rows`); the others are text with gaps for sizes and dtypes.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from ._loops import Buffer, Instruction, LoopProgram, Pass
from ._scalar import Expr, Exprs, expression, ordered


def pointwise(
    source: str,
    arrays: dict[str, str],
    count: int,
    dtype: str,
    known: dict[str, Any],
    numbers: tuple[str, ...] = (),
    result: str | None = None,
    expanded: Collection[str] = (),
    in_place: bool = False,
) -> LoopProgram:
    """Return the program that computes a scalar definition for contiguous arrays of `count` elements, in `dtype`.

    Args:
        arrays: for each name that stands for an array, its dtype.
        known: names that stand for Python values.
        numbers: names that stand for floats, which are passed at each call.
        result: the dtype of the result, if it is another than `dtype`.
        expanded: names of arrays that are one number, expanded with strides of 0.
        in_place: the result is written to the first array.
    """
    result = result or dtype
    exprs = Exprs()
    env = dict(known)
    for i, (name, kind) in enumerate(arrays.items()):
        env[name] = exprs.cast(exprs.make("load", (), kind, i), dtype)
    for i, name in enumerate(numbers):
        env[name] = exprs.cast(exprs.make("number", (), "float64", i), dtype)
    found: Any = expression(source, env, exprs, dtype)
    order = ordered([exprs.cast(found, result) if isinstance(found, Expr) else exprs.const(found, result)])
    names = {id(e): f"v{i}" for i, e in enumerate(order)}
    body = [Instruction(names[id(e)], e.op, tuple(names[id(a)] for a in e.args), e.dtype, e.attribute) for e in order]
    body.append(Instruction("", "store", (body[-1].name,), "", 0))
    inputs = tuple(Buffer(kind, (0 if name in expanded else 1,)) for name, kind in arrays.items())
    output, aliases = (Buffer(result, (1,)),), ((0, 0),) if in_place else ()
    return LoopProgram((count,), 0, inputs, output, (Pass(tuple(body)),), ("float64",) * len(numbers), aliases)


# Its definition has no sum of squares, from which the running variance is computed.
_BATCH_NORM = """
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
  store 3 v
pass 2:
  x2 = load 0: T
  c2 = - x2 mean: T
  y = * c2 rstd: T
"""


def batch_norm(shape: tuple[int, ...], dtype: str, weighted: bool, biased: bool) -> str:
    """Return the program of batch norm in training from input, weight and bias; its number is eps.

    Its outputs are the result and, for each channel, mean, rstd and the sum of squares.
    """
    batch, channels, after = shape[0], shape[1], math.prod(shape[2:])
    whole, each = f"{dtype} strides [{after}, {channels * after}, 1]", f"{dtype} strides [1, 0, 0]"
    lines = [f"loop [{channels}, {batch}, {after}] inner 2", f"input 0: {whole}"]
    lines += [f"input {i}: {each}" for i in range(1, 1 + weighted + biased)]
    lines += [f"output 0: {whole}", *(f"output {i}: {each}" for i in (1, 2, 3))]
    text, last = _BATCH_NORM.replace("COUNT", f"{batch * after}.0"), "y"
    if weighted:
        text, last = text + "  w = load 1: T\n  yw = * y w: T\n", "yw"
    if biased:
        text, last = text + f"  b = load {1 + weighted}: T\n  yb = + {last} b: T\n", "yb"
    return "\n".join(lines) + text.replace(": T", f": {dtype}") + f"  store 0 {last}"


def gather(self: Any, dim: int, shape: tuple[int, ...]) -> str | None:
    """Return the program of gather along one dimension; None if another is shorter in the index, or is not there."""
    if not -self.ndim <= dim < self.ndim or not self.size:
        return None
    dim %= self.ndim
    if self.shape[:dim] != shape[:dim] or self.shape[dim + 1 :] != shape[dim + 1 :]:
        return None
    before, size, after, count = math.prod(shape[:dim]), self.shape[dim], math.prod(shape[dim + 1 :]), shape[dim]
    dtype = self.dtype.name
    walk = f"strides [{count * after}, {after}, 1]"
    return f"""loop [{before}, {count}, {after}] inner 0
input 0: {dtype} sizes [{before}, {size}, {after}] strides [{size * after}, {after}, 1]
input 1: int64 {walk}
output 0: {dtype} {walk}
pass 0:
  i = index 0: int64
  k = index 2: int64
  j = load 1: int64
  zero = const 0: int64
  negative = < j zero: bool
  outside = const {size}: int64
  checked = where negative outside j: int64
  x = gather 0 i checked k: {dtype}
  store 0 x"""


def log_sigmoid(count: int, dtype: str) -> str:
    """Return the program of log(sigmoid(x)) = min(x, 0) - log1p(exp(-|x|)) and of exp(-|x|)."""
    text = f"""loop [{count}] inner 0
input 0: T strides [1]
output 0: T strides [1]
output 1: T strides [1]
pass 0:
  x = load 0: T
  zero = const 0.0: T
  size = abs x: T
  minus = neg size: T
  decay = exp minus: T
  log = log1p decay: T
  below = minimum x zero: T
  y = - below log: T
  store 0 y
  store 1 decay"""
    return text.replace(": T", f": {dtype}")


def max_pool(planes: int, windows: Any, dtype: str) -> str:
    """Return the program of the largest element of each window without padding, and its place in the plane.

    Each element of the kernel has an input: the planes from the place on where it stands in the first window.
    """
    (_, width), (rows, columns), (down, right) = windows.size, windows.output, windows.stride
    plane = math.prod(windows.size)
    outputs = f"strides [{rows * columns}, {columns}, 1]"
    count = math.prod(windows.kernel)
    lines = [f"loop [{planes}, {rows}, {columns}] inner 0"]
    lines += [f"input {k}: T strides [{plane}, {down * width}, {right}]" for k in range(count)]
    lines += [f"output 0: T {outputs}", f"output 1: int64 {outputs}", "pass 0:"]
    lines += ["  m0 = load 0: T", "  i0 = const 0: int64"]
    for k, place in enumerate(places_in_window(windows)[1:], 1):
        lines += [
            f"  x{k} = load {k}: T",
            f"  greater{k} = > x{k} m{k - 1}: bool",
            f"  nan{k} = isnan x{k}: bool",
            f"  taken{k} = | greater{k} nan{k}: bool",
            f"  m{k} = where taken{k} x{k} m{k - 1}: T",
            f"  place{k} = const {place}: int64",
            f"  i{k} = where taken{k} place{k} i{k - 1}: int64",
        ]
    lines += [
        "  row = index 1: int64",
        "  column = index 2: int64",
        f"  down = const {down * width}: int64",
        f"  right = const {right}: int64",
        "  above = * row down: int64",
        "  left = * column right: int64",
        "  corner = + above left: int64",
        f"  found = + corner i{count - 1}: int64",
        f"  store 0 m{count - 1}",
        "  store 1 found",
    ]
    return "\n".join(lines).replace(": T", f": {dtype}")


def places_in_window(windows: Any) -> list[int]:
    """Return the place of each element of the kernel in a plane, relative to the window's corner."""
    width = windows.size[1]
    down, right = windows.dilation
    return [i * down * width + j * right for i in range(windows.kernel[0]) for j in range(windows.kernel[1])]
