"""Saved states of optimizers: numbers in place of tensors, as PyTorch 1.x saved them, and the dtype of step counts."""

import copy
from importlib import import_module

import numpy as np
import pytest

NAMES = "Adadelta Adafactor Adagrad Adam AdamW Adamax ASGD NAdam RAdam RMSprop Rprop".split()
FORMS = [
    *((name, {}) for name in NAMES),
    *((name, {"foreach": True}) for name in NAMES),
    *((name, {"differentiable": True}) for name in NAMES if name != "Adafactor"),
    *((name, {"fused": True}) for name in ("Adagrad", "Adam", "AdamW")),
]
NUMBERS = [int, float, np.int64, np.float32, np.float64]


def take_steps(torch, optimizer, count):
    parameters = optimizer.param_groups[0]["params"]
    for i in range(count):
        for parameter in parameters:
            parameter.grad = (parameter.detach() + i).cos()
        with torch.no_grad():
            optimizer.step()


def made(torch, name, options, values=(0.1, 0.7, -2.0)):
    parameters = [torch.full((2, 3), value, dtype=torch.float64) for value in values]
    if not options.get("differentiable"):  # a step that autograd records cannot write to a leaf that requires grad
        parameters = [torch.nn.Parameter(parameter) for parameter in parameters]
    return getattr(torch.optim, name)(parameters, lr=0.1, **options)


def loaded(torch, name, options, state):
    """Return an optimizer of other parameters with a state, and take two steps."""
    optimizer = made(torch, name, options, (1.0, 2.0, 3.0))
    optimizer.load_state_dict(state)
    kept = [optimizer.state[p] for p in optimizer.param_groups[0]["params"]]
    take_steps(torch, optimizer, 2)
    return optimizer.param_groups[0]["params"], kept


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.__name__)
@pytest.mark.parametrize(("name", "options"), FORMS, ids=str)
def test_numbers_of_a_state_become_tensors(torch, name, options, number):
    optimizer = made(torch, name, options)
    take_steps(torch, optimizer, 3)
    state = copy.deepcopy(optimizer.state_dict())
    old = copy.deepcopy(state)
    for kept in old["state"].values():
        kept["step"] = number(3)
        for other in {"eta", "mu", "mu_product"} & set(kept):
            kept[other] = kept[other].item()
    expected, _ = loaded(torch, name, options, state)
    found, kept = loaded(torch, name, options, old)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)  # the other state's numbers may be float64
    for one in kept:
        numbers = {"step", "eta", "mu", "mu_product"} & set(one)
        assert all(one[key].dtype is torch.float32 and one[key].dim() == 0 for key in numbers)
        assert one["step"].item() == 5


def test_the_sparse_optimizer_keeps_numbers(torch):
    for number in (int, np.int64, lambda count: torch.tensor(float(count))):
        embedding = torch.nn.Embedding(4, 2, sparse=True)
        optimizer = torch.optim.SparseAdam(embedding.parameters())
        for _ in range(3):
            embedding(torch.tensor([0, 2])).sum().backward()
            optimizer.step()
        state = optimizer.state_dict()
        state["state"][0]["step"] = number(3)
        optimizer.load_state_dict(state)
        before = embedding.weight.detach().clone()
        optimizer.step()
        torch.testing.assert_close(embedding.weight[[1, 3]], before[[1, 3]])
        torch.testing.assert_close(embedding.weight[[0, 2]], before[[0, 2]] - 0.001, rtol=0, atol=1e-4)
        assert optimizer.state[embedding.weight]["step"] == 4


@pytest.mark.parametrize(("name", "options"), FORMS, ids=str)
def test_step_counts_follow_the_default_dtype(torch, name, options):
    if options.get("differentiable"):
        options = {}
    torch.set_default_dtype(torch.float64)
    try:
        optimizer = made(torch, name, options)
        take_steps(torch, optimizer, 1)
        state = optimizer.state_dict()
        wanted = torch.float32 if options.get("fused") else torch.float64
        for kept in state["state"].values():
            assert {kept[key].dtype for key in {"step", "eta", "mu", "mu_product"} & set(kept)} == {wanted}
            kept["step"] = 1
        _, kept = loaded(torch, name, options, state)
        assert {one["step"].dtype for one in kept} == {wanted}
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", ["Adagrad", "Adam", "AdamW"])
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_step_counts_of_fused_optimizers_become_float32(torch, name, dtype):
    for options in ({}, {"fused": True}):
        optimizer = made(torch, name, options)
        take_steps(torch, optimizer, 1)
        state = optimizer.state_dict()
        for kept in state["state"].values():
            kept["step"] = kept["step"].to(getattr(torch, dtype))
        _, kept = loaded(torch, name, options, state)
        assert {one["step"].dtype for one in kept} == {torch.float32 if options else getattr(torch, dtype)}


@pytest.mark.parametrize("name", NAMES)
def test_a_state_without_a_step_count_is_refused(torch, name):
    optimizer = made(torch, name, {})
    take_steps(torch, optimizer, 1)
    state = optimizer.state_dict()
    del state["state"][0]["step"]
    with pytest.raises(KeyError, match="step"):
        made(torch, name, {}).load_state_dict(state)


# --- optimizers as functions, and L-BFGS that maximizes -------------------------------------------------------------

BETAS = {"beta1": 0.9, "beta2": 0.99}
STEPS = {  # function: optimizer, lists, numbers of the function, those of the optimizer where they differ
    "adadelta": ("Adadelta", "square_avg acc_delta step", {"rho": 0.9, "eps": 1e-6, "weight_decay": 0.1}, None),
    "adagrad": ("Adagrad", "sum step", {"weight_decay": 0.1, "lr_decay": 0.1, "eps": 1e-6}, None),
    "adam": (
        "Adam",
        "exp_avg exp_avg_sq max_exp_avg_sq step",
        {"amsgrad": True, **BETAS, "weight_decay": 0.1, "eps": 1e-8},
        {"amsgrad": True, "betas": (0.9, 0.99), "weight_decay": 0.1},
    ),
    "adamax": (
        "Adamax",
        "exp_avg exp_inf step",
        {**BETAS, "eps": 1e-8, "weight_decay": 0.1},
        {"betas": (0.9, 0.99), "weight_decay": 0.1},
    ),
    "asgd": ("ASGD", "ax mu eta step", {"lambd": 0.1, "t0": 1.0, "alpha": 0.75, "weight_decay": 0.1}, None),
    "nadam": (
        "NAdam",
        "exp_avg exp_avg_sq mu_product step",
        {**BETAS, "weight_decay": 0.1, "momentum_decay": 0.004, "eps": 1e-8},
        {"betas": (0.9, 0.99), "weight_decay": 0.1},
    ),
    "rmsprop": (
        "RMSprop",
        "square_avg grad_avg momentum_buffer step",
        {"alpha": 0.9, "eps": 1e-8, "weight_decay": 0.1, "momentum": 0.9, "centered": True},
        None,
    ),
    "rprop": (
        "Rprop",
        "prev step_size step",
        {"step_size_min": 1e-6, "step_size_max": 50.0, "etaminus": 0.5, "etaplus": 1.2},
        {},
    ),
    "sgd": ("SGD", "momentum_buffer", {"weight_decay": 0.1, "momentum": 0.9, "dampening": 0.0, "nesterov": True}, None),
}


@pytest.mark.since("2.15")
@pytest.mark.parametrize("name", STEPS)
def test_a_function_makes_the_second_step_of_its_optimizer(torch, name):
    kind, lists, numbers, options = STEPS[name]
    optimizer = made(torch, kind, numbers if options is None else options)
    take_steps(torch, optimizer, 1)
    leaves = optimizer.param_groups[0]["params"]
    states = {key: [optimizer.state[p][key].clone() for p in leaves] for key in lists.split()}
    parameters, gradients = [p.detach().clone() for p in leaves], [p.detach().cos() for p in leaves]
    take_steps(torch, optimizer, 1)
    rest = numbers | ({} if name == "rprop" else {"lr": 0.1})
    if "maximize" not in rest and name not in ("adamax", "asgd", "nadam", "rmsprop", "rprop"):
        rest["maximize"] = False
    function = getattr(import_module(f"{torch.__name__}.optim.functional"), name)
    assert function(parameters, gradients, *states.values(), **rest) is None
    for i, p in enumerate(leaves):
        torch.testing.assert_close(parameters[i], p.detach())
        for key, values in states.items():
            torch.testing.assert_close(values[i], optimizer.state[p][key])


@pytest.mark.since("2.15")
def test_a_functional_sgd_fills_in_buffers_that_are_missing(torch):
    buffers, parameters = [None], [torch.ones(2)]
    step = import_module(f"{torch.__name__}.optim.functional").sgd
    options = {"weight_decay": 0.0, "momentum": 0.9, "lr": 0.5, "dampening": 0.0, "nesterov": False, "maximize": True}
    step(parameters, [torch.ones(2)], buffers, **options)
    assert parameters[0].tolist() == [1.5, 1.5] and buffers[0].tolist() == [-1, -1]


@pytest.mark.since("2.15")
@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_maximizes_what_it_would_minimize_with_the_other_sign(torch, search):
    def minimum(sign):
        x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        further = {"maximize": True} if sign < 0 else {}
        optimizer = torch.optim.LBFGS([x], lr=0.5, max_iter=5, line_search_fn=search, **further)

        def closure():
            optimizer.zero_grad()
            loss = sign * ((x - 3) ** 2 * torch.tensor([1.0, 4.0])).sum()
            loss.backward()
            return loss

        return optimizer.step(closure).item(), x.tolist()

    first, found = minimum(1)
    assert minimum(-1) == (-first, found)
