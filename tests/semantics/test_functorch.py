"""functorch, the package beside torch, under both libraries; gradloom has it as `gradloom._functorch.deprecated`."""

from importlib import import_module

import pytest


@pytest.fixture
def functorch(torch):
    return import_module("functorch" if torch.__name__ == "torch" else "gradloom._functorch.deprecated")


@pytest.mark.filterwarnings("ignore:We've integrated functorch:FutureWarning")
def test_modules_are_functions_of_their_tensors(torch, functorch):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).eval()
    function, params, buffers = functorch.make_functional_with_buffers(model)
    assert function.param_names == ("0.weight", "0.bias", "1.weight", "1.bias") and len(buffers) == 3
    x = torch.randn(4, 2)
    assert torch.equal(function(params, buffers, x), model(x)) and params[0] is not model[0].weight
    assert function(tuple(torch.zeros_like(p) for p in params), buffers, x).abs().sum() == 0
    with pytest.raises(RuntimeError, match="make_functional_with_buffers"):
        functorch.make_functional(model)
    layer, plain = functorch.make_functional(torch.nn.Linear(2, 1), disable_autograd_tracking=True)
    assert not plain[0].requires_grad and layer(plain, x).shape == (4, 1)
    grads = functorch.grad(lambda p: function(p, buffers, x).pow(2).sum())(params)
    assert [g.shape for g in grads] == [p.shape for p in params]


@pytest.mark.filterwarnings("ignore:We've integrated functorch:FutureWarning")
def test_an_ensemble_is_one_function_of_stacked_tensors(torch, functorch):
    models = [torch.nn.Linear(2, 1) for _ in range(3)]
    function, params, buffers = functorch.combine_state_for_ensemble(models)
    assert [tuple(p.shape) for p in params] == [(3, 1, 2), (3, 1)] and not params[0].requires_grad
    x = torch.ones(5, 2)
    found = functorch.vmap(function, (0, 0, None))(params, buffers, x)
    assert torch.allclose(found, torch.stack([m(x) for m in models]))
    for wrong in ([], [models[0], torch.nn.Linear(2, 1).eval()], [models[0], torch.nn.ReLU()]):
        with pytest.raises(RuntimeError, match="combine_state_for_ensemble: Expected"):
            functorch.combine_state_for_ensemble(wrong)


def test_functions_name_their_successors(torch, functorch):
    with pytest.warns(FutureWarning, match="`functorch.vmap` is deprecated .* Please use `torch.vmap` instead"):
        functorch.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
