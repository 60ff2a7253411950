"""Optimizers with `foreach=True`: what PyTorch's lists compute in another way or refuse."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import gradloom  # noqa: E402

OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD")


def rates_of_asgd(library, foreach: bool) -> list[float]:
    """Return eta after each of some steps."""
    parameter = library.nn.Parameter(library.ones(2, dtype=library.float64))
    # With the exponent 1, all that is rounded is exactly defined.
    optimizer = library.optim.ASGD([parameter], lr=0.1, lambd=0.05, alpha=1.0, foreach=foreach)
    rates = []
    for _ in range(50):
        parameter.grad = library.ones_like(parameter)
        optimizer.step()
        rates.append(optimizer.state[parameter]["eta"].item())
    return rates


@pytest.mark.parametrize("foreach", [False, True])
def test_the_rate_of_asgd_is_rounded_as_in_pytorch(foreach):
    assert rates_of_asgd(gradloom, foreach) == rates_of_asgd(torch, foreach)


def outcome(library, name: str) -> str:
    """Return the error of a step that is to be recorded and takes lists."""
    parameter = library.ones(2, requires_grad=True) * 1
    optimizer = getattr(library.optim, name)([parameter], lr=0.1, foreach=True, differentiable=True)
    parameter.grad = library.ones(2)
    try:
        optimizer.step()
    except AssertionError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_lists_cannot_be_recorded(name):
    assert outcome(gradloom, name) == outcome(torch, name)
