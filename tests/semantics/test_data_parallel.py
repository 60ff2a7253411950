"""`nn.DataParallel` and its functions on a machine without accelerators."""

from __future__ import annotations

import pytest


def test_it_calls_its_module_and_prefixes_names(torch):
    layer = torch.nn.Linear(3, 2)
    wrapped = torch.nn.DataParallel(layer, device_ids=[0], output_device=0)
    assert wrapped.module is layer and wrapped.device_ids == []
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    x = torch.ones(2, 3)
    assert torch.equal(wrapped(x), layer(x)) and torch.equal(wrapped(input=x), layer(x))
    wrapped(x).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0] * 3] * 2
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict"):
        wrapped.load_state_dict(layer.state_dict())
    assert not hasattr(wrapped, "in_features")


def test_arguments_without_tensors_are_scattered(torch):
    from importlib import import_module

    places = import_module(f"{torch.__name__}.nn.parallel.scatter_gather")
    assert places.scatter({"a": 1, "b": [2]}, [0, 1]) == [{"a": 1, "b": [2]}] * 2
    assert places.scatter_kwargs((1,), {"a": 2}, [0, 1]) == (((1,), (1,)), ({"a": 2}, {"a": 2}))
    assert places.scatter_kwargs((), {"a": 2}, [0]) == (((),), ({"a": 2},))
    assert not places.is_namedtuple((1, 2))


def test_nothing_runs_on_accelerators(torch):
    parallel, layer = torch.nn.parallel, torch.nn.Linear(1, 1)
    for call in (
        lambda: parallel.replicate(layer, [0, 1]),
        lambda: parallel.scatter(torch.ones(2), [0]),
        lambda: parallel.gather([torch.ones(1)], "cpu"),
        lambda: parallel.parallel_apply([layer, layer], [torch.ones(1)] * 2),
        lambda: parallel.data_parallel(layer, torch.ones(1)),
    ):
        with pytest.raises((RuntimeError, AssertionError, AttributeError)):
            call()
