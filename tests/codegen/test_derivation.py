"""Operators in two lines: derivatives that follow from `scalar:`, and the file in which they are kept."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

import gradloom
from gradloom.autograd import gradcheck, gradgradcheck
from gradloom.codegen.derivatives import derived
from gradloom.codegen.errors import SpecError
from gradloom.ops import define
from gradloom.tools.cli import main

mpmath = pytest.importorskip("mpmath")
pytest.importorskip("sympy")

EVERYWHERE = (0.0, 1e-300, 1e-12, 0.3, -0.7, 1.0, -1.0, 2.5, -2.5, 20.0, -20.0, 800.0, -800.0, 1e160, -1e160)
POSITIVE = (1e-300, 1e-12, 0.3, 1.0, 2.5, 800.0, 1e160)
INSIDE = (1e-300, 1e-12, 0.3, -0.7, 0.999)


def _sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


def _gelu(x):
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2 if abs(x) < 1e6 else max(x, mpmath.mpf(0))


# Definitions, the same for mpmath, and the points: the derivative is an ordinary number at all of them.
DEFINITIONS = [
    ("self / (1 + exp(-1.5 * self))", lambda x: x * _sigmoid(1.5 * x), EVERYWHERE),
    ("tanh(self)", mpmath.tanh, EVERYWHERE),
    ("log(1 + exp(self))", lambda x: mpmath.log(1 + mpmath.exp(x)), EVERYWHERE),
    ("1 / (1 + exp(-self))", _sigmoid, EVERYWHERE),
    ("self * tanh(log(1 + exp(self)))", lambda x: x * mpmath.tanh(mpmath.log(1 + mpmath.exp(x))), EVERYWHERE),
    ("0.5 * self * (1 + erf(self / sqrt(2)))", _gelu, EVERYWHERE),
    ("1 / cosh(self)", mpmath.sech, EVERYWHERE),
    ("log(cosh(self))", lambda x: mpmath.log(mpmath.cosh(x)), EVERYWHERE),
    ("self / (1 + abs(self))", lambda x: x / (1 + abs(x)), EVERYWHERE),
    ("sqrt(1 + self ** 2)", lambda x: mpmath.sqrt(1 + x * x), EVERYWHERE),
    ("exp(-self ** 2)", lambda x: mpmath.exp(-x * x), EVERYWHERE),
    ("arctan(self)", mpmath.atan, EVERYWHERE),
    ("arcsin(self)", mpmath.asin, INSIDE),
    ("log(self / (1 - self))", lambda x: mpmath.log(x / (1 - x)), (1e-100, 1e-12, 0.3, 0.999)),
    ("lgamma(self)", mpmath.loggamma, (1e-12, 0.3, 1.0, 2.5, 800.0)),
    ("sqrt(self)", mpmath.sqrt, POSITIVE),
    ("where(self == 0, 1, expm1(self) / self)", lambda x: mpmath.expm1(x) / x, (1e-12, 1e-9, 0.3, -0.71, 2.5, 20.0)),
    ("where(self > 19, self, log1p(exp(self)))", lambda x: mpmath.log1p(mpmath.exp(x)) if x <= 19 else x, EVERYWHERE),
]


def _exact_slope(function, x):
    digits = 60 if function is mpmath.loggamma else 1100
    with mpmath.workdps(digits):
        at, h = mpmath.mpf(x), mpmath.mpf(10) ** (-digits // 2)
        return float((function(at + h) - function(at - h)) / (2 * h))


@pytest.fixture(scope="module")
def defined():
    """The operators `f0`, `f1` ... of DEFINITIONS."""
    entries = [f"- func: f{n}(Tensor self) -> Tensor\n  scalar: {text}\n" for n, (text, *_) in enumerate(DEFINITIONS)]
    with define("".join(entries), namespace="derived"):
        yield gradloom.ops.derived


@pytest.mark.parametrize("number", range(len(DEFINITIONS)), ids=[text for text, *_ in DEFINITIONS])
def test_derivatives_are_right_at_ordinary_numbers_and_at_extremes(defined, number):
    _, function, points = DEFINITIONS[number]
    operator = getattr(defined, f"f{number}")
    x = gradloom.tensor(points, dtype=gradloom.float64, requires_grad=True)
    (found,) = gradloom.autograd.grad(operator(x).sum(), x, create_graph=True)
    exact = gradloom.tensor([_exact_slope(function, p) for p in points], dtype=gradloom.float64)
    gradloom.testing.assert_close(found, exact, rtol=1e-9, atol=1e-307)
    _, tangent = gradloom.func.jvp(operator, (x.detach(),), (gradloom.ones_like(x),))
    gradloom.testing.assert_close(tangent, exact, rtol=1e-9, atol=1e-307)
    assert not gradloom.autograd.grad(found.sum(), x)[0].isnan().any()


def test_two_lines_make_an_operator():
    entry = """
    - func: swoosh(Tensor self, float beta=1.5) -> Tensor
      scalar: self / (1 + exp(-beta * self))
    """
    with define(entry, namespace="two_lines") as made:
        swoosh = gradloom.ops.two_lines.swoosh
        x = gradloom.randn(2, 3, dtype=gradloom.float64, requires_grad=True)
        assert gradcheck(swoosh, (x, 0.7), check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(swoosh, (x, 0.7), check_fwd_over_rev=True)
        assert gradcheck(swoosh, (x.detach().to(gradloom.complex128).requires_grad_(),), check_forward_ad=True)
        gradloom.testing.assert_close(gradloom.vmap(swoosh)(x), swoosh(x))
        assert "sigmoid(-beta * self)" in made.sources["derived.yaml"]
        assert "  chosen: self within 1e-1" in made.sources["derived.yaml"]
        assert "SwooshBackward0, derived from the definition." in gradloom.ops.two_lines.swoosh.__doc__
        assert "the best of" in str(gradloom.explain("two_lines::swoosh"))


ENTRIES = """
- func: blend(Tensor self, Tensor other, *, float w=0.25) -> Tensor
  variants: function, method
  autogen: blend_, blend.out
  scalar: w * maximum(self, other) + (1 - w) * sqrt(self ** 2 + other ** 2)
- func: cut(Tensor self, float? low=None) -> Tensor
  scalar: self if low is None else maximum(self, low)
- func: entropy(Tensor self) -> Tensor
  scalar: where(self > 0, -self * log(self), where(self == 0, 0, -inf))
- func: bent(Tensor self) -> Tensor
  scalar: self * minimum(maximum(self + 3, 0), 6) / 6
- func: stair(Tensor self) -> Tensor
  scalar: floor(self) + self % 2
"""


@pytest.fixture(scope="module")
def several():
    with define(ENTRIES, namespace="several") as made:
        yield gradloom.ops.several, made


def test_variants_broadcasting_and_forward_mode_follow_as_for_every_operator(several):
    blend = several[0].blend
    x = gradloom.randn(3, 1, dtype=gradloom.float64, requires_grad=True)
    y = gradloom.randn(4, dtype=gradloom.float64, requires_grad=True)
    assert gradcheck(blend, (x, y), check_forward_ad=True) and gradgradcheck(blend, (x, y), check_fwd_over_rev=True)
    gradloom.testing.assert_close((x * 1.0).expand(3, 4).clone().blend_(y), blend(x, y))
    out = gradloom.empty(3, 4, dtype=gradloom.float64)
    assert blend(x.detach(), y.detach(), out=out) is out


def test_ties_and_bounds_follow_the_conventions(several):
    x = gradloom.tensor([1.0], requires_grad=True)
    ops = several[0]
    (slope,) = gradloom.autograd.grad(ops.blend(x, gradloom.ones(1), w=1.0), x)
    assert slope.item() == 0.5  # two equal tensors share it
    assert gradloom.autograd.grad(ops.cut(x, 1.0), x)[0].item() == 0.0  # a bound gets none
    assert gradloom.autograd.grad(ops.cut(x), x)[0].item() == 1.0
    assert gradloom.autograd.grad(ops.stair(x * 1.5), x)[0].item() == 1.5


def test_a_tensor_may_be_missing():
    definition = "sin(self) if weight is None else self * weight"
    entry = f"- func: f(Tensor self, Tensor? weight=None) -> Tensor\n  scalar: {definition}\n"
    with define(entry, namespace="optional"):
        x, w = (gradloom.randn(3, dtype=gradloom.float64, requires_grad=True) for _ in "xw")
        assert gradcheck(gradloom.ops.optional.f, (x, w), check_forward_ad=True)
        assert gradcheck(gradloom.ops.optional.f, (x,), check_forward_ad=True)


def test_what_a_choice_leaves_out_does_no_harm_when_it_is_differentiated(several):
    x = gradloom.tensor([-800.0, 0.0, 0.5], dtype=gradloom.float64, requires_grad=True)
    (first,) = gradloom.autograd.grad(several[0].entropy(x).sum(), x, create_graph=True)
    (second,) = gradloom.autograd.grad(first.sum(), x)
    assert second.tolist() == [0.0, 0.0, -2.0]
    assert gradloom.autograd.grad(several[0].bent(x).sum(), x)[0].tolist() == [0.0, 0.5, 0.5 + 0.5 / 3]


def test_a_definition_of_real_numbers_has_no_complex_derivative():
    x = gradloom.tensor([1 + 2j], requires_grad=True)
    entry = "- func: f(Tensor self) -> Tensor\n  scalar: self * abs(self)\n"
    with define(entry, namespace="real"), pytest.raises(NotImplementedError, match="a definition of real numbers"):
        gradloom.ops.real.f(x).abs().sum().backward()


def test_a_function_that_only_real_numbers_have_is_not_used_for_complex_ones():
    x = gradloom.tensor([0.3 + 0.2j, 1 - 1j], dtype=gradloom.complex128, requires_grad=True)
    with define("- func: root(Tensor self) -> Tensor\n  scalar: sqrt(1 + self ** 2)\n", namespace="root") as made:
        assert "hypot" in made.sources["derived.yaml"]
        assert gradcheck(gradloom.ops.root.root, (x,), check_forward_ad=True)


@pytest.mark.parametrize(
    ("definition", "column", "message", "hint"),
    [
        ("self + conj(self)", 18, "`conj` is of complex numbers", "a definition of real numbers"),
        ("self + nextafter(self, 1.0)", 18, "`nextafter` has no derivative rule", "derivatives.yaml"),
        ("self * (self > 2)", 19, "a condition as a number", "where(condition, 1, 0)"),
    ],
)
def test_a_definition_without_a_rule_is_an_error_at_its_place(definition, column, message, hint):
    with pytest.raises(SpecError) as found:
        define(f"- func: f(Tensor self) -> Tensor\n  scalar: {definition}\n", namespace="wrong")
    assert (found.value.line, found.value.col) == (2, column)
    assert message in found.value.message and hint in found.value.hint
    assert not hasattr(gradloom.ops, "wrong") or not hasattr(gradloom.ops.wrong, "f")


def test_an_operator_may_have_no_derivative():
    entry = "- func: f(Tensor self) -> Tensor\n  scalar: {}\n"
    x = gradloom.ones(2, requires_grad=True)
    with define(entry.format("exp(self)\n  differentiable: false"), namespace="none"):
        with pytest.raises(RuntimeError, match="derivative for .*::f is not implemented"):
            gradloom.ops.none.f(x).sum().backward()
    with define(entry.format("(self > 0) & (self < 1)"), namespace="none") as made:
        assert "derived.yaml" not in made.sources
    with pytest.raises(SpecError, match="`differentiable` has no meaning"):
        define("- func: f(Tensor self) -> Tensor\n  kernel: self + 1\n  differentiable: false\n", namespace="none")


# --- rows -------------------------------------------------------------------------------------------------------------

ROWS = """
- func: rms(Tensor self, int dim, float eps=1e-6) -> Tensor
  over: dim
  scalar: self / sqrt(sum(self * self) / count + eps)
- func: soft(Tensor self, int dim) -> Tensor
  over: dim
  where:
    largest: max(self)
    total: sum(exp(self - largest))
  scalar: exp(self - largest) / total
- func: spread(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor
  over: dim
  where:
    mean: sum(self) / count
  scalar: sqrt(sum((self - mean) ** 2) / (count - 1))
- func: product(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
  over: dim
  scalar: prod(self)
- func: cosine(Tensor self, Tensor other, int dim=-1) -> Tensor
  over: dim
  scalar: sum(self * other) / sqrt(sum(self * self) * sum(other * other))
- func: pinball(Tensor self, Tensor target, float q=0.9, int reduction=Mean) -> Tensor
  over: all
  where:
    off: target - self
    loss: maximum(q * off, (q - 1) * off)
  scalar: loss if reduction == 0 else sum(loss) if reduction == 2 else sum(loss) / count
- func: normed(Tensor self, int[] shape, Tensor? weight=None) -> (Tensor result, Tensor mean)
  over: last(shape)
  where:
    average: sum(self) / count
    variance: sum((self - average) ** 2) / count
  scalar: (self - average) / sqrt(variance + 1e-5) * (1 if weight is None else weight), average
- func: range_of(Tensor self, int dim) -> Tensor
  over: dim
  scalar: max(abs(self)) - min(self)
"""


@pytest.fixture(scope="module")
def rows():
    with define(ROWS, namespace="of_rows") as made:
        yield gradloom.ops.of_rows, made.sources["derived.yaml"]


def _is_differentiable(function, *inputs):
    return gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True) and gradgradcheck(
        function, inputs, check_fwd_over_rev=True
    )


def test_definitions_of_rows_get_kernels_and_derivatives_in_all_modes(rows):
    ops, nn = rows[0], gradloom.nn.functional
    draw = gradloom.Generator().manual_seed(0)
    x, y, w = (
        gradloom.randn(*shape, dtype=gradloom.float64, generator=draw).requires_grad_()
        for shape in ((2, 3, 4), (3, 4), (4,))
    )
    close = gradloom.testing.assert_close
    close(ops.soft(x, 1), x.softmax(1))
    assert _is_differentiable(lambda x: ops.soft(x, -1), x) and _is_differentiable(lambda x: ops.rms(x, 1), x)
    for dim in (None, (1,), (0, 2), ()):
        for keepdim in (False, True):
            close(ops.spread(x, dim, keepdim), x.std(dim, keepdim=keepdim))
        assert _is_differentiable(lambda x: ops.spread(x, dim), x)  # noqa: B023
    close(ops.product(x, (0, 2)), x.prod(0).prod(1))
    assert _is_differentiable(lambda x: ops.product(x, (0, 2), True), x)
    close(ops.cosine(x, y), nn.cosine_similarity(x, y, -1))
    assert _is_differentiable(ops.cosine, x, y)
    for reduction in range(3):
        assert _is_differentiable(lambda x, y: ops.pinball(x, y, 0.8, reduction), x, y)  # noqa: B023
    close(ops.normed(x, (4,), w)[0], nn.layer_norm(x, (4,), w))
    assert _is_differentiable(lambda x, w: ops.normed(x, (4,), w), x, w)
    assert _is_differentiable(lambda x: ops.normed(x, (3, 4))[0], x)
    assert _is_differentiable(lambda x: ops.range_of(x, 1), x)
    close(gradloom.vmap(lambda v: ops.soft(v, 0))(x), x.softmax(1))


def test_modes_of_rows_may_be_infinite():
    scalar = "max(abs(self)) if p == inf else sum(abs(self) ** p)"
    entry = f"- func: f(Tensor self, float p, int dim) -> Tensor\n  over: dim\n  scalar: {scalar}\n"
    x = gradloom.tensor([[1.0, -3.0]], dtype=gradloom.float64, requires_grad=True)
    with define(entry, namespace="modes"):
        f = gradloom.ops.modes.f
        assert gradloom.autograd.grad(f(x, float("inf"), 1).sum(), x)[0].tolist() == [[0.0, -1.0]]
        assert gradcheck(lambda x: f(x, 3.0, 1), (x,), check_forward_ad=True)


def test_rows_are_those_of_the_common_shape():
    scalar = "self - sum(other) * sum(self)"
    entry = f"- func: f(Tensor self, Tensor other, int dim) -> Tensor\n  over: dim\n  scalar: {scalar}\n"
    x, y = (gradloom.ones(3, n, dtype=gradloom.float64, requires_grad=True) for n in (1, 4))
    with define(entry, namespace="common"):
        f = gradloom.ops.common.f
        assert f(x, y, 1).tolist() == [[1.0 - 4.0 * 4.0] * 4] * 3
        assert gradcheck(lambda x, y: f(x, y, 1), (x, y), check_forward_ad=True)


def test_a_wrong_derivation_of_rows_is_found(monkeypatch):
    from gradloom.codegen.derivation import rows as of_rows

    right = of_rows.Smooth.gradient

    def wrong(self, tensor, inside):
        program = right(self, tensor, inside)
        return dataclasses.replace(program, value=2 * program.value)

    monkeypatch.setattr(of_rows.Smooth, "gradient", wrong)
    entry = "- func: f(Tensor self, int dim) -> Tensor\n  over: dim\n  scalar: exp(self) / sum(exp(self))\n"
    with pytest.raises(SpecError, match="differs from difference quotients"):
        define(entry, namespace="wrong")


def test_formulas_of_rows_reuse_the_result_and_leave_out_what_does_not_matter(rows):
    texts = dict(
        line.strip().split(": ", 1) for line in rows[1].split("- name: soft(")[1].split("\n\n")[0].splitlines()[1:]
    )
    assert texts["self"] == "of_real_numbers(result * (grad - sum(grad * result, dim, True)), self.dtype)"


def test_rows_of_equal_and_of_large_numbers_have_the_right_derivative(rows):
    ops = rows[0]
    x = gradloom.tensor([[800.0, 799.0, -800.0], [-800.0, -800.0, -801.0]], dtype=gradloom.float64, requires_grad=True)
    (found,) = gradloom.autograd.grad(ops.soft(x, 1)[:, 0].sum(), x)
    with mpmath.workdps(60):
        for at, row in enumerate(x.tolist()):
            parts = [mpmath.exp(v) for v in row]
            p = [v / sum(parts) for v in parts]
            exact = [float(p[0] * ((k == 0) - p[k])) for k in range(3)]
            gradloom.testing.assert_close(found[at], gradloom.tensor(exact, dtype=gradloom.float64), rtol=1e-12, atol=0)
    ties = gradloom.tensor([[2.0, -2.0, 0.0]], requires_grad=True)
    (shared,) = gradloom.autograd.grad(ops.range_of(ties, 1).sum(), ties)
    assert shared.tolist() == [[0.5, -0.5 - 1.0, 0.0]]  # evenly, as amax


def test_rows_of_other_dtypes_and_without_elements(rows):
    ops = rows[0]
    assert ops.product(gradloom.arange(1, 5), (0,)).dtype == gradloom.int64
    half = gradloom.full((3000,), 1.0, dtype=gradloom.float16)
    assert ops.rms(half, 0).dtype == gradloom.float16
    with pytest.raises(RuntimeError, match="a row without elements"):
        ops.range_of(gradloom.zeros(2, 0), 1)
    assert ops.range_of(gradloom.zeros(0, 2), 1).shape == (0,)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("f(Tensor self, int dim) -> Tensor\n  over: dim\n  scalar: sum(self * index)", "`index` in a row"),
        ("f(Tensor self, Tensor at) -> Tensor\n  over: all\n  scalar: sum(self[at])", "`self[at]` in a row"),
        ("f(Tensor self) -> Tensor\n  over: channels(self)\n  scalar: self - sum(self)", "`over: channels(self)`"),
    ],
)
def test_rows_without_a_rule_are_an_error_at_their_place(entry, message):
    with pytest.raises(SpecError) as found:
        define(f"- func: {entry}\n  kernel: self + 1\n", namespace="wrong")
    assert found.value.line == 3 and message in found.value.message and "derivatives.yaml" in found.value.hint


# --- what is kept ---------------------------------------------------------------------------------------------------


def test_what_is_kept_needs_no_sympy_and_is_used_as_long_as_it_fits(several, monkeypatch):
    kept, target = several[1].sources["derived.yaml"], several[1].specification.target
    functions = several[1].specification.functions
    monkeypatch.setitem(sys.modules, "sympy", None)
    entries, text = derived.complete(functions, (), kept, target)
    assert len(entries) == 5 and text == kept and derived.is_up_to_date(functions, (), kept)
    other = kept.replace("definition: floor(self) + self % 2", "definition: floor(self)")
    assert not derived.is_up_to_date(functions, (), other)
    for stale in (other, kept[: len(kept) // 2], "- nothing", "{"):
        with pytest.raises(SpecError, match="SymPy, which derives it, is not installed") as found:
            derived.complete(functions, (), stale, target)
        assert "gradloom[derive]" in found.value.hint


def test_a_definition_gets_the_same_formulas_in_every_process(several):
    program = (
        f"from gradloom.ops import define\nprint(define({ENTRIES!r}, namespace='several').sources['derived.yaml'])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert run.stdout == several[1].sources["derived.yaml"] + "\n"


def test_propose_prints_an_entry(capsys):
    assert main(["propose", "softplus"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("# self where ") and "largest error" in line for line in lines)
    assert "- name: softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor" in lines
    assert main(["propose", "matmul"]) == 2 and "has no definition" in capsys.readouterr().err
    assert main(["propose", "softplsu"]) == 2 and "did you mean `softplus`" in capsys.readouterr().err
