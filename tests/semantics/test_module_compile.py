"""`Module.compile` compiles calls of a module in place, and changes nothing else of it."""

import copy
import pickle

import pytest


@pytest.fixture
def module(torch):
    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU())
    assert made._compiled_call_impl is None
    assert made.compile(backend="eager") is None
    return made


def test_a_compiled_module_keeps_its_type_its_names_and_its_text(torch, module):
    plain = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU())
    assert type(module) is torch.nn.Sequential
    assert list(module.state_dict()) == list(plain.state_dict()) == ["0.weight", "0.bias"]
    assert repr(module) == repr(plain)
    assert module._compiled_call_impl is not None


def test_the_results_and_gradients_are_those_of_the_module(torch, module):
    x = torch.randn(2, 3)
    for _ in range(3):
        module.zero_grad()
        module(x).sum().backward()
        found = module[0].weight.grad.clone()
        module.zero_grad()
        module[1](module[0](x)).sum().backward()
        torch.testing.assert_close(found, module[0].weight.grad)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_and_pickles_are_not_compiled(torch, module, copied):
    made = copied(module)
    assert made._compiled_call_impl is None
    assert "_compiled_call_impl" not in made.__dict__
    x = torch.randn(2, 3)
    torch.testing.assert_close(made(x), module(x))
    assert module._compiled_call_impl is not None


def test_the_compiled_call_can_be_replaced_and_removed(torch, module):
    x = torch.randn(2, 3)
    expected = module(x)
    module._compiled_call_impl = lambda value: value * 0
    assert torch.equal(module(x), x * 0)
    module._compiled_call_impl = None
    torch.testing.assert_close(module(x), expected)


def test_hooks_registered_before_and_after_run(torch):
    calls = []
    module = torch.nn.Linear(2, 2)
    module.register_forward_pre_hook(lambda *_: calls.append("before"))
    module.compile(backend="eager")
    module.register_forward_hook(lambda *_: calls.append("after"))
    module.register_full_backward_pre_hook(lambda *_: calls.append("backward"))
    for _ in range(3):
        module(torch.ones(1, 2, requires_grad=True)).sum().backward()
    assert calls == ["before", "after", "backward"] * 3


def test_a_call_of_its_own_comes_before_the_compiled_one(torch):
    class Doubled(torch.nn.Linear):
        def __call__(self, x):
            return super().__call__(x) * 2

    module = Doubled(2, 2)
    x = torch.ones(1, 2)
    expected = module(x)
    module.compile(backend="eager")
    for _ in range(3):
        torch.testing.assert_close(module(x), expected)


def test_positional_arguments_are_refused(torch):
    with pytest.raises(TypeError, match="takes from 0 to 1 positional arguments but 2 were given"):
        torch.nn.Linear(2, 2).compile(5)


def test_functions_are_compiled_as_a_compiled_module_is(torch):
    """Lightning compiles the steps of a module so."""
    module = torch.nn.Linear(2, 3)
    compiled = torch.compile(module, backend="eager")
    again = compiled.dynamo_ctx(module.forward)
    x = torch.ones(1, 2)
    assert torch.equal(again(x), module(x)) and "dynamo_ctx" not in vars(module)
