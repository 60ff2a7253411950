"""Functions with numbers that change from call to call, compiled in both libraries: results and gradients agree."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

import torch

import gradloom
from gradloom.compiler._api import optimized_of
from tests.releases import pytorch_before

VALUES = (0.3, 0.7, 1.0, 0.0, 2.0, 3.0, -0.5, 0.25, 1e-3, 0.5)


def gated(lib, x, a):
    return lib.sigmoid(x * a) * (1 - a) + x


def powered(lib, x, a):
    return (x.abs() + 0.5) ** a * math.exp(-a)


def branching(lib, x, a):
    if a > 0.4:
        x = x * a
    return lib.tanh(x) + max(a, 0.1) - (a * 2 if 0 < a < 1 else a)


def scaled(lib, x, a):
    return lib.add(x, x * x, alpha=a) / (a + 3), a * 2 + 1


def activated(lib, x, a):
    return lib.nn.functional.leaky_relu(x, a) + lib.nn.functional.softplus(x, beta=abs(a) + 1)


def updated(lib, x, a):
    with lib.no_grad():
        p = x.detach().clone()
        p -= a * (x + 0.01 * p)
        p.add_(x, alpha=-a)
    return p + x


@pytest.mark.parametrize("function", [gated, powered, branching, scaled, activated, updated], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_schedules_agree_with_pytorch(function, dtype):
    compiled = gradloom.compile(lambda x, a: function(gradloom, x, a))
    torch._dynamo.reset()
    reference = torch.compile(lambda x, a: function(torch, x, a), backend="aot_eager")
    for a in VALUES:
        found = []
        for lib, f in ((gradloom, compiled), (torch, reference)):
            x = lib.linspace(-1.5, 2, 7, dtype=getattr(lib, dtype)).requires_grad_()
            result = f(x, a)
            numbers = result[1:] if isinstance(result, tuple) else ()
            result = result[0] if isinstance(result, tuple) else result
            (grad,) = lib.autograd.grad(result.sum(), x)
            found.append((result.detach().tolist(), grad.tolist(), str(result.dtype).partition(".")[2], numbers))
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        for mine, theirs in zip(found[0][:2], found[1][:2], strict=True):
            assert mine == pytest.approx(theirs, rel=tolerance, abs=tolerance, nan_ok=True), a
        assert found[0][2:] == found[1][2:]
    assert len(optimized_of(compiled).entries) < len(VALUES)  # most of them are special for a power


def test_both_libraries_stop_compiling_at_the_second_value():
    """PyTorch 2.15 stops at its limit of graphs."""
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()  # 2.15 counts the graphs of all lambdas of the process
    counter = CompileCounter()
    reference = torch.compile(lambda x, a: torch.tanh(x) * a, backend=counter)
    compiled = gradloom.compile(lambda x, a: gradloom.tanh(x) * a)
    for step in range(50):
        a = 0.9 * 0.95**step
        mine, theirs = compiled(gradloom.ones(3), a), reference(torch.ones(3), a)
        assert mine.tolist() == pytest.approx(theirs.tolist())
    assert len(optimized_of(compiled).entries) == 2
    assert counter.frame_count == (2 if pytorch_before("2.15") else torch._dynamo.config.recompile_limit)
