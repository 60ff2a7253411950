"""Steps that autograd records, differentiated through and compared with central differences."""

import pytest

import gradloom as torch

OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"maximize": True},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {},
    "Adagrad": {"lr_decay": 0.1},
    "Adadelta": {"rho": 0.5, "eps": 1e-2},
    "RMSprop": {"momentum": 0.9, "centered": True, "eps": 1e-2},
    "Rprop": {},
    "ASGD": {"weight_decay": 0.1},
}


def after_two_steps(name, start, slope, differentiable):
    parameter = start * 1 if differentiable else start.detach().clone().requires_grad_()
    options = {"lr": 0.1, **OPTIMIZERS[name], "differentiable": differentiable}
    optimizer = getattr(torch.optim, name)([parameter], **options)
    for count in (1.0, 2.0):
        parameter.grad = torch.cos(slope) * count + 0.3 * slope**2
        optimizer.step()
    return parameter


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_recorded_step_gives_the_same_numbers_and_has_derivatives(name):
    start = torch.tensor([0.5, -1.5, 2.0], dtype=torch.float64, requires_grad=True)
    slope = torch.tensor([0.7, 1.2, -2.0], dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        plain = after_two_steps(name, start, slope, False)
    recorded = after_two_steps(name, start, slope, True)
    torch.testing.assert_close(recorded.detach(), plain.detach())
    assert torch.autograd.gradcheck(lambda s, w: after_two_steps(name, s, w, True), (start, slope))


def test_a_leaf_cannot_be_changed_by_a_recorded_step():
    parameter = torch.ones(2, requires_grad=True)
    parameter.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        torch.optim.Adam([parameter], differentiable=True).step()


def test_options_have_no_gradient():
    rate = torch.tensor(0.1, requires_grad=True)
    with pytest.raises(NotImplementedError, match="no gradients for options"):
        torch.optim.SGD([torch.ones(2)], lr=rate, differentiable=True)
