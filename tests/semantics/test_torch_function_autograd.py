"""Autograd through subclasses of Tensor: writes in place, views, hooks, modes, modules and optimizers."""

from __future__ import annotations

import copy
from importlib import import_module

import pytest


@pytest.fixture
def S(torch):
    class S(torch.Tensor):
        pass

    return S


@pytest.fixture
def leaf(torch, S):
    return lambda *values: torch.Tensor._make_subclass(S, torch.tensor(values), True)


def test_writes_in_place_to_a_result(leaf, S):
    x = leaf(1.0, 2.0)
    y = x * 2
    y.mul_(3)
    assert type(y) is S and y._version == 1
    y[0] = 5
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 6.0]


def test_writes_to_a_view_of_a_result(leaf, S):
    x = leaf(1.0, 2.0)
    y = x * 2
    v = y[:1]
    v.mul_(10)
    assert type(v) is S and y.tolist() == [20.0, 4.0]
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 2.0]


def test_views_of_a_leaf(leaf, S):
    x = leaf(1.0, 2.0, 3.0, 4.0)
    v = x.view(2, 2).t()[0]
    assert type(v) is S and v.grad_fn.name() == "AliasBackward0" and v._base is x and v._is_view()
    assert v.grad_fn.next_functions[0][0].name() == "SelectBackward0"


def test_grad_modes(torch, leaf, S):
    x = leaf(1.0, 2.0)
    with torch.no_grad():
        y, z = x * 2, x.view(2, 1)
        x.add_(1)
    assert type(y) is type(z) is S and not y.requires_grad and x.tolist() == [2.0, 3.0]
    with torch.inference_mode():
        assert type(x * 2) is S and (x * 2).is_inference()
    assert type(x.detach_()) is S and not x.requires_grad


def test_hooks(torch, leaf, S):
    seen = []
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(lambda grad: (seen.append(type(grad)), grad * 2)[1])
    y.retain_grad()
    x.register_post_accumulate_grad_hook(lambda p: seen.append((type(p), type(p.grad))))
    y.sum().backward()
    assert seen[0] is torch.Tensor and seen[1] == (S, torch.Tensor) and x.grad.tolist() == [4.0, 4.0]
    assert y.grad.tolist() == [2.0, 2.0]


def test_saved_tensors_keep_their_class(torch, leaf, S):
    x = leaf(1.0, 2.0)
    node = (x * x).grad_fn.next_functions[0][0]
    assert type(node._saved_self) is S and node._saved_self is x
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(type(t)), t)[1], lambda t: t):
        y = x * x
    assert seen == [S, S]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_what_is_set_as_a_gradient_is_given_back(torch, leaf, S):
    x = leaf(1.0)
    given = torch.zeros(1).as_subclass(S)
    x.grad = given
    assert x.grad is given


def test_forward_mode(torch, S):
    fwAD = import_module(f"{torch.__name__}.autograd.forward_ad")
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.ones(2).as_subclass(S), torch.ones(2))
        y = x * 3
        primal, tangent = fwAD.unpack_dual(y)
        assert type(x) is type(y) is type(primal) is type(tangent) is S and tangent.tolist() == [3.0, 3.0]


def test_gradcheck(torch, S):
    x = torch.Tensor._make_subclass(S, torch.tensor([0.3, 0.7], dtype=torch.float64), True)
    assert torch.autograd.gradcheck(lambda a: (a * a).sin(), (x,))
    assert torch.autograd.gradgradcheck(lambda a: (a * a).sin(), (x,))


def test_checkpoint(torch, leaf, S):
    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    x = leaf(0.0, 0.0)
    y = checkpoint(lambda v: v.sin(), x, use_reentrant=False)
    y.sum().backward()
    assert type(y) is S and x.grad.tolist() == [1.0, 1.0]


def test_jacobian(torch, leaf):
    found = torch.autograd.functional.jacobian(lambda v: v * 2, leaf(1.0, 2.0))
    assert found.tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_a_function_of_several_results(torch, leaf, S):
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a)
            return a * b, a + b

        @staticmethod
        def backward(ctx, g, h):
            (a,) = ctx.saved_tensors
            assert type(a) is S
            return g * 2 + h, None

    x = leaf(1.0, 2.0)
    product, total = Both.apply(x, torch.ones(2))
    assert type(product) is type(total) is S
    (product + total).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_training_a_parameter_of_a_subclass(torch, S):
    torch.manual_seed(0)
    net = torch.nn.Linear(2, 1)
    net.weight = torch.nn.Parameter(net.weight.detach().as_subclass(S))
    before = net.weight.tolist()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        out = net(torch.ones(3, 2))
        assert type(out) is S
        (out**2).mean().backward()
        optimizer.step()
    assert type(net.weight) is S and isinstance(net.weight, torch.nn.Parameter) and net.weight.tolist() != before
    assert list(net.state_dict()) == ["weight", "bias"] and type(net.weight.grad) is torch.Tensor
    other = torch.nn.Linear(2, 1)
    other.load_state_dict(net.state_dict())
    assert torch.equal(other.weight, net.weight)


def test_clipping_the_gradient_of_a_subclass(torch, S):
    p = torch.nn.Parameter(torch.ones(2).as_subclass(S))
    (p * 10).sum().backward()
    torch.nn.utils.clip_grad_norm_([p], 1.0)
    assert p.grad.pow(2).sum().item() == pytest.approx(1.0)


def test_subclasses_of_parameter(torch):
    class Own(torch.nn.Parameter):
        pass

    p = Own(torch.ones(2))
    assert type(p) is Own and isinstance(p, torch.nn.Parameter) and type(p * 2) is torch.Tensor
    assert repr(p) == "Parameter containing:\nParameter(Own([1., 1.], requires_grad=True))"
    assert type(copy.deepcopy(p)) is Own


def test_conversions_that_change_nothing_return_the_tensor_itself(torch, leaf, S):
    x = leaf(1.0)
    assert x.to(torch.float32) is x and x.float() is x and x.contiguous() is x and x.requires_grad_() is x
    assert type(x.to(torch.float64)) is S


def test_an_engine_pass_of_plain_tensors_does_not_ask_about_saved_ones(torch):
    seen = []

    class Noted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2, requires_grad=True)
    factor = torch.full((2,), 3.0).as_subclass(Noted)
    y = (x * factor).as_subclass(torch.Tensor).sum()
    seen.clear()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    assert seen == [] and type(gradient) is torch.Tensor and gradient.tolist() == [3.0, 3.0]


def test_requires_grad_of_a_plain_view_does_not_ask_about_its_base(torch):
    seen = []

    class Noted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.Tensor._make_subclass(Noted, torch.ones(2), True)
    plain = x.as_subclass(torch.Tensor)
    seen.clear()
    assert plain.requires_grad and plain.grad_fn is not None and not plain.is_leaf and plain._version == 0
    plain.mul(2)
    plain.view(2, 1)
    assert seen == []
