"""Backward graphs of expressions against PyTorch's: every node, edge, saved field and piece of metadata."""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch")
import gradloom  # noqa: E402

EXPRESSIONS = """
3 * a**3 - b**2
a**3 - b**2
3 * a**3
sin(x * a + b)
addcmul(x, a, b)
addcmul(x, a, b, value=2.5)
addcdiv(x, a, b, value=2)
x + 1
x - 1
1 - x
rsub(x, b, alpha=2)
x / 2
2 / x
x / b
x // 2
x % 2
2 % x
x % b
2 ** x
x ** b
x ** 0.5
-x
+x
abs(x)
~(x > 0)
add(x, b, alpha=3)
sub(x, b, alpha=3)
subtract(x, b)
multiply(x, 2)
divide(x, b, rounding_mode='floor')
div(x, 2, rounding_mode='trunc')
div(x, b, rounding_mode=None)
true_divide(x, b)
fmod(x, 2)
fmod(x, b)
remainder(x, b)
float_power(x, 2)
square(x)
absolute(x)
clamp(x, 0, 1)
clamp(x, min=0)
clamp(x, b, b + 1)
clip(x, max=0.5)
clamp_min(x, 0)
clamp_min(x, b)
clamp_max(x, 0)
clamp_max(x, b)
lerp(x, b, 0.5)
lerp(x, b, a)
xlogy(x, b)
xlogy(2, b)
xlogy(x, 2)
where(x > 0, x, b)
where(x > 0, x, 0)
where(x > 0, 0.0, x)
round(x)
round(x, decimals=2)
copysign(x, b)
copysign(x, 2)
ldexp(x, b)
maximum(x, b)
fmax(x, b)
max(x, b)
min(x, b)
hypot(x, b)
atan2(x, b)
logaddexp(x, b)
logaddexp2(x, b)
heaviside(x, b)
floor_divide(x, b)
nextafter(x, b)
polygamma(1, x)
mvlgamma(x + 5, 2)
nan_to_num(x)
logit(x)
logit(x, 0.1)
frexp(x)[0]
fill(x, 1)
complex(x, b)
angle(x)
real(x)
real(complex(x, b))
imag(complex(x, b))
conj(complex(x, b))
conj_physical(complex(x, b))
view_as_real(complex(x, b))
complex(x, b) * x
abs(complex(x, b))
sgn(complex(x, b))
exp(complex(x, b))
x.clone().add_(b)
x.clone().mul_(2)
x.clone().div_(b)
x.clone().pow_(2)
x.clone().pow_(b)
x.clone().exp_()
x.clone().sin_()
x.clone().clamp_(0, 1)
x.clone().remainder_(2)
x.clone().fill_(2)
x.clone().zero_()
x.clone().abs_()
""".strip().splitlines()
UNARY = """
sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt
reciprocal neg abs sgn sign floor ceil trunc round frac erf erfc erfinv lgamma digamma sigmoid sinc deg2rad
rad2deg positive
""".split()


NAMES = {*UNARY, *(name for e in EXPRESSIONS for name in re.findall(r"(?<![.\w])[a-z]\w*(?=\()", e))} - {"abs"}
# PyTorch's saves its inputs because its formulas call functions of the same names; no formula uses them.
SAVES_NEEDLESSLY = {"ComplexBackward0"}


def evaluate(library, expression):
    """The expression on three leaves of which the first is x."""
    x = library.tensor([0.5, 0.75, 0.25], requires_grad=True)
    a = library.tensor([2.0, 0.5, 3.0], requires_grad=True)
    b = library.tensor([0.5, 1.25, 6.0], requires_grad=True)
    scope = {name: getattr(library, name) for name in NAMES if hasattr(library, name)}
    return eval(expression, {**scope, "x": x, "a": a, "b": b})


def value(found):
    """Something saved, as plain data."""
    if hasattr(found, "tolist"):
        return str(found.dtype), found.tolist(), found.requires_grad
    return [value(f) for f in found] if isinstance(found, (tuple, list)) else found


def describe(node):
    """A node with everything that can be seen of it, and its next functions."""
    if node is None:
        return None
    shown = [] if type(node).__name__ in SAVES_NEEDLESSLY else dir(node)
    saved = {name: value(getattr(node, name)) for name in shown if name.startswith("_saved_")}
    metadata = [(list(m.shape), str(m.dtype), str(m.device)) for m in node._input_metadata]
    raw = sorted(name for name in shown if name.startswith("_raw_saved_"))
    return (
        type(node).__name__,
        node.name(),
        rounded(saved),
        raw,
        metadata,
        [(describe(n), nr) for n, nr in node.next_functions],
    )


def rounded(saved):
    """The last bits of a saved result may differ."""
    if isinstance(saved, dict):
        return {name: rounded(item) for name, item in saved.items()}
    if isinstance(saved, (list, tuple)):
        return [rounded(item) for item in saved]
    if isinstance(saved, complex):
        return [rounded(saved.real), rounded(saved.imag)]
    return float(f"{saved:.4g}") if isinstance(saved, float) else saved


@pytest.mark.parametrize("expression", EXPRESSIONS + [f"{name}(x)" for name in UNARY])
def test_graphs_are_alike(expression):
    theirs, ours = evaluate(torch, expression), evaluate(gradloom, expression)
    assert ours.requires_grad == theirs.requires_grad
    assert ours.output_nr == theirs.output_nr
    assert describe(ours.grad_fn) == describe(theirs.grad_fn)
