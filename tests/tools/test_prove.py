"""`gradloom prove`: formulas proved equal to the derivative of the definition, refuted, or open with a reason."""

from __future__ import annotations

import json

import pytest

from gradloom.codegen.target import own
from gradloom.ops import define
from gradloom.tools.cli import main

pytest.importorskip("sympy")

from gradloom.tools.prove.command import proofs
from gradloom.tools.prove.proving import OPEN, PROVED, REFUTED, verdicts
from gradloom.tools.prove.reading import Reader


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
        (
            "maximum(self, 2)",
            "where(self == 2, 3 * grad, where(self > 2, grad, 0))",
            "where the slopes around are 0 to 1",
        ),
    ],
)
def test_wrong_formulas_are_refuted_by_a_point(definition, formula, where):
    (verdict,) = judged(definition, formula)
    assert verdict.word == REFUTED and where in verdict.reason


def test_tangents_are_proved_and_refuted_too():
    for sign, word in (("+", PROVED), ("-", REFUTED)):
        result = f"self_t * other_p.exp() {sign} other_t * result\n  other: grad * result"
        found = judged("self * exp(other)", "grad * other.exp()", result, "Tensor self, Tensor other")
        assert [v.word for v in found if v.of == "result"] == [word]
        assert [v.word for v in found if v.of != "result"] == [PROVED, PROVED]


def test_what_is_not_translated_is_open_and_says_what():
    (verdict,) = judged("tanh(self)", "grad * (1 - result * result).cumsum(0)")
    assert verdict.word == OPEN and "`cumsum` has no definition" in verdict.reason


def test_formulas_of_the_library_are_proved(capsys, tmp_path):
    names = ["exp", "sigmoid", "softplus", "pow.Tensor_Scalar", "atan2", "leaky_relu", "addcdiv"]
    found = list(proofs(own(), names, []))
    assert len(found) == 10 and {v.word for v in found} == {PROVED}
    file = tmp_path / "proofs.json"
    assert main(["prove", "tanh", "--json", str(file)]) == 0
    assert [v["word"] for v in json.loads(file.read_text())] == [PROVED]
    assert "1 formulas: 1 proved (100 %)" in capsys.readouterr().out


def test_wrong_names_are_refused(capsys):
    assert main(["prove", "softplsu"]) == 2 and "did you mean `softplus`" in capsys.readouterr().err
    assert main(["prove", "--family", "activaton"]) == 2 and "did you mean `activation`" in capsys.readouterr().err
    assert main(["prove", "matmul"]) == 2 and "no formula" in capsys.readouterr().err
