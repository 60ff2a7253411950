"""A function that is not one graph runs as Python, and the modules and functions that it calls are compiled."""

from __future__ import annotations

import pytest

import gradloom as torch
from gradloom import nn
from gradloom.compiler._api import optimized_of


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return x + torch.sigmoid(self.linear(x)) * torch.tanh(x)


class Broken(nn.Module):
    """Branches on a value after its first block."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            if x.sum() > 1e6:
                x = x / 2
        return self.head(x)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Broken()

    def forward(self, x):
        return self.inner(x).sum().item()


def activation(x, scale=1.0):
    return torch.sigmoid(x) * torch.tanh(x) * scale


def calls_activation(x):
    y = activation(x, scale=2.0)
    print("between")
    return activation(y)


def pieces_of(compiled):
    return [(p.name, p.calls) for p in optimized_of(compiled).pieces.all()]


def gradients(module, run, x):
    module.zero_grad()
    found = run(x)
    found.sum().backward()
    return [found.detach(), *[p.grad.clone() for p in module.parameters()]]


@pytest.mark.parametrize("backend", ["numpy", "aot_eager"])
def test_the_layers_of_a_broken_module_are_compiled(backend):
    module, x = Broken(), torch.randn(3, 4)
    expected = gradients(module, module, x)
    compiled = torch.compile(module, backend=backend)
    for _ in range(6):
        for a, b in zip(gradients(module, compiled, x), expected, strict=True):
            torch.testing.assert_close(a, b)
    assert len(optimized_of(compiled).breaks) == 2
    blocks = [calls for name, calls in pieces_of(compiled) if name == "Block"]
    assert sorted(blocks) == [[3, 1], [5, 1]]  # the second block comes after the break, and is compiled at once
    assert optimized_of(compiled).entries == []


def test_what_has_nothing_to_fuse_runs_as_python():
    module, x = Broken(), torch.randn(3, 4)
    compiled = torch.compile(module, backend="numpy")
    for _ in range(5):
        compiled(x)
    assert dict(pieces_of(compiled))["Linear"] == [0, 1]


def test_pieces_of_pieces():
    module, x = Outer(), torch.randn(3, 4)
    expected = module(x)
    compiled = torch.compile(module, backend="numpy")
    assert all(abs(compiled(x) - expected) < 1e-5 for _ in range(8))
    names = [name for name, _ in pieces_of(compiled)]
    assert names[0] == "Broken" and names.count("Block") >= 2
    assert max(calls[0] for name, calls in pieces_of(compiled) if name == "Block") >= 3


def test_functions_that_get_tensors_are_compiled(capsys):
    compiled, x = torch.compile(calls_activation, backend="numpy"), torch.randn(3, 4, requires_grad=True)
    for _ in range(6):
        torch.testing.assert_close(compiled(x), activation(activation(x, 2.0)))
    assert capsys.readouterr().out == "between\n" * 6
    assert [name for name, _ in pieces_of(compiled)] == ["activation"]


def test_changes_of_the_model_are_seen():
    module, x = Broken(), torch.randn(3, 4)
    compiled = torch.compile(module, backend="numpy")
    for _ in range(4):
        compiled(x)
    with torch.no_grad():
        module.blocks[0].linear.weight.mul_(2)
    torch.testing.assert_close(compiled(x), module(x))
    module.blocks[0] = Block()
    torch.testing.assert_close(compiled(x), module(x))
    module.blocks.append(Block())
    torch.testing.assert_close(compiled(x), module(x))


def test_hooks_of_the_broken_module_run_around_its_pieces():
    calls = []
    module, x = Broken(), torch.randn(3, 4)
    module.register_forward_pre_hook(lambda *_: calls.append("before"))
    module.register_forward_hook(lambda *_: calls.append("after"))
    compiled = torch.compile(module, backend="numpy")
    for _ in range(5):
        torch.testing.assert_close(compiled(x), Broken.forward(module, x))
    assert calls == ["before", "after"] * 5
    assert max(c[0] for name, c in pieces_of(compiled) if name == "Block") >= 2


def test_a_first_call_that_sets_something_up_is_recorded_again():
    class Lazy(Block):
        ready = False

        def forward(self, x):
            if not self.ready:
                self.ready = True
            return super().forward(x)

    module, x = Lazy(), torch.randn(3, 4)
    compiled = torch.compile(module, backend="numpy")
    for _ in range(4):
        torch.testing.assert_close(compiled(x), Block.forward(module, x))
    assert optimized_of(compiled).calls == [2, 2]


def test_errors_leave_the_pieces_usable():
    class Raises(Broken):
        def forward(self, x):
            found = super().forward(x)
            if found.shape[0] == 2:
                raise ValueError("two rows")
            return found

    module = Raises()
    compiled = torch.compile(module, backend="numpy")
    for _ in range(4):
        compiled(torch.randn(3, 4))
    with pytest.raises(ValueError, match="two rows"):
        compiled(torch.randn(2, 4))
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x), module(x))


def test_disabled_functions_stay_python():
    calls = []

    class Model(Broken):
        @torch.compiler.disable
        def noted(self, x):
            calls.append(1)
            return x

        def forward(self, x):
            return super().forward(self.noted(x))

    module, x = Model(), torch.randn(3, 4)
    compiled = torch.compile(module, backend="numpy")
    for _ in range(5):
        compiled(x)
    assert len(calls) == 5
    assert not any("noted" in name for name, _ in pieces_of(compiled))


def test_the_explanation_names_the_pieces():
    found = torch._dynamo.explain(Broken())(torch.randn(3, 4))
    assert [p.name for p in found.pieces] == ["Block", "Linear"]
    assert (found.graph_count, found.graph_break_count) == (2, 1)
    assert "piece Block: 1 graph(s), 0 break(s)\npiece Linear: 1 graph(s), 0 break(s): nothing to fuse" in str(found)


def test_reset_forgets_them():
    compiled, x = torch.compile(Broken(), backend="numpy"), torch.randn(3, 4)
    for _ in range(4):
        compiled(x)
    torch.compiler.reset()
    assert pieces_of(compiled) == []
