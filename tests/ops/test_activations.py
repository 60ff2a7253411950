"""Activations beyond their values and derivatives: numbers that are not finite, large arrays, and types."""

from __future__ import annotations

import numpy as np
import pytest

import gradloom
from gradloom.kernels.elementwise.choices import bounded, keep_where, select

F = gradloom.nn.functional
INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("shape", [(3,), (5000,), (70, 73), (64, 8, 16), (4096 * 3 + 7,), ()])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "complex128"])
def test_choices_without_branches_are_numpys(shape, dtype):
    random = np.random.default_rng(0)
    a, b = (np.asarray(random.standard_normal(shape) * 50).astype(dtype) for _ in range(2))
    if a.ndim and dtype.startswith("float"):
        a[0], b[0] = INF, NAN
    mask = np.asarray(random.random(shape) < 0.5)
    for x, y, m in ((a, b, mask), (a.T, b.T, mask.T), (a[..., None], b[..., None], mask[..., None])):
        np.testing.assert_array_equal(select(m, x, y), np.where(m, x, y))
        np.testing.assert_array_equal(keep_where(x, m), np.where(m, x, 0))
        if dtype[0] != "c":
            for ufunc in (np.maximum, np.minimum):
                np.testing.assert_array_equal(bounded(ufunc, x, x.dtype.type(3)), ufunc(x, x.dtype.type(3)))


def test_bounds_in_place_reach_every_element():
    for view in (np.s_[:], np.s_[::2], np.s_[:, ::-1]):
        whole = np.random.default_rng(1).standard_normal((100, 101))
        part, expected = whole[view], np.maximum(whole[view], 0)
        assert bounded(np.maximum, part, np.float64(0), part) is part
        np.testing.assert_array_equal(whole[view], expected)


def test_relu_stops_gradients_that_are_not_finite():
    x = gradloom.tensor([-1.0, 0.0, 2.0, NAN], requires_grad=True)
    y = gradloom.relu(x)
    (found,) = gradloom.autograd.grad(y, x, gradloom.tensor([INF, NAN, INF, 3.0]))
    assert found.tolist() == [0, 0, INF, 3]
    assert np.isnan(y.tolist()[3])


def test_in_place_activations_differentiate_by_their_result():
    x = gradloom.tensor([-1.0, 2.0], requires_grad=True)
    for function, node in ((F.elu, "EluBackward1"), (F.leaky_relu, "LeakyReluBackward1"), (F.celu, "CeluBackward1")):
        y = function(x.clone(), inplace=True)
        assert y.grad_fn.name() == node
        (found,) = gradloom.autograd.grad(y.sum(), x)
        (expected,) = gradloom.autograd.grad(function(x).sum(), x)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    with pytest.raises(RuntimeError, match="negative slope"):
        F.leaky_relu(x.clone(), -1.0, inplace=True).sum().backward()


@pytest.mark.parametrize("function", [F.silu, F.mish, F.softplus, F.logsigmoid, F.gelu, F.elu])
def test_large_numbers_do_not_overflow(function):
    x = gradloom.tensor([-1000.0, -100.0, 100.0, 1000.0], requires_grad=True)
    y = function(x)
    y.sum().backward()
    assert np.isfinite(y.tolist()).all() and np.isfinite(x.grad.tolist()).all()


@pytest.mark.parametrize("dtype", [gradloom.float16, gradloom.bfloat16])
@pytest.mark.parametrize(
    "function", [F.relu, F.gelu, F.silu, F.elu, F.hardswish, F.softplus, lambda x: F.softmax(x, 0)]
)
def test_halves_are_computed_in_float32(function, dtype):
    x = gradloom.tensor([-2.7, -0.3, 0.1, 1.3, 2.9]).to(dtype)
    found = function(x)
    assert found.dtype is dtype
    assert found.tolist() == function(x.float()).to(dtype).tolist()


def test_softmax_of_rows_and_columns():
    x = np.random.default_rng(0).standard_normal((40, 3, 50)).astype(np.float32) * 10
    for dim in (0, 1, 2, -1):
        e = np.exp(x.astype(np.float64) - x.max(dim, keepdims=True))
        expected = e / e.sum(dim, keepdims=True)
        t = gradloom.from_numpy(x)
        np.testing.assert_allclose(t.softmax(dim).numpy(), expected, rtol=2e-5, atol=1e-12)
        np.testing.assert_allclose(t.log_softmax(dim).numpy(), np.log(expected), rtol=2e-5, atol=1e-5)
    assert gradloom.softmax(gradloom.tensor(3.0), 0).item() == 1
    assert np.isnan(gradloom.softmax(gradloom.full((2,), -INF), 0).tolist()).all()
    assert gradloom.dispatch._operators._safe_softmax(gradloom.full((2,), -INF), 0).tolist() == [0, 0]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: F.relu(gradloom.tensor([True])), RuntimeError, "Boolean inputs not supported for relu"),
        (lambda: F.elu(gradloom.tensor([1])), NotImplementedError, '"elu_cpu" not implemented for \'Long\''),
        (lambda: F.softmax(gradloom.tensor([1]), 0), NotImplementedError, '"softmax_lastdim_kernel_impl"'),
        (lambda: F.softmax(gradloom.tensor([1.0]), 1),
         IndexError, "(expected to be in range of [-1, 0], but got 1)"),
        (lambda: F.softshrink(gradloom.tensor([1.0]), -1),
         RuntimeError, "lambda must be in range [0, 3.40282e+38]"),
        (lambda: F.gelu(gradloom.tensor([1.0]), approximate="x"),
         RuntimeError, "must be either none or tanh"),
        (lambda: F.glu(gradloom.ones(3)),
         RuntimeError, "Halving dimension must be even, but dimension 0 is size 3"),
        (lambda: F.celu(gradloom.ones(3), 0), RuntimeError, "alpha cannot be 0"),
        (lambda: F.prelu(gradloom.ones(2, 3), gradloom.ones(2)),
         RuntimeError, "numbers = 2 and channel size = 3"),
        (lambda: gradloom.threshold(gradloom.ones(2), 1j, 0),
         RuntimeError, "cannot be converted to type float"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, words):
    with pytest.raises(error) as found:
        call()
    assert words in str(found.value)
