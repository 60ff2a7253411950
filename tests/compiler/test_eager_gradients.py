"""Gradients that machine code adds to others while it computes them: the same bits, hooks, graphs and errors."""

import numpy as np
import pytest

import gradloom as torch
from gradloom.compiler import _eager_gradients, _llvm
from gradloom.core import engine
from gradloom.core.node import NO_EDGE

from .eager_calls import take_as_large

pytestmark = pytest.mark.skipif(not _llvm.available(), reason="needs llvmlite: pip install 'gradloom[compile]'")
F = torch.nn.functional


@pytest.fixture(autouse=True)
def large_from_64(monkeypatch):
    take_as_large(64, monkeypatch)


@pytest.fixture
def added(monkeypatch) -> list[str]:
    """The names of the nodes whose gradients are added to a sum, one for each of these gradients."""
    names: list[str] = []

    def counting(task, node, grads, edges):
        outputs = original(task, node, grads, edges)
        names.extend(
            type(node).__name__ for e, o in zip(edges, outputs, strict=False) if o is None and e is not NO_EDGE
        )
        return outputs

    with torch.set_kernels("llvm"):
        original = engine.apply_adding
        monkeypatch.setattr(engine, "apply_adding", counting)
        yield names


def leaf(dtype=torch.float32):
    return torch.linspace(-2, 3, 100, dtype=dtype).requires_grad_()


def gradient(call, kernels, dtype=torch.float32, backward=None):
    x = leaf(dtype)
    with torch.set_kernels(kernels):
        for _ in range(2):  # NumPy's kernels see the first calls of pointwise ones
            x.grad = None
            (backward or (lambda y: y.sum().backward()))(call(x))
    return x.grad.numpy()


EXACT = {
    "products": lambda x: x * x.detach() + x * (3 * x.detach()) - x * 0.3,
    "a square": lambda x: x * 2 + x * x,
    "an intermediate sum": lambda x: (lambda y: y * 3 + y * y.detach() + 1 / y)(x * 2 + 7),
    "roots": lambda x: x.abs().sqrt() + (x - 5).abs() * (x + 7).sqrt() + x.neg(),
    "relu": lambda x: x * 2 + F.relu(x) + F.hardtanh(x) + F.leaky_relu(x, 0.3) + F.threshold(x, 1, 2),
    "one number, expanded": lambda x: x * 3 + x * torch.ones(()).expand(100),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_sums_have_the_bits_of_numpy(name, dtype):
    assert gradient(EXACT[name], "llvm", dtype).tobytes() == gradient(EXACT[name], "numpy", dtype).tobytes()


def test_what_is_added_where_it_is_computed(added):
    x = leaf()
    (torch.sigmoid(x) * torch.tanh(x) + x**2).sum().backward()
    assert added == ["TanhBackward0", "SigmoidBackward0"]
    added.clear()
    (x * 0.3 + x.exp() + x.detach() * x + x.reshape(10, 10).t().reshape(-1) * 2).sum().backward()
    assert added == ["ExpBackward0", "MulBackward0"]


def test_every_definition_gives_the_gradient_of_its_node():
    from gradloom.generated.records.elementwise import GRADIENTS

    assert {"MulBackward0", "DivBackward0", "TanhBackward0", "Expm1Backward0"} <= GRADIENTS.keys()
    calls = [
        *(getattr(F, name) for name in "silu gelu mish elu celu softplus hardswish hardsigmoid logsigmoid".split())
    ]
    calls += [lambda x: F.softplus(x, 2, 3), lambda x: F.gelu(x, approximate="tanh"), lambda x: F.elu(x, 0.3)]
    calls += [
        *(getattr(torch, name) for name in "sin cos tan atan sinh cosh asinh exp2 expm1 erf erfc sigmoid".split())
    ]
    calls += [lambda x: (x + 3).log() + (x + 4).log1p() + (x + 5).log2(), lambda x: 1 / (x + 3) + (x + 3).rsqrt()]
    calls += [lambda x: torch.addcmul(x, x, x.detach(), value=0.3), lambda x: x / (x.detach() + 5) + 3 / (x + 7)]
    for call in calls:
        found, expected = (gradient(lambda x, call=call: x * 2 + call(x), k) for k in ("llvm", "numpy"))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_hooks_see_the_gradients_of_their_nodes(added):
    def seen(hooked):
        found = []
        x = leaf()
        s, t = x.sigmoid(), x.tanh()
        if hooked == "node":
            t.grad_fn.register_hook(lambda grads, _: found.append(grads[0].clone()))
        elif hooked == "pre-hook":
            t.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
        elif hooked == "tensor":
            t.register_hook(lambda grad: found.append(grad.clone()))
        elif hooked == "leaf":
            x.register_hook(lambda grad: found.append(grad.clone()))
        else:
            t.retain_grad()
        (s * t + x**2).sum().backward()
        found.append(t.grad if hooked == "retained" else x.grad)
        return [g.numpy() for g in found], x.grad.numpy()

    found = {}
    for hooked in ("node", "pre-hook", "tensor", "leaf", "retained"):
        added.clear()
        found[hooked] = seen(hooked)
        assert ("TanhBackward0" in added) == (hooked == "leaf")
    torch.set_kernels("numpy")  # the fixture's block ends it
    for hooked, (hooks, last) in found.items():
        expected = seen(hooked)
        for a, b in zip((*hooks, last), (*expected[0], expected[1]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_passes_that_others_read_compute_as_ever(added):
    x = leaf()
    (first,) = torch.autograd.grad((x.tanh() + x.sigmoid() * 2).sum(), x, create_graph=True)
    assert added == [] and first.requires_grad
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly(check_nan=False):
        (x.tanh() + x.sigmoid() * 2).sum().backward()
    assert added == []


def test_selected_gradients_and_a_second_pass(added):
    x, other = leaf(), leaf()
    y = x * other + x.exp() + x.tanh()
    found = torch.autograd.grad(y.sum(), [x], retain_graph=True)
    assert added == ["ExpBackward0", "MulBackward0"]
    again = torch.autograd.grad(y.sum(), [x, other])
    assert found[0].numpy().tobytes() == again[0].numpy().tobytes()
    assert again[1].numpy().tobytes() == x.detach().numpy().tobytes()


def test_a_gradient_that_others_hold_is_not_added_to():
    x, held = leaf(), []
    y = x * 2
    y.register_hook(held.append)
    with torch.set_kernels("llvm"):
        (y + 0).register_hook(held.append)
        z = x.clone()
        z.register_hook(held.append)  # keeps the gradient that waits at x
        (z + x.exp() + y).backward(torch.ones(100))
    assert all(h.numpy().tobytes() == torch.ones(100).numpy().tobytes() for h in held)


def test_writes_to_saved_tensors_are_errors_and_saved_hooks_run_once():
    with torch.set_kernels("llvm"):
        x = leaf()
        e = x.exp()
        y = e + x.tanh()
        e.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
        unpacked = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: unpacked.append(1) or t):
            y = x.exp() + x.tanh() + x.sigmoid()
        y.sum().backward()
        assert len(unpacked) == 3


def test_a_tensor_written_to_before_it_is_saved(added):
    x, factor = leaf(), torch.ones(100)
    factor.mul_(3)
    (x.exp() + x.tanh() + x * factor).sum().backward()
    assert added == ["TanhBackward0", "ExpBackward0"]
    added.clear()
    (x * factor + x.exp()).sum().backward()
    assert added == ["MulBackward0"]


def test_definitions_are_those_of_generated_nodes_only():
    class MulBackward0:
        pass

    assert _eager_gradients.definitions(MulBackward0) is None
    assert _eager_gradients.definitions(type(leaf().tanh().grad_fn)) is not None
