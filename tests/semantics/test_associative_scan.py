"""Running results of associative functions."""

from importlib import import_module

import pytest


@pytest.fixture
def scan(torch):
    return import_module(f"{torch.__name__}._higher_order_ops.associative_scan").associative_scan


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_of_additions_and_products(torch, scan, size):
    torch.manual_seed(0)
    x = torch.randn(3, size, 2)
    found = scan(torch.add, x, 1, combine_mode="generic")
    torch.testing.assert_close(found, x.cumsum(1))
    back = scan(torch.mul, x, -2, reverse=True, combine_mode="generic")
    torch.testing.assert_close(back, x.flip(1).cumprod(1).flip(1))


def test_of_a_linear_recurrence_with_gradients(torch, scan):
    torch.manual_seed(0)
    a, b = torch.rand(4, 6, requires_grad=True), torch.randn(4, 6, requires_grad=True)

    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    _, states = scan(combine, (a, b), 1, combine_mode="generic")
    state, wanted = torch.zeros(4), []
    for step in range(6):
        state = a[:, step] * state + b[:, step]
        wanted.append(state)
    wanted = torch.stack(wanted, 1)
    torch.testing.assert_close(states, wanted)
    found = torch.autograd.grad(states.square().sum(), (a, b))
    torch.testing.assert_close(found, torch.autograd.grad(wanted.square().sum(), (a, b)))


def test_wrong_arguments(gradloom):
    scan = import_module("gradloom._higher_order_ops.associative_scan").associative_scan
    x = gradloom.ones(3)
    for arguments, text in (
        ((None, x, 0), "Combine_fn must be a callable, but got None"),
        ((gradloom.add, [], 0), "Expected at least 1 xs leaf"),
        ((gradloom.add, x, 0, False, "other"), "Combine_mode must either 'pointwise' or 'generic', but got other"),
        ((gradloom.add, x, 2), "Dim 2 is out of range"),
    ):
        with pytest.raises(ValueError, match=text):
            scan(*arguments)
    with pytest.raises(RuntimeError, match="of its arguments' sizes"):
        scan(lambda a, b: (a, b), x, 0)
