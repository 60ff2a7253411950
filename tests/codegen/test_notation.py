"""Derivatives in mathematical notation: that all of them can be written, that the common ones read well, and that what
is written is true. The last is shown by evaluating the expressions beside the operators."""

from __future__ import annotations

import ast
import operator
import re
import xml.dom.minidom
from functools import cache
from pathlib import Path

import pytest

import gradloom
from gradloom.codegen.derivatives import derivatives
from gradloom.codegen.notation import equations as notations
from gradloom.codegen.notation.equations import Notation, symbols
from gradloom.codegen.notation.expressions import Expr, value_of
from gradloom.codegen.notation.read import Reader, table
from gradloom.codegen.operators import native_functions
from gradloom.dispatch import _operators as ops
from gradloom.formulas import elementwise

ROOT = Path(__file__).parents[2]


@cache
def loaded():
    functions = native_functions.load(ROOT / "native_functions.yaml")
    return derivatives.load(ROOT / "derivatives.yaml", functions)


@cache
def notation():
    return Notation(ROOT / "src" / "gradloom" / "formulas")


def texts(name):
    e = notation().of(loaded()[name])
    return [q.text for q in (*([e.value] if e.value else []), *e.backward, *e.forward)]


def read(text, **names):
    return Reader({n: Expr("symbol", name=n) for n in "xyzg"} | names, notation().helpers).read(
        ast.parse(text, mode="eval").body
    )


def text_of(text, **names):
    return notations.text(read(text, **names))


def latex_of(text, **names):
    return notations.latex(read(text, **names))


# --- all of them ------------------------------------------------------------------------------------------------------


def test_every_formula_of_every_operator_can_be_written():
    count = 0
    for function in loaded():
        if function.info is None:
            continue
        equations = notation().of(function)
        info = function.info
        assert {n for e in equations.backward for n in e.of} == {n for d in info.derivatives for n in d.inputs}
        assert {n for e in equations.forward for n in e.of} == {n for f in info.forward for n in f.outputs}
        for equation in (*equations.backward, *equations.forward):
            count += 1
            assert_is_latex(equation.latex)
            assert "\\" not in equation.text and equation.text.count("(") == equation.text.count(")")
    assert count > 1000


def assert_is_latex(text):
    plain = re.sub(r"\\[{}_#%&$]", "", text)
    depth = 0
    for char in plain:
        depth += (char == "{") - (char == "}")
        assert depth >= 0, text
    assert depth == 0, text
    assert plain.count(r"\left") == plain.count(r"\right"), text
    assert plain.count(r"\begin") == plain.count(r"\end"), text
    assert "_" not in re.sub(r"_\{", "", plain).replace(r"\log_2", "").replace("I_0", "").replace("I_1", ""), text
    assert not re.search(r"\^\{[^{}]*\}\^", plain), text  # TeX's "double superscript"


def test_every_dispatch_section_and_copy_variant_can_be_written():
    for info in loaded().infos:
        notation().equations(info)


def test_a_helper_that_stays_a_call_is_described_in_the_words_of_its_docstring():
    remarks = notation().of(loaded()["prod"]).where
    assert ("prod_backward", "reduction") in {(r.name, r.module) for r in remarks}
    assert all(r.text and "\n" not in r.text for r in remarks)


# --- how the common ones read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sin", ["z = sin(x)", "∂L/∂x = g · cos(x)*", "dz = dx · cos(x)"]),
        ("mul.Tensor", ["z = x · y", "∂L/∂x = g · y*", "∂L/∂y = g · x*", "dz = dy · x + dx · y"]),
        ("add.Tensor", ["z = x + y · α", "∂L/∂x = g", "∂L/∂y = g · α*", "dz = dx + dy · α"]),
        ("div.Tensor", ["z = x / y", "∂L/∂x = g / y*", "∂L/∂y = −g · (x / y²)*", "dz = (dx − dy · z) / y"]),
        ("exp", ["z = exp(x)", "∂L/∂x = g · z*", "dz = dx · z"]),
        ("log2", ["z = log₂(x)", "∂L/∂x = g / (ln 2 · x*)", "dz = dx / (ln 2 · x)"]),
        ("sqrt", ["z = √x", "∂L/∂x = g / (2 · z*)", "dz = dx / (2 · z)"]),
        ("tanh", ["z = tanh(x)", "∂L/∂x = g · (1 − z²)*", "dz = dx · (1 − z²)"]),
        ("asin", ["z = asin(x)", "∂L/∂x = g · (1 / √(1 − x²))*", "dz = dx / √(1 − x²)"]),
        (
            "pow.Tensor_Scalar",
            [
                "z = √x if exponent = 0.5, 1 / √x if exponent = −0.5, else x^exponent",
                "∂L/∂x = g · (x^(exponent − 1) · exponent)*",
                "dz = dx · x^(exponent − 1) · exponent",
            ],
        ),
        (
            "addcmul",
            [
                "z = x + value · tensor₁ · tensor₂",
                "∂L/∂x = g",
                "∂L/∂tensor₁ = g · (tensor₂ · value)*",
                "∂L/∂tensor₂ = g · (tensor₁ · value)*",
                "dz = dx + dtensor₁ · tensor₂ · value + dtensor₂ · tensor₁ · value",
            ],
        ),
        ("mm", ["∂L/∂x = g @ mat₂ᴴ", "∂L/∂mat₂ = xᴴ @ g", "dz = dx @ mat₂ + x @ dmat₂"]),
        ("_softmax", ["∂L/∂x = z · (g − Σ_dim (g · z))", "dz = z · (dx − Σ_dim (z · dx))"]),
        ("_log_softmax", ["∂L/∂x = g − exp(z) · Σ_dim g", "dz = dx − Σ_dim (exp(z) · dx)"]),
        (
            "where.self",
            [
                "z = x if condition, else y",
                "∂L/∂x = g if condition, else 0",
                "∂L/∂y = 0 if condition, else g",
                "dz = dx if condition, else dy",
            ],
        ),
        ("relu", ["z = 0 if x < 0, else x", "∂L/∂x = 0 if z ≤ 0, else g", "dz = 0 if z ≤ 0, else dx"]),
        ("amax", ["∂L/∂x = g / (Σ_dim [x = z]) · [x = z]", "dz = Σ_dim ([x = z] / (Σ_dim [x = z]) · dx)"]),
        ("sum.dim_IntList", ["∂L/∂x = expand(g, shape(x))", "dz = Σ_dim dx"]),
        ("mse_loss", ["∂L/∂x = 2 · g · (x − target) / n(x) if reduction = 1, else 2 · g · (x − target)"]),
        (
            "cat",
            [
                "∂L/∂tensors = cat_backward(g, [shape(t) for t in tensors], [dtype(t) for t in tensors], dim)",
                "dz = cat(dtensors, dim)",
            ],
        ),
        ("igamma", ["∂L/∂x = not implemented: igamma: input", "∂L/∂y = g · exp((x − 1) · ln(y) − y − ln Γ(x))"]),
    ],
)
def test_common_operators_read_as_in_a_book(name, expected):
    assert texts(name)[: len(expected)] == expected


def test_latex_of_common_operators():
    def latex(name):
        return [q.latex for q in notation().of(loaded()[name]).backward]

    assert latex("sin") == [r"\frac{\partial L}{\partial x} = g \, \cos(x)^{*}"]
    assert latex("mm")[0] == r"\frac{\partial L}{\partial x} = g \, \mathit{mat}_{2}^{\mathsf{H}}"
    assert latex("sqrt") == [r"\frac{\partial L}{\partial x} = \frac{g}{2 \, z^{*}}"]
    assert latex("relu") == [
        r"\frac{\partial L}{\partial x} = \begin{cases} 0 & \text{if } z \le 0 \\ "
        r"g & \text{otherwise} \end{cases}"
    ]


def test_inputs_of_one_formula_share_an_equation_unless_it_is_a_tuple():
    assert texts("convolution")[0].startswith("(∂L/∂x, ∂L/∂weight, ∂L/∂bias) = convolution_backward(g, x, weight,")
    assert texts("polar")[:2] == [
        "∂L/∂abs = Re(g) · cos(angle) + Im(g) · sin(angle)",
        "∂L/∂angle = abs · (Im(g) · cos(angle) − Re(g) · sin(angle))",
    ]


def test_favourite_signs_give_way_to_arguments_of_that_name():
    info = loaded()["_cdist_forward"].info
    assert "x1" in symbols(info.schema, ["result"])
    assert notation().of(loaded()["mul.Tensor"]).symbols == {"self": "x", "other": "y", "result": "z"}


# --- the rules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("formula", "expected"), [
    ("x * 1", "x"), ("0 * x + y", "y"), ("x * -y", "−x · y"), ("-(-x)", "x"), ("x - -y", "x + y"),
    ("x / y / z", "x / (y · z)"), ("x * (1 / y)", "x / y"), ("x * x", "x²"), ("x ** 1", "x"), ("x ** -2", "x⁻²"),
    ("x ** (y + 1)", "x^(y + 1)"), ("(-x) ** 2", "(−x)²"), ("(x ** y) ** z", "(x^y)^z"), ("x.conj().conj()", "x"),
    ("(x * y.conj()).conj()", "x* · y"), ("(x @ y).mT", "yᵀ @ xᵀ"), ("x.mT.conj()", "xᴴ"), ("x.mH.mT", "x*"),
    ("(x + y) * z", "(x + y) · z"), ("x - (y - z)", "x − (y − z)"), ("x / (y * z)", "x / (y · z)"),
    ("x if y == 1 else x * y", "x · y"), ("0 if y == 0 else x ** y", "0 if y = 0, else x^y"),
    ("x if y > 0 else (x if z > 0 else y)", "x if (y > 0 or z > 0), else y"),
    ("x * (y > 0)", "x · [y > 0]"), ("not x == y", "x ≠ y"), ("x < y < z", "x < y and y < z"),
    ("zeros_like(x) + y", "y"), ("x.to(y.dtype)", "x"), ("abs(x - y) + exp(x)", "|x − y| + exp(x)"),
    ("rsqrt(x) * y", "y / √x"), ("x[0]", "x[0]"), ("x.shape[-2:]", "shape(x)[−2:]"), ("x is None", "x = None"),
    ("None is None", "True"), ("f(x, None)", "f(x)"), ("f(x, key='a')", "f(x, key = a)"), ("5 // 2", "⌊5 / 2⌋"),
    ("x % y", "mod(x, y)"), ("[-n for n in x]", "[−n for n in x]"), ("math.inf * x", "∞ · x"), ("2.0 * x", "2 · x"),
    ("x * 0.5", "0.5 · x"), ("dot(x, y)", "xᵀ @ y"),
])  # fmt: skip
def test_text_is_tidied_as_a_person_would(formula, expected):
    assert text_of(formula) == expected


@pytest.mark.parametrize(("formula", "expected"), [
    ("x / (y + 1)", r"\frac{x}{y + 1}"), ("(x / y) ** 2", r"\left(\frac{x}{y}\right)^{2}"),
    ("sqrt(x + 1)", r"\sqrt{x + 1}"), ("exp(x).conj()", r"(e^{x})^{*}"),
    ("some_name(x)", r"\operatorname{some\_name}(x)"),
    ("x <= y", r"x \le y"), ("alpha * tensor1", r"\alpha \, \mathit{tensor}_{1}"),
    ("x if y > 0 else 0", r"\begin{cases} x & \text{if } y > 0 \\ 0 & \text{otherwise} \end{cases}"),
])  # fmt: skip
def test_latex(formula, expected):
    names = {"alpha": Expr("symbol", name="alpha"), "tensor1": Expr("symbol", name="tensor1")}
    assert latex_of(formula, **names) == expected


# --- whatever a formula says ---------------------------------------------------------------------------------------


OPERATORS = """
- func: foo(Tensor self, Tensor other, Tensor[] tensors, int dim=0, Scalar? weight=None) -> (Tensor, Tensor)
  kernel: self, other
- func: where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
  kernel: xp.where(condition, self, other)
- func: lerp(Tensor self, Tensor end, Scalar weight) -> Tensor
  variants: function, method
  kernel: self + weight * (end - self)
- func: sum(Tensor self, int? dim=None) -> Tensor
  variants: function, method
  kernel: xp.sum(self)
- func: conj(Tensor self) -> Tensor
  variants: function, method
  kernel: xp.conj(self)
"""
HELPERS = {
    "straight": "    y = grad * 2\n    return y + 1",
    "loops": "    for _ in range(3):\n        grad = grad * 2\n    return grad",
    "doubles": "".join(["    grad = grad * grad + grad\n"] * 60) + "    return grad",
    "branches": "".join([f"    if grad > {i}:\n        grad = grad + {i}\n" for i in range(40)]) + "    return grad",
    "itself": "    return itself(grad)",
    "nothing": "    return None",
    "raises": "    raise ValueError(grad)",
    "imports": "    import math\n    return grad * math.pi",
    "unpacks": "    a, b = grad, 2\n    return a * b",
    "unknown": "    return grad @ elsewhere",
    "inner": "    def f(x):\n        return x\n    return f(grad)",
}


def equations_of(tmp_path, formula, forward="auto_linear"):
    """The equations of a small operator with a formula of one's own."""
    package = tmp_path / "src" / "gradloom"
    for room in ("kernels", "composite", "formulas"):
        (package / room).mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(f'def {name}(grad):\n    """What {name} does."""\n{body}\n' for name, body in HELPERS.items())
    (package / "formulas" / "elementwise.py").write_text(text)
    (tmp_path / "native_functions.yaml").write_text(OPERATORS)
    entry = OPERATORS.splitlines()[1].removeprefix("- func: ")
    lines = [f"- name: {entry}", f"  self: '{formula.replace(chr(39), chr(39) * 2)}'"]
    (tmp_path / "derivatives.yaml").write_text("\n".join(lines) + "\n")
    functions = native_functions.load(tmp_path / "native_functions.yaml", package=package)
    found = derivatives.load(tmp_path / "derivatives.yaml", functions, package=package)
    return Notation(package / "formulas").of(found["foo"])


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("grads[0] + grads[1]", "g₀ + g₁"),
        ("straight(grads[0])", "2 · g₀ + 1"),
        ("unpacks(grads[0])", "2 · g₀"),
        ("loops(grads[0])", "loops(g₀)"),
        ("doubles(grads[0])", "doubles(g₀)"),
        ("branches(grads[0])", "branches(g₀)"),
        ("itself(grads[0])", "itself(g₀)"),
        ("nothing(grads[0])", "None"),
        ("raises(grads[0])", "raises(g₀)"),
        ("imports(grads[0])", "imports(g₀)"),
        ("unknown(grads[0])", "unknown(g₀)"),
        ("inner(grads[0])", "inner(g₀)"),
        ("grads[0] << 2", "grads[0] << 2"),
        ("~grads[0]", "not g₀"),
        ("where(self > 0 if dim else self < 0, grads[0], 0)", "g₀ if (x > 0 if dim, else x < 0), else 0"),
        (
            "[t * u for t, u in zip(tensors, tensors)][0] * grads[0]",
            "[t * u for t, u in zip(tensors, tensors)][0] * grads[0]",
        ),
        ("[t for t in tensors if t is not None][0] + grads[0]", "[t for t in tensors if t is not None][0] + grads[0]"),
        ("grads[0] * tensors[dim] ** -len(tensors)", "g₀ · tensors[dim]^(−len(tensors))"),
        ("grads[0] if weight is None else grads[0] * weight.conj()", "g₀ if weight = None, else g₀ · weight*"),
        ("grads[0] * (1, 2)[0] * self.shape[0] ** 0.5", "g₀ · shape(x)[0]^0.5"),
        ("sum(sum(), dim=sum()) * grads[0]", "Σ_sum() sum() · g₀"),
    ],
)
def test_every_formula_of_the_language_is_written_somehow(formula, expected, tmp_path):
    (equation,) = equations_of(tmp_path, formula).backward
    assert equation.text == f"∂L/∂x = {expected}"
    assert_is_latex(equation.latex)
    xml.dom.minidom.parseString(equation.mathml)


def test_formulas_that_grow_when_they_are_written_out_are_not(tmp_path):
    nested = "grads[0]"
    for _ in range(25):
        nested = f"lerp({nested}, self, 2)"
    (equation,) = equations_of(tmp_path, nested).backward
    assert len(equation.text) < 5_000


def test_strings_and_signs_are_escaped(tmp_path):
    (equation,) = equations_of(tmp_path, r"grads[0] << len('a_b%$#&{}~^\\')").backward
    assert_is_latex(equation.latex)


# --- that it is true ---------------------------------------------------------------------------------------------


def evaluate(e: Expr, env):
    """What an expression says, computed with gradloom's operators."""
    go = [evaluate(a, env) for a in e.args] if e.kind != "cases" else None
    match e.kind:
        case "symbol" | "gradient" | "tangent":
            return env[e.name or e.kind if e.kind != "tangent" else f"d{e.args[0].name}"]
        case "number":
            return {"inf": float("inf"), "nan": float("nan"), "pi": 3.141592653589793, "1j": 1j}.get(e.name) or (
                value_of(e)
            )
        case "word":
            return {"True": True, "False": False}.get(e.name, e.name)
        case "undefined":
            return None
        case "sum":
            return sum(go[1:], go[0])
        case "product":
            made = go[0]
            for factor in go[1:]:
                made = made * factor
            return made
        case "quotient":
            return go[0] / go[1]
        case "power":
            return ops.pow(*go) if any(isinstance(p, gradloom.Tensor) for p in go) else go[0] ** go[1]
        case "negative":
            return -go[0]
        case "conj":
            return go[0].conj() if isinstance(go[0], gradloom.Tensor) else go[0].conjugate()
        case "compare":
            return {
                "=": operator.eq,
                "!=": operator.ne,
                "<": operator.lt,
                "<=": operator.le,
                ">": operator.gt,
                ">=": operator.ge,
            }[e.name](*go)
        case "and" | "or":
            made = go[0]
            for part in go[1:]:
                both = isinstance(made, gradloom.Tensor) or isinstance(part, gradloom.Tensor)
                tensors = [p if isinstance(p, gradloom.Tensor) else gradloom.tensor(bool(p)) for p in (made, part)]
                made = (
                    getattr(ops, f"logical_{e.kind}")(*tensors)
                    if both
                    else (made and part if e.kind == "and" else made or part)
                )
            return made
        case "not":
            return ops.logical_not(go[0]) if isinstance(go[0], gradloom.Tensor) else not go[0]
        case "cases":
            return evaluate_cases(e, env)
        case "index":
            return go[0][go[1] if not isinstance(go[1], float) else int(go[1])]
        case "tuple":
            return tuple(go)
        case "call":
            if e.name in ("is_complex", "numel"):
                return getattr(go[0], e.name)()
            go = [int(a) if isinstance(a, float) and a.is_integer() else a for a in go]
            if e.name in NOT_WRITTEN_OUT:
                assert notation().remarks([e.name])
                return getattr(elementwise, e.name)(*go)
            return getattr(ops, e.name)(*go)
    raise AssertionError(e.kind)


# Helpers of formulas that the notation does not write out, and that the tests call instead.
NOT_WRITTEN_OUT = ("atan2_jvp", "pow_backward_exponent", "sinc_backward")


def evaluate_cases(e, env):
    made = evaluate(e.args[-1], env)
    for value, condition in reversed(list(zip(e.args[:-1:2], e.args[1::2], strict=True))):
        test = evaluate(condition, env)
        if not isinstance(test, gradloom.Tensor):
            made = evaluate(value, env) if test else made
        else:
            value = evaluate(value, env)
            value, made = (
                v if isinstance(v, gradloom.Tensor) else gradloom.tensor(v, dtype=gradloom.float64)
                for v in (value, made)
            )
            made = ops.where(test, value, made)
    return made


EVALUATED = [
    "add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "pow.Tensor_Tensor", "addcmul", "addcdiv", "sin", "cos",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2", "expm1", "log",
    "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "neg", "abs", "sgn", "sigmoid", "sinc", "erf", "erfc",
    "erfinv", "lgamma", "digamma", "maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "xlogy.Tensor", "logaddexp",
    "logaddexp2", "lerp.Tensor", "relu", "silu", "hardsigmoid", "deg2rad", "copysign.Tensor",
    "sigmoid_backward", "tanh_backward", "special_entr", "i0", "_softmax", "_log_softmax",
]  # fmt: skip
COMPLEX = {
    "add.Tensor",
    "sub.Tensor",
    "mul.Tensor",
    "div.Tensor",
    "pow.Tensor_Tensor",
    "addcmul",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "exp",
    "log",
    "log10",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sigmoid",
    "abs",
    "lerp.Tensor",
}


@pytest.mark.parametrize(
    ("name", "dtype"), [*((n, "real") for n in EVALUATED), *((n, "complex") for n in sorted(COMPLEX))]
)
def test_the_equations_say_what_the_operator_computes(name, dtype):
    function = loaded()[name]
    equations = notation().of(function)
    gradloom.manual_seed(7)
    names, arguments, signs = [], [], symbols(function.schema, [])
    for a in function.schema.inputs:
        if a.type.is_tensor_like:
            value = gradloom.rand(5, dtype=gradloom.float64) * 0.6 + (1.2 if name == "acosh" else 0.2)
            if dtype == "complex":
                value = gradloom.complex(value, gradloom.rand(5, dtype=gradloom.float64) * 0.5 + 0.1)
            arguments.append(value.requires_grad_())
        else:
            arguments.append({"alpha": 2, "value": 3, "dim": 0, "half_to_float": False}[a.name])
        names.append(signs[a.python_name].name)
    keywords = {a.name: v for a, v in zip(function.schema.inputs, arguments, strict=True) if a.kwarg_only}
    call = getattr(ops, function.schema.name.unambiguous)
    result = call(*[v for a, v in zip(function.schema.inputs, arguments, strict=True) if not a.kwarg_only], **keywords)
    g = gradloom.rand(5, dtype=result.dtype)
    tangent_of = {
        n: gradloom.rand(5, dtype=v.dtype)
        for n, v in zip(names, arguments, strict=True)
        if isinstance(v, gradloom.Tensor)
    }
    env = dict(zip(names, arguments, strict=True)) | {"z": result, "gradient": g}
    env |= {f"d{n}": t for n, t in tangent_of.items()}
    by_name = {a.python_name: v for a, v in zip(function.schema.inputs, arguments, strict=True)}
    if equations.value is not None:
        assert gradloom.allclose(evaluate(equations.value.right, env), result)
    for equation in equations.backward:
        try:
            right = evaluate(equation.right, env)
        except AttributeError:  # a helper that stayed a call
            assert notation().remarks([equation.right.name])
            continue
        for of, value in zip(equation.of, right if isinstance(right, tuple) else (right,), strict=True):
            (expected,) = gradloom.autograd.grad(result, by_name[of], g, retain_graph=True)
            value = value if isinstance(value, gradloom.Tensor) else gradloom.full_like(expected, value)
            assert gradloom.allclose(value, expected), equation.text
    with gradloom.autograd.forward_ad.dual_level():
        make = gradloom.autograd.forward_ad.make_dual
        duals = [
            make(v.detach(), tangent_of[n]) if n in tangent_of else v for n, v in zip(names, arguments, strict=True)
        ]
        dual = call(*[v for a, v in zip(function.schema.inputs, duals, strict=True) if not a.kwarg_only], **keywords)
        expected = gradloom.autograd.forward_ad.unpack_dual(dual).tangent
    for equation in equations.forward:
        assert gradloom.allclose(evaluate(equation.right, env), expected), equation.text


def sample(name):
    gradloom.manual_seed(3)
    return {
        "dim": 0,
        "dtype": gradloom.float64,
        "is_result": False,
        "slope": 0.3,
        "lambd": 0.4,
        "t": 0.5,
        "low": 0.3,
        "high": 0.6,
        "scale": 2.0,
        "w": 0.25,
        "reduction": 1,
        "alpha": 1.5,
        "input_scale": 0.5,
        "beta": 2,
        "threshold": 20,
    }.get(name)


SPECIAL = {"mm": (3, 3), "bmm": (2, 3, 3), "matmul": (3, 3), "t": (3, 2), "transpose": (2, 3, 3)}
VECTORS = {"mv", "outer", "dot", "vdot"}  # which count as columns in what is written
INTERNAL = {
    "sum_backward",
    "mean_backward",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "_restored",
    "conj_number",
    "scaled",
    "_log",
    "_real",
    "size",
    "sizes",
    "sym_size",
    "sym_sizes",
    "sym_strides",
    "sym_numel",
    "scalar_type",
    "of_real_numbers",
    "multiply",
    "subtract",
    "negative",
    "divide",
    "power",
    "to",
    "new_zeros",
    "zeros",
    "ones",
    "full_like",
    "fill_",
    "fill",
    "float",
    "int",
    "bool",
    "zero_",
    "conj_physical_",
    "conjugate",
    "linalg_vector_norm",
    "where",
    "logical_and",
    "logical_or",
    "logical_not",
}


@pytest.mark.parametrize("name", sorted(set(table().rewrites) - INTERNAL - VECTORS))
def test_what_is_written_for_an_operator_is_what_it_computes(name):
    for rewrite in table().rewrites[name]:
        env, args = {}, []
        for number, a in enumerate([*rewrite.arguments, *(v for _, v in rewrite.keywords)]):
            if isinstance(a, ast.Name):
                value = 7.0 if (name, a.id) == ("masked_fill", "value") else sample(a.id)
                if a.id == "keepdim":
                    value = True
                elif value is None or name == "mse_loss_backward" and a.id == "t":
                    value = gradloom.rand(SPECIAL.get(name, (4,)), dtype=gradloom.float64) + 0.1 * number
                    value = value > 0.5 if a.id == "mask" else value
                if a.id == "d":
                    value = gradloom.float64
                env[a.id] = value
            else:
                value = ast.literal_eval(a)
            args.append(value)
        keywords = {k: v for (k, _), v in zip(rewrite.keywords, args[len(rewrite.arguments) :], strict=True)}
        function = getattr(elementwise, name, None) or getattr(ops, name)  # a helper of formulas, or an operator
        expected = function(*args[: len(rewrite.arguments)], **keywords)
        body = Reader({n: Expr("symbol", name=n) for n in env}).read(rewrite.body)
        if has_matrix(body):
            left, right = (e for e in body.args) if body.kind == "matmul" else (body, None)
            found = env[left.args[0].name].mT if right is None else env[left.name] @ env[right.name]
        else:
            found = evaluate(body, env)
        found = found if isinstance(found, gradloom.Tensor) else gradloom.full_like(expected, found)
        found = found.reshape(expected.shape) if name in ("sum", "mean") else found
        assert gradloom.allclose(found.to(gradloom.float64), expected.to(gradloom.float64)), ast.unparse(rewrite.body)


def has_matrix(e):
    return e.kind in ("matmul", "transpose")
