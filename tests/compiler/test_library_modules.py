"""Recurrent networks and transformers of the library are one graph each."""

from __future__ import annotations

import pytest

import gradloom as torch
from gradloom.compiler._api import optimized_of

nn = torch.nn


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value if v is not None for t in tensors_in(v)]


def check(module, *inputs, times=3, **options):
    """Compare results and gradients of a module, and those of its compiled form, which must be one graph."""
    compiled = torch.compile(module, fullgraph=True)
    for _ in range(times):
        found = []
        for each in (module, compiled):
            leaves = [t.clone().requires_grad_() if t.is_floating_point() else t for t in inputs]
            module.zero_grad()
            results = tensors_in(each(*leaves, **options))
            sum((r * r).sum() for r in results).backward()
            found.append(results + [t.grad for t in [*leaves, *module.parameters()] if t.grad is not None])
        assert len(found[0]) == len(found[1])
        for a, b in zip(*found, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
    assert len(optimized_of(compiled).entries) == 1
    return compiled


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layers, bidirectional", [(1, False), (2, True)])
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_recurrent_networks(kind, layers, bidirectional, bias):
    torch.manual_seed(0)
    module = kind(6, 5, layers, batch_first=True, bidirectional=bidirectional, bias=bias)
    check(module, torch.randn(4, 7, 6))
    check(module, torch.randn(7, 6))
    check(module.double(), torch.randn(4, 7, 6, dtype=torch.float64))


def test_new_weights_of_a_recurrent_network_are_seen():
    torch.manual_seed(0)
    module = nn.GRU(3, 4)
    compiled, x = torch.compile(module), torch.randn(5, 2, 3)
    for _ in range(3):
        compiled(x)
    module.weight_hh_l0 = nn.Parameter(torch.randn(12, 4))
    torch.testing.assert_close(compiled(x)[0], module(x)[0])
    new = {name: torch.randn_like(p) for name, p in module.named_parameters()}
    for _ in range(2):
        expected = torch.func.functional_call(module, new, (x,))[0]
        torch.testing.assert_close(torch.func.functional_call(module, new, (x,))[0], expected)
        torch.testing.assert_close(compiled(x)[0], module(x)[0])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_transformer_encoders(training, norm_first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True, norm_first=norm_first)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training)
    check(module, torch.randn(3, 6, 16))


def test_transformer_decoders_and_attention():
    torch.manual_seed(0)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, 0.0, batch_first=True), 2)
    check(decoder, torch.randn(3, 6, 16), torch.randn(3, 5, 16))
    attention = nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(3, 6, 16)
    check(attention, x, x, x)
    check(attention, x, x, x, need_weights=False)
    causal = torch.ones(6, 6, dtype=torch.bool).triu(1)
    check(attention, x, x, x, attn_mask=causal, need_weights=False)


def test_a_weak_reference_is_a_guard():
    import weakref

    first, second = torch.ones(3), torch.full((3,), 2.0)
    holder = [weakref.ref(first)]
    f = torch.compile(lambda x: torch.sigmoid(x) * holder[0]())
    x = torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(f(x), torch.sigmoid(x))
    holder[0] = weakref.ref(second)
    for _ in range(2):
        torch.testing.assert_close(f(x), torch.sigmoid(x) * 2)
    assert not optimized_of(f).breaks


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_meta_layers_have_the_sizes_of_real_ones(kind):
    module = kind(3, 4)
    x, h = torch.randn(5, 2, 3), torch.zeros(2, 4)
    mode = {nn.RNN: 1, nn.LSTM: 2, nn.GRU: 3}[kind]
    weights = [getattr(module, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    options = (False, [], mode, 4, 1, True, False, False, True)
    real = torch.ops.aten.mkldnn_rnn_layer(x, *weights, h, h, *options)
    meta = torch.ops.aten.mkldnn_rnn_layer(*[t.to("meta") for t in (x, *weights, h, h)], *options)
    assert [t.shape for t in real] == [t.shape for t in meta]
