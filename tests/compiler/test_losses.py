"""Losses of numbers in loops: squared, Huber and soft margin losses, binary cross entropy."""

from __future__ import annotations

import pytest

import gradloom as torch
import gradloom.nn.functional as F
from gradloom.compiler._api import optimized_of
from gradloom.compiler._backends import has_llvm

BACKENDS = ["numpy", "aot_eager", *["llvm"] * has_llvm()]
HALVES = (torch.float16, torch.bfloat16)

LOSSES = {
    "mse_loss": {},
    "smooth_l1_loss": {"beta": 0.7},
    "smooth_l1_loss of beta 0": {"beta": 0.0},
    "huber_loss": {"delta": 0.6},
    "soft_margin_loss": {},
    "binary_cross_entropy": {},
    "binary_cross_entropy with weight": {"weight": torch.linspace(0.5, 2, 5)},
    "binary_cross_entropy_with_logits": {},
    "binary_cross_entropy_with_logits with weight": {"weight": torch.linspace(0.5, 2, 5)},
    "binary_cross_entropy_with_logits with pos_weight": {"pos_weight": torch.linspace(0.5, 2, 5)},
}


def loss_of(name, **options):
    options = LOSSES[name] | options
    given = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in options.items()}

    def function(x, y):
        cast = {k: v.to(x.dtype) if isinstance(v, torch.Tensor) else v for k, v in given.items()}
        return getattr(F, name.partition(" ")[0])(
            x.sigmoid() if name.startswith("binary_cross_entropy ") else x, y, **cast
        )

    return function


def inputs_of(name, *shape, dtype=torch.float32):
    torch.manual_seed(0)
    x, y = torch.randn(*shape) * 3, torch.rand(*shape)
    if name == "binary_cross_entropy":
        x = x.sigmoid()
    return x.to(dtype), (y.round() * 2 - 1 if "margin" in name else y).to(dtype)


def check(function, *inputs, backend="inductor", targets=True):
    """Compare value and gradients, of targets if `targets`, with eager mode, and return the compiled graph."""
    f = torch.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        found = []
        for g in (function, f):
            leaves = [t.clone().requires_grad_(i == 0 or targets) for i, t in enumerate(inputs)]
            loss = g(*leaves)
            loss.backward(torch.linspace(0.5, 1.5, loss.numel()).reshape(loss.shape).to(loss.dtype))
            found.append([loss, *[t.grad for t in leaves]])
        for a, b in zip(*found, strict=True):
            assert (a is None) == (b is None)
            if a is None:
                continue
            half = a.dtype in HALVES
            assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
            torch.testing.assert_close(b, a, rtol=2e-2 if half else 2e-6, atol=1e-2 if half else 1e-6, equal_nan=True)
    (entry,) = optimized_of(f).entries
    return entry.compiled


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradients(name, reduction, backend):
    function = loss_of(name, reduction=reduction)
    check(function, *inputs_of(name, 7, 5), backend=backend, targets="soft" not in name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", LOSSES)
def test_dtypes(name, dtype):
    check(loss_of(name), *inputs_of(name, 6, 5, dtype=dtype), targets="soft" not in name)


@pytest.mark.parametrize("name", [name for name in LOSSES if "weight" not in name])
def test_layouts(name):
    x, y = inputs_of(name, 5, 8)
    targets = "soft" not in name
    check(loss_of(name), x.t(), y.t(), targets=targets)
    check(lambda x, y: loss_of(name)(x[::2].t(), y.t()[:, :3]), x, y, targets=targets)
    check(lambda x, y: loss_of(name, reduction="sum")(x[:, 0], y[:, 0]), x, y, targets=targets)


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss"])
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_targets_that_broadcast_or_are_wider(name):
    x, y = inputs_of(name, 6, 5)
    check(loss_of(name), x, y[0])
    check(loss_of(name), x[0], y)
    check(loss_of(name), x.sum(), y.sum())
    if name == "huber_loss":  # whose backward pass takes no two dtypes, as in PyTorch
        with pytest.raises(RuntimeError, match="Found dtype Float but expected Double"):
            check(loss_of(name), x.double(), y)
    else:
        check(loss_of(name), x.double(), y)


@pytest.mark.parametrize("name", LOSSES)
def test_special_values(name):
    values = torch.tensor([0.0, -0.0, 1e-30, -1e30, 1e30, float("inf"), float("-inf"), float("nan"), 100.0, -100.0])
    if name.startswith("binary_cross_entropy") and "logits" not in name:
        values = torch.tensor([0.0, 1.0, 1e-30, 1 - 1e-7])
    x = values.repeat_interleave(2)
    y = torch.tensor([0.0, 1.0]).repeat(len(values))
    plain = {k: v for k, v in LOSSES[name].items() if not isinstance(v, torch.Tensor)}
    loss = getattr(F, name.partition(" ")[0])
    check(lambda x, y: loss(x, y, reduction="none", **plain), x, y, targets="soft" not in name)


def test_losses_join_the_loops_around_them():
    pytest.importorskip("llvmlite")
    for name in LOSSES:
        if name.startswith("binary_cross_entropy") and "logits" not in name:
            continue  # it checks the values of its arguments
        function = loss_of(name)
        compiled = check(lambda x, y, f=function: f(torch.tanh(x) * 2, y), *inputs_of(name, 64, 5), targets=False)
        assert not any(
            "loss" in n.name or "entropy" in n.name for p in (compiled.forward, compiled.backward) for n in p.calls
        )
        assert len(compiled.forward.kernels) == 1


def test_values_that_binary_cross_entropy_refuses():
    f = torch.compile(lambda x, y: F.binary_cross_entropy(x, y))
    x, y = inputs_of("binary_cross_entropy", 4, 5)
    for _ in range(2):
        f(x, y)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        f(x + 1, y)


def test_a_beta_that_changes_is_an_argument():
    f = torch.compile(lambda x, y, b: F.smooth_l1_loss(x, y, beta=b) + F.huber_loss(x, y, delta=b + 1))
    x, y = inputs_of("mse_loss", 4, 5)
    for b in (0.1, 0.5, 0.7, 0.9, 0.0, -0.5):
        for g in (f, lambda x, y, b: F.smooth_l1_loss(x, y, beta=b) + F.huber_loss(x, y, delta=b + 1)):
            if b < 0:
                with pytest.raises(RuntimeError, match="negative values for beta"):
                    g(x, y, b)
        if b >= 0:
            torch.testing.assert_close(f(x, y, b), F.smooth_l1_loss(x, y, beta=b) + F.huber_loss(x, y, delta=b + 1))
    assert len(optimized_of(f).entries) <= 3
