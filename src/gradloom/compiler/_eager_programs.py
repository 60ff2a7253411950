"""The loop programs of eager mode's kernels (`set_kernels`).

Pointwise ones follow from the definitions in native_functions.yaml (`pointwise`); the others are text with gaps for
sizes and dtypes.
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
    # Its exponentials are kept where the result will be: input 1 and both outputs are one array.
    "softmax": _SOFTMAX + "  store 0 e\npass 2:\n  e2 = load 1: T\n  y = / e2 s: T\n  store 1 y",
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


def row_program(name: str, dtype: str, before: int, count: int, after: int) -> str:
    """Return a program of ROWS over the middle one of three dimensions of contiguous arrays.

    Softmax takes its input and three times the array of its result; log_softmax two arrays, the derivatives three.
    """
    buffer = f"{dtype} strides [{count * after}, 1, {after}]"
    inputs, outputs = (1 if name == "log_softmax" else 2), (2 if name == "softmax" else 1)
    lines = [f"loop [{before}, {after}, {count}] inner 1", *(f"input {i}: {buffer}" for i in range(inputs))]
    lines += [f"output {i}: {buffer}" for i in range(outputs)]
    if name == "softmax":
        lines += ["alias 0 1", "alias 1 1"]
    return "\n".join(lines) + ROWS[name].replace(": T", f": {dtype}")


_NORMALIZATION = """
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


def _normalization(head: list[str], count: int, dtype: str, weighted: bool, biased: bool, squares: bool) -> str:
    """Return the program that normalizes `count` numbers at a time, from the lines on its loop and buffers.

    Its outputs are the result, mean and rstd and, with `squares`, the sum of the squared differences to the mean.
    """
    text, last = _NORMALIZATION, "y"
    if squares:
        text = text.replace("  store 2 rstd\n", "  store 2 rstd\n  store 3 v\n")
    if weighted:
        text, last = text + "  w = load 1: T\n  yw = * y w: T\n", "yw"
    if biased:
        text, last = text + f"  b = load {1 + weighted}: T\n  yb = + {last} b: T\n", "yb"
    return "\n".join(head) + text.replace(": T", f": {dtype}").replace("COUNT", f"{count}.0") + f"  store 0 {last}"


def layer_norm(rows: int, count: int, dtype: str, weighted: bool, biased: bool) -> str:
    """Return the program of layer_norm's result, mean and rstd from input, weight and bias; its number is eps."""
    lines = [f"loop [{rows}, {count}] inner 1", f"input 0: {dtype} strides [{count}, 1]"]
    lines += [f"input {i}: {dtype} strides [0, 1]" for i in range(1, 1 + weighted + biased)]
    lines += [f"output 0: {dtype} strides [{count}, 1]", *(f"output {i}: {dtype} strides [1, 0]" for i in (1, 2))]
    return _normalization(lines, count, dtype, weighted, biased, False)


def batch_norm(shape: tuple[int, ...], dtype: str, weighted: bool, biased: bool) -> str:
    """Return the program of batch norm in training from input, weight and bias; its number is eps.

    Its outputs are the result and, for each channel, mean, rstd and the sum of squares.
    """
    batch, channels, after = shape[0], shape[1], math.prod(shape[2:])
    whole, each = f"{dtype} strides [{after}, {channels * after}, 1]", f"{dtype} strides [1, 0, 0]"
    lines = [f"loop [{channels}, {batch}, {after}] inner 2", f"input 0: {whole}"]
    lines += [f"input {i}: {each}" for i in range(1, 1 + weighted + biased)]
    lines += [f"output 0: {whole}", *(f"output {i}: {each}" for i in (1, 2, 3))]
    return _normalization(lines, batch * after, dtype, weighted, biased, True)


# What both passes of the backward of layer_norm begin with: the gradient times the weight, and the normalized input.
_NORMALIZED = """
  mean# = load 2: T
  rstd# = load 3: T
  g# = load 0: T
  x# = load 1: T
  c# = - x# mean#: T
  h# = * c# rstd#: T
  w# = WEIGHT: T
  gw# = * g# w#: T
"""


def _normalized_input(lines: list[str], count: int, dtype: str, weighted: bool, more: str = "") -> str:
    """Return the program of the gradient of a normalization's input; `lines` declare its loop and buffers.

    Its inputs are gradient, input, mean, rstd and, with `weighted`, weight; `more` is added to its last pass.
    """
    text = f"""
pass 0:{_NORMALIZED.replace("#", "")}  gh = * gw h: T
  a = reduce sum gw: T
  b = reduce sum gh: T
row:
  n = const {count}.0: T
  am = / a n: T
  bm = / b n: T
pass 1:{_NORMALIZED.replace("#", "1")}  p = * h1 bm: T
  d = - gw1 am: T
  f = - d p: T
  y = * f rstd1: T
  store 0 y{more}"""
    weight = "load 4" if weighted else "const 1.0"
    return "\n".join(lines) + text.replace("WEIGHT", weight).replace(": T", f": {dtype}")


def layer_norm_input(rows: int, count: int, dtype: str, weighted: bool, parameters: bool = False) -> str:
    """Return the program of the gradient of layer_norm's input from: gradient, input, mean, rstd, and weight.

    With `parameters`, its other outputs are the gradients of weight and bias, sums over the rows.
    """
    lines = [f"loop [{rows}, {count}] inner 1", *(f"input {i}: {dtype} strides [{count}, 1]" for i in (0, 1))]
    lines += [f"input {i}: {dtype} strides [1, 0]" for i in (2, 3)]
    lines += [f"input 4: {dtype} strides [0, 1]"] * weighted + [f"output 0: {dtype} strides [{count}, 1]"]
    more = ""
    if parameters:
        lines += [f"output {i}: {dtype} strides [0, 1]" for i in (1, 2)]
        more = "\n  gw2 = * g1 h1: T\n  add 1 gw2\n  add 2 g1"
    return _normalized_input(lines, count, dtype, weighted, more)


def _walks_of_groups(batch: int, groups: int, each: int, after: int) -> tuple[str, str, str]:
    """Return the strides of the input, of a vector of groups of each sample, and of a vector of channels.

    The loop runs over samples, groups, channels of a group and positions.
    """
    whole = f"strides [{groups * each * after}, {each * after}, {after}, 1]"
    return whole, f"strides [{groups}, 1, 0, 0]", f"strides [0, {each}, 1, 0]"


def group_norm(batch: int, groups: int, each: int, after: int, dtype: str, weighted: bool, biased: bool) -> str:
    """Return the program of group_norm's result, mean and rstd from input, weight and bias; its number is eps.

    Args:
        each: channels of a group.
        after: positions of a channel.
    """
    whole, of_group, of_channel = _walks_of_groups(batch, groups, each, after)
    lines = [f"loop [{batch}, {groups}, {each}, {after}] inner 2", f"input 0: {dtype} {whole}"]
    lines += [f"input {i}: {dtype} {of_channel}" for i in range(1, 1 + weighted + biased)]
    lines += [f"output 0: {dtype} {whole}", *(f"output {i}: {dtype} {of_group}" for i in (1, 2))]
    return _normalization(lines, each * after, dtype, weighted, biased, False)


def group_norm_input(batch: int, groups: int, each: int, after: int, dtype: str, weighted: bool) -> str:
    """Return the program of the gradient of group_norm's input from: gradient, input, mean, rstd, and weight."""
    whole, of_group, of_channel = _walks_of_groups(batch, groups, each, after)
    lines = [f"loop [{batch}, {groups}, {each}, {after}] inner 2", *(f"input {i}: {dtype} {whole}" for i in (0, 1))]
    lines += [f"input {i}: {dtype} {of_group}" for i in (2, 3)]
    lines += [f"input 4: {dtype} {of_channel}"] * weighted + [f"output 0: {dtype} {whole}"]
    return _normalized_input(lines, each * after, dtype, weighted)


def group_norm_parameters(batch: int, groups: int, each: int, after: int, dtype: str) -> str:
    """Return the program of the gradients of group_norm's weight and bias from: gradient, input, mean and rstd.

    It computes those of each sample, so that a row of the loop is contiguous; the caller adds them up.
    """
    whole, of_group, _ = _walks_of_groups(batch, groups, each, after)
    head = f"loop [{batch}, {groups}, {each}, {after}] inner 1\n"
    of_channel = f"strides [{groups * each}, {each}, 1, 0]"
    return head + _normalized_parameters((whole, whole, of_group, of_group), of_channel, dtype)


def batch_norm_gradients(shape: tuple[int, ...], dtype: str, weighted: bool) -> str:
    """Return the program of the gradients of input, weight and bias of batch norm in training from: gradient, input,
    mean, rstd, and weight."""
    batch, channels, after = shape[0], shape[1], math.prod(shape[2:])
    whole, each = f"{dtype} strides [{after}, {channels * after}, 1]", f"{dtype} strides [1, 0, 0]"
    lines = [f"loop [{channels}, {batch}, {after}] inner 2", *(f"input {i}: {whole}" for i in (0, 1))]
    lines += [f"input {i}: {each}" for i in range(2, 4 + weighted)]
    lines += [f"output 0: {whole}", *(f"output {i}: {each}" for i in (1, 2))]
    text = f"""{_PARAMETER_SUMS}
row:
  store 1 w
  store 2 b
  n = const {batch * after}.0: T
  bm = / b n: T
  wm = / w n: T
pass 1:
  g1 = load 0: T
  x1 = load 1: T
  mean1 = load 2: T
  rstd1 = load 3: T
  c1 = - x1 mean1: T
  h1 = * c1 rstd1: T
  along = * h1 wm: T
  d = - g1 along: T
  f = - d bm: T
  factor = {"load 4" if weighted else "const 1.0"}: T
  scale = * rstd1 factor: T
  y = * f scale: T
  store 0 y"""
    return "\n".join(lines) + text.replace(": T", f": {dtype}")


def layer_norm_parameters(rows: int, count: int, dtype: str) -> str:
    """Return the program of the gradients of layer_norm's weight and bias from: gradient, input, mean and rstd."""
    inputs = *(f"strides [1, {count}]",) * 2, *("strides [0, 1]",) * 2
    return f"loop [{count}, {rows}] inner 1\n" + _normalized_parameters(inputs, "strides [1, 0]", dtype)


def _normalized_parameters(inputs: tuple[str, ...], outputs: str, dtype: str) -> str:
    lines = [f"input {i}: {dtype} {walk}" for i, walk in enumerate(inputs)]
    lines += [f"output {i}: {dtype} {outputs}" for i in (0, 1)]
    return "\n".join(lines) + _PARAMETERS.replace(": T", f": {dtype}")


# The gradients of weight and bias: sums of gradient times normalized input, and of the gradient.
_PARAMETER_SUMS = """
pass 0:
  mean = load 2: T
  rstd = load 3: T
  g = load 0: T
  x = load 1: T
  c = - x mean: T
  h = * c rstd: T
  gh = * g h: T
  w = reduce sum gh: T
  b = reduce sum g: T"""
_PARAMETERS = f"""{_PARAMETER_SUMS}
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


ROW_REDUCTION = """loop [{rows}, {count}] inner 1
input 0: {dtype} strides [{count}, 1]
output 0: {dtype} strides [1, 0]
pass 0:
  x = load 0: {dtype}
  s = reduce {operator} x: {dtype}
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


def bce_with_logits(count: int, dtype: str, mean: bool) -> str:
    """Return the program of the sum or mean of (1 - t) x + max(-x, 0) + log1p(exp(-|x|)), of scores x and targets t."""
    text = f"""loop [{count}] inner 1
input 0: T strides [1]
input 1: T strides [1]
output 0: T strides [0]
pass 0:
  x = load 0: T
  t = load 1: T
  one = const 1.0: T
  zero = const 0.0: T
  rest = - one t: T
  linear = * rest x: T
  size = abs x: T
  minus = neg size: T
  decay = exp minus: T
  log = log1p decay: T
  below = minimum x zero: T
  part = - log below: T
  loss = + part linear: T
  s = reduce sum loss: T
row:
  n = const {count}.0: T
  m = / s n: T
  store 0 {"m" if mean else "s"}"""
    return text.replace(": T", f": {dtype}")


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
