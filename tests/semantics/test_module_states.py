"""States of modules that share parameters and buffers, loaded with `assign=True`."""

import pytest


def tied(torch, device=None):
    """Return a model with a parameter of three names, in two modules, and a buffer of two."""
    with torch.device(device or "cpu"):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2))
    model[1].weight = model[1].other = model[0].weight
    model.register_buffer("x", torch.ones(2, device=device))
    model.register_buffer("y", model.x, persistent=False)
    return model


def check_tied(model, weight, x):
    assert model[0].weight is model[1].weight is model[1].other and model.x is model.y
    assert model[0].weight.tolist() == [[weight] * 2] * 2 and model.x.tolist() == [x] * 2
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "1.bias"]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("given", [["0.weight"], ["1.weight"], ["1.other"], ["0.weight", "1.other", "1.weight"]])
def test_assigned_states_keep_tied_parameters_tied(gradloom, device, given):
    torch, model = gradloom, tied(gradloom, device)
    state = {name: torch.full((2, 2), 3.0 + i) for i, name in enumerate(given)}
    state |= {"x": torch.zeros(2), "1.bias": torch.zeros(2)}
    found = model.load_state_dict(state, strict=False, assign=True)
    assert sorted(found.missing_keys) == sorted({"0.weight", "1.weight", "1.other"} - set(given))
    last = [name for name in model.state_dict() if name in given][-1]  # as copying does
    check_tied(model, state[last][0, 0].item(), 0.0)
    if device == "cpu":
        copied = tied(torch)
        copied.load_state_dict(state, strict=False)
        check_tied(copied, state[last][0, 0].item(), 0.0)


def test_assigned_states_of_a_tied_model_are_those_tensors(gradloom):
    source, model = tied(gradloom), tied(gradloom)
    model[0].weight.requires_grad_(False)
    model.load_state_dict(source.state_dict(), assign=True)
    assert model[0].weight.data_ptr() == source[0].weight.data_ptr() and not model[1].other.requires_grad
    assert model[0].weight is model[1].weight is model[1].other


def test_assigned_states_do_not_tie_parameters(torch):
    model, weight = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(2)]), torch.zeros(2, 2)
    model.load_state_dict(
        {f"{i}.{n}": weight if n == "weight" else weight[0] for i in "01" for n in ("weight", "bias")}, assign=True
    )
    assert model[0].weight is not model[1].weight and len(list(model.parameters())) == 4
