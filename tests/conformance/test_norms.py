"""Normalisations against PyTorch: results, statistics, gradients, gradients of these, and memory formats."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradloom  # noqa: E402
from tests.releases import pytorch_before  # noqa: E402


def batch(training):
    return lambda t, x, w, b, mean, var: t.nn.functional.batch_norm(x, mean, var, w, b, training, 0.2, 1e-3)


def instance(use_input_stats):
    return lambda t, x, w, b, mean, var: t.nn.functional.instance_norm(x, mean, var, w, b, use_input_stats, 0.2, 1e-3)


def layer(dims):
    return lambda t, x, w, b, *_: t.nn.functional.layer_norm(x, tuple(x.shape[-dims:]), w, b, 1e-3)


def rms(t, x, w, b, *_):
    return t.nn.functional.rms_norm(x, tuple(x.shape[-1:]), w, 1e-3) + (0 if b is None else b)


def group(count):
    return lambda t, x, w, b, *_: t.nn.functional.group_norm(x, count, w, b, 1e-3)


# name -> (call, shape of the input, shape of the parameters)
CASES = {
    "batch 2d": (batch(True), (4, 3), (3,)),
    "batch 3d": (batch(True), (4, 3, 5), (3,)),
    "batch 5d": (batch(True), (2, 3, 2, 2, 2), (3,)),
    "batch evaluation": (batch(False), (2, 3, 4), (3,)),
    "instance": (instance(True), (2, 3, 4), (3,)),
    "instance evaluation": (instance(False), (2, 3, 4), (3,)),
    "layer": (layer(1), (2, 3, 4), (4,)),
    "layer of two dimensions": (layer(2), (2, 3, 4), (3, 4)),
    "layer of one element": (layer(1), (3, 1), (1,)),
    "rms": (rms, (2, 3, 4), (4,)),
    "group": (group(2), (2, 4, 3), (4,)),
    "group of one channel": (group(4), (2, 4, 3), (4,)),
    "group of all channels": (group(1), (2, 4), (4,)),
}


def outcomes(t, name, parameters, channels_last=False):
    call, shape, affine = CASES[name]
    random = np.random.default_rng(5)

    def draw(*size):
        return t.tensor(random.normal(size=size))

    x = draw(*shape)
    if channels_last:
        x = x.contiguous(memory_format=t.channels_last)
    x = x.requires_grad_()
    w, b = [draw(*affine).requires_grad_() if i < parameters else None for i in range(2)]
    mean, var = draw(shape[1]), draw(shape[1]).abs() + 0.5
    result = call(t, x, w, b, mean, var)
    grad = draw(*shape).requires_grad_()
    inputs = [v for v in (x, w, b) if v is not None]
    first = t.autograd.grad(result, inputs, grad, create_graph=True)
    second = []
    for chosen in range(1, 2 ** len(first)):  # every set of cotangents
        of = [g for i, g in enumerate(first) if chosen >> i & 1]
        second += t.autograd.grad(
            of, [x, grad, *inputs[1:2]], [draw(*g.shape) for g in of], allow_unused=True, retain_graph=True
        )
    return [result, mean, var, *first], second


@pytest.mark.parametrize("parameters", [0, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name, parameters):
    found, expected = outcomes(gradloom, name, parameters), outcomes(torch, name, parameters)
    for a, b in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
        if a is None and b is not None and name.startswith("group"):
            # PyTorch 2.15 has a formula for second derivatives, which gives zeros for what they do not depend on.
            assert not pytorch_before("2.15") and not b.any()
            continue
        assert (a is None) == (b is None)
        if a is not None:
            assert a.stride() == b.stride()
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-11)
    assert found[0][0].grad_fn.name() == expected[0][0].grad_fn.name()


def test_channels_last_stays(monkeypatch):
    monkeypatch.setitem(CASES, "pictures", (batch(True), (2, 3, 4, 5), (3,)))
    found, expected = outcomes(gradloom, "pictures", 2, True)[0], outcomes(torch, "pictures", 2, True)[0]
    for a, b in zip(found, expected, strict=True):
        assert a.stride() == b.stride()
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("mixed", [False, True])
def test_dtypes_of_statistics(dtype, mixed):
    def run(t):
        x = t.arange(24).reshape(2, 4, 3).to(getattr(t, dtype))
        w = t.ones(4, dtype=t.float32 if mixed else x.dtype)
        return [
            *t.native_batch_norm(x, w, None, None, None, True, 0.1, 1e-3),
            *t.native_layer_norm(x.transpose(1, 2), (4,), w, None, 1e-3),
            *t.native_group_norm(x, w, None, 2, 4, 3, 2, 1e-3),
        ]

    for a, b in zip(run(gradloom), run(torch), strict=True):
        assert str(a.dtype) == str(b.dtype) and tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.float().numpy(), b.float().numpy(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "call",
    [
        lambda t, f: f.layer_norm(t.ones(2, 3), (4,)),
        lambda t, f: f.layer_norm(t.ones(2, 3), ()),
        lambda t, f: f.layer_norm(t.ones(2, 3), (3,), t.ones(2)),
        lambda t, f: f.group_norm(t.ones(2, 3), 2),
        lambda t, f: f.group_norm(t.ones(2, 4), 2, t.ones(3)),
        lambda t, f: f.rms_norm(t.ones(2, 3), (3,), t.ones(2)),
        lambda t, f: f.batch_norm(t.ones(2, 3), None, None),
        lambda t, f: f.batch_norm(t.ones(2, 3), t.ones(2), t.ones(3)),
        lambda t, f: f.batch_norm(t.ones(1, 3), None, None, training=True),
        lambda t, f: f.batch_norm(t.ones(2, 3), t.ones(3), t.ones(3), eps=-1.0),
        lambda t, f: f.batch_norm(t.ones(2, 3), t.ones(3), t.ones(3), training=True, eps=0.0),
        lambda t, f: f.instance_norm(t.ones(2, 3, 2), use_input_stats=False),
    ],
    ids=range(12),
)
def test_errors(call):
    with pytest.raises((RuntimeError, ValueError)) as expected:
        call(torch, torch.nn.functional)
    with pytest.raises(expected.type) as found:
        call(gradloom, gradloom.nn.functional)
    first = str(expected.value).splitlines()[0]
    assert str(found.value).replace("gradloom", "torch") in (first, str(expected.value))
