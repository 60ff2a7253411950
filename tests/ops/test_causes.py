"""Wrong formulas of every kind: verify finds each, at its line, and says what it looks like."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import gradloom
from gradloom.tools.verify import verify_operator

from .planted import build


class Planted(NamedTuple):
    """An operator with a mistake.

    Attributes:
        schema: after its name; `kernel` computes it.
        formulas: key -> formula; the wrong one is marked by a leading `!`.
        check: the check that finds it.
        cause: words of the cause that is named; empty where the message says it all.
    """

    schema: str
    kernel: str
    formulas: dict[str, str]
    check: str
    cause: str


ONE, TWO = "(Tensor self) -> Tensor", "(Tensor self, Tensor other) -> Tensor"
MUL = "self_t * other_p + other_t * self_p"
SIN = "self_t * self_p.cos()"

PLANTED = {
    "conj_factor": Planted(
        TWO,
        "self * other",
        {"self": "!grad * other", "other": "grad * self.conj()", "result": MUL},
        "reverse",
        "missing (or surplus) `.conj()`: the factor",
    ),
    "conj_grad": Planted(
        ONE,
        "xp.sin(self)",
        {"self": "!grad.conj() * self.cos().conj()", "result": SIN},
        "reverse",
        "`.conj()` of the gradient that comes in",
    ),
    "conj_result": Planted(
        ONE,
        "xp.sin(self)",
        {"self": "!(grad * self.cos().conj()).conj()", "result": SIN},
        "reverse",
        "`.conj()` of the result of the formula",
    ),
    "sign": Planted(
        ONE,
        "xp.cos(self)",
        {"self": "!grad * self.sin().conj()", "result": "-self_t * self_p.sin()"},
        "reverse",
        "the sign",
    ),
    "twice": Planted(
        TWO,
        "self * other",
        {"self": "!2 * grad * other.conj()", "other": "grad * self.conj()", "result": MUL},
        "reverse",
        "a factor of two too many",
    ),
    "half": Planted(
        ONE,
        "self * self",
        {"self": "!grad * self.conj()", "result": "2 * self_t * self_p"},
        "reverse",
        "a missing factor of two",
    ),
    "scalar_missing": Planted(
        "(Tensor self, float alpha=2.5) -> Tensor",
        "self * alpha",
        {"self": "!grad", "result": "self_t * alpha"},
        "reverse",
        "a missing factor `alpha`",
    ),
    "scalar_squared": Planted(
        "(Tensor self, float alpha=2.5) -> Tensor",
        "self * alpha",
        {"self": "!grad * alpha * alpha", "result": "self_t * alpha"},
        "reverse",
        "a factor `alpha` too many",
    ),
    "own_for_other": Planted(
        TWO,
        "self * other",
        {"self": "!grad * self.conj()", "other": "grad * self.conj()", "result": MUL},
        "reverse",
        "inputs are exchanged",
    ),
    "stands_for": Planted(
        TWO,
        "xp.sin(self) * other * other",
        {
            "self": "!grad * (self.cos() * self * self).conj()",
            "other": "grad * (2 * self.sin() * other).conj()",
            "result": "(self_t * self_p.cos() * other_p + 2 * other_t * self_p.sin()) * other_p",
        },
        "reverse",
        "`self` stands where `other` belongs",
    ),
    "exchanged": Planted(
        TWO,
        "self / other",
        {
            "self": "!grad / self.conj()",
            "other": "-grad * (self / (other * other)).conj()",
            "result": "self_t / other_p - other_t * self_p / (other_p * other_p)",
        },
        "reverse",
        "`self` stands where `other` belongs",
    ),
    "no_grad": Planted(
        ONE,
        "xp.sin(self)",
        {"self": "!(grad * 0 + 1) * self.cos().conj()", "result": SIN},
        "reverse",
        "does not multiply by `grad`",
    ),
    "zeros": Planted(ONE, "xp.sin(self)", {"self": "!zeros_like(self)", "result": SIN}, "reverse", "gives zeros"),
    "argument_transposed": Planted(
        TWO,
        "self @ xp.swapaxes(other, -1, -2)",
        {
            "self": "!grad @ other.mT.conj()",
            "other": "grad.mT @ self.conj()",
            "result": "self_t @ other_p.mT + self_p @ other_t.mT",
        },
        "reverse",
        "transposed argument: `other`",
    ),
    "grad_transposed": Planted(
        TWO,
        "self @ xp.swapaxes(other, -1, -2)",
        {
            "self": "grad @ other.conj()",
            "other": "!grad @ self.conj()",
            "result": "self_t @ other_p.mT + self_p @ other_t.mT",
        },
        "reverse",
        "dimensions 0 and 1 of `grad` are exchanged",
    ),
    "result_transposed": Planted(
        TWO,
        "self @ xp.swapaxes(other, -1, -2)",
        {
            "self": "!(grad @ other.conj()).mT",
            "other": "grad.mT @ self.conj()",
            "result": "self_t @ other_p.mT + self_p @ other_t.mT",
        },
        "reverse",
        "transposed",
    ),
    "sum_missing": Planted(
        TWO,
        "self + xp.sum(other, axis=1, keepdims=True)",
        {"self": "grad", "other": "!grad", "result": "self_t + other_t.sum(1, keepdim=True)"},
        "reverse",
        "a missing sum over dimension 1 of `grad`",
    ),
    "sum_of_one": Planted(
        TWO,
        "self + xp.sum(other, axis=1, keepdims=True)",
        {
            "self": "grad",
            "other": "!grad[:, :1].expand(other.shape)",
            "result": "self_t + other_t.sum(1, keepdim=True)",
        },
        "reverse",
        "a missing sum over dimension 1 of `grad`: only index 0",
    ),
    "mean": Planted(
        TWO,
        "self + xp.sum(other, axis=1, keepdims=True)",
        {
            "self": "grad",
            "other": "!grad.mean(1, keepdim=True).expand(other.shape)",
            "result": "self_t + other_t.sum(1, keepdim=True)",
        },
        "reverse",
        "a mean where the sum over dimension 1 of `grad` belongs",
    ),
    "factor_missing": Planted(
        TWO,
        "self * self * other",
        {
            "self": "!2 * grad * self.conj()",
            "other": "grad * (self * self).conj()",
            "result": "2 * self_t * self_p * other_p + other_t * self_p * self_p",
        },
        "reverse",
        "a missing factor `other`",
    ),
    "divided": Planted(
        TWO,
        "xp.sin(self) * other",
        {
            "self": "!grad * (self.cos() / other).conj()",
            "other": "grad * self.sin().conj()",
            "result": f"{SIN} * other_p + other_t * self_p.sin()",
        },
        "reverse",
        "divided by `other` instead of multiplied",
    ),
    "one_branch": Planted(
        ONE,
        "xp.where(xp.real(self) > 1, 2 * self, self)",
        {"self": "!grad", "result": "where(self_p.real > 1, 2 * self_t, self_t)"},
        "reverse",
        "only where `self` > 1",
    ),
    "digits": Planted(
        ONE,
        "xp.sin(self * 0.7978845608)",
        {
            "self": "!grad * (0.797 * (self * 0.7978845608).cos()).conj()",
            "result": "self_t * 0.7978845608 * (self_p * 0.7978845608).cos()",
        },
        "reverse",
        "a constant factor of 0.99889",
    ),
    "last_digits": Planted(
        ONE,
        "xp.sin(self * 0.7978845608)",
        {
            "self": "!grad * (0.797884 * (self * 0.7978845608).cos()).conj()",
            "result": "self_t * 0.7978845608 * (self_p * 0.7978845608).cos()",
        },
        "complex step",
        "a constant with too few digits",
    ),
    "tangent_term": Planted(
        TWO,
        "self * other",
        {"self": "grad * other.conj()", "other": "grad * self.conj()", "result": "!self_t * other_p"},
        "forward",
        "no term with `other_t`",
    ),
    "tangent_sign": Planted(
        ONE,
        "xp.cos(self)",
        {"self": "-grad * self.sin().conj()", "result": "!self_t * self_p.sin()"},
        "forward",
        "the sign",
    ),
    "tangent_constant": Planted(
        ONE,
        "xp.sin(self)",
        {"self": "grad * self.cos().conj()", "result": "!self_t * 0 + self_p.cos()"},
        "forward",
        "does not multiply by `self_t`",
    ),
    "not_linear": Planted(
        ONE,
        "self * self",
        {"self": "2 * grad * self.conj()", "result": "!auto_linear"},
        "forward",
        "the operator is not linear",
    ),
    "not_element_wise": Planted(
        ONE,
        "xp.cumsum(self, axis=-1)",
        {"self": "grad.flip([-1]).cumsum(-1).flip([-1])", "result": "!auto_element_wise"},
        "forward",
        "depends on several input elements",
    ),
    "detached": Planted(
        ONE, "xp.sin(self)", {"self": "!grad * self.cos().detach().conj()", "result": SIN}, "rev-rev", "without history"
    ),
    "second_sign": Planted(
        ONE,
        "xp.sin(self)",
        {"self": "!grad * planted_bad_cos(self).conj()", "result": SIN},
        "rev-rev",
        "the derivative of `planted_bad_cos`, which the formula uses, is wrong",
    ),
    "bad_cos": Planted(
        ONE,
        "xp.cos(self)",
        {"self": "!grad * self.sin().conj()", "result": "-self_t * self_p.sin()"},
        "reverse",
        "the sign",
    ),
    "kernel": Planted(
        ONE,
        "xp.sin(self) + 0.1 * self * self * self",
        {"self": "!grad * self.cos().conj()", "result": SIN},
        "reverse",
        "forward mode agrees with reverse mode",
    ),
    "mask": Planted(
        TWO,
        "self * other",
        {"self, other": "!(grad * other.conj() if grad_input_mask[1] else grad, grad * self.conj())", "result": MUL},
        "reverse",
        "",
    ),
    "not_additive": Planted(
        TWO,
        "self * other",
        {"self": "grad * other.conj()", "other": "grad * self.conj()", "result": f"!{MUL} + self_t * other_t"},
        "forward",
        "",
    ),
    "undefined_pair": Planted(
        "(Tensor self) -> (Tensor, Tensor)",
        "(self * 2, self * 3)",
        {
            "self": "!grads[0] * 2 + (grads[1] * 3 if grads[1] is not None else grads[0])",
            "result0": "self_t * 2",
            "result1": "self_t * 3",
        },
        "undefined",
        "whether a gradient is None",
    ),
}


def _yaml() -> tuple[str, str]:
    entries = "".join(f"\n- func: planted_{name}{p.schema}\n  kernel: {p.kernel}\n" for name, p in PLANTED.items())
    formulas = ""
    for name, p in PLANTED.items():
        formulas += f"\n- name: planted_{name}{p.schema}\n"
        formulas += "".join(f'  {key}: "{text.removeprefix("!")}"\n' for key, text in p.formulas.items())
    return entries, formulas


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return build(tmp_path_factory.mktemp("causes"), *_yaml())


@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_is_found_at_its_line_and_named(planted, name):
    given = PLANTED[name]
    result = verify_operator(planted[f"planted_{name}"], others=tuple(planted.values()))
    found = [f for f in result.findings if f.check == given.check]
    assert found, f"only {[f.check for f in result.findings]}"
    wrong = next(text for text in given.formulas.values() if text.startswith("!"))[1:]
    finding = next((f for f in found if f.place is not None and f.place.value == wrong), None)
    assert finding is not None, "\n\n".join(map(str, found))
    line = finding.place.source.line(finding.place.line)
    assert wrong in line and finding.where.endswith(f"derivatives.yaml:{finding.place.line}")
    assert not given.cause or any(given.cause in cause for cause in finding.causes), str(finding)
    assert finding.where in str(finding) and given.cause in str(finding)


@pytest.mark.parametrize("name", [n for n, p in PLANTED.items() if p.check == "reverse"])
def test_the_expected_and_the_found_gradient_are_shown(planted, name):
    result = verify_operator(planted[f"planted_{name}"])
    finding = next(f for f in result.findings if f.check == "reverse")
    if finding.expected is None:  # backward raised
        assert "raises" in finding.message
    else:
        assert finding.expected.shape == finding.found.shape
        assert not np.allclose(finding.expected, finding.found) or "expected" in finding.worst


def test_a_sum_that_broadcasting_does_not_make_is_missed(tmp_path):
    """A bias for each row: its gradient has to be summed over the columns, which its shape does not say."""
    schema = "planted_rows(Tensor self, Tensor bias) -> Tensor"
    operators = build(
        tmp_path,
        f"\n- func: {schema}\n  kernel: self + bias.reshape(-1, 1)\n",
        f"\n- name: {schema}\n  self: grad\n  bias: grad\n  result: self_t + bias_t.reshape(-1, 1)\n",
    )

    def samples():
        yield (gradloom.rand(2, 3, dtype=gradloom.float64), gradloom.rand(2, dtype=gradloom.float64)), {}

    result = verify_operator(replace(operators["planted_rows"], samples=samples))
    found = [f for f in result.findings if f.check == "reverse"]
    assert len(found) == 1, "\n\n".join(map(str, found))
    (finding,) = found
    assert finding.input == "bias" and finding.place.value == "grad"
    assert any("a missing sum over dimension 1" in c for c in finding.causes), str(finding)
