"""Tracing: graphs are the same with the values of a call and without them, and need no memory for them."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

import gradloom as torch
from gradloom import nn
from gradloom.compiler import _backends, _build, _geometry, _joint
from gradloom.compiler._api import optimized_of
from gradloom.compiler._trace import Tracer
from gradloom.memory.metadata import is_imaginary
from gradloom.nn import functional as F


def attention(x):
    q, k, v = (x * i for i in (1, 2, 3))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 8, -1)
    return F.gelu(y).softmax(-1)


def cell_loop(cell, x):
    h = c = torch.zeros(x.shape[1], 5)
    for t in range(x.shape[0]):
        h, c = cell(x[t], (h, c))
    return h * c


def writes(x, buffer):
    buffer.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
    y = x * 2
    y[:, 1:] += buffer[1:]
    return torch.cat([y.relu_(), x.flip(0)], 1).view(-1, 4).cumsum(0)


def tokens(table, x):
    return F.cross_entropy(table(x).mean(1), x[:, 0] % 7)


def images():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.5),
        nn.ConvTranspose2d(8, 4, 2), nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3),
        nn.LogSoftmax(1),
    )  # fmt: skip


def programs():
    torch.manual_seed(0)
    cell, table, network = nn.LSTMCell(4, 5), nn.Embedding(9, 7), images()
    return {
        "elementwise": (lambda x: torch.sigmoid(x) * torch.tanh(x) + x**2, [torch.randn(6, 7, requires_grad=True)]),
        "attention": (attention, [torch.randn(2, 4, 8, 6, requires_grad=True)]),
        "cells": (lambda x: cell_loop(cell, x), [torch.randn(3, 2, 4)]),
        "writes": (writes, [torch.randn(6, 4, requires_grad=True), torch.zeros(4)]),
        "tokens": (lambda x: tokens(table, x), [torch.randint(0, 9, (5, 6))]),
        "images": (lambda x: network(x), [torch.randn(2, 3, 16, 16)]),
        "linear algebra": (
            lambda x: torch.linalg.qr(x @ x.mT + torch.eye(5)).R.norm() + torch.einsum("ij,kj->ik", x, x).std(),
            [torch.randn(5, 5, requires_grad=True)],
        ),
    }


def graph_of(name, monkeypatch, with_values):
    wanted = _joint._traced_with_values if with_values else _joint._traced
    refused = _joint._traced if with_values else _joint._traced_with_values
    with monkeypatch.context() as patch:
        if with_values:
            patch.setattr(_joint, "_traced", wanted)
        else:
            patch.setattr(_joint, refused.__name__, None)  # not even where the rules know too little
        function, args = programs()[name]
        compiled = torch.compile(function, backend="numpy", fullgraph=True)
        compiled(*args)
        (entry,) = optimized_of(compiled).entries
        return entry.compiled.account.before


@pytest.mark.parametrize("name", programs())
def test_graphs_are_the_same_with_values_and_without(name, monkeypatch):
    assert graph_of(name, monkeypatch, False) == graph_of(name, monkeypatch, True)


def test_what_the_rules_do_not_know_is_traced_with_values(monkeypatch):
    from gradloom.compiler import _geometry

    def unknown(*_, **__):
        raise NotImplementedError("there is no rule")

    monkeypatch.setattr(_geometry, "compute", unknown)
    compiled = torch.compile(torch.nn.GELU(), backend="numpy")
    x = torch.randn(3)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), F.gelu(x))
    assert optimized_of(compiled).calls == [2, 1]


def test_memory_that_does_not_exist_is_known_as_such_in_inputs():
    """Checks of the debug mode read all memory but this."""
    array = _geometry.imaginary((2, 3), (12, 4), np.dtype("float32"))
    traced = Tracer().input(array, False)._array.real
    assert is_imaginary(array) and is_imaginary(traced) and is_imaginary(traced[1:].view())
    assert not is_imaginary(Tracer().input(np.zeros((2, 3)), False)._array.real)


def test_an_operator_whose_result_has_a_size_by_values_is_not_traced():
    compiled = torch.compile(lambda x, i, v: x.index_fill(0, i, v), backend="numpy")
    for index in ([0, 0, 1], [0, 1, 2], [1, 1, 1]):
        x, v = torch.randn(4, 3, requires_grad=True), torch.tensor(2.0, requires_grad=True)
        compiled(x, torch.tensor(index), v).sum().backward()
        assert v.grad == 3 * len(set(index))


def peak_of(function, *args):
    gc.collect()
    tracemalloc.start()
    try:
        function(*args).sum().backward()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_first_call_needs_the_memory_of_eager_mode():
    def f(x):
        return torch.sigmoid(x) * torch.tanh(x) + x**2

    x = torch.randn(400_000, requires_grad=True)
    f(x).sum().backward()  # the gradient exists
    eager = peak_of(f, x)
    compiled = torch.compile(f, backend="numpy")
    compiled(x[:10].detach())  # loads the compiler
    first = peak_of(compiled, x)
    assert optimized_of(compiled).misses == 2
    assert first < eager + 4 * x.nbytes
    assert peak_of(compiled, x) <= eager


def test_compiled_steps_free_what_they_no_longer_need():
    network = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))])
    x = torch.randn(2000, 64)
    eager = max(peak_of(network, x) for _ in range(2))
    compiled = torch.compile(network, backend="numpy")
    for _ in range(2):
        compiled(x).sum().backward()
    assert peak_of(compiled, x) < eager * 1.2


def test_a_pass_with_retain_graph_frees_nothing_that_the_next_one_needs():
    compiled = torch.compile(lambda x: (torch.sin(x) * torch.exp(x)).tanh(), backend="numpy")
    x = torch.randn(50, requires_grad=True)
    for _ in range(3):
        x.grad = None
        y = compiled(x)
        y.sum().backward(retain_graph=True)
        first = x.grad.clone()
        y.sum().backward()
        torch.testing.assert_close(x.grad, first * 2)
        with pytest.raises(RuntimeError, match="second time"):
            y.sum().backward()


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        (lambda x, w: (torch.sigmoid(x) * 2, x + w), False),
        (lambda x, w: (x.t() * w, x), False),
        (lambda x, w: (x @ w, x * 3), True),  # NumPy's products are slow on repeated elements
        (lambda x, w: (x[1:] * w[1:], x.exp()), False),
    ],
)
def test_a_large_gradient_of_equal_elements_is_read_as_one(monkeypatch, function, copies):
    from gradloom.compiler import _run

    monkeypatch.setattr(_run, "LARGE", 0)
    compiled = torch.compile(function, backend="numpy", fullgraph=True)
    for _ in range(2):
        found = []
        for f in (function, compiled):
            leaves = [torch.linspace(s, 1, 16).reshape(4, 4).requires_grad_() for s in (-1, 0)]
            first, second = f(*leaves)
            (first.sum() + second.exp().sum()).backward()
            found.append([x.grad for x in leaves])
        for eager, ours in zip(*found, strict=True):
            torch.testing.assert_close(ours, eager)
    (entry,) = optimized_of(compiled).entries
    (variant,) = [v for kinds, v in entry.compiled.variants.items() if _run.REPEATED in kinds]
    assert (variant.tangents[0][1] != ()) == copies


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_the_loops_of_equal_blocks_are_built_once(backend, monkeypatch):
    if backend == "llvm":
        pytest.importorskip("llvmlite")
    built, made = [], []
    builder, loops = _build._Builder, _backends.find(backend).loops
    monkeypatch.setattr(_build, "_Builder", lambda *args: built.append(args) or builder(*args))
    monkeypatch.setattr(_backends.find(backend), "loops", lambda program: made.append(program) or loops(program))

    class Block(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.norm, self.inner, self.factor = nn.LayerNorm(8), nn.Linear(8, 8), factor

        def forward(self, x):
            return x + F.silu(self.inner(self.norm(x))) * self.factor * 0.7

    def build(*factors):
        """Return how many loops are built for blocks, after comparing with eager mode."""
        net = nn.Sequential(*map(Block, factors))
        built.clear(), made.clear()
        compiled = torch.compile(net, fullgraph=True, backend=backend)
        x = torch.linspace(-3, 3, 24).sin().reshape(3, 8)
        grads = []
        for f in (net, compiled, compiled):
            net.zero_grad()
            (f(x) ** 2).sum().backward()
            grads.append([p.grad.clone() for p in net.parameters()])
        torch.testing.assert_close(grads[2], grads[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(compiled(x), net(x))
        return len(built), len(made)

    assert build(*[2.0] * 6) == build(*[2.0] * 4)
    assert build(2.0, 2.0, 3.0, 3.0)[0] > build(2.0, 2.0, 2.0, 2.0)[0]  # other numbers, other loops


def test_a_recorded_call_frees_what_the_program_drops():
    """The first call of a training step must not need the memory of all that it computes."""

    @torch.compile(fullgraph=True, backend="numpy")
    def f(x):
        for _ in range(30):
            x = torch.add(x, 1)
        return x

    x = torch.zeros(1 << 18)  # 1 MiB
    f(x[:4])  # loads the compiler
    tracemalloc.start()
    try:
        found = f(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert optimized_of(f).misses == 2 and not optimized_of(f).breaks
    assert (found == 30).all() and peak < 10 * x.nbytes
