"""Saved states of optimizers: numbers in place of tensors, as PyTorch 1.x saved them, and the dtype of step counts."""

import copy

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
