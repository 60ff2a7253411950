"""The mutation test of `gradloom verify`: what it changes, and that verify refuses what it makes."""

from __future__ import annotations

import os

import pytest

from . import helper_mutants, mutants
from .mutants import Mutant, all_mutants, formula_of, is_about, judged, mutated, sample, score, table

# (operator, line, formula, kind) -> some of the formulas that it is changed to.
CHANGES = {
    ("mul.Tensor", "self", "grad * other / self", "factor"): {"grad * other", "grad / self", "other / self"},
    ("mul.Tensor", "self", "grad - other", "term"): {"grad", "-other"},
    ("mul.Tensor", "self", "-grad + other.neg()", "sign"): {
        "grad + other.neg()",
        "-grad - other.neg()",
        "-grad + other",
        "-(-grad + other.neg())",
    },
    ("mul.Tensor", "self", "grad * other.conj()", "conj"): {"grad * other", "(grad * other.conj()).conj()"},
    ("sum.dim_IntList", "self", "sum_backward(grad.abs(), self.sym_sizes(), dim, keepdim)", "call"): {
        "grad.abs()",
        "sum_backward(grad, self.sym_sizes(), dim, keepdim)",
    },
    ("sum.dim_IntList", "self", "grad.sum(dim, keepdim=keepdim)", "argument"): {
        "grad.sum(dim)",
        "grad.sum(keepdim=keepdim)",
    },
    ("add.Tensor", "self", "grad * alpha", "default"): {"grad * 1", "grad * 0"},
    ("clamp", "self", "clamp_backward(grad, self, min, max)", "default"): {
        "clamp_backward(grad, self, None, max)",
        "clamp_backward(grad, self, min, 1)",
    },
    ("sum.dim_IntList", "self", "grad.sum(dim, keepdim)", "dim"): {"grad.sum(None, keepdim)", "grad.sum([0], keepdim)"},
    ("sum.dim_IntList", "self", "grad.sum(dim, keepdim)", "flag"): {"grad.sum(dim, True)", "grad.sum(dim, False)"},
    ("sum.dim_IntList", "self", "grad.sum(dim, True)", "flag"): {"grad.sum(dim, False)"},
    ("exp2", "self", "grad * 0.6931471805599453", "number"): {"grad * 1.6931471805599454", "grad * 0.6931"},
    ("mul.Tensor", "self", "where(self, grad, other) / self", "exchange"): {
        "where(grad, self, other) / self",
        "where(self, other, grad) / self",
        "self / where(self, grad, other)",
        "where(self, grad, other) / other",
    },
    ("mul.Tensor", "self", "grad * other", "detach"): {
        "grad.detach() * other",
        "grad * other.detach()",
        "(grad * other).detach()",
    },
    ("mul.Tensor", "result", "self_t if self_p is None else self_t * other_p", "condition"): {
        "self_t",
        "self_t * other_p",
        "self_t if self_p is not None else self_t * other_p",
    },
    ("mul.Tensor", "result", "where(self_p < other_p, self_t, other_t)", "condition"): {
        "self_t",
        "other_t",
        "where(self_p > other_p, self_t, other_t)",
    },
}


ALL = os.environ.get("GRADLOOM_ALL_SAMPLES") == "1"
# Second-order terms that are dropped, statistics taken as constants, factors exchanged, branches at boundaries removed.
# In formulas: (operator, before, after); the line is `result:`.
IN_FORMULAS = [
    ("logaddexp", "self_t * sigmoid", "self_t.detach() * sigmoid"),
    ("copysign.Tensor", "self_t * result", "self_t.detach() * result"),
    ("_conj", "self_t.conj()", "self_t.conj().detach()"),
    ("_euclidean_dist", "x2_p, x2_t", "x2_p.detach(), x2_t"),
    ("nansum", "0, self_t)", "0, self_t.detach())"),
    ("squeeze_.dim", "self_t.squeeze", "self_t.detach().squeeze"),
    ("pow.Tensor_Tensor", "exponent_t, self_p", "exponent_t.detach(), self_p"),
    ("_unsafe_masked_index_put_accumulate", "values_t", "values_t.detach()"),
]
# In helpers: (module, helper, before, after, the number of the change where there are several).
IN_HELPERS = [
    ("elementwise", "pow_backward", "grad", "__detached(grad)"),
    ("elementwise", "pow_backward_exponent", "result", "__detached(result)"),
    ("elementwise", "pow_backward_exponent", "ops.masked_fill(base, constant, 1)", "base"),
    ("elementwise", "pow_backward_exponent", "ops.where(constant, 0, result * base.log())", "result * base.log()"),
    ("elementwise", "pow_backward_self", "exponent", "__detached(exponent)"),
    ("elementwise", "sgn_backward", "grad", "__detached(grad)"),
    ("elementwise", "div_mode_other_backward", "self / other / other", "other / (self / other)"),
    ("elementwise", "sinc_backward", "(far * far.cos() - far.sin()) / (far * far)", "far * far.cos() - far.sin()"),
    ("complex", "polar_jvp", "angle_t", "__detached(angle_t)"),
    ("complex", "polar_jvp", "abs_t", "__detached(abs_t)"),
    ("complex", "polar_jvp", "abs_t * cos - turn * sin", "abs_t * cos + turn * sin"),
    ("complex", "angle_backward", "y * y", "y"),
]


@pytest.mark.parametrize("operator, before, after", IN_FORMULAS[:: 1 if ALL else 5], ids=lambda v: str(v)[:30])
def test_a_planted_mistake_in_a_formula_is_refused(operator, before, after):
    whole = next(m for m in mutants.mutants_of(operator) if m.key == "result").before
    assert whole.count(before) == 1
    mutant = Mutant(operator, "result", "detach", whole, whole.replace(before, after))
    assert judged(mutant).outcome == "refused"


@pytest.mark.parametrize("planted", IN_HELPERS[:: 1 if ALL else 6], ids=lambda p: f"{p[1]}: {p[3]}"[:50])
def test_a_planted_mistake_in_a_helper_is_refused(planted):
    module, helper, before, after = planted
    found = [m for m in helper_mutants.mutants_of((module, helper)) if (m.before, m.after) == (before, after)]
    assert found
    for mutant in found:
        assert helper_mutants.judged(mutant).outcome == "refused", mutant


def test_helpers_have_mutants():
    found = helper_mutants.all_mutants()
    assert len(found) > 3000 and {m.kind for m in found} == {"term", "sign", "factor", "exchange", "branch", "detach"}


@pytest.mark.parametrize("example", CHANGES, ids=lambda e: f"{e[3]}: {e[2]}")
def test_each_kind_of_mutation(example):
    operator, key, text, kind = example
    found = {after for how, after, _ in mutated(formula_of(operator, key, text)) if how == kind}
    assert found >= CHANGES[example]


def test_every_formula_has_mutants():
    """Whole lines are dropped, too, and automatic forward formulas exchanged."""
    found = all_mutants()
    assert len(found) == len(set(found)) > 5000
    assert {m.kind for m in found} == {*mutants.KINDS, *mutants.LINES}
    assert not {"sin", "mul.Tensor", "leaky_relu_", "_trilinear"} - {m.operator for m in found}


@pytest.mark.parametrize(
    "mutant, outcome, detail",
    [
        (Mutant("sin", "self", "sign", "", "grad * self.sin().conj()"), "refused", "reverse"),
        (Mutant("sin", "self", "conj", "", "grad * self.cos()"), "refused", "reverse"),
        (Mutant("sin", "result", "automatic", "", "auto_linear"), "refused", "forward"),
        (Mutant("leaky_relu_", "self", "call", "", "grad"), "refused", "reverse"),
        (Mutant("mul.Tensor", "self", "line", "", None), "static", "not a name here"),
        (
            Mutant("digamma", "self", "conj", "", "(grad * polygamma(1, self)).conj()", mutants.REAL),
            "equivalent",
            "never complex",
        ),
    ],
)
def test_verdicts(mutant, outcome, detail):
    verdict = judged(mutant)
    assert verdict.outcome == outcome and detail in verdict.detail


def test_a_survivor_is_reported(monkeypatch):
    """A checker that finds nothing has a score of 0, and the report names the formula."""
    monkeypatch.setattr(mutants, "first_fault", lambda operator, mode, ignored=(): None)
    mutant = Mutant("sin", "self", "sign", "grad * self.cos().conj()", "grad * -self.cos().conj()")
    verdict = judged(mutant)
    assert verdict.outcome == "survived" and score([verdict]) == 0
    assert "self: grad * self.cos().conj()\n    self: grad * -self.cos().conj()" in str(mutant)
    assert table([(mutant, verdict)]).splitlines()[-1].split() == ["all", "1", "0", "0", "0", "1", "0.0%"]


def test_reasons_are_about_mutants_that_exist():
    """A row for a formula that has changed would excuse nothing, or something else."""
    found = all_mutants()
    rows = mutants.data()["mutants"] + mutants.data()["survivors"]
    assert not [row for row in rows if not any(is_about(row, m) for m in found)]
    unread = mutants.data()["unread"]
    assert not [name for name, words in unread.items() if not set(words) <= set(mutants.parameters(name))]


def test_arguments_of_helpers_without_a_derivative_are_known():
    """Read from the helper's source: it compares them, reads their shape, or passes them to one that does."""
    known = {
        name: {mutants.parameters(name)[i] for i in mutants.constant_positions(name)}
        for name in ("clamp_min_backward", "maybe_multiply", "mse_loss_backward", "bce_target_backward")
    }
    assert known["clamp_min_backward"] == {"self", "min", "max"}
    assert not known["maybe_multiply"]
    assert "self" not in known["mse_loss_backward"]
    assert known["bce_target_backward"] == {"target", "reduction"}


def test_verify_refuses_a_sample_of_the_mutants():
    """All but equivalent ones and those that are listed, with the reason."""
    verdicts = {m: judged(m) for m in sample(all_mutants(), 50)}
    survived = [m for m, v in verdicts.items() if v.outcome == "survived" and not v.detail]
    assert not survived, "\n".join(map(str, survived))
    assert score(verdicts.values()) >= 0.97
