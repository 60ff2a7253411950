"""`gradloom prove`: formulas proved equal to the derivative of the definition, refuted, or open with a reason."""

from __future__ import annotations

import ast
import json
import sys
import zipfile

import pytest

from gradloom.codegen.target import own
from gradloom.ops import define
from gradloom.tools.cli import main

pytest.importorskip("sympy")

from gradloom.tools.prove import certificates
from gradloom.tools.prove.command import proofs
from gradloom.tools.prove.conditions import are_impossible
from gradloom.tools.prove.cplusplus import parsed
from gradloom.tools.prove.proving import OPEN, PROVED, REFUTED, verdicts
from gradloom.tools.prove.reading import OpenError, Reader
from gradloom.tools.upstream import facts


def judged(definition, formula, result="auto_element_wise", arguments="Tensor self"):
    """The verdicts about formulas of an operator with a definition."""
    schema = f"f({arguments}) -> Tensor"
    text = f"- func: {schema}\n  scalar: {definition}\n- name: {schema}\n  self: {formula}\n  result: {result}\n"
    with define(text, namespace="judged") as made:
        specification = made.specification
        source = own().source
        assert source is not None
        from gradloom.tools import kept

        reader = Reader([*specification.functions, *kept.load(own()).functions], [source / "formulas"])
        (function,) = specification.functions
        (info,) = specification.derivatives.entries[function.name].values()
        return list(verdicts(function, info, reader))


@pytest.mark.parametrize(
    ("definition", "formula"),
    [
        ("tanh(self)", "grad * (1 - result * result)"),
        ("tanh(self)", "grad / self.cosh() ** 2"),
        ("self / (1 + exp(-self))", "grad * self.sigmoid() * (1 + self * (1 - self.sigmoid()))"),
        ("log1p(exp(self))", "grad * self.sigmoid()"),
        ("where(self > 0, self, expm1(self))", "where(self > 0, grad, grad * self.exp())"),
        ("where(self > 0, self, expm1(self))", "grad * where(self > 0, 1, result + 1)"),
        ("minimum(maximum(self, 0), 6)", "grad.masked_fill((self <= 0) | (self >= 6), 0)"),
        ("abs(self) * self", "2 * grad * self.abs()"),
        ("sin(self) ** 2", "2 * grad * self.sin() * self.cos()"),
        ("exp2(self)", "grad * result * 0.6931471805599453"),
        ("sqrt(1 + self * self)", "grad * self / result"),
    ],
)
def test_equal_formulas_are_proved(definition, formula):
    (verdict,) = judged(definition, formula)
    assert (verdict.word, verdict.reason) == (PROVED, "")


@pytest.mark.parametrize(
    ("definition", "formula", "where"),
    [
        ("tanh(self)", "grad * (1 - result)", "at self = "),
        ("self / (1 + exp(-self))", "grad * self.sigmoid()", "at self = "),
        ("where(self > 0, self, expm1(self))", "where(self > 0, grad, grad * result)", "at self = -"),
        ("minimum(maximum(self, 0), 6)", "grad.masked_fill(self <= 0, 0)", "at self = "),
        ("abs(self) * self", "2 * grad * self", "at self = -"),
        ("exp2(self)", "grad * result * 0.6931", "where the definition has"),
        ("self * (1 if n == 1 else 2)", "grad if n == 2 else 2 * grad", "at self = "),
        (
            "maximum(self, 2)",
            "where(self == 2, 3 * grad, where(self > 2, grad, 0))",
            "where the slopes around are 0 to 1",
        ),
    ],
)
def test_wrong_formulas_are_refuted_by_a_point(definition, formula, where):
    (verdict,) = judged(definition, formula, arguments="Tensor self, float n=3")
    assert verdict.word == REFUTED and where in verdict.reason


def test_tangents_are_proved_and_refuted_too():
    for sign, word in (("+", PROVED), ("-", REFUTED)):
        result = f"self_t * other_p.exp() {sign} other_t * result\n  other: grad * result"
        found = judged("self * exp(other)", "grad * other.exp()", result, "Tensor self, Tensor other")
        assert [v.word for v in found if v.of == "result"] == [word]
        assert [v.word for v in found if v.of != "result"] == [PROVED, PROVED]


def test_conjugates_count_where_the_definition_has_a_complex_derivative():
    for formula, word in (("grad * self.cos().conj()", PROVED), ("grad.conj() * self.cos().conj()", REFUTED)):
        (verdict,) = judged("sin(self)", formula)
        assert (verdict.word, verdict.field) == (word, "complex")
    (verdict,) = judged("sin(self)", "grad * self.cos()")
    assert (verdict.word, verdict.field) == (PROVED, "real")


def test_a_mask_is_true_or_false_and_ties_are_shared_where_the_entry_says_so():
    arguments = "Tensor self, Tensor mask"
    result = "self_t.masked_fill(mask, 0)"
    assert judged("where(mask, 3, self)", "where(mask, 0, grad)", result, arguments)[0].word == PROVED
    assert judged("where(mask, 3, self)", "grad", result, arguments)[0].word == REFUTED
    shared = "maximum(self, other)\n  kinks: shared"
    tangent = "where(self_p > other_p, self_t, other_t)\n  other: where(other > self, grad, 0)"
    words = {v.of: v.word for v in judged(shared, "where(self > other, grad, 0)", tangent, "Tensor self, Tensor other")}
    assert words == dict.fromkeys(("self", "other", "result"), REFUTED)


def test_a_formula_without_a_value_where_alternatives_meet_is_refuted():
    definition, arguments = "where(self == 0, 0, self * log(other))", "Tensor self, Tensor other"
    result = "self_t\n  other: where((self == 0) & (other == 0), 0, grad * self / other)"
    found = {v.of: v for v in judged(definition, "grad * other.log()", result, arguments)}
    assert found["other"].word == PROVED
    wrong = result.replace("(self == 0) & (other == 0)", "(grad == 0) & (other == 0)")
    found = {v.of: v for v in judged(definition, "grad * other.log()", wrong, arguments)}
    assert found["other"].word == REFUTED
    assert found["other"].reason == "at self = 0, other = 0: no value, where the definition has 0"


def test_an_argument_that_is_none_and_numbers_beside_compared_ones_are_tried():
    arguments = "Tensor self, Tensor? min=None, float n=3"
    definition = "(self if min is None else 2 * self) * where(n > -1, 1, n)"
    for formula, word in (
        ("grad * (1 if min is None else 2) * (1 if n > -1 else n)", PROVED),
        ("grad * 2 * (1 if n > -1 else n)", REFUTED),
        ("grad * (1 if min is None else 2)", REFUTED),
    ):
        found = judged(definition, formula, "self_t\n  min: zeros_like(min)", arguments)
        assert next(v.word for v in found if v.of == "self") == word


@pytest.mark.parametrize(
    ("conditions", "impossible"),
    [
        (["x > 1", "x < 1"], True),
        (["x >= 1", "x <= 1"], False),
        (["x >= 1", "x <= 1", "x != 1"], True),
        (["2 * x + y > 4", "x < 1 - z", "y / 2 < 1 + z"], True),
        (["abs(x) < 1", "x > 1"], True),
        (["maximum(x, 0) > y", "y >= 0", "x <= y"], True),
        (["where(x < 0, 0, x) > 0", "x < 0"], True),
        (["((x > 0) & (y > 0)) != 0", "not (x > -1 or y > 5)"], True),
        (["x * y > 1", "x * y < 0"], True),
        (["x * y > 1", "x < 0", "y > 0"], False),  # not linear
        (["n is None", "x > n"], True),
        (["n is not None", "n is None"], True),
        (["(x if n is None else y) > 0", "n is None", "x < 0"], True),
        (["isnan(x)"], True),
        (["mode == 'tanh'", "mode == 'none'"], False),  # words are compared as such
    ],
)
def test_conditions_that_no_numbers_fulfill(conditions, impossible):
    assert are_impossible([(ast.parse(c, mode="eval").body, True) for c in conditions]) is impossible


def test_what_is_detached_hides_a_derivative():
    (verdict,) = judged("sin(self)", "grad * self.detach().cos()")
    assert verdict.word == OPEN and "hides a derivative" in verdict.reason
    (verdict,) = judged("where(self > 0, self, 0)", "where(self.detach() > 0, grad, 0)")
    assert verdict.word == PROVED


def test_what_is_not_translated_is_open_and_says_what():
    (verdict,) = judged("tanh(self)", "grad * (1 - result * result).cumsum(0)")
    assert verdict.word == OPEN and "`cumsum`, which has no definition, is not translated" in verdict.reason


def test_formulas_of_the_library_are_proved_as_their_certificates_say(capsys, tmp_path):
    assert not certificates.stale(own())
    names = ["exp", "sigmoid", "softplus", "pow.Tensor_Scalar", "atan2", "leaky_relu", "addcdiv"]
    found = [(kept, verdict) for kept, verdicts in proofs(own(), names, []) for verdict in verdicts]
    assert len(found) == 10 and {verdict.word for _, verdict in found} == {PROVED}
    kept = certificates.load(own())
    assert {c.name: c for c, _ in found} == {name: kept[name] for name in names}
    file = tmp_path / "proofs.json"
    assert main(["prove", "tanh", "--json", str(file)]) == 0
    assert [v["word"] for v in json.loads(file.read_text())] == [PROVED]
    assert "1 formulas: 1 proved (100 %)" in capsys.readouterr().out


NATIVE = """\
- func: swoosh(Tensor self, float beta=1.5) -> Tensor
  scalar: self / (1 + exp(-beta * self))

- func: sech(Tensor self) -> Tensor
  scalar: 1 / cosh(self)
"""
FORMULAS = """\
- name: swoosh(Tensor self, float beta=1.5) -> Tensor
  self: grad * slope(self, beta)
  result: auto_element_wise

- name: sech(Tensor self) -> Tensor
  self: -grad * result * self.tanh()
  result: auto_element_wise
"""
HELPER = "def slope(self, beta):\n    s = (beta * self).sigmoid()\n    return s * (1 + {} * (1 - s))\n"


def test_certificates_are_kept_checked_and_written_anew_where_they_are_stale(tmp_path, capsys, monkeypatch):
    source = tmp_path / "src" / "bounded"
    (source / "formulas").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.gradloom]\npackage = "src/bounded"\n')
    helper, formulas = source / "formulas" / "elementwise.py", source / "derivatives.yaml"
    (source / "native_functions.yaml").write_text("# == elementwise ==\n\n" + NATIVE)
    formulas.write_text("# == elementwise ==\n\n" + FORMULAS)
    helper.write_text(HELPER.format("beta * self"))

    def run(command, *options):
        code = main([command, *options, "--root", str(tmp_path)])
        said = capsys.readouterr()
        return code, said.out + said.err

    def check():
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "sympy", None)
            return run("check")

    assert run("generate")[0] == 0 and check()[0] == 0  # nothing is kept
    assert run("prove", "--write")[1].startswith("2 formulas: 2 proved")
    assert check() == (0, "generated/ is up to date\n")
    file = source / "generated" / "proofs.yaml"
    text = file.read_text()
    assert 'formulas: {"self": "proved for complex numbers"}' not in text and text.count('"proved"') == 2
    assert "reads: sigmoid slope" in text

    helper.write_text(HELPER.format("self * beta"))
    assert run("generate")[0] == 0
    code, said = check()
    assert code == 1 and "the formulas of swoosh follows from: run `gradloom prove --write`" in said
    code, said = run("prove", "--write")
    assert code == 0 and "1 formulas: 1 proved" in said and check()[0] == 0
    assert run("prove", "--write") == (0, f"{file} is up to date\n")

    formulas.write_text(formulas.read_text().replace("-grad", "grad"))
    assert run("generate")[0] == 0
    code, said = run("prove", "--write")
    assert code == 1 and "refuted: sech" in said and "sech" not in file.read_text()
    code, said = check()
    assert code == 1 and "sech" in said and "swoosh" not in said


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("a - b - c * 2.5e-1 / d", "a - b - c * 0.25 / d"),
        (
            "x < 3 && !(y == z) || w ? at::mul(x, 1) : -y.add_(2.)",
            "mul(x, 1) if x < 3 and (not y == z) or w else -y.add(2.0)",
        ),
        ("n.has_value() ? M_LN2 * x : at::zeros({2, 3}, x.options())", "log(2) * x if n is not None else 0"),
        ('x.div(y, /*rounding=*/"floor") * (x > y)', "x.div(y, 'floor') * where(x > y, 1, 0)"),
        ("1 / 2 * x.toDouble() + (p | q & r)", "1 // 2 * x + where(p | q & r, 1, 0)"),
        ("handle_r_to_c(x.scalar_type(), std::pow(x, 2))", "pow(x, 2)"),
        ("x.is_complex() ? x.conj() : x", "x"),
    ],
)
def test_formulas_in_cplusplus_are_read(formula, expected):
    assert ast.unparse(ast.fix_missing_locations(parsed(formula))) == ast.unparse(ast.parse(expected))


@pytest.mark.parametrize("formula", ["x[0]", "x +", "(x", "x y", "static_cast<int>(x)", "f()()", "x = 1"])
def test_more_than_expressions_of_cplusplus_is_open(formula):
    with pytest.raises(OpenError):
        parsed(formula)


# A release with formulas of its own: right and wrong ones, kinks, a helper of gradloom's, and what is not read.
FUNCTIONS = """\
- func: exp(Tensor self) -> Tensor
- func: hypot(Tensor self, Tensor other) -> Tensor
- func: log1p(Tensor self) -> Tensor
- func: sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
- func: fmax(Tensor self, Tensor other) -> Tensor
- func: sigmoid(Tensor self) -> Tensor
"""
DERIVATIVES = """\
- name: exp(Tensor self) -> Tensor
  self: self.exp().conj() * grad
- name: hypot(Tensor self, Tensor other) -> Tensor
  self: self * grad / result
  other: self / other * grad
- name: log1p(Tensor self) -> Tensor
  self: 'self.is_complex() ? 2 * grad : grad / (self + 1)'
- name: sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  self: grad
  other: maybe_multiply(grad, -alpha.conj())
- name: fmax(Tensor self, Tensor other) -> Tensor
  self: at::where(self >= other, grad, 0)
  other: 'other > self ? grad : 3 * unheard_of(grad)'
- name: sigmoid(Tensor self) -> Tensor
  self: 'GradMode::is_enabled() ? (1 - result) * result * grad : result * grad'
"""


def test_the_formulas_of_a_release_of_pytorch(tmp_path, capsys):
    wheel, file = tmp_path / "torch-9.1.0-cp312-none-any.whl", tmp_path / "found.json"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in ((facts.FUNCTIONS, FUNCTIONS), (facts.DERIVATIVES, DERIVATIVES)):
            archive.writestr(path, text)
    assert main(["prove", "--torch", str(wheel), "--json", str(file)]) == 1
    assert capsys.readouterr().out.startswith("the formulas of PyTorch 9.1.0\n")
    found = {(v["operator"], v["of"]): (v["word"], v["reason"]) for v in json.loads(file.read_text())}
    assert found.pop(("exp", "self")) == found.pop(("hypot", "self")) == (PROVED, "")
    assert found.pop(("sub.Tensor", "self")) == (PROVED, "")
    assert found.pop(("sub.Tensor", "other")) == (PROVED, "with gradloom's `maybe_multiply` for PyTorch's")
    for name, of in (("hypot", "other"), ("sigmoid", "self")):
        word, reason = found.pop((name, of))
        assert word == REFUTED and "where the definition has" in reason
    word, reason = found.pop(("fmax", "self"))
    assert word == PROVED and reason.startswith(
        "with another slope than gradloom's where alternatives meet, at self = "
    )
    assert found.pop(("fmax", "other")) == (OPEN, "`unheard_of`, which has no definition, is not translated")
    word, reason = found.pop(("log1p", "self"))
    assert word == REFUTED and not found
    assert main(["prove", "--torch", str(wheel), "--write"]) == 2


def test_wrong_names_are_refused(capsys):
    assert main(["prove", "softplsu"]) == 2 and "did you mean `softplus`" in capsys.readouterr().err
    assert main(["prove", "--family", "activaton"]) == 2 and "did you mean `activation`" in capsys.readouterr().err
    assert main(["prove", "matmul"]) == 2 and "no formula" in capsys.readouterr().err
