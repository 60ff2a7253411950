"""Losses of classes in loops: labels that are read in the loop, what is ignored, weights, errors, and memory."""

from __future__ import annotations

import pytest

import gradloom as torch
from gradloom.compiler._api import optimized_of

pytest.importorskip("llvmlite")
F = torch.nn.functional


def both(f, *inputs, times=2):
    """Return what eager and compiled give, with gradients, after `times` calls; and the compiled graph."""
    g = torch.compile(f, backend="llvm", fullgraph=True)
    for _ in range(times):
        found = []
        for function in (f, g):
            leaves = [t.clone().requires_grad_() if t.is_floating_point() else t for t in inputs]
            loss = function(*leaves)
            weights = torch.linspace(0.5, 1.5, loss.numel()).reshape(loss.shape).to(loss.dtype)
            loss.backward(weights)
            found.append([loss, *[t.grad for t in leaves]])
    (entry,) = optimized_of(g).entries
    return *found, entry.compiled


def check(f, *inputs, fused=True):
    eager, ours, compiled = both(f, *inputs)
    for a, b in zip(eager, ours, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
            half = a.dtype in (torch.float16, torch.bfloat16)
            torch.testing.assert_close(b, a, rtol=1e-2 if half else 2e-6, atol=1e-3 if half else 1e-6, equal_nan=True)
    calls = [n.name for p in (compiled.forward, compiled.backward) for n in p.calls]
    assert (not any("nll" in name for name in calls)) == fused, calls
    return compiled


SHAPES = {"matrix": ((6, 10), (6,)), "images": ((3, 5, 4, 2), (3, 4, 2)), "sequences": ((4, 7, 3), (4, 3))}


def made(name, dtype=torch.float32):
    torch.manual_seed(0)
    scores, targets = SHAPES[name]
    return torch.randn(scores).to(dtype), torch.randint(0, scores[1], targets)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_loss_and_gradient(name, weighted, reduction):
    x, t = made(name)
    t.view(-1)[1] = -100
    t.view(-1)[2] = 3
    weight = torch.linspace(0.2, 2, x.shape[1])
    for ignored in (-100, 3):
        used = t.clamp(min=0) if ignored == 3 else t
        check(
            lambda x, t: F.cross_entropy(
                x * 2,
                t,
                weight if weighted else None,
                ignore_index=ignored,  # noqa: B023
                reduction=reduction,
            ),
            x,
            used,
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_dtypes(dtype, weighted):
    x, t = made("matrix", dtype)
    weight = torch.linspace(0.2, 2, x.shape[1]).to(dtype)
    check(lambda x, t: F.cross_entropy(x, t, weight if weighted else None), x, t)


def test_labels_of_another_dtype_stay_with_the_operator():
    x, t = made("matrix")
    check(lambda x, t: F.nll_loss(x.log_softmax(1), t), x, t.to(torch.uint8), fused=False)


def test_neither_probabilities_nor_their_gradient_are_made():
    compiled = check(lambda x, t: F.cross_entropy(x.relu() * 2, t), torch.randn(64, 50), torch.arange(64) % 50)
    sizes = [v.nbytes for k in compiled.forward.kernels for v in k.outputs]
    assert max(sizes) == 64 * 4
    (backward,) = compiled.backward.kernels
    assert len(backward.program.passes) == 1 and len(backward.outputs) == 1
    assert sum(k.nbytes for k in compiled.forward.kernels) < 64 * 50 * 4 + 64 * 4 * 10


def test_label_smoothing_and_losses_that_are_used_further():
    x, t = made("matrix")
    check(lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), x, t)
    check(lambda x, t: (F.cross_entropy(x, t, reduction="none") * x.detach().sum(1)).mean(), x, t)
    check(lambda x, t: F.cross_entropy(x, t) + x.log_softmax(1).sum(), x, t)
    check(lambda x, t: F.nll_loss(x, t), x, t)
    check(lambda x, t: F.nll_loss((x + x.sum(0)).tanh() / x.sum(), t), x, t)
    check(lambda x, t: F.nll_loss((x @ x.t()).log_softmax(1), t % 6), x, t)
    check(lambda x, t: F.cross_entropy(x.t().contiguous().t()[:, 2:8], t % 6), x, t)


def test_all_ignored_and_no_rows():
    x, t = made("matrix")
    for reduction in ("none", "mean", "sum"):
        check(lambda x, t: F.cross_entropy(x, t, reduction=reduction), x, torch.full_like(t, -100))  # noqa: B023
        check(lambda x, t: F.cross_entropy(x, t, reduction=reduction), x[:0], t[:0], fused=False)  # noqa: B023
    check(lambda x, t: F.cross_entropy(x, t), x[0], t[0], fused=False)
    check(lambda x, t: F.cross_entropy(x, t), x[:1], t[:1])
    check(lambda x, t: F.cross_entropy(x, t), x[:, :1], torch.zeros_like(t))


def test_infinite_scores():
    inf = float("inf")
    x = torch.tensor([[0.0, -inf, 1.0], [-inf, -inf, 0.0], [inf, 0.0, 1.0], [float("nan"), 0.0, 0.0]])
    check(lambda x, t: F.cross_entropy(x, t, reduction="none"), x, torch.tensor([1, 2, 0, 1]))


@pytest.mark.parametrize("wrong", [10, -1, 1 << 40])
def test_a_label_out_of_range_is_the_operators_error(wrong):
    x, t = made("matrix")
    f = torch.compile(lambda x, t: F.cross_entropy(F.dropout(x), t), backend="llvm", fullgraph=True)
    for _ in range(2):
        f(x, t)
    t[4] = wrong
    with pytest.raises(IndexError) as eager:
        F.cross_entropy(x, t)
    with pytest.raises(IndexError) as ours:
        f(x, t)
    assert str(ours.value) == str(eager.value)
    t[4] = 0
    assert f(x, t).isfinite()


def test_an_error_leaves_statistics_updated_once():
    bad = torch.tensor([0, 7, 0, 0])
    found = []
    for compiles in (False, True):
        torch.manual_seed(0)
        norm = torch.nn.BatchNorm1d(5)
        f = lambda x, t, norm=norm: F.cross_entropy(norm(x), t)  # noqa: E731
        f = torch.compile(f, backend="llvm", fullgraph=True) if compiles else f
        for _ in range(3):
            f(torch.ones(4, 5), torch.zeros(4, dtype=torch.int64))
        with pytest.raises(IndexError, match="Target 7 is out of bounds"):
            f(torch.full((4, 5), 3.0), bad)
        found.append(norm.running_mean.clone())
    torch.testing.assert_close(*found)


def test_double_backward_and_hooks():
    x, t = made("matrix")
    grads = []
    for f in (F.cross_entropy, torch.compile(lambda x, t: F.cross_entropy(x, t), backend="llvm", fullgraph=True)):
        for _ in range(2):
            leaf = x.clone().requires_grad_()
            seen = []
            leaf.register_hook(lambda g: seen.append(g.clone()))  # noqa: B023
            (g,) = torch.autograd.grad(f(leaf, t), leaf, create_graph=True)
            (g * g).sum().backward()
        grads.append((g, leaf.grad, len(seen)))
    torch.testing.assert_close(grads[1][0], grads[0][0])
    torch.testing.assert_close(grads[1][1], grads[0][1])
    assert grads[0][2] == grads[1][2]


def test_a_weight_that_is_computed_keeps_its_memory():
    x, t = made("matrix")
    x, t = x[:, :6], t % 6
    check(lambda x, t, w: F.cross_entropy(x, t, (w * 2).detach(), reduction="none") * w, x, t, torch.rand(6) + 1)


def test_numpy_leaves_the_loss_to_its_kernel():
    x, t = made("matrix")
    f = torch.compile(lambda x, t: F.cross_entropy(x, t), backend="numpy", fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(f(x, t), F.cross_entropy(x, t))


def test_loops_without_machine_code_read_tables():
    x, t = made("matrix")
    check(lambda x, t: torch.lgamma(F.cross_entropy(x, t, reduction="none")).sum(), x, t)


def test_explain_shows_what_loops_read():
    x, t = made("matrix")
    f = torch.compile(lambda x, t: F.cross_entropy(x, t), backend="llvm")
    text = str(f.explain(x.requires_grad_(), t))
    assert "nll_loss_forward chosen: scalar: self[where(target == ignore_index, 0, target)]" in text
    assert "_log_softmax: scalar: self - largest - total" in text
    assert "not fused" not in text


def test_labels_in_any_layout():
    x, t = made("matrix")
    twice = torch.stack([t, t], 1)
    check(lambda x, t: F.cross_entropy(x, t[:, 1]), x, twice)
    check(lambda x, t: F.cross_entropy(x, t[2:3].expand(6)), x, t)
    check(lambda x, t: F.cross_entropy(x.view(2, 3, 10).transpose(0, 1).reshape(-1, 10), t.flip(0)), x, t)
    check(lambda x, t: F.cross_entropy(x.view(1, 6, 10).view(-1, 10), t.view(2, 3).view(-1)), x, t)
    check(lambda x, t: F.cross_entropy(x, x.detach().argmax(1)) + t.sum() * 0, x, t)
