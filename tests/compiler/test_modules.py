"""Modules that are compiled in place: which calls run as graphs."""

from __future__ import annotations

import copy
import pickle

import pytest

import gradloom as torch
from gradloom.compiler._api import optimized_of


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.sigmoid(self.linear(x)) * x


class Doubled(Block):
    def __call__(self, x):
        return super().__call__(x) * 2


def calls_of(module):
    return optimized_of(module._compiled_call_impl).calls


def breaks_of(module):
    return optimized_of(module._compiled_call_impl).breaks


@pytest.mark.parametrize("kind", [Block, Doubled])
def test_calls_run_as_graphs(kind):
    module = kind()
    x = torch.randn(2, 4)
    expected = module(x)
    module.compile()
    for _ in range(4):
        torch.testing.assert_close(module(x), expected)
    assert (calls_of(module), breaks_of(module)) == ([3, 1], [])


def test_a_submodule_of_an_eager_model():
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, x):
            return self.block(x).sum().item()

    model = Model()
    x = torch.randn(2, 4)
    expected = model(x)
    model.block.compile()
    assert all(abs(model(x) - expected) < 1e-5 for _ in range(3))
    assert calls_of(model.block) == [2, 1]


def test_a_compiled_module_is_part_of_the_graph_that_calls_it():
    block = Block()
    block.compile()

    @torch.compile(fullgraph=True)
    def f(x):
        return block(x) + 1

    x = torch.randn(2, 4)
    for _ in range(3):
        torch.testing.assert_close(f(x), Block.forward(block, x) + 1)
    assert optimized_of(f).calls == [2, 1]
    assert calls_of(block) == [0, 0]


def test_hooks_registered_later_run():
    calls = []
    model = torch.nn.Sequential(Block(), Block())
    compiled = torch.compile(model)
    x = torch.randn(2, 4, requires_grad=True)
    compiled(x)
    model[0].compile()
    compiled(x)
    model[0].register_full_backward_pre_hook(lambda *_: calls.append("backward"))
    model[1].register_forward_hook(lambda *_: calls.append("forward"))
    compiled(x).sum().backward()
    assert calls == ["forward", "backward"]


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_copies_of_recurrent_modules_are_not_compiled(kind):
    made = kind(2, 3)
    made.compile()
    assert copy.deepcopy(made)._compiled_call_impl is None


def test_names_in_explanations():
    module = Block()
    module.compile()
    assert optimized_of(module._compiled_call_impl).name == "Block"


def test_hooks_on_the_compiled_module_run():
    net, log = Block(), []
    module, x = torch.compile(net), torch.randn(2, 4, requires_grad=True)
    expected = net(x)
    handles = [
        module.register_forward_pre_hook(lambda *_: log.append("before")),
        module.register_forward_hook(lambda module, args, result: log.append(type(module).__name__) or result * 2),
        module.register_full_backward_hook(lambda *_: log.append("backward")),
    ]
    for _ in range(3):
        result = module(x)
        torch.testing.assert_close(result, expected * 2)
        result.sum().backward()
        assert log == ["before", "OptimizedModule", "backward"]
        log.clear()
    assert optimized_of(module).calls == [2, 1]
    torch.testing.assert_close(module.forward(x), expected)
    for handle in handles:
        handle.remove()
    torch.testing.assert_close(module(x), expected)
    assert not log


def test_hooks_on_a_compiled_module_in_a_compiled_function():
    module, log = torch.compile(Block()), []

    @torch.compile
    def outer(x):
        return torch.tanh(module(x)) + 1

    x = torch.randn(2, 4)
    expected = outer(x)
    outer(x)
    handle = module.register_forward_hook(lambda *_: log.append(1))
    for _ in range(3):
        torch.testing.assert_close(outer(x), expected)
    assert len(log) == 3
    handle.remove()
    torch.testing.assert_close(outer(x), expected)
    assert len(log) == 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_of_compiled_modules_have_the_same_options(copied):
    made = copied(torch.compile(Block(), backend="numpy", fullgraph=True, dynamic=True))
    options = optimized_of(made)
    assert (options.backend.name, options.fullgraph, options.dynamic) == ("numpy", True, True)
    x = torch.randn(2, 4)
    expected = made._orig_mod(x)
    for _ in range(2):
        torch.testing.assert_close(made(x), expected)
    assert options.calls == [1, 1]


def test_copies_keep_a_backend_that_is_a_function():
    def backend(graph, inputs):
        return graph.forward

    made = copy.deepcopy(torch.compile(Block(), backend=backend))
    assert optimized_of(made).backend.asked is backend


def test_running_statistics_keep_their_version():
    norm = torch.nn.BatchNorm1d(4)
    module = torch.compile(norm)
    for calls in (2, 3):  # the first one of all as Python
        version = norm.running_mean._version
        results = [module(torch.randn(8, 4)) for _ in range(calls)]
        assert norm.running_mean._version == version
        sum(r.square().sum() for r in results).backward()
    assert optimized_of(module).calls == [4, 1]


def test_global_hooks_see_the_compiled_module():
    log = []
    module = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4)))
    handle = torch.nn.modules.module.register_module_forward_hook(lambda m, *_: log.append(type(m).__name__))
    try:
        for _ in range(3):
            module(torch.ones(2, 4))
            assert log == ["Linear", "Sequential", "OptimizedModule"]
            log.clear()
    finally:
        handle.remove()
    module(torch.ones(2, 4))
    assert log == []


def test_a_module_that_asks_for_the_mode_is_a_graph_and_exported_as_python():
    class Asking(torch.nn.Module):
        def forward(self, x):
            if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch.jit.is_scripting():
                return x * 2
            return x * 3 + 1

    module = torch.compile(Asking())
    for _ in range(2):
        assert module(torch.ones(2)).tolist() == [4.0, 4.0]
    assert optimized_of(module).calls == [1, 1]
    program = torch.export.export(module, (torch.ones(2),))
    assert program.module()(torch.ones(2)).tolist() == [2.0, 2.0]
    assert module(torch.ones(2)).tolist() == [4.0, 4.0] and optimized_of(module).breaks == []
