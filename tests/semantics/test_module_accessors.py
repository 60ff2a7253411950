"""Tensors of modules by their paths: torch.nn.utils._named_member_accessor."""

from importlib import import_module

import pytest


@pytest.fixture
def accessors(torch):
    return import_module(f"{torch.__name__}.nn.utils._named_member_accessor")


def test_tensors_are_swapped_without_being_registered(torch, accessors):
    layer = torch.nn.Linear(2, 2)
    weight = layer.weight
    assert accessors.swap_tensor(layer, "weight", torch.ones(2, 2)) is weight
    assert type(layer.weight) is torch.Tensor and "weight" in dict(layer.named_parameters())
    missing = accessors.swap_tensor(layer, "extra", torch.ones(1), allow_missing=True)
    assert layer.extra.item() == 1
    accessors.swap_tensor(layer, "extra", missing)
    assert not hasattr(layer, "extra")
    for name, error in (("a.b", KeyError), ("", KeyError), ("extra", AttributeError), ("in_features", TypeError)):
        with pytest.raises(error):
            accessors.swap_tensor(layer, name, torch.ones(1))
    with pytest.raises(TypeError, match="not an instance of torch.Tensor"):
        accessors.swap_tensor(layer, "weight", 1)


def test_an_accessor_reads_and_replaces_by_path(torch, accessors):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.BatchNorm1d(2)))
    access = accessors.NamedMemberAccessor(model)
    assert access.get_tensor("1.0.running_mean") is model[1][0].running_mean
    assert access.get_submodule("1.0") is model[1][0] and access.get_submodule("") is model
    names = ["0.weight", "0.bias"]
    former = access.get_tensors(names)
    swapped = access.swap_tensors(names, [torch.zeros(2, 2), torch.zeros(2)])
    assert [id(tensor) for tensor in swapped] == [id(tensor) for tensor in former]
    assert model(torch.ones(3, 2)).abs().max() < 1e-3
    access.set_tensors(names, former)
    found, missing = access.swap_tensors_dict({"0.bias": torch.ones(2), "0.new": torch.ones(1)}, allow_missing=True)
    assert missing == ["0.new"] and found["0.bias"] is former[1] and model[0].new.item() == 1
    with pytest.raises(RuntimeError, match="Missing key"):
        access.swap_tensors_dict({"0.bias": torch.zeros(2), "0.newer": torch.ones(1)})
    assert model[0].bias.tolist() == [1.0, 1.0] and not hasattr(model[0], "newer")
    access.del_tensor("0.bias")
    assert access.check_keys(["0.weight", "x"])[1] == ["x"] and "0.bias" not in dict(access.named_tensors())
    old = access.swap_submodule("0", torch.nn.Identity())
    assert type(old) is torch.nn.Linear and type(model[0]) is torch.nn.Identity
    for call in (lambda: access.get_tensor("1.weight"), lambda: access.get_submodule("9")):
        with pytest.raises(AttributeError):
            call()
