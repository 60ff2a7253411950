"""Random programs over tensors of all dtypes, run statement by statement by PyTorch and by gradloom.

A program is a list of calls of one operator each: elementwise operators, views, reductions, products, indexing,
conversions, writes in place. After each call both libraries agree on the class of the error, or on values, dtypes,
shapes, strides, offsets, histories, versions and views of every tensor alive; at the end on the gradients. Integers
and the results of exactly rounded operators are equal, others within the bounds of `bound`. Values within their bound
are then made equal, so that a difference is that of one call.

GRADLOOM_PROGRAMS=n runs n programs from fresh seeds. `python -m tests.conformance.test_programs N SEED` prints all of
N programs that differ.
"""

from __future__ import annotations

import os
import random
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

torch = pytest.importorskip("torch")

import gradloom  # noqa: E402
from tests.releases import pytorch_before  # noqa: E402

PROGRAMS = int(os.environ.get("GRADLOOM_PROGRAMS", "400"))

DTYPES = "float32 float64 float16 bfloat16 complex64 complex128 int64 int32 int16 int8 uint8 bool".split()
SHAPES = ((2, 3), (3,), (), (2, 1), (3, 2), (3, 3), (1, 3), (2, 2, 3), (0, 3), (1,))
LAYOUTS = (
    "{x}",
    "{x}",
    "{x}.mT.contiguous().mT",
    "L.stack([{x}, {x}], -1)[..., 0]",
    "{x}[:1].expand_as({x})",
    "{x}",
    "{x}",
)

# What a placeholder may become: {a}, {b} and {c} are tensors of the program.
WORDS: dict[str, Sequence[str]] = {
    "s": "2 -1 0.5 3 True 0 -1.5 1j 1 (1+2j) 7 False 2.0".split(),
    "m": "2 -1 0.5 3 -1.5 1j 7 2.0 (1+2j)".split(),
    "n": "0 1 2 -1 3 -2".split(),
    "d": "0 -1 1 -2 2".split(),
    "t": [f"L.{name}" for name in DTYPES],
    "y": "L.uint8 L.int8 L.int16 L.int32 L.int64".split(),
    "k": "False True".split(),
    "i": """0 -1 1 None ... : 1: ::2 :-1 [0,1] [1] True 0,1 :,0 ...,0 None,0 ...,None 0:1 [[0],[1]] :,[0,1] 2 [] :,1:
        """.split(),
    "u": """abs neg sin cos exp log sqrt sigmoid tanh floor ceil round trunc sign reciprocal square logical_not isnan
        isinf conj angle positive rsqrt erf expm1 log1p log2 sgn relu bitwise_not frac atan asinh tan sinh cosh
        acos exp2 log10 deg2rad conj_physical signbit erfc lgamma nan_to_num logit sinc
        """.split(),
    "x": "neg sin exp sqrt floor abs sign reciprocal square logical_not rsqrt bitwise_not trunc sigmoid".split(),
    "p": "+ - * / ** // % == < >= & | ^ != << >> <= >".split(),
    "q": "+ - * / ** // % & | ^ << >>".split(),
    "f": """maximum minimum atan2 fmod remainder hypot logical_and logical_or logical_xor copysign floor_divide fmax
        fmin
        xlogy logaddexp heaviside float_power gcd lcm eq true_divide ldexp bitwise_and logaddexp2
        """.split(),
    "r": "sum mean prod amax amin any all argmax argmin logsumexp nansum count_nonzero nanmean".split(),
    "w": """sin_ neg_ exp_ abs_ sqrt_ floor_ round_ sigmoid_ tanh_ reciprocal_ square_ zero_ relu_ logical_not_ sign_
        trunc_ conj_physical_ bitwise_not_ t_ squeeze_ detach_ requires_grad_ ceil_ frac_ cos_""".split(),
    "v": "add_ sub_ mul_ div_ pow_ fmod_ remainder_ floor_divide_ copy_ atan2_ eq_ lt_ bitwise_and_ logical_or_ xlogy_"
    " ge_ hypot_ copysign_".split(),
    "z": "add_ sub_ mul_ div_ pow_ fmod_ remainder_ floor_divide_ atan2_ bitwise_and_ xlogy_ copysign_".split(),
    "o": "sum mean prod amax any std var".split(),
}  # fmt: skip

# Kind -> templates, separated by | or line ends; the kind says how exact the results are.
TEMPLATES = {
    "elementwise": """
{a} {p} {b}|{a} {p} {b}|{a} {p} {s}|{s} {p} {a}|L.{f}({a}, {b})|{a}.{u}()|{a}.{u}()|L.where({a}, {b}, {c})
L.where({a} > 0, {b}, {s})|L.add({a}, {b}, alpha={s})|L.sub({a}, {s}, alpha={s})|{a}.clamp({s}, {s})
{a}.clamp(min={b})|L.div({a}, {b}, rounding_mode='floor')|L.div({a}, {b}, rounding_mode='trunc')
L.div({a}, {s}, rounding_mode='trunc')|L.lerp({a}, {b}, {s})|L.addcmul({a}, {b}, {c}, value={s})
L.addcdiv({a}, {b}, {c}, value={s})|L.pow({a}, {s})|L.pow({m}, {a})|L.float_power({a}, {s})|L.nn.functional.gelu({a})
L.nn.functional.leaky_relu({a})|L.nn.functional.softplus({a})|L.nn.functional.silu({a})|L.{f}({a}, {s})
{a}.round(decimals=1)|L.clamp({a}, {b}, {c})|L.complex({a}, {b})|L.polar({a}, {b})|L.nn.functional.mse_loss({a}, {b})
L.nn.functional.elu({a})|L.masked_fill({a}, {b} > 0, {s})
""",
    "views": """
{a}.view(-1)|{a}.t()|{a}.transpose(0, -1)|{a}[0:1]|{a}.select({d}, {n})|{a}.narrow({d}, {n}, 1)|{a}.unsqueeze({d})
{a}.squeeze()|{a}.squeeze({d})|{a}.expand(2, *{a}.shape)|{a}.diagonal()|{a}.unfold({d}, 2, {n})|{a}.mT|{a}.reshape(-1)
{a}.permute(*reversed(range({a}.dim())))|{a}.detach()|{a}.as_strided((2, 2), (1, 2))|{a}.unbind({d})|{a}.split(1, {d})
{a}.chunk(2, {d})|{a}.view_as({a})|{a}.flatten()|{a}.contiguous()|{a}[::2]|{a}.tensor_split(2, {d})
{a}.movedim(0, {d})|{a}.conj()|{a}.imag|{a}.real|L.view_as_real({a})|L.view_as_complex({a})|{a}.mH|{a}.resolve_conj()
{a}.view({y})|{a}.expand_as({b})|{a}.view({n}, -1)|{a}.reshape({b}.shape)|L.broadcast_tensors({a}, {b})
{a}.resolve_neg()|{a}.swapaxes({d}, {d})|{a}.view_as({b})|{a}.diagonal({n}, {d}, {d})|L.atleast_2d({a})|{a}.ravel()
{a}.alias()
""",
    "reductions": """
{a}.{r}()|{a}.{r}({d})|{a}.{r}({d}, keepdim={k})|{a}.{r}(({d}, {d}))|{a}.sum({d}, dtype={t})|{a}.mean(dtype={t})
{a}.prod({d}, dtype={t})|{a}.max()|{a}.min({d})|{a}.max({d}, {k})|{a}.std()|{a}.var({d})|{a}.var(correction=0)
{a}.cumsum({d})|{a}.cumprod({d})|{a}.cummax({d})|{a}.sort({d})|{a}.argsort({d})|{a}.median()|{a}.median({d}).values
{a}.norm()|L.linalg.vector_norm({a}, {n}, {d})|{a}.softmax({d})|{a}.log_softmax({d})|{a}.cumsum({d}, dtype={t})
{a}.topk(1, {d}).values|L.aminmax({a}, dim={d})|{a}.std({d}, keepdim={k})|{a}.diff()|{a}.trace()|{a}.logcumsumexp({d})
{a}.kthvalue(1, {d}).values|L.std_mean({a}, {d})|{a}.unique()|{a}.softmax({d}, dtype={t})|{a}.norm({n}, {d})
{a}.mode({d}).values|{a}.dist({b})|{a}.equal({b})|{a}.quantile({s})|{a}.nonzero()|{a}.bincount()
{a}.renorm(2, {d}, {s})|{a}.flip({d})|{a}.roll(1, {d})|{a}.tril()|L.allclose({a}, {b})
""",
    "products": """
{a} @ {b}|L.mm({a}, {b})|L.mv({a}, {b})|L.dot({a}, {b})|L.outer({a}, {b})|{a} @ {b}.mT|L.inner({a}, {b})
L.addmm({a}, {b}, {c})|L.einsum('ij,kj->ik', {a}, {b})|L.nn.functional.linear({a}, {b})|L.tensordot({a}, {b}, {n})
L.bmm({a}, {b})|{a}.mT @ {b}|L.addmv({a}, {b}, {c})|L.baddbmm({a}, {b}, {c})|{a} @ {a}.mT|L.vdot({a}, {b})
L.addmm({a}, {b}, {c}, beta={s}, alpha={s})|L.addr({a}, {b}, {c})|L.linalg.multi_dot([{a}, {b}])|L.cov({a})
""",
    "indexing": """
{a}[{i}]|{a}[{b}]|{a}[{b} > 0]|{a}.gather({d}, {b})|{a}.index_select({d}, {b})|{a}.take({b})|{a}[..., {b}]
{a}[{b}, {c}]|{a}.masked_select({b})|{a}.scatter({d}, {b}, {c})|{a}.scatter_add({d}, {b}, {c})
{a}.index_add({d}, {b}, {c})|{a}.index_fill({d}, {b}, {s})|{a}.index_copy({d}, {b}, {c})|{a}.masked_fill({b}, {s})
{a}.index_put(({b},), {c}, True)|{a}.scatter({d}, {b}, {s})|{a}.take_along_dim({b}, {d})|{a}[{b}.long() % 2]
{a}.gather({d}, {b}.long() % 2)|{a}[{b}.long().abs() % 3]|{a}.masked_fill({b} > 0, {c})
{a}.masked_scatter({b} > 0, {c})|{a}.index_select({d}, {b}.int() % 2)|L.isin({a}, {b})
{a}.scatter_reduce({d}, {b}.long() % 2, {c}, 'sum')|{a}.put({b}.long() % 2, {c}, True)
L.bucketize({a}, L.arange(3))|{a}.index_reduce({d}, {b}, {c}, 'prod')|{a}.repeat_interleave(2, {d})
{a}.repeat_interleave({b})|{a}.diag()|{a}.diag_embed()
""",
    "conversions": """
{a}.to({t})|{a}.to({t})|{a}.type_as({b})|{a}.to({b})|{a}.float()|{a}.half()|{a}.bfloat16()|{a}.long()|{a}.bool()
{a}.byte()|{a}.double()|{a}.char()|{a}.item()|L.result_type({a}, {b})|L.result_type({a}, {s})
L.can_cast({a}.dtype, {t})|L.zeros_like({a})|L.ones_like({a}, dtype={t})|L.full_like({a}, {s})|{a}.new_full((2,), {s})
L.full((2, 3), {s}, dtype={t})|L.tensor({a}.tolist())|L.cat([{a}, {b}])|L.stack([{a}, {b}])|L.cat([{a}, {b}], {d})
L.arange({s}, dtype={t})|L.tensor({s}, dtype={t})|{a}.clone()|L.promote_types({a}.dtype, {t})|{a}.tolist()
L.hstack([{a}, {b}])|{a}.cfloat()|{a}.repeat(2, 1, 1)|L.tensor([{s}, {s}])|{a}.new_zeros(2, dtype={t})
L.as_tensor({a}, dtype={t})|L.linspace({s}, {s}, 3, dtype={t})|L.meshgrid({a}, {b}, indexing='ij')|float({a})|int({a})
bool({a})|L.eye(2, dtype={t})|L.vstack([{a}, {b}])|{a}.tile(2)|L.block_diag({a}, {b})|L.cartesian_prod({a}, {b})
{a}.element_size()|{a}.is_floating_point()|L.nn.functional.pad({a}, (1, 0))
""",
    "writes": """
{a}.{w}()|{a}.{w}()|{a}.{v}({b})|{a}.{v}({b})|{a}.{z}({s})|{a}.__setitem__({i}, {b})|{a}.__setitem__({b} > 0, {s})
{a}.__setitem__({i}, {s})|{a}.__setitem__({b}, {c})|{a}.fill_({s})|{a}.fill_({b})|{a}.clamp_({s}, {s})
{a}.masked_fill_({b}, {s})|{a}.index_add_({d}, {b}, {c})|{a}.scatter_({d}, {b}, {s})|L.add({a}, {b}, out={c})
L.mul({a}, {s}, out={c})|{a}.clamp_(min={b})|L.sum({a}, {d}, out={b})|L.{x}({a}, out={b})|{a}.transpose_(0, -1)
{a}.unsqueeze_({d})|{a}.index_fill_({d}, {b}, {s})|{a}.masked_fill_({b} > 0, {c})|{a}.add_({b}, alpha={s})
{a}.addcmul_({b}, {c})|{a}.lerp_({b}, 0.5)|{a}.cumsum_({d})|L.matmul({a}, {b}, out={c})|L.{f}({a}, {b}, out={c})
{a}.requires_grad_()|{a}.data.mul_({s})|{a}.detach().add_({b})|{a}.index_put_(({b}.long() % 2,), {c}, True)
{a}.copy_({b}, True)|{a}.masked_scatter_({b}, {c})|{a}.addmm_({b}, {c})|{a}.div_({b}, rounding_mode='floor')
L.where({a} > 0, {b}, {c}, out={a})|L.cat([{a}, {b}], out={c})|{a}.index_copy_({d}, {b}, {c})|{a}.put_({b}, {c}, True)
{a}.fill_diagonal_({s})|{a}.real.mul_({b})|{a}.diagonal().add_({b})|{a}[{i}].mul_({s})
{a}.conj().mul_({b})
""",
}  # fmt: skip
STATEMENTS = [(kind, t) for kind, text in TEMPLATES.items() for line in text.split("\n") for t in line.split("|") if t]
WEIGHTS = {"elementwise": 4, "views": 2, "reductions": 2, "products": 1, "indexing": 2, "conversions": 2, "writes": 3}
NO_GRAD = 12  # one in so many statements is run under no_grad
NAME = re.compile(r"\bt\d+(?:_\d)?\b")
LARGEST = 1e6  # tensors with greater values take no part in later statements: their conversions are undefined
NUMBERS = st.integers(0, 5039)
WEIGHTED = [s for s in STATEMENTS for _ in range(WEIGHTS[s[0]])]
STATEMENT = st.tuples(st.sampled_from(WEIGHTED), st.tuples(*[NUMBERS] * 8))
INPUT = st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
PROGRAM = st.tuples(st.lists(INPUT, min_size=2, max_size=4), st.lists(STATEMENT, min_size=1, max_size=8))


def input_text(dtype: int, shape: int, layout: int, values: int) -> str:
    """The expression that makes an input."""
    dtype, shape = DTYPES[dtype % len(DTYPES)], SHAPES[shape % len(SHAPES)]
    count = int(np.prod(shape))
    if dtype == "bool":
        numbers = [bool((values >> i) & 1) for i in range(count)]
    elif "int" in dtype:
        low = -(values % 3) if dtype != "uint8" else 0
        numbers = [(7 * i + values) % 5 + low for i in range(count)]
    else:
        numbers = [((11 * i + values) % 29 - 12) / 8 for i in range(count)]
        if dtype.startswith("complex"):
            numbers = [complex(x, y) for x, y in zip(numbers, reversed(numbers), strict=True)]
    text = f"L.tensor({numbers}, dtype=L.{dtype}).reshape({shape}).clone()"
    form = LAYOUTS[layout % len(LAYOUTS)]
    if len(shape) < 2 and ".mT" in form or not shape or not shape[0]:
        form = LAYOUTS[0]
    text = form.format(x=text)
    return f"{text}.detach().requires_grad_()" if dtype[0] in "fbc" and dtype != "bool" and values % 2 else text


def statement_text(template: str, numbers: Sequence[int], names: Sequence[str]) -> str:
    """A template with its placeholders filled in."""
    numbers, parts = list(numbers), template.split("{")
    known: dict[str, str] = {}
    text = parts[0]
    for position, part in enumerate(parts[1:]):
        key, rest = part[0], part[2:]
        number = numbers[position % len(numbers)]
        if key in "abc":
            word = known.setdefault(key, names[number % len(names)])
        else:
            word = WORDS[key][number % len(WORDS[key])]
        text += word + rest
    return text


def values_of(t: Any) -> np.ndarray:
    t = t.detach().resolve_conj().resolve_neg()
    return (t.float() if str(t.dtype).endswith("bfloat16") else t.clone()).numpy()


def node_name(t: Any) -> str | None:
    try:
        node = t.grad_fn
    except RuntimeError as error:  # a view that was written to in a way that makes its history an error
        return type(error).__name__
    return node and node.name().replace("torch::autograd::", "")


class Machine:
    """Runs a program with one library."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.tensors: dict[str, Any] = {}

    def run(self, name: str, text: str, grad: bool = True) -> Any:
        """Keep what an expression gives; return the error or the kept tensors' names and the other values."""
        try:
            with self.library.set_grad_enabled(grad):
                found = eval(text, {"L": self.library, **self.tensors})
        except Exception as error:
            return error
        parts = found if isinstance(found, (tuple, list)) else [found]
        shown: list[Any] = []
        for position, part in enumerate(parts[:3]):
            if isinstance(part, self.library.Tensor):
                same = next((n for n, t in self.tensors.items() if t is part), None)
                if same is None:
                    same = f"{name}_{position}" if position else name
                    self.tensors[same] = part
                shown.append(same)
            else:
                shown.append(part)
        return [type(found).__name__ if isinstance(found, (tuple, list)) else "", *shown]

    def facts(self, name: str) -> dict[str, Any]:
        t = self.tensors[name]
        base = t._base
        return {
            "dtype": str(t.dtype).partition(".")[2],
            "shape": tuple(t.shape),
            "strides": t.stride(),
            "offset": t.storage_offset(),
            "requires_grad": t.requires_grad,
            "node": node_name(t),
            "version": t._version,
            "bits": (t.is_conj(), t.is_neg()),
            "base": base is not None and next((n for n, other in self.tensors.items() if other is base), True),
        }

    def gradients(self) -> Any:
        """Gradients of all tensors after a backward pass from all of them, or the error."""
        names = list(self.tensors)
        loss: Any = None
        try:
            for position, name in enumerate(names):
                t = self.tensors[name]
                if t.requires_grad and node_name(t) != "RuntimeError":
                    t.retain_grad()
                    wide = t.to(self.library.complex128 if t.is_complex() else self.library.float64)
                    term = (wide * (1 + 0.1 * position)).sum()
                    term = (term * (1 - 0.5j)).real if term.is_complex() else term
                    loss = term if loss is None else loss + term
            if loss is None:
                return {}
            loss.backward()
        except Exception as error:
            return error
        return {
            n: self.tensors[n].grad
            for n in names
            if self.tensors[n].requires_grad and node_name(self.tensors[n]) != "RuntimeError"
        }


def eps_of(dtype: str) -> float:
    known = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype)
    return known or float(np.finfo(dtype if dtype[0] in "fc" else "float32").eps)  # integers become float32


def magnitude(array: np.ndarray) -> float:
    array = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    return float(array[np.isfinite(array)].max(initial=0))


def bound(kind: str, text: str, dtype: str, expected: np.ndarray, operands: Sequence[np.ndarray]) -> np.ndarray:
    """How far apart the results of one statement may be."""
    eps = max(
        [eps_of(dtype), *(eps_of(a.dtype.name) for a in operands)]
        if "out=" in text or "ldexp" in text
        else [eps_of(dtype)]
    )
    size = np.abs(expected.astype(np.complex128 if expected.dtype.kind == "c" else np.float64))
    half = "float16" in dtype
    steps = 1 if half else 64 if dtype.startswith("complex") and re.search(r"pow|\*\*", text) else 4
    near = steps * eps * size + np.finfo(np.float32 if eps > 1e-12 else np.float64).tiny
    several_steps = re.search(r"lerp|addc|gelu|digamma|logaddexp|pow|\*\*", text) or dtype.startswith("complex")
    if kind in ("elementwise", "conversions", "views", "indexing") and not several_steps:
        return near
    # Sums and products: the order is the library's own.
    scale = 1.0
    for array in operands:
        scale *= max(1.0, magnitude(array))
    count = max([array.size for array in operands], default=1)
    return near + 4 * count * min(eps, 2.0**-23) * scale


def unlike(found: np.ndarray, expected: np.ndarray, limit: np.ndarray | float) -> bool:
    with np.errstate(all="ignore"):
        close = found == expected
        if expected.dtype.kind in "fc":
            close |= np.isnan(found) & np.isnan(expected)
            close |= (expected.dtype.kind == "c") & ~np.isfinite(found) & ~np.isfinite(expected)
            close |= np.abs(found.real - expected.real) + np.abs(found.imag - expected.imag) <= 2 * limit
    return not close.all()


def difference(inputs: Sequence[Sequence[int]], statements: Sequence[Any]) -> str | None:
    """The first difference between the libraries as text, or None. A program ends where the libraries differ in a way
    that docs/differences.md lists."""
    theirs, ours = Machine(torch), Machine(gradloom)
    lines: list[str] = []

    def report(what: str, found: Any, expected: Any) -> str:
        return "\n".join([*lines, f"  {what}", f"  gradloom: {found!r}", f"  PyTorch:  {expected!r}"])

    usable: list[str] = []
    todo: list[Any] = [("input", input_text(*numbers), True) for numbers in inputs] + list(statements)
    for number, statement in enumerate(todo):
        name = f"t{number}"
        if statement[0] == "input":
            kind, text, grad = statement
        else:
            (kind, template), numbers = statement
            text, grad = statement_text(template, numbers, usable), numbers[-1] % NO_GRAD != 1
        lines.append(f"{name} = {text}" + ("" if grad else "  # no_grad"))
        shapes = {n: tuple(t.shape) for n, t in theirs.tensors.items()}
        if undefined(theirs.tensors, text):
            lines[-1] += "  # left out"
            continue
        operands = [theirs.tensors[n] for n in dict.fromkeys(NAME.findall(text))]
        values = [values_of(t) for t in operands]
        expected, found = theirs.run(name, text, grad), ours.run(name, text, grad)
        if "complex32" in str(expected) or any(t.dtype == torch.complex32 for t in theirs.tensors.values()):
            return None
        if isinstance(expected, Exception) or isinstance(found, Exception):
            if not same_error(text, found, expected, operands):
                return report("error", found, expected)
            if not (isinstance(expected, Exception) and isinstance(found, Exception)):
                return None
        elif not same_parts(found, expected):
            return report("result", found, expected)
        if "out=" in text and shapes != {n: tuple(theirs.tensors[n].shape) for n in shapes}:
            return None  # resized, with what shares its memory
        if any(t.dtype == torch.bool and (t.view(torch.uint8) > 1).any() for t in theirs.tensors.values()):
            return None  # bytes written through a view of another dtype
        for key, t in theirs.tensors.items():
            a, b = theirs.facts(key), ours.facts(key)
            if a != b:
                if "out=" in text and isinstance(expected, Exception) or listed(a, b, operands):
                    return None
                what = next(fact for fact in a if a[fact] != b[fact])
                return report(f"{what} of {key}", b[what], a[what])
            x, y = values_of(t), values_of(ours.tensors[key])
            if x.tobytes() == y.tobytes():
                continue
            limit = bound(kind, text, a["dtype"], x, values) if x.dtype.kind in "fc" else 0
            if not isinstance(expected, Exception) and unlike(y, x, limit):
                if any(v.dtype.kind == "c" and not np.isfinite(v).all() for v in values):
                    return None
                return report(f"values of {key}", y.tolist(), x.tolist())
            equalize(ours.tensors[key], x)
        sound = [n for n, t in theirs.tensors.items() if t.numel() < 200 and magnitude(values_of(t)) < LARGEST]
        usable = sound or ["t0"]
    lines.append("backward()")
    expected, found = theirs.gradients(), ours.gradients()
    if isinstance(expected, Exception) or isinstance(found, Exception):
        return None if same_error("backward", found, expected) else report("error", found, expected)
    arrays = {
        n: [None if g is None else values_of(g) for g in (theirs, found.get(n))] for n, theirs in expected.items()
    }
    scale = max([1.0, *(magnitude(x) for x, _ in arrays.values() if x is not None)])
    dtypes = {str(t.dtype)[6:] for t in theirs.tensors.values() if t.requires_grad or t.dtype in SINGLE}
    eps = max([eps_of(dtype) for dtype in dtypes] or [0])
    faulty = any(FAULTY.search(line) for line in lines)
    for key, (x, y) in arrays.items():
        if (x is None) != (y is None):
            return report(f"gradient of {key}", y, x)
        if x is None:
            continue
        for fact in ("dtype", "shape"):
            a, b = (str(getattr(g[key], fact)).rpartition(".")[2] for g in (expected, found))
            if a != b:
                return report(f"{fact} of gradient of {key}", b, a)
        if unlike(y, x, 64 * eps * scale) and not faulty:
            return report(f"gradient of {key}", y.tolist(), x.tolist())
    return None


# What PyTorch refuses and gradloom computes: the start of the statement, and words of PyTorch's error.
COMPUTED = (
    ("", "does not support automatic differentiation for outputs with complex dtype"),
    ("", "not implemented for 'ComplexHalf'"),
    ("", "some elements of the input tensor and the written-to tensor refer to a single memory location"),
    ("", "INTERNAL ASSERT FAILED"),
    ("", "Autograd not support dtype"),
    ("L.kron", "view size is not compatible"),
    ("L.isin", "view size is not compatible"),
    ("backward", "can't be cast to the desired output type"),
    ("backward", "input_is_complex == grad_is_complex"),
    ("backward", "doesn't match the broadcast shape"),
    ("backward", "value cannot be converted to type"),
    ("backward", "modified by an inplace operation"),  # of a tensor that the requested gradients do not need
)
DTYPE = re.compile("not implemented for|can't be cast|same dtype|expected scalar type|dtypes match")
SINGLE = (torch.float32, torch.complex64)  # formulas may compute in them
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
FAULTY = re.compile(r"L\.ldexp|pow\(t[\d_]+, False\)|\*\* False")  # calls with wrong gradients in PyTorch
SINCE_2_15 = (TypeError, NotImplementedError)  # for dtypes that an operator does not take, RuntimeError before
ERRORS = (RuntimeError, IndexError)  # of which a call with several mistakes may raise either


def same_error(text: str, found: Any, expected: Any, operands: Sequence[Any] = ()) -> bool:
    """Whether outcomes, of which one at least is an error, agree but for what docs/differences.md lists."""
    if isinstance(found, Exception) and isinstance(expected, Exception):
        if pytorch_before("2.15") and type(expected) is RuntimeError and isinstance(found, SINCE_2_15):
            return True
        return type(found) is type(expected) or isinstance(found, ERRORS) and isinstance(expected, ERRORS)
    if "no_grad mode" in str(found) and operands[0].dtype in INTEGERS:
        return True  # integers have no gradients, and PyTorch's copy_ does not check them
    if isinstance(found, RuntimeError):  # a dtype, which PyTorch does not look at where there are no elements
        return DTYPE.search(str(found)) is not None and any(not t.numel() for t in operands)
    return any(text.startswith(start) and words in str(expected) for start, words in COMPUTED)


def listed(a: dict[str, Any], b: dict[str, Any], operands: Sequence[Any]) -> bool:
    """Whether docs/differences.md lists what differs in facts about a tensor: the strides of tensors without elements,
    of dimensions of size 1, and of results of operands with different layouts; that integers require grad; the dtype of
    results of complex numbers and float16."""
    differing = {fact for fact in a if a[fact] != b[fact]}
    if "dtype" in differing and any(t.is_complex() for t in operands):
        return any(t.dtype == torch.float16 for t in operands)
    if differing <= {"requires_grad", "node"}:
        return a["dtype"].startswith(("int", "uint", "bool"))
    if not differing <= {"strides", "offset"}:
        return False
    if 0 in a["shape"] or all(n == 1 or m == k for n, m, k in zip(a["shape"], a["strides"], b["strides"], strict=True)):
        return True
    return len(operands) > 1 and a["offset"] == b["offset"] and not all(t.is_contiguous() for t in operands)


# Calls that read and write, or sort, memory in an order of PyTorch's own.
IN_ORDER = re.compile(r"median|kthvalue|mode|index_put_|addmm_|masked_scatter_")
WRITE = re.compile(r"t[\d_]+\.(?:detach\(\)\.|data\.|real\.|diagonal\(\)\.|conj\(\)\.)?\w+[^_]_\(")


def undefined(tensors: dict[str, Any], text: str) -> bool:
    """Whether the values that a call gives depend on the order in which it reads and writes shared memory."""
    call, _, out = text.partition("out=")
    names = NAME.findall(call)
    if IN_ORDER.search(call) and any(0 in tensors[n].stride() for n in names):
        return True
    if out:
        written, read = out[:-1], names
    elif WRITE.match(call):
        written, *read = names
        read = [n for n in read if n != written or IN_ORDER.search(call)]
    else:
        return False
    return memory(tensors[written]) in [memory(tensors[n]) for n in read]


def memory(t: Any) -> int:
    return t.untyped_storage().data_ptr()


def same_parts(found: Any, expected: Any) -> bool:
    """Whether results that are no tensors are equal; dtypes have their names, tensors those of the program."""
    if len(found) != len(expected):
        return False
    for a, b in zip(found, expected, strict=True):
        if str(type(b)) == "<class 'torch.dtype'>":
            a, b = str(a).rpartition(".")[2], str(b).rpartition(".")[2]
        if type(a) is not type(b):
            return False
        if a != b and str(a) != str(b) and not (isinstance(a, (float, complex)) and abs(a - b) <= 1e-6 * abs(b)):
            return False
    return True


def equalize(ours: Any, values: np.ndarray) -> None:
    """Write PyTorch's values to gradloom's tensor, if its memory can be written to."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours.data.copy_(gradloom.from_numpy(values))
    except RuntimeError:
        pass


@settings(
    max_examples=PROGRAMS, deadline=None, database=None, derandomize="GRADLOOM_PROGRAMS" not in os.environ,
    suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate, Phase.shrink),
)  # fmt: skip
@given(PROGRAM)
def test_random_programs(program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = difference(*program)
    assert found is None, found


def main(count: int, seed: int) -> None:
    """Run programs of a seed, of the lengths that hypothesis may draw, and print all that differ."""
    warnings.simplefilter("ignore")
    draw, differing = random.Random(seed), 0
    for number in range(count):
        inputs = [[draw.randrange(5040) for _ in range(4)] for _ in range(draw.randint(2, 4))]
        statements = [
            (draw.choice(WEIGHTED), [draw.randrange(5040) for _ in range(8)]) for _ in range(draw.randint(1, 8))
        ]
        found = difference(inputs, statements)
        if found is not None:
            differing += 1
            print(f"program {number}:\n{found}\n", flush=True)
    print(f"{differing} of {count} programs differ")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
