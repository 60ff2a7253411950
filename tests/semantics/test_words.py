"""Phrases of messages that people search for, where no other test says them."""

import pytest


def test_what_functional_calls_take_and_give(torch):
    functional = torch.autograd.functional
    ones = torch.ones(2)
    for call, words in (
        (lambda: functional.jacobian(lambda x: 3, ones), "the given outputs of the user-provided function has type"),
        (lambda: functional.jacobian(lambda x: x, 3), "but the given inputs has type"),
        (lambda: functional.jacobian(lambda x: (x, 3), ones), "but the value at index 1 has type"),
    ):
        with pytest.raises(TypeError, match=words):
            call()


def test_a_function_that_is_linear_has_no_strict_hessian(torch):
    with pytest.raises(RuntimeError, match="While computing the hessian, found that the jacobian of the user-provided"):
        torch.autograd.functional.hessian(lambda x: x.sum(), torch.ones(2), strict=True)


def test_gradcheck_wants_an_input_that_requires_grad_and_tensors_back(torch):
    with pytest.raises(ValueError, match="but none of them have requires_grad=True"):
        torch.autograd.gradcheck(lambda x: x, torch.ones(2, dtype=torch.float64))
    for function in (lambda x: 3, lambda x: (x * 2, None)):
        with pytest.raises(AttributeError, match="object has no attribute 'requires_grad'"):
            torch.autograd.gradcheck(function, torch.ones(2, dtype=torch.float64, requires_grad=True))


def test_flags_are_bools_or_integers(torch):
    x = torch.ones(2, requires_grad=True)
    for options in ({"retain_graph": "yes"}, {"create_graph": 1.5}, {"create_graph": None}):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            (x * 2).sum().backward(**options)
    (x * 2).sum().backward(retain_graph=1)
    assert x.grad.tolist() == [2.0, 2.0]
