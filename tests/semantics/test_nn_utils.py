"""nn.utils: parametrizations, pruning, weights computed by hooks, fused layers, and old names."""

import copy
import pickle
from importlib import import_module

import pytest


@pytest.fixture
def utils(torch):
    torch.manual_seed(0)
    import_module(f"{torch.__name__}.nn.utils.prune")
    return torch.nn.utils


def keys(module):
    return list(module.state_dict())


def symmetric(torch):
    class Symmetric(torch.nn.Module):
        def forward(self, X):
            return X.triu() + X.triu(1).mT

        def right_inverse(self, A):
            return A.triu()

    return Symmetric()


def outer(torch):
    class Outer(torch.nn.Module):
        def forward(self, a, b):
            return a @ b

        def right_inverse(self, A):
            return A[:, :1].clone(), A[:1].clone()

    return Outer()


def test_a_parametrized_weight_is_computed_and_its_original_trained(torch, utils):
    m = torch.nn.Linear(3, 3)
    utils.parametrize.register_parametrization(m, "weight", symmetric(torch))
    assert type(m).__name__ == "ParametrizedLinear" and keys(m) == ["bias", "parametrizations.weight.original"]
    assert torch.equal(m.weight, m.weight.mT) and m.weight is not m.weight
    m(torch.ones(1, 3)).sum().backward()
    assert m.parametrizations.weight.original.grad.tolist() == [[1, 2, 2], [0, 1, 2], [0, 0, 1]]
    m.weight = torch.ones(3, 3)
    assert torch.equal(m.weight, torch.ones(3, 3)) and m.parametrizations.weight.original[1, 0] == 0
    with utils.parametrize.cached():
        assert m.weight is m.weight
    assert torch.equal(copy.deepcopy(m).weight, m.weight)
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(m)
    utils.parametrize.remove_parametrizations(m, "weight")
    assert type(m) is torch.nn.Linear and torch.equal(m.weight, torch.ones(3, 3)) and m.weight.is_leaf


def test_a_weight_of_two_originals(torch, utils):
    m, other = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    utils.parametrize.register_parametrization(m, "weight", outer(torch))
    assert keys(m)[1:] == ["parametrizations.weight.original0", "parametrizations.weight.original1"]
    utils.parametrize.transfer_parametrizations_and_params(m, other)
    assert torch.equal(other.weight, m.weight)
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        utils.parametrize.remove_parametrizations(m, "weight", leave_parametrized=False)
    utils.parametrize.remove_parametrizations(m, "weight")
    assert isinstance(m.weight, torch.nn.Parameter) and m.weight.requires_grad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[:1], "may not change the shape of the tensor"),
        (lambda X: X.double(), "may not change the dtype of the tensor"),
        (lambda X: 3, "must return a tensor. Got"),
    ],
)
def test_a_parametrization_keeps_shape_and_dtype(torch, utils, change, message):
    class Wrong(torch.nn.Module):
        def forward(self, X):
            return change(X)

    with pytest.raises(ValueError, match=message):
        utils.parametrize.register_parametrization(torch.nn.Linear(2, 2), "weight", Wrong())


def test_what_cannot_be_parametrized(torch, utils):
    m = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized element with name"):
        utils.parametrize.register_parametrization(m, "foo", torch.nn.Identity())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        utils.parametrize.remove_parametrizations(m, "weight")
    utils.parametrize.register_parametrization(m, "weight", torch.nn.Identity())
    with pytest.raises(RuntimeError, match="Identity does not implement right_inverse"):
        m.weight = torch.ones(2, 2)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(torch, utils, dim):
    m = torch.nn.Linear(2, 3)
    before = m.weight.detach().clone()
    utils.parametrizations.weight_norm(m, dim=dim)
    assert torch.allclose(m.weight, before)
    fused = "MulBackward0" if dim is None else "WeightNormInterfaceBackward0"
    assert m.weight.grad_fn.name() == fused
    m(torch.ones(1, 2)).pow(2).sum().backward()
    v = m.parametrizations.weight.original1
    assert abs((v.grad * v).sum().item()) < 1e-5  # the length is the other parameter's
    old = {"bias": m.bias, "weight_g": m.parametrizations.weight.original0 * 2, "weight_v": v}
    m.load_state_dict(old)
    assert torch.allclose(m.weight, 2 * before)


def test_spectral_norm(torch, utils):
    m = utils.parametrizations.spectral_norm(torch.nn.Linear(4, 3), n_power_iterations=3)
    assert keys(m)[1:] == [f"parametrizations.weight.{name}" for name in ("original", "0._u", "0._v")]
    for _ in range(20):
        weight = m.weight
    assert abs(torch.linalg.svdvals(weight)[0].item() - 1) < 1e-4
    m.eval()
    assert torch.equal(m.weight, m.weight)
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        utils.parametrizations.spectral_norm(torch.nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'foo'"):
        utils.parametrizations.spectral_norm(torch.nn.Linear(2, 2), "foo")


def test_elements_are_pruned_and_pruned_again(torch, utils):
    m = torch.nn.Linear(3, 2)
    sizes = m.weight.detach().abs().flatten()
    utils.prune.l1_unstructured(m, "weight", 2)
    assert keys(m) == ["bias", "weight_orig", "weight_mask"] and utils.prune.is_pruned(m)
    assert sizes[m.weight_mask.flatten() == 0].max() < sizes[m.weight_mask.flatten() == 1].min()
    first = m.weight_mask.clone()
    utils.prune.random_unstructured(m, "weight", 0.5)
    assert m.weight_mask.sum() == 2 and not ((m.weight_mask == 1) & (first == 0)).any()
    m(torch.ones(1, 3)).sum().backward()
    assert torch.equal(m.weight_orig.grad, m.weight_mask)
    utils.prune.remove(m, "weight")
    assert keys(m) == ["bias", "weight"] and (m.weight == 0).sum() == 4 and not utils.prune.is_pruned(m)
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        utils.prune.remove(m, "weight")


def test_channels_are_pruned(torch, utils):
    m = torch.nn.Conv2d(3, 4, 2)
    norms = m.weight.detach().flatten(1).norm(dim=1)
    utils.prune.ln_structured(m, "weight", amount=0.5, n=2, dim=0)
    kept = m.weight_mask.sum((1, 2, 3)) > 0
    assert kept.sum() == 2 and norms[kept].min() > norms[~kept].max()
    utils.prune.random_structured(m, "weight", 1, dim=1)
    assert sorted(m.weight_mask.sum((0, 2, 3)).tolist()) == [0, 8, 8]


def test_elements_of_several_modules_are_ranked_together(torch, utils):
    a, b = torch.nn.Linear(3, 2), torch.nn.Linear(2, 3)
    with torch.no_grad():
        a.weight *= 0.01
    parameters = [(a, "weight"), (b, "weight")]
    utils.prune.global_unstructured(parameters, utils.prune.L1Unstructured, amount=4)
    assert a.weight_mask.sum() == 2 and b.weight_mask.sum() == 6
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE supported'):
        utils.prune.global_unstructured(parameters, utils.prune.LnStructured, amount=1, n=2)


@pytest.mark.parametrize(
    ("amount", "error", "message"),
    [
        (10, ValueError, "amount=10 should be smaller than the number of parameters to prune=6"),
        (1.5, ValueError, "should either be a float in the range"),
        ("a", TypeError, "Must be int or float"),
    ],
)
def test_amounts_that_cannot_be_pruned(torch, utils, amount, error, message):
    with pytest.raises(error, match=message):
        utils.prune.l1_unstructured(torch.nn.Linear(3, 2), "weight", amount)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(("name", "added"), [("weight_norm", ["g", "v"]), ("spectral_norm", ["orig", "u", "v"])])
def test_weights_computed_by_hooks(torch, utils, name, added):
    m = torch.nn.Linear(2, 3)
    getattr(utils, name)(m)
    assert keys(m) == ["bias", *[f"weight_{suffix}" for suffix in added]]
    m(torch.ones(1, 2)).sum().backward()
    assert all(p.grad is not None for p in m.parameters())
    with pytest.raises(RuntimeError, match=f"Cannot register two {name} hooks on the same parameter weight"):
        getattr(utils, name)(m)
    weight = m.weight.detach()
    getattr(utils, f"remove_{name}")(m)
    assert isinstance(m.weight, torch.nn.Parameter) and torch.allclose(m.weight, weight)
    with pytest.raises(ValueError, match="not found in"):
        getattr(utils, f"remove_{name}")(m)


@pytest.mark.parametrize("transpose", [False, True])
def test_a_convolution_is_fused_with_its_normalisation(torch, utils, transpose):
    conv = (torch.nn.ConvTranspose2d if transpose else torch.nn.Conv2d)(2, 3, 2).eval()
    bn = torch.nn.BatchNorm2d(3).eval()
    bn.running_mean.uniform_()
    bn.running_var.uniform_(1, 2)
    x = torch.randn(1, 2, 4, 4)
    assert torch.allclose(utils.fuse_conv_bn_eval(conv, bn, transpose)(x), bn(conv(x)), atol=1e-6)
    with pytest.raises(AssertionError, match="Fusion only for eval"):
        utils.fuse_conv_bn_eval(conv.train(), bn)


def test_a_linear_layer_is_fused_with_its_normalisation(torch, utils):
    linear, bn, x = torch.nn.Linear(2, 3, bias=False).eval(), torch.nn.BatchNorm1d(3).eval(), torch.randn(4, 2)
    bn.running_mean.uniform_()
    assert torch.allclose(utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)), atol=1e-6)


def test_modules_without_initial_values(torch, utils):
    m = utils.skip_init(torch.nn.Linear, 2, 3)
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert m.weight.shape == (3, 2) and m.bias.requires_grad and torch.equal(drawn, torch.rand(1))


@pytest.mark.parametrize("call", ["init.uniform(t)", "init.constant(t, 3.0)", "init.orthogonal", "init.sparse"])
def test_old_names_of_initializers(torch, utils, call):
    t = torch.empty(2, 2)
    function = eval(call.partition("(")[0], {"init": torch.nn.init})
    assert function.__name__ == call.partition(".")[2].partition("(")[0]
    if "(" in call:
        with pytest.warns(FutureWarning, match=f"`nn.{call.partition('(')[0]}` is now deprecated in favor of"):
            assert eval(call, {"init": torch.nn.init, "t": t}) is t
