"""Fake quantization against PyTorch: values bit by bit, masks, strides, gradients, written statistics, errors.

Gradients of scales and zero points are sums, and the observer's steps chain a few roundings: those have tolerances. A
floating zero point is added in one rounding if the processor has a fused multiply-add, so it is tested on random
numbers, which are not halfway between two integers.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import gradloom

torch = pytest.importorskip("torch")

SPECIAL = [math.nan, math.inf, -math.inf, 1e30, -1e30, -0.0, 0.0]
TIES = [n * 0.05 for n in range(-70, 70)]  # every second one is halfway between two multiples of 0.1
LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.t(),
    "gaps": lambda x: x[::2],
    "expanded": lambda x: x[:, :1].expand(-1, 4),
    "channels last": lambda x: x[:32].reshape(2, 4, 4, 6).permute(0, 3, 1, 2),
    "empty": lambda x: x[:0],
    "scalar": lambda x: x[0, 5],
}
PARAMETERS = [  # scale, zero point, range
    (0.1, 0, (0, 255)),
    (0.1, 3, (-128, 127)),
    (0.07, -5, (-60, 61)),
    (0.1, 5, (5, 5)),
    (0.0, 0, (0, 255)),
    (-0.1, 0, (0, 255)),
    (math.nan, 0, (0, 255)),
    (0.3, 1 << 25, (0, 1 << 26)),
    (0.3, 3, (0, (1 << 31) - 1)),
    (0.1, 300, (0, 255)),
    (0.1, 0, (5, 4)),
]
SCALES = [0.1, 0.25, 0.3, 0.55, 0.8, 1.1]


def _numbers() -> np.ndarray:
    values = np.concatenate([SPECIAL, TIES, np.random.default_rng(0).normal(0, 9, 93)])
    return values.reshape(-1, 6)


def _outcome(call: Any, library: Any) -> Any:
    try:
        found = call(library)
    except (RuntimeError, NotImplementedError, IndexError) as error:
        return type(error).__name__, str(error).splitlines()[0]
    return list(found) if isinstance(found, (tuple, list)) else [found]


def _assert_same(call: Any, tolerance: float = 0.0) -> None:
    theirs, ours = _outcome(call, torch), _outcome(call, gradloom)
    if isinstance(theirs, tuple) or isinstance(ours, tuple):
        assert ours == theirs
        return
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
        assert tuple(a.shape) == tuple(b.shape)
        assert a.stride() == b.stride()
        found, expected = (np.array(t.detach().tolist(), np.float64) for t in (a, b))
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        if not tolerance:
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def _assert_rounds_alike(values, layout, dtype, scale, zero_point, limits):
    def x(L):
        return LAYOUTS[layout](L.tensor(values).to(getattr(L, dtype)))

    def per_tensor(L):
        return L.ops.aten.fake_quantize_per_tensor_affine_cachemask(x(L), scale, zero_point, *limits)

    def of_tensors(L):
        numbers = L.tensor([scale]), L.tensor([zero_point], dtype=L.int32), L.tensor([1])
        return L._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x(L), *numbers, *limits)

    def channels(L):
        count = (*x(L).shape, 1)[0]
        return L.full((count,), scale), L.full((count,), zero_point, dtype=L.int32)

    def per_channel(L):
        return L.ops.aten.fake_quantize_per_channel_affine_cachemask(x(L), *channels(L), 0, *limits)

    def learned_per_tensor(L):
        numbers = L.tensor([scale]), L.tensor([zero_point + 0.5])
        return L._fake_quantize_learnable_per_tensor_affine(x(L), *numbers, *limits)

    def learned_per_channel(L):
        scales, zeros = channels(L)
        return L._fake_quantize_learnable_per_channel_affine(x(L), scales, zeros + 0.5, 0, *limits)

    for call in (per_tensor, of_tensors, per_channel, learned_per_tensor, learned_per_channel):
        _assert_same(call)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "bool", "complex64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rounding_is_pytorchs(dtype, layout):
    for parameters in PARAMETERS:
        _assert_rounds_alike(_numbers(), layout, dtype, *parameters)


@pytest.mark.parametrize("zero_dtype", ["float32", "float16"])
@pytest.mark.parametrize("start", [0.3, 0.5, -2.5, 40.0, math.nan])
def test_zero_points_of_channels_need_not_be_integers(start, zero_dtype):
    values = np.random.default_rng(1).normal(0, 3, (4, 5, 3))

    def call(L):
        x, zeros = L.tensor(values).float(), L.full((5,), start, dtype=getattr(L, zero_dtype))
        return L.ops.aten.fake_quantize_per_channel_affine_cachemask(x, L.tensor(SCALES[:5]), zeros, 1, -8, 8)

    _assert_same(call)


@pytest.mark.parametrize("zero_point", [0.0, 1.5, 2.5, -1.5, -2.5, -1.6, 99.0, -99.0, math.inf, math.nan])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_learned_gradients_are_pytorchs(zero_point, axis):
    for limits, factor in itertools.product(((-8, 8), (0, 15), (1, 5), (6, 5)), (1.0, 0.37)):
        _assert_learns_alike(zero_point, axis, limits, factor)


def _assert_learns_alike(zero_point, axis, limits, factor):
    values, cotangent = np.random.default_rng(2).normal(0, (3, 1), (5, 6, 2)).astype(np.float32).transpose(2, 0, 1)
    special = values.copy()
    special[0] = SPECIAL[:6]
    name, size, dim = ("tensor", 1, ()) if axis is None else ("channel", (5, 6)[axis], (axis,))

    def learned(L):
        return L.tensor(SCALES[:size]), L.full((size,), zero_point)

    def backward(L):
        f = getattr(L.ops.aten, f"_fake_quantize_learnable_per_{name}_affine_backward")
        return f(L.tensor(cotangent), L.tensor(special), *learned(L), *dim, *limits, factor)

    def recorded(L):
        leaves = [t.requires_grad_() for t in (L.tensor(values), *learned(L))]
        f = getattr(L, f"_fake_quantize_learnable_per_{name}_affine")
        f(*leaves, *dim, *limits, factor).backward(L.tensor(cotangent))
        return [leaf.grad for leaf in leaves]

    _assert_same(backward, 2e-5)
    _assert_same(recorded, 2e-5)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("limits", [(0, 255), (-128, 127), (0, 15), (-32768, 32767), (5, 5), (-9, -3), (5, 4)])
def test_observers_write_the_statistics_that_pytorch_writes(limits, symmetric):
    for seed, per_row, on, first in itertools.product(range(6), (False, True), ((1, 1), (0, 1), (1, 0)), (True, False)):
        random = np.random.default_rng(seed)
        values = random.normal((0, 3, -3)[seed % 3], 10.0 ** random.integers(-6, 4), (4, 5)).astype(np.float32)
        _assert_observes_alike(values, limits, symmetric, per_row, on, first)


def _assert_observes_alike(values, limits, symmetric, per_row, on, first):
    size = (4,) if per_row else (1,)
    start = (math.inf, -math.inf) if first else (-2.0, 4.0)

    def observed(L):
        written = (*[L.full(size, v) for v in start], L.ones(size), L.zeros(size, dtype=L.int32))
        x = L.tensor(values).requires_grad_()
        switches = [L.tensor([value]) for value in on]
        out = L.fused_moving_avg_obs_fake_quant(x, *switches, *written, 0.01, *limits, 0, per_row, symmetric)
        out.sum().backward()
        return out.detach(), x.grad, *written

    _assert_same(observed, 2e-5)


ERRORS = """
f(x, 0.1, 0, 5, 4)  f(x, 0.1, 6, 0, 5)  f(x, S(2), Z(1), 0, 5)  f(x, S(1), Z(2), 0, 5)  f(x, S(0), Z(1), 0, 5)
f(x, S(1), Z(1) + 2**40, 0, 5)  f(x, S(1).requires_grad_(), Z(1).int(), 0, 5)  c(x, S(2), Z(2), 0, 0, 5)
c(x, S(2).double(), I(2), 0, 0, 5)  c(x, S(2).half(), I(2), 0, 0, 5)  c(x, S(2)[None], I(2), 0, 0, 5)
c(x, S(2), I(2)[None], 0, 0, 5)  c(x, S(2), I(3), 0, 0, 5)  c(x, S(3), I(3), 0, 0, 5)  c(x, S(3), I(3), -1, 0, 5)
c(x, S(3), I(3), 2, 0, 5)  c(x, S(3), I(3), -3, 0, 5)  c(x, S(2), I(2), 0, 6, 5)  c(x, S(2), I(2) + 9, 0, 0, 5)
c(x[:0], S(0), I(0), 0, 0, 5)  c(x[0, 0], S(1), I(1), 0, 0, 5)  lt(x, S(1)[0], S(1), 0, 5)  lt(x, S(0), S(1), 0, 5)
lt(x, S(1), S(0), 0, 5)  m(x, x)  m(x, x[:1] > 0)  m(x.view(3, 2)[:, :1], x[0] > 0)  m(x[:0], x[:0] > 0)
ltb(x, x.half(), S(1), S(1), 0, 5)  ltb(x, x, S(1).double(), S(1), 0, 5)  ltb(x[:1], x, S(1), S(1), 0, 5)
lcb(x[:1], x, S(2), S(2), 0, 0, 5)  lcb(x, x, S(2), S(2), -1, 0, 5)  lcb(x, x, S(2), I(2), 0, 0, 5)
lcb(x[:0], x[:0], S(2), S(2), 0, 0, 5)  o(x, I(1), I(1), S(1), S(1), S(1), I(1), 0.1, 0, 5, 2)
o(x, I(1), I(1), S(1), S(1), S(1), I(1), 0.1, 0, 5, 1, True)
o(x.double(), I(1), I(1), S(1), S(1), S(1), I(1), 0.1, 0, 5, 1)
o(x[:0], I(1), I(1), S(1), S(1), S(1), I(1), 0.1, 0, 5, 1)  o(x, I(1), I(1), S(0), S(0), S(0), I(0), 0.1, 0, 5, 0, True)
"""


@pytest.mark.parametrize("expression", [e for line in ERRORS.strip().splitlines() for e in line.split("  ")])
def test_arguments_are_refused_in_pytorchs_words(expression):
    def call(L):
        aten = L.ops.aten
        names = {
            "x": L.arange(6.0).view(2, 3),
            "S": lambda n: L.full((n,), 0.1),
            "Z": lambda n: L.zeros(n, dtype=L.int64),
            "I": lambda n: L.ones(n, dtype=L.int32),
            "f": L.fake_quantize_per_tensor_affine,
            "c": L.fake_quantize_per_channel_affine,
            "o": L.fused_moving_avg_obs_fake_quant,
            "lt": L._fake_quantize_learnable_per_tensor_affine,
            "ltb": aten._fake_quantize_learnable_per_tensor_affine_backward,
            "lcb": aten._fake_quantize_learnable_per_channel_affine_backward,
            "m": aten.fake_quantize_per_tensor_affine_cachemask_backward,
        }
        return eval(expression, names)

    _assert_same(call)


def test_gradients_pass_where_nothing_was_clamped_and_graphs_have_pytorchs_nodes():
    for L in (torch, gradloom):
        x = L.tensor([-1.0, 0.12, 0.3, 9.0], requires_grad=True)
        ones, zeros = L.ones(4), L.zeros(4, dtype=L.int32)
        results = {
            "FakeQuantizePerTensorAffineCachemaskBackward0": L.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 8),
            "FakeQuantizePerTensorAffineCachemaskTensorQparamsBackward0": L.fake_quantize_per_tensor_affine(
                x, ones[0] * 0.1, zeros[0], 0, 8
            ),
            "FakeQuantizePerChannelAffineCachemaskBackward0": L.fake_quantize_per_channel_affine(
                x, ones * 0.1, zeros, 0, 0, 8
            ),
        }
        for name, found in results.items():
            assert found.grad_fn.name() == name
            (first,) = L.autograd.grad((found * x).sum(), x, create_graph=True)
            assert first.tolist() == pytest.approx([0, 0.1 + 0.12, 0.3 + 0.3, 0.8], abs=1e-6)
            (second,) = L.autograd.grad(first.sum(), x)
            assert second.tolist() == [0, 2, 2, 0]
        learned = L._fake_quantize_learnable_per_tensor_affine(x, ones[:1], ones[:1], 0, 8)
        (first,) = L.autograd.grad(learned.sum(), x, create_graph=True)
        with pytest.raises(
            RuntimeError, match="_fake_quantize_learnable_per_tensor_affine_backward is not implemented"
        ):
            first.sum().backward()
        with L.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="not been implemented yet"):
            dual = L.autograd.forward_ad.make_dual(L.ones(2), L.ones(2))
            L.fake_quantize_per_tensor_affine(dual, 0.1, 0, 0, 8)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("batched", ["x", "x scales", "x scales zeros"])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("L", [torch, gradloom], ids=["torch", "gradloom"])
def test_vmap_quantizes_every_element_of_a_batch(L, learned, batched):
    names = batched.split()
    values = {
        "x": L.tensor(np.random.default_rng(4).normal(0, 1, (3, 5, 4)), dtype=L.float32),
        "scales": L.tensor([SCALES[:4], SCALES[1:5], SCALES[2:]]),
        "zeros": L.tensor([[0, 1, 2, 3], [1, 1, 1, 1], [3, 2, 1, 0]], dtype=L.int32),
    }
    values = {name: value if name in names else value[0] for name, value in values.items()}
    prefix = "_fake_quantize_learnable" if learned else "fake_quantize"
    channels, tensor = (getattr(L, f"{prefix}_per_{kind}_affine") for kind in ("channel", "tensor"))

    def both(x, scales, zeros):
        return channels(x, scales, zeros, 1, 0, 8), tensor(x, scales[:1], zeros[:1], 0, 8)

    mapped = L.vmap(both, tuple(0 if name in names else None for name in values))(*values.values())
    for i in range(3):
        expected = both(*[value[i] if name in names else value for name, value in values.items()])
        assert all(L.equal(found[i], one) for found, one in zip(mapped, expected, strict=True))


def test_gradients_through_vmap_sum_over_the_batch():
    x = gradloom.tensor(np.random.default_rng(5).normal(0, 1, (3, 5, 4)), dtype=gradloom.float32)
    learned = gradloom._fake_quantize_learnable_per_channel_affine
    gradients = []
    for mapped in (False, True):
        leaves = [x.clone().requires_grad_(), *[gradloom.tensor(SCALES[:4]).requires_grad_() for _ in range(2)]]
        f = gradloom.vmap(lambda row, s, z: learned(row, s, z, 1, 0, 8), (0, None, None)) if mapped else None
        found = f(*leaves) if f else learned(*leaves, 2, 0, 8)
        gradients.append(gradloom.autograd.grad((found * x).sum(), leaves))
    for one, other in zip(*gradients, strict=True):
        assert gradloom.allclose(one, other)
