"""Chains of products and loops: which steps join, and that results are those of the steps one by one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gradloom as torch
from gradloom.compiler import _chains
from gradloom.compiler._api import optimized_of

pytestmark = pytest.mark.skipif("llvm" not in torch.compiler.list_backends(), reason="needs llvmlite")


@pytest.fixture(autouse=True)
def afresh():
    """Forget what was compiled with other limits, and keep nothing of it."""
    from gradloom.compiler import _store

    torch.compiler.reset()
    before, _store.is_on = _store.is_on, False
    yield
    _store.is_on = before
    torch.set_num_threads(1)


def attention(x, mask):
    n, t, c = x.shape
    q, k, v = (y.view(n, t, 4, -1).transpose(1, 2) for y in x.split(c // 3, 2))
    scores = (q @ k.transpose(-2, -1) * 0.25).masked_fill(mask == 0, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c // 3)


def inputs(dtype=torch.float32, n=4, t=96):
    torch.manual_seed(0)
    return torch.randn(n, t, 192, dtype=dtype), torch.ones(t, t).tril()


def run(function, x, *rest):
    """Return results and gradient of the second call, and the programs."""
    compiled = torch.compile(function, backend="llvm", fullgraph=True)
    for _ in range(2):
        leaf = x.clone().requires_grad_()
        y = compiled(leaf, *rest)
        (y * torch.arange(y.numel()).view(y.shape).cos()).sum().backward()
    (entry,) = optimized_of(compiled).entries
    return y.detach(), leaf.grad, entry.compiled


def chains(program):
    """Return the names of the calls in each chain."""
    found = re.findall(r"# (.*), for some of \d+ items at a time", program.source)
    return [re.sub(r"\d", "", names).split(", ") for names in found]


def test_attention_is_a_chain_in_both_directions():
    *_, compiled = run(attention, *inputs())
    assert chains(compiled.forward) == [["product", "kernel", "product"]]
    assert chains(compiled.backward) == [["product", "product", "kernel", "product", "product"]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_are_those_of_the_steps(dtype, threads, monkeypatch):
    x, mask = inputs(dtype)
    torch.set_num_threads(threads)
    chained = run(attention, x, mask)
    assert chains(chained[2].forward)
    monkeypatch.setattr(_chains, "LEAST", 1 << 60)
    torch.compiler.reset()
    alone = run(attention, x, mask)
    assert not chains(alone[2].forward)
    for a, b in zip(chained[:2], alone[:2], strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize("n", [4, 5])
def test_items_are_taken_in_turns_of_any_size(n, monkeypatch):
    from gradloom.compiler._llvm import chain

    monkeypatch.setattr(chain, "_BLOCK", 3 * 96 * 96 * 4)  # the last turn has fewer items
    x, mask = inputs(n=n)
    y, gradient, compiled = run(attention, x, mask)
    assert chains(compiled.forward)
    leaf = x.clone().requires_grad_()
    expected = attention(leaf, mask)
    (expected * torch.arange(expected.numel()).view(expected.shape).cos()).sum().backward()
    torch.testing.assert_close(y, expected.detach())
    torch.testing.assert_close(gradient, leaf.grad)


def scores(x):
    a, b = x.split(64, 2)
    return a @ b.transpose(-2, -1)


PROGRAMS = {
    "rows of other items": lambda x: (scores(x).flip(0) + scores(x)) @ x,
    "a loop over all items": lambda x: (scores(x) - scores(x).amax(0)) @ x,
    "items in another order": lambda x: scores(x).transpose(0, 1).softmax(-1).transpose(0, 1) @ x,
    "a sum over items": lambda x: (scores(x).softmax(-1).sum(0) + scores(x)) @ x,
    "half as many items": lambda x: scores(x).view(4, 192, 96).softmax(1).view(8, 96, 96) @ x,
    "parts of the result": lambda x: scores(x)[1:].relu() @ x[1:],
    "a product that is returned": lambda x: torch.stack([scores(x), scores(x).softmax(-1) @ scores(x)]),
    "products of products": lambda x: (scores(x) @ scores(x)).exp() @ x,
    "broadcast over items": lambda x: (scores(x) * scores(x)[3]).tanh() @ x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_belongs_to_several_items_is_right(name, monkeypatch):
    monkeypatch.setattr(_chains, "LEAST", 0)
    function = PROGRAMS[name]
    torch.manual_seed(0)
    x = torch.randn(8, 96, 128, dtype=torch.float64) * 0.2
    y, gradient, _ = run(function, x)
    leaf = x.clone().requires_grad_()
    expected = function(leaf)
    (expected * torch.arange(expected.numel()).view(expected.shape).cos()).sum().backward()
    torch.testing.assert_close(y, expected.detach())
    torch.testing.assert_close(gradient, leaf.grad)


def test_small_and_large_batches_stay_single_steps(monkeypatch):
    *_, small = run(attention, *inputs(n=1, t=32))
    assert not chains(small.forward)  # all of it fits the cache
    monkeypatch.setattr(_chains, "MOST", 96 * 96 * 4 - 1)
    *_, large = run(attention, *inputs())
    assert not chains(large.forward)


def test_a_chain_takes_arrays_only():
    *_, compiled = run(attention, *inputs())
    names = compiled.forward.run.__globals__
    chain = next(x for name, x in names.items() if name.startswith("chain"))
    with pytest.raises(TypeError, match="takes NumPy arrays, not list"):
        chain(*[[]] * 5)
    assert "call i32" in chain.text


def test_spans_are_within_their_items():
    from gradloom.compiler._llvm.chain import Span

    first = np.arange(4) * 64
    assert Span(first, 64).is_within(64)
    assert not Span(first, 68).is_within(64)
    assert not Span(first[::-1], 64).is_within(64)
