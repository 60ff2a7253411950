"""Writes to inputs and results between the forward and the backward pass: an error where the backward pass would read
them, and no error where it does not.
"""

from __future__ import annotations

import pytest

import gradloom as torch

MODIFIED = "modified by an inplace operation"


pytestmark = pytest.mark.usefixtures("each_backend")


def square():
    return torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()


def warm(function, *others):
    compiled = torch.compile(function)
    for _ in range(2):
        compiled(square(), *others)
    return compiled


READ_THEIR_RESULT = [
    lambda x: torch.exp(x * 2),
    lambda x: torch.softmax(x * 2, -1),
    lambda x: torch.sigmoid(x * 2),
    lambda x: torch.tanh(x @ x),
    lambda x: torch.tanh(x @ x).t(),
]


@pytest.mark.parametrize("function", READ_THEIR_RESULT)
def test_a_result_that_the_backward_pass_reads_may_not_be_written_to(function):
    y = warm(function)(square())
    y.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_a_view_of_such_a_result_may_not_be_written_to_either():
    y = warm(lambda x: torch.exp(x * 2))(square())
    y.detach()[0].zero_()
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_a_result_that_the_backward_pass_does_not_read_may_be_written_to():
    x = square()
    y = warm(lambda x: torch.sin(x * 2))(x)
    y.add_(1)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * torch.cos(x.detach() * 2))


def test_an_input_that_the_backward_pass_does_not_read_may_be_written_to():
    function = warm(lambda x, b: torch.sin(x) * 2 + b, torch.ones(3))
    x, b = square(), torch.ones(3)
    y = function(x, b)
    b.zero_()
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * torch.cos(x.detach()))


def test_an_input_that_the_backward_pass_reads_may_not_be_written_to():
    function = warm(lambda x, w: torch.sin(x @ w) + x, torch.ones(3, 3))
    w = torch.ones(3, 3)
    y = function(square(), w)
    w.zero_()
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_a_gradient_that_is_not_needed_allows_writes_to_what_only_it_reads():
    def f(x, w):
        return torch.sin(x) * 2, torch.sin(x * w)

    function = warm(f, torch.ones(3, 3))
    x, w = square(), torch.ones(3, 3)
    first, _ = function(x, w)
    w.zero_()
    first.sum().backward()
    torch.testing.assert_close(x.grad, 2 * torch.cos(x.detach()))


def test_enable_grad_inside_no_grad_gives_a_history():
    def f(x):
        with torch.enable_grad():
            y = torch.sin(x) * 2
        return y, y * 2

    function = torch.compile(f, fullgraph=True)
    for _ in range(3):
        x = square()
        with torch.no_grad():
            y, z = function(x)
        assert y.requires_grad and not z.requires_grad
        y.sum().backward()
        torch.testing.assert_close(x.grad, 2 * torch.cos(x.detach()))
