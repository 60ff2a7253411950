"""func.functional_call, func.stack_module_state: modules as functions of their parameters."""

from importlib import import_module

import pytest


@pytest.fixture
def func(torch):
    return import_module(f"{torch.__name__}.func")


@pytest.fixture
def x(torch):
    return torch.ones(2)


@pytest.fixture
def net(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
            self.b.weight = self.a.weight
            self.shift = torch.nn.Parameter(torch.ones(2))
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x, *, times=1):
            return self.b(self.a(x)) * times + self.count + self.shift

    return Net()


@pytest.fixture
def values(torch):
    return {
        "a.weight": torch.eye(2),
        "a.bias": torch.zeros(2),
        "b.bias": torch.ones(2),
        "shift": torch.zeros(2),
        "count": torch.tensor([1.0, 2.0]),
    }


def test_a_module_is_called_with_other_tensors(torch, func, net, values, x):
    before = dict(net.named_parameters())
    assert func.functional_call(net, values, (x,)).tolist() == [3.0, 4.0]
    assert func.functional_call(net, values, x, {"times": 2}).tolist() == [5.0, 6.0]
    after = dict(net.named_parameters())
    assert list(after) == list(before) and all(after[name] is before[name] for name in before)
    assert isinstance(net.shift, torch.nn.Parameter) and net.b.weight is net.a.weight


def test_what_is_left_out_stays(torch, func, net, x):
    own = net(x)
    assert torch.equal(func.functional_call(net, {}, x), own)
    moved = func.functional_call(net, ({"shift": x * 3}, {"count": x}), x)
    assert torch.allclose(moved, own + 3)


def test_gradients_flow_to_the_tensors_that_were_given(torch, func, net, values, x):
    for value in values.values():
        value.requires_grad_()
    func.functional_call(net, values, x).sum().backward()
    assert values["shift"].grad.tolist() == [1.0, 1.0] and values["a.weight"].grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert all(p.grad is None for p in net.parameters())


def test_gradients_with_respect_to_parameters_by_grad(torch, func, net, x):
    def loss(parameters):
        return func.functional_call(net, parameters, x).sum()

    parameters = {name: p.detach() for name, p in net.named_parameters()}
    found = func.grad(loss)(parameters)
    expected = torch.autograd.grad(net(x).sum(), list(net.parameters()))
    assert list(found) == list(parameters)
    assert all(torch.allclose(found[name], g) for name, g in zip(parameters, expected, strict=True))


def test_one_name_of_tied_parameters_stands_for_all(torch, func, net, values, x):
    tied = func.functional_call(net, {"b.weight": torch.zeros(2, 2)}, x)
    assert torch.equal(tied, net.b.bias + 1)
    zeros = torch.zeros(2, 2)
    assert torch.equal(func.functional_call(net, {"a.weight": zeros, "b.weight": zeros}, x), tied)
    with pytest.raises(ValueError, match="multiple values for keys .'a.weight', 'b.weight'., which are tied"):
        func.functional_call(net, {"a.weight": torch.zeros(2, 2), "b.weight": torch.zeros(2, 2)}, x)
    values["b.weight"] = torch.zeros(2, 2)
    assert func.functional_call(net, values, x, tie_weights=False).tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    "dicts, error, message",
    [
        (3, ValueError, "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts"),
        ([3], ValueError, "Expected all elements of parameter_and_buffer_dicts to be dictionaries"),
        ({"shift": 3.0}, TypeError, "3.0 is not an instance of torch.Tensor"),
        ({"c.weight": None}, AttributeError, "Net has no attribute `c`"),
    ],
)
def test_other_dicts_are_refused(func, net, x, dicts, error, message):
    with pytest.raises(error, match=message):
        func.functional_call(net, dicts, x)


def test_dicts_must_not_share_a_name(func, net, x):
    with pytest.raises(ValueError, match=r"\['shift'\] appeared in multiple dictionaries"):
        func.functional_call(net, [{"shift": x}, {"shift": x}], x)


def test_strict_wants_all_names_and_no_others(func, net, values, x):
    assert func.functional_call(net, values, x, strict=True).tolist() == [3.0, 4.0]
    del values["shift"]
    with pytest.raises(RuntimeError, match=r"Error\(s\) in reparametrizing for Net:\n\tMissing key\(s\): 'shift'\."):
        func.functional_call(net, values, x, strict=True)
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'zz'\.\n\tMissing key\(s\): 'a.bias'"):
        func.functional_call(net, {"zz": x}, x, strict=True)
    assert func.functional_call(net, {"zz": x}, x).shape == (2,) and not hasattr(net, "zz")


def test_the_module_has_its_tensors_again_after_an_error(torch, func, net, x):
    with pytest.raises(RuntimeError):
        func.functional_call(net, {"shift": torch.ones(5)}, x)
    assert net.shift.tolist() == [1.0, 1.0] and list(net._parameters) == ["shift"]


def test_buffers_that_the_module_sets_are_put_into_the_dict(torch, func, x):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("new", torch.zeros(2))
            self.register_buffer("written", torch.zeros(2))

        def forward(self, x):
            self.new = self.new + x
            self.written.add_(x)
            return x

    counter, state = Counter(), {"new": torch.ones(2), "written": torch.ones(2)}
    func.functional_call(counter, state, x)
    assert counter.new.tolist() == [0.0, 0.0] == counter.written.tolist()
    assert state["new"].tolist() == [2.0, 2.0] == state["written"].tolist()


def test_the_state_of_several_modules_is_stacked(torch, func):
    models = [torch.nn.BatchNorm1d(2) for _ in range(3)]
    parameters, buffers = func.stack_module_state(models)
    assert {name: tuple(p.shape) for name, p in parameters.items()} == {"weight": (3, 2), "bias": (3, 2)}
    assert all(p.is_leaf and p.requires_grad for p in parameters.values())
    assert buffers["running_mean"].shape == (3, 2) and buffers["num_batches_tracked"].dtype == torch.int64
    models[0].requires_grad_(False), models[1].requires_grad_(False)
    assert not func.stack_module_state(models[:2])[0]["weight"].requires_grad


def test_modules_that_cannot_be_stacked_are_refused(torch, func):
    linear = torch.nn.Linear
    with pytest.raises(RuntimeError, match="Expected at least one model, got 0"):
        func.stack_module_state([])
    with pytest.raises(RuntimeError, match="Expected all models to be of the same class"):
        func.stack_module_state([linear(2, 1), torch.nn.ReLU()])
    with pytest.raises(RuntimeError, match="Expected all models to have the same training/eval mode"):
        func.stack_module_state([linear(2, 1), linear(2, 1).eval()])
    with pytest.raises(RuntimeError, match="Expected weight from each model to have the same .requires_grad"):
        func.stack_module_state([linear(2, 1), linear(2, 1).requires_grad_(False)])


def test_batch_normalization_forgets_its_running_statistics(torch, func):
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Sequential(torch.nn.BatchNorm2d(2)))
    assert func.replace_all_batch_norm_modules_(net) is net
    for norm in (net[0], net[1][0]):
        assert norm.running_mean is None and norm.running_var is None and not norm.track_running_stats
    assert net.eval()[0](torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().abs().item() < 1e-5
