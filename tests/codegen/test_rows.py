"""Definitions of operators on rows: `scalar:` with `over:` and `where:`, and how verify compares kernels with them."""

from __future__ import annotations

import dataclasses

import pytest

import gradloom
from gradloom.codegen.errors import SpecError
from gradloom.ops import define
from gradloom.tools.verify import own_operators, verify
from gradloom.tools.verify.case import Case
from gradloom.tools.verify.definitions import _rows_compared


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("over: dims\n  scalar: sum(self)", "`f` has no argument `dims`"),
        ("over: dim + 1\n  scalar: sum(self)", "`dim + 1` says nothing about dimensions"),
        ("over: dim", "`f` has no `scalar`"),
        ("over: dim\n  scalar: sum(self), max(self)", "2 value(s) for 1 result(s)"),
        ("over: dim, all\n  scalar: sum(self)", "2 words for 1 result(s)"),
        ("over: dim\n  scalar: median(self)", "`median` is not a function of numbers"),
        ("over: dim\n  scalar: sum(self) / cuont", "unknown name `cuont`"),
        ("over: dim\n  scalar: sum(self) if self > 0 else 0", "`if` on the elements of a tensor"),
        ("over: dim\n  where: {self: sum(self)}\n  scalar: sum(self)", "`self` is not a new name"),
        ("over: dim\n  where: {a: b + 1, b: sum(self)}\n  scalar: a", "unknown name `b`"),
        ("over: dim\n  where: mean\n  scalar: sum(self)", "`where` names no value"),
        ("over: dim\n  writes: {dim: sum(self)}\n  scalar: self", "`dim` is not a tensor that is an argument"),
        ("over: dim\n  writes: {self: smu(self)}\n  scalar: self", "`smu` is not a function of numbers"),
        ("over: dim\n  scalar: sum(dim[self])", "`dim` is not a tensor that is an argument"),
        ("over: dim\n  where: {a: self + 1}\n  scalar: a[self]", "`a` is not a tensor that is an argument"),
        ("over: dim\n  scalar: self[1:]", "`self[1:]` is not one element"),
        ("over: dim\n  scalar: self[0, 1]", "`self[0, 1]` is not one element"),
        ("over: dim\n  scalar: self[idx]", "unknown name `idx`"),
        ("over: classes(dims)\n  scalar: self", "`f` has no argument `dims`"),
        ("tags: pointwise\n  writes: {self: self}\n  scalar: exp(self)", "`writes` without `over`"),
        ("tags: pointwise\n  where: {a: self}\n  scalar: exp(self)", "`where` without `over`"),
    ],
)
def test_what_an_entry_may_not_say(entry, message):
    with pytest.raises(SpecError) as error:
        define(f"- func: f(Tensor self, int[1]? dim) -> Tensor\n  {entry}\n  kernel: self.sum()\n")
    assert message in str(error.value)


ENTRY = """
- func: spread(Tensor self, int dim) -> (Tensor, Tensor)
  over: dim
  where:
    mean: sum(self) / count
    squares: sum((self - mean) * (self - mean))
  scalar: {scalar}
  kernel: self - self.mean(axis=dim, keepdims=True), self.var(axis=dim)
- name: spread(Tensor self, int dim) -> (Tensor, Tensor)
  self: not_implemented("spread")
"""


@pytest.mark.parametrize(
    ("scalar", "wrong"), [("self - mean, squares / count", ()), ("self - mean, squares / (count - 1)", ("result 1",))]
)
def test_verify_compares_a_kernel_with_its_rows(scalar, wrong):
    definition = define(ENTRY.format(scalar=scalar))
    try:
        findings = [f.message for f in verify(package=definition).findings if f.check == "scalar"]
    finally:
        definition.remove()
    assert len(findings) == len(wrong)
    assert all(start in message for start, message in zip(wrong, findings, strict=True))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("nll_loss_forward", "self[safe]", "self[0 * safe]"),
        ("nll_loss_forward", "weight[safe]", "2 * weight[safe]"),
        ("nll_loss_backward", "index ==", "index >="),
        ("nll_loss2d_forward", "self[safe]", "self[0 * safe]"),
        ("nll_loss2d_backward", "weight[safe]", "2 * weight[safe]"),
    ],
)
def test_verify_compares_single_elements(name, old, new):
    operator = next(o for o in own_operators() if o.name == name)
    rows = operator.joined.function.rows
    shape, labels = ((3, 4), [2, 3, 1]) if "2d" not in name else ((1, 4, 1, 3), [[[2, 3, 1]]])
    x = gradloom.linspace(-1, 3, 12, dtype=gradloom.float64).view(shape)
    weight = gradloom.linspace(0.5, 2, 4, dtype=gradloom.float64)
    given = (x, gradloom.tensor(labels), weight, 1, 3)
    one = gradloom.ones((), dtype=gradloom.float64)
    case = Case(operator, given if "forward" in name else (one, *given, one * 2), {}, "labels")
    assert not list(_rows_compared(case, rows))

    def changed(scalar):
        return dataclasses.replace(scalar, source=scalar.source.replace(old, new))

    named = tuple((name, changed(scalar)) for name, scalar in rows.named)
    wrong = dataclasses.replace(rows, named=named, results=tuple(map(changed, rows.results)))
    assert "of the kernel differs" in next(_rows_compared(case, wrong)).message


def test_reductions_softmax_and_norms_are_defined():
    defined = {o.name: o.joined.function.rows for o in own_operators() if o.joined.function.rows is not None}
    assert {"sum.dim_IntList", "_softmax", "native_layer_norm_backward", "logsumexp"} <= defined.keys()
    assert defined["_softmax"].source.startswith("exp(self - largest) / total where largest = max(self)")


def test_explain_shows_a_definition():
    assert "sum(self) / count" in str(gradloom.explain("mean.dim"))


def test_verify_compares_what_is_written_with_its_definition():
    operator = next(o for o in own_operators() if o.name == "native_batch_norm")
    rows = operator.joined.function.rows
    x = gradloom.linspace(-1, 3, 24, dtype=gradloom.float64).view(4, 3, 2)
    statistics = (gradloom.full((3,), value, dtype=gradloom.float64) for value in (0.5, 2.0))
    case = Case(operator, (x, None, None, *statistics, True, 0.25, 1e-5), {}, "statistics")
    assert not list(_rows_compared(case, rows))
    wrong = dataclasses.replace(rows, written=(rows.written[0], ("running_var", rows.written[0][1])))
    (fault,) = _rows_compared(case, wrong)
    assert "running_var of the kernel differs" in fault.message
