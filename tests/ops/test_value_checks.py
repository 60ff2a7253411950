"""Defects of kernels and variants: verify finds each in an operator that is otherwise sound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gradloom
from gradloom.tools.verify import own_operators, verify_operator
from gradloom.tools.verify.findings import COMPOSITIONS


@pytest.fixture(scope="module")
def operators():
    return {o.name: o for o in own_operators()}


def findings(operator):
    return [(f.check, f.message) for f in verify_operator(operator).findings]


def broken(operator, change):
    """The operator with `change(result, args, kwargs)` in the place of its result."""

    def call(*args, **kwargs):
        return change(operator.call(*args, **kwargs), args, kwargs)

    return replace(operator, call=call)


def test_a_kernel_that_writes_to_its_argument(operators):
    def writes(result, args, kwargs):
        args[0]._array[...] = 0
        return result

    assert ("call", "sin: the operator writes to one of its arguments") in findings(broken(operators["sin"], writes))


def test_a_result_that_shares_memory_with_an_argument(operators):
    def shares(result, args, kwargs):
        return args[0].view_as(args[0])

    assert any("shares memory" in message for _, message in findings(broken(operators["clone"], shares)))


def test_results_that_share_their_memory(operators):
    def shares(result, args, kwargs):
        both = gradloom.empty(2, *result[0].shape, dtype=result[0].dtype)
        return both[0].copy_(result[0]), both[1].copy_(result[1])

    message = "var_mean.correction: result 1 shares the memory of an earlier result"
    assert ("call", message) in findings(broken(operators["var_mean.correction"], shares))


def test_an_out_variant_that_computes_something_else(operators):
    def wrong(result, args, kwargs):
        return result.add_(1) if "out" in kwargs else result

    assert ("variants", "sin: the out variant gives other values") in findings(broken(operators["sin"], wrong))


def test_an_in_place_variant_that_computes_something_else(operators):
    wrong = replace(operators["sin"], inplace=lambda self: operators["cos"].inplace(self))
    found = findings(wrong)
    assert ("variants", "sin: the in-place variant gives other values") in found
    assert any("in the gradient of `self`, the in-place variant" in message for _, message in found)


def test_an_in_place_variant_that_returns_another_tensor(operators):
    wrong = replace(operators["sin"], inplace=lambda self: operators["sin"].inplace(self).clone())
    assert ("variants", "sin: the in-place variant does not return its tensor") in findings(wrong)


def test_an_out_variant_that_loses_gradients(operators):
    def careless(*args, **kwargs):
        if "out" in kwargs:
            args = [a.detach() if isinstance(a, gradloom.Tensor) else a for a in args]
        return operators["sin"].call(*args, **kwargs)

    assert any(
        "out variant accepts tensors that require grad" in message
        for _, message in findings(replace(operators["sin"], call=careless))
    )


def test_an_in_place_variant_with_another_tangent(operators):
    def inplace(self):
        found = operators["sin"].inplace(self)
        if found._tangent is not None:
            found._tangent = found._tangent * 2
        return found

    assert findings(replace(operators["sin"], inplace=inplace)) == [
        ("variants", "sin: the in-place variant gives another tangent")
    ]


def test_a_backward_that_minds_the_layout_of_its_gradient(operators):
    class Careless(gradloom.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return (grad if grad.is_contiguous() else 2 * grad) * x.cos().conj()

    found = [message for _, message in findings(replace(operators["sin"], call=lambda self: Careless.apply(self)))]
    assert any("differs for a gradient of stride 0" in message for message in found)
    assert any("differs for a gradient that is not contiguous" in message for message in found)


def test_a_kernel_that_minds_the_layout(operators):
    def in_memory_order(result, args, kwargs):
        return gradloom.from_numpy(np.sin(args[0].detach().numpy().ravel("K")).reshape(args[0].shape))

    found = [check for check, _ in findings(broken(operators["sin"], in_memory_order))]
    assert "layout" in found


def test_a_result_in_another_dtype(operators):
    def double(result, args, kwargs):
        return result.double()

    assert any(
        check == "dtypes" and "single precision gives" in message
        for check, message in findings(broken(operators["sin"], double))
    )


def test_integers_against_the_rule_of_type_promotion(operators):
    def narrow(result, args, kwargs):
        return result.double() if args[0].dtype is gradloom.int64 else result

    found = findings(broken(operators["sin"], narrow))
    assert any("`type_promotion: int_to_float` says" in message for _, message in found)


def test_single_precision_that_loses_more_than_rounding(operators):
    def coarse(result, args, kwargs):
        return result + 0.01 if result.dtype is gradloom.float32 else result

    assert ("dtypes", "sin: single precision gives other values") in findings(broken(operators["sin"], coarse))


def test_broadcasting_that_is_not_expanding(operators):
    def shifted(result, args, kwargs):
        return result if args[0].shape == args[1].shape else result * 2

    found = [check for check, _ in findings(broken(operators["mul.Tensor"], shifted))]
    assert "broadcast" in found


def test_a_call_that_raises(operators):
    def refuse(*args, **kwargs):
        raise TypeError("no thanks")

    assert findings(replace(operators["sin"], call=refuse)) == [("call", "sin: raises TypeError: no thanks")]


def test_an_operator_without_samples(operators):
    (finding,) = verify_operator(replace(operators["sin"], samples=lambda: iter(()))).findings
    assert "there are no samples" in finding.message and finding.place.path == "native_functions.yaml"


def test_nothing_is_left_behind(operators):
    """Verifying draws no random numbers of the user's, and leaves modes as they are."""
    gradloom.manual_seed(3)
    before = gradloom.rand(2).tolist()
    gradloom.manual_seed(3)
    verify_operator(operators["native_dropout"])
    assert gradloom.rand(2).tolist() == before and gradloom.is_grad_enabled()


def test_an_in_place_entry_has_its_derivatives_checked(operators):
    result = verify_operator(operators["copy_"])
    assert not result.findings and result.counts.keys() >= {"reverse", "forward", *COMPOSITIONS.values()}

    def forgets(self, *args, **kwargs):
        return operators["copy_"].call(self, *[a.detach() for a in args if isinstance(a, gradloom.Tensor)])

    found = verify_operator(replace(operators["copy_"], call=forgets)).findings
    assert any(f.check == "reverse" and f.input == "src" for f in found)
