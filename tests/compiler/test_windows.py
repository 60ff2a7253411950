"""Operators on windows of images that have machine code: the results of eager mode, and what stays a call."""

from __future__ import annotations

import numpy as np
import pytest

import gradloom as torch
from gradloom.compiler._api import optimized_of

pytestmark = pytest.mark.skipif("llvm" not in torch.compiler.list_backends(), reason="needs llvmlite")
SHAPES = [(2, 3, 16, 16), (1, 2, 33, 37), (2, 2, 7, 9), (3, 8, 8)]
POOLINGS = {
    "halves": (2, 2, 0),
    "overlapping": (3, 2, 1),
    "every place": (3, 1, 1),
    "a rectangle": ((2, 3), (1, 2), (1, 0)),
    "a step of 3": (3, 3, 0),
    "large": (5, 2, 2),
    "ceil mode": (3, 2, 1, 1, True),
    "ceil mode, no padding": (2, 2, 0, 1, True),
}


def programs(function):
    """Return the programs that a compiled function has after its calls."""
    (entry,) = optimized_of(function).entries
    return entry.compiled.forward, entry.compiled.backward


def images(shape, dtype, special):
    """Return images with many equal elements and, if `special`, NaNs and windows of infinities."""
    x = torch.randint(-2, 3, shape).to(dtype)
    if special:
        x[torch.rand(shape) < 0.1] = float("nan")
        x[torch.rand(shape) < 0.4] = float("-inf")
    return x


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_maxima_and_their_gradients_are_those_of_eager_mode(name, dtype):
    def pooled(x):
        return torch.nn.functional.max_pool2d(x * 1, *POOLINGS[name], return_indices=True)

    for number, shape in enumerate(SHAPES):
        compiled = torch.compile(pooled, backend="llvm", fullgraph=True)
        torch.manual_seed(number)
        x = images(shape, dtype, special=number % 2)
        for _ in range(2):
            both = []
            for f in (pooled, compiled):
                leaf = x.clone().requires_grad_()
                y, indices = f(leaf)
                torch.manual_seed(0)
                y.backward(torch.randn(y.shape, dtype=dtype))
                both.append((y.detach(), indices, leaf.grad))
            for eager, ours in zip(*both, strict=True):
                np.testing.assert_array_equal(ours.numpy(), eager.numpy())
        assert [[n.name for n in p.tasks] for p in programs(compiled)] == [
            ["max_pool2d_with_indices"], ["max_pool2d_with_indices_backward"]
        ]  # fmt: skip


def test_indices_that_nothing_reads_are_not_made():
    compiled = torch.compile(lambda x: torch.nn.functional.max_pool2d(x + 1, 2), backend="llvm")
    x = torch.arange(64.0).reshape(1, 1, 8, 8)
    for _ in range(2):
        assert compiled(x).flatten()[:2].tolist() == [10, 12]
    (entry,) = optimized_of(compiled).entries
    assert "int64" not in entry.compiled.forward.source


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.to(torch.float16),
        lambda x: x.to(torch.int32),
        lambda x: x.contiguous(memory_format=torch.channels_last),
    ],
)
def test_other_images_stay_calls(change):
    def pooled(x):
        return torch.nn.functional.max_pool2d(x, 2), x + 1

    compiled = torch.compile(pooled, backend="llvm")
    x = change(torch.arange(128.0).reshape(1, 2, 8, 8))
    for _ in range(2):
        ours, eager = compiled(x)[0], pooled(x)[0]
        assert ours.tolist() == eager.tolist() and ours.stride() == eager.stride()
    (entry,) = optimized_of(compiled).entries
    assert not entry.compiled.forward.tasks


def test_results_do_not_depend_on_the_number_of_threads():
    compiled = torch.compile(lambda x: torch.nn.functional.max_pool2d(x * 2, 3, 2, 1).sum(), backend="llvm")
    x = torch.randn(8, 16, 64, 64, requires_grad=True)
    found = []
    for threads in (1, 1, 3):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            found.append(torch.autograd.grad(compiled(x), x)[0])
        finally:
            torch.set_num_threads(before)
    assert torch.equal(found[1], found[2])
