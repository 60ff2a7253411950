"""Attention with several heads and the transformer: initial values, parameters, masks, padding and errors."""

import warnings

import pytest


def test_initial_values_follow_from_the_seed(torch):
    torch.manual_seed(1)
    attention = torch.nn.MultiheadAttention(8, 2, add_bias_kv=True, kdim=6, vdim=5)
    names = "bias_k bias_v q_proj_weight k_proj_weight v_proj_weight in_proj_bias out_proj.weight out_proj.bias"
    assert sorted(attention.state_dict()) == sorted(names.split())
    sums = [p.double().abs().sum().item() for p in attention.parameters()]
    assert sums[-2:] == [pytest.approx(sums[-2]), 0.0]
    torch.manual_seed(1)
    model = torch.nn.Transformer(8, 2, 1, 1, 16, custom_encoder=torch.nn.Identity())
    total = sum(p.double().abs().sum().item() for p in model.parameters())
    assert total == pytest.approx(217.7174, abs=1e-3)
    assert "(out_proj): NonDynamicallyQuantizableLinear(in_features=8, out_features=8, bias=True)" in repr(model)


def test_without_weights_the_fused_computation_gives_the_same(torch):
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(8, 2, add_zero_attn=True, add_bias_kv=True)
    x, y = torch.randn(4, 3, 8), torch.randn(5, 3, 8)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [True] + [False] * 4])
    mask = torch.ones(4, 5, dtype=torch.bool).triu(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, weights = attention(x, y, y, key_padding_mask=padding, attn_mask=mask)
        fused, none = attention(x, y, y, key_padding_mask=padding, attn_mask=mask, need_weights=False)
    assert none is None and torch.allclose(found, fused, atol=1e-6)
    assert weights.shape == (3, 4, 7) and torch.allclose(weights.sum(-1), torch.ones(3, 4))
    assert not weights[1, :, 3:5].any() and not weights[0, 0, 2:5].any()
    assert attention(x, y, y, average_attn_weights=False)[1].shape == (3, 2, 4, 7)
    single, weights = attention(x[:, 0], y[:, 0], y[:, 0])
    assert single.shape == (4, 8) and weights.shape == (4, 7)
    assert torch.allclose(single, attention(x, y, y)[0][:, 0], atol=1e-6)


def test_batch_first_exchanges_two_dimensions(torch):
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(8, 2)
    x = torch.randn(4, 3, 8)
    expected = attention(x, x, x)[0]
    attention.batch_first = True
    assert torch.allclose(attention(*[x.transpose(0, 1)] * 3)[0], expected.transpose(0, 1), atol=1e-6)


def test_in_evaluation_padded_places_are_zeros_before_the_last_norm(torch):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(2, 4, 8), torch.tensor([[False, False, True, True], [False] * 4])
    expected = encoder(x, src_key_padding_mask=padding)
    assert expected[0, 2:].all()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, about nested tensors
        found = encoder(x, src_key_padding_mask=padding)
    assert not found[0, 2:].any()
    assert torch.allclose(found[~padding], expected[~padding], atol=1e-5)


def test_a_causal_mask_is_found_and_the_hint_replaces_it(torch):
    torch.manual_seed(0)
    model = torch.nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    x, y = torch.randn(2, 4, 8), torch.randn(2, 5, 8)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5)
    found = model(x, y, tgt_mask=mask)
    assert torch.equal(found, model(x, y, tgt_mask=mask, tgt_is_causal=True))
    assert torch.allclose(found, model(x, y, tgt_mask=mask.isinf()), atol=1e-6)
    assert torch.allclose(found[:, :3], model(x, y[:, :3], tgt_mask=mask[:3, :3]), atol=1e-6)


def test_warnings(torch):
    layer = torch.nn.TransformerEncoderLayer
    with pytest.warns(UserWarning, match="because encoder_layer.self_attn.batch_first was not True"):
        torch.nn.TransformerEncoder(layer(8, 2, 16), 1)
    with pytest.warns(UserWarning, match="because encoder_layer.self_attn.num_heads is odd"):
        torch.nn.TransformerEncoder(layer(8, 1, 16, batch_first=True), 1)
    x, attention = torch.randn(2, 3, 8), torch.nn.MultiheadAttention(8, 2)
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask is deprecated"):
        attention(x, x, x, key_padding_mask=torch.zeros(3, 2, dtype=torch.bool), attn_mask=torch.zeros(2, 2))


def test_errors(torch):
    attention, x = torch.nn.MultiheadAttention(8, 2), torch.randn(2, 5, 8)
    for error, call, words in (
        (ValueError, lambda: torch.nn.MultiheadAttention(0, 3), "embed_dim and num_heads must be greater than 0"),
        (AssertionError, lambda: torch.nn.MultiheadAttention(8, 3), "embed_dim must be divisible by num_heads"),
        (AssertionError, lambda: attention(x[0], x, x), "unbatched .2-D. `query`, expected `key` and `value`"),
        (AssertionError, lambda: attention(x[0, 0], x, x), "query should be unbatched 2D or batched 3D tensor but"),
        (AssertionError, lambda: attention(x[..., :4], x, x), "was expecting embedding dimension of 8, but got 4"),
        (AssertionError, lambda: attention(x, x, x[:1]), "does not match value shape"),
        (AssertionError, lambda: attention(x, x, x, torch.ones(3, 3)), r"key_padded_mask.shape\[0\] to be 5, but got"),
        (AssertionError, lambda: attention(x, x, x, None, True, torch.ones(2, 2).long()), "only bool and floating"),
        (RuntimeError, lambda: attention(x, x, x, None, True, torch.ones(3, 3)), "The shape of the 2D attn_mask is"),
        (RuntimeError, lambda: attention(x, x, x, is_causal=True), "Need attn_mask if specifying the is_causal hint"),
        (RuntimeError, lambda: torch.nn.TransformerEncoderLayer(8, 2, activation="tanh"), "should be relu/gelu, not"),
        (RuntimeError, lambda: torch.nn.Transformer(8, 2, 1, 1, 8)(x, x[:, :2]), "batch number of src and tgt must"),
        (RuntimeError, lambda: torch.nn.Transformer(8, 2, 1, 1, 8)(x, x[..., :2]), "feature number of src and tgt"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(error, match=words):
                call()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("hidden_by", ["mask", "numbers", "padding", "both"])
@pytest.mark.parametrize("options", [{}, {"kdim": 6, "vdim": 5}, {"dropout": 0.5}], ids=str)
def test_a_query_that_sees_no_key_attends_to_nothing(gradloom, dtype, hidden_by, options):
    torch, dtype = gradloom, getattr(gradloom, dtype)
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True, **options).to(dtype)
    torch.nn.init.normal_(attention.out_proj.bias)
    inputs = [torch.randn(2, n, size).to(dtype) for n, size in ((3, 4), (5, options.get("kdim", 4)))]
    inputs += [torch.randn(2, 5, options.get("vdim", 4)).to(dtype)]
    mask, padding = torch.zeros(3, 5, dtype=torch.bool), torch.zeros(2, 5, dtype=torch.bool)
    blind = torch.zeros(2, 3, dtype=torch.bool)  # batch elements and their queries
    if hidden_by in ("mask", "numbers"):
        mask[1], blind[:, 1] = True, True
    elif hidden_by == "padding":
        padding[1], blind[1] = True, True
    else:
        mask[0, :4], padding[0, 4], blind[0, 0] = True, True, True
    if hidden_by == "numbers":
        mask = torch.zeros(3, 5, dtype=dtype).masked_fill(mask, -torch.inf)
        padding = None
    found = {}
    for training in (False, True):
        attention.train(training)
        for need_weights in (False, True):
            for average in (False, True):
                for x in inputs:
                    x.grad = None
                    x.requires_grad_()
                attention.zero_grad()
                out, weights = attention(
                    *inputs,
                    attn_mask=mask,
                    key_padding_mask=padding,
                    need_weights=need_weights,
                    average_attn_weights=average,
                )
                assert torch.equal(out[blind], attention.out_proj.bias.expand(int(blind.sum()), 4))
                assert out.isfinite().all() and (not need_weights or not weights.movedim(-2, 1)[blind].any())
                out[~blind].square().sum().backward()
                grads = [t.grad for t in (*inputs, *attention.parameters())]
                assert all(g.isfinite().all() for g in grads)
                if not training:
                    found[need_weights, average] = (out, *grads)
    tolerance = {torch.float32: 1e-4, torch.float64: 1e-10, torch.bfloat16: 0.3}[dtype]
    for other in found.values():
        torch.testing.assert_close(other, found[False, False], atol=tolerance, rtol=tolerance)
