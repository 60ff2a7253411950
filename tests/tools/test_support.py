"""The support row of an operator against what the operator does when it is run."""

from __future__ import annotations

import warnings

import pytest

import gradloom
from gradloom.codegen.outputs.support import Fact, complex_loops
from gradloom.tools.support import own_support, support_row
from gradloom.tools.verify import own_operators
from gradloom.tools.verify.sampling import cases as cases_of

forward_ad = gradloom.autograd.forward_ad


def differentiable_samples(operator):
    """Calls with at least one tensor that may require a gradient."""
    return [case for case in cases_of(operator) if case.inputs()]


def gradients(outputs, inputs):
    cotangents = [gradloom.rand(o.shape, dtype=o.dtype) for o in outputs]
    return gradloom.autograd.grad(outputs, inputs, cotangents, create_graph=True, allow_unused=True)


def reverse_and_double(sample):
    """('yes' 'no' or 'none', the same for the second derivative) as they turn out."""
    inputs = sample.inputs()
    outputs = [o for o in sample.call(*inputs) if o.requires_grad]
    if not outputs:
        return "none", "none"
    try:
        first = [g for g in gradients(outputs, inputs) if g is not None and g.requires_grad]
    except (NotImplementedError, RuntimeError) as error:
        assert "not implemented" in str(error)
        return "no", "no"
    try:
        if first:
            gradients(first, inputs)
    except (NotImplementedError, RuntimeError) as error:
        assert "not implemented" in str(error)
        return "yes", "no"
    return "yes", "yes"


def forward(sample):
    try:
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(x.detach(), gradloom.rand(x.shape, dtype=x.dtype)) for x in sample.inputs()]
            tangents = [forward_ad.unpack_dual(o).tangent for o in sample.call(*duals)]
    except NotImplementedError:
        return "no"
    return "yes" if any(t is not None for t in tangents) else "none"


# Composites whose result is an integer, made of operators that are differentiable.
COUNTS = ("linalg_matrix_rank",)


def agrees(fact: Fact, seen: str) -> bool:
    return {"part": "yes"}.get(fact.answer, fact.answer) == seen


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_row_says_what_the_operator_does():
    """All operators that have samples; that is all that return a tensor."""
    gradloom.manual_seed(0)
    wrong, compared = [], 0
    for operator in own_operators():
        if operator.schema.kind != "functional":
            continue
        cases = differentiable_samples(operator)
        if not cases or operator.name.startswith(COUNTS):
            continue
        compared += 1
        row = support_row(operator.name)
        seen = [reverse_and_double(case) for case in cases]
        reverse, double = (max(answers, key=["none", "no", "yes"].index) for answers in zip(*seen, strict=True))
        tangent = max(map(forward, cases), key=["none", "no", "yes"].index)
        for title, fact, found in (
            ("reverse", row.reverse, reverse),
            ("double", row.double, double),
            ("forward", row.forward, tangent),
        ):
            # an operator without a forward formula gives no tangent
            same = agrees(fact, found) or (title == "forward" and fact.answer == "no" and found == "none")
            if not same:
                wrong.append(f"{operator.name}: {title} is said to be {fact}, found {found}")
    assert not wrong, "\n".join(wrong)
    assert compared > 500


def test_an_operator_whose_backward_has_no_derivative_is_said_to_lack_a_second_one():
    row = support_row("_ctc_loss")
    assert row.reverse.answer == "yes" and row.double == Fact(
        "no", "_ctc_loss_backward, which its formula calls, has no derivative"
    )
    log_probs = gradloom.randn(5, 2, 4, dtype=gradloom.float64).log_softmax(2).detach().requires_grad_()
    loss = gradloom.dispatch._operators._ctc_loss(log_probs, gradloom.tensor([[1, 2], [2, 3]]), (5, 5), (2, 2))[0]
    (gradient,) = gradloom.autograd.grad(loss.sum(), log_probs, create_graph=True)
    with pytest.raises(RuntimeError, match="_ctc_loss_backward is not implemented"):
        gradloom.autograd.grad(gradient.sum(), log_probs)


def test_an_operator_on_indices_in_a_formula_needs_no_derivative():
    """The formula of index_fill calls _unique, which has none, on the index."""
    assert support_row("index_fill.int_Tensor").double.answer == "yes"


@pytest.mark.parametrize(
    "name",
    [
        "mul.Tensor",
        "sin",
        "exp",
        "pow.Tensor_Tensor",
        "_softmax",
        "floor",
        "maximum",
        "erf",
        "mm",
        "sigmoid",
        "gelu",
        "sort",
        "relu",
        "sum",
        "angle",
        "convolution",
    ],
)
def test_complex_numbers_are_taken_where_the_row_says_so(name):
    row = support_row(name)
    operator = next(o for o in own_operators() if o.name == name)
    calls = [(case.args, case.kwargs) for case in cases_of(operator)]
    works = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for args, kwargs in calls:
            args, kwargs = operator.completed(args, kwargs)
            try:
                operator.call(
                    *[
                        a.to(gradloom.complex128) if isinstance(a, gradloom.Tensor) and a.is_floating_point() else a
                        for a in args
                    ],
                    **kwargs,
                )
                works = True
            except (RuntimeError, TypeError):
                pass
    assert row.complex.answer == ("yes" if works else "no")


def test_the_loops_of_a_ufunc_say_whether_it_takes_complex_numbers():
    assert complex_loops("sin").answer == "yes"
    assert complex_loops("floor").answer == "no"
    assert complex_loops("no_such_ufunc").answer == "unknown"


@pytest.mark.parametrize(
    ("name", "inplace", "out"),
    [
        ("mul.Tensor", "mul_.Tensor", "mul.out"),
        ("sum", None, "sum.out"),
        ("relu", "relu_", "relu.out"),
        ("expand", None, None),
    ],
)
def test_variants(name, inplace, out):
    row = support_row(name)
    derivatives, _ = own_support()
    for fact, expected in ((row.inplace, inplace), (row.out, out)):
        assert fact == (Fact("no") if expected is None else Fact("yes", expected))
        assert expected is None or expected in derivatives


def test_not_implemented_inputs_are_named():
    assert support_row("igamma").reverse == Fact("part", "not for self")
    assert support_row("unique_dim").reverse.answer == "no"
    assert support_row("argmax").reverse.answer == "none"


def test_composites_are_as_good_as_what_they_call():
    assert support_row("linear").double == Fact("yes", "through the operators that it calls")
    assert support_row("special_exp2").reverse.answer == "yes"  # composite: exp2 = _alias("exp2")
    assert support_row("equal").reverse == Fact("none", "its result is no tensor")
    assert support_row("ctc_loss.IntList").double.answer == "no"
