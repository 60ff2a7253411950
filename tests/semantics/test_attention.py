"""Attention: which computation is chosen, its node, masks, layouts, long sequences and errors."""

from importlib import import_module

import pytest


def inputs(torch, *lead, rows=4, columns=5, size=8, groups=None, dtype=None):
    torch.manual_seed(0)
    keys = lead if groups is None else (*lead[:-1], groups)
    shapes = (*lead, rows, size), (*keys, columns, size), (*keys, columns, size)
    return [torch.randn(*shape, dtype=dtype or torch.float32).requires_grad_() for shape in shapes]


def attention(torch, *args, **kwargs):
    return torch.nn.functional.scaled_dot_product_attention(*args, **kwargs)


def test_the_fused_node_saves_the_logarithms_of_sums(torch):
    q, k, v = inputs(torch, 2, 3)
    mask = torch.ones(4, 5, dtype=torch.bool).tril()
    node = attention(torch, q, k, v, mask).grad_fn
    assert node.name() == "ScaledDotProductFlashAttentionForCpuBackward0"
    assert node._saved_logsumexp.shape == (2, 3, 4) and node._saved_logsumexp.stride() == (12, 1, 3)
    assert node._saved_attn_mask.dtype is torch.float32
    assert (node._saved_dropout_p, node._saved_is_causal, node._saved_scale) == (0.0, False, None)


def test_the_choice_depends_on_ranks_sizes_and_masks(torch):
    q, k, v = inputs(torch, 2, 3)
    choice = torch._fused_sdp_choice
    assert choice(q, k, v) == 1
    assert choice(q, k, v, torch.ones(4, 1)) == 1 and choice(q, k, v, torch.ones(1, 3, 4, 5)) == 1
    assert choice(q, k, v, torch.ones(3, 4, 5)) == 0
    assert choice(q, k, v, torch.ones(4, 5, requires_grad=True)) == 0
    assert choice(q, k, v, None, 0.5) == 0
    assert choice(q[:, :, :0], k, v) == 0 and choice(q, k, v[..., :6]) == 0
    assert choice(q, k[:, :1], v[:, :1], enable_gqa=True) == 1
    assert choice(q.mT.contiguous().mT, k, v) == 0


@pytest.mark.since("2.15")
def test_a_batch_of_one_without_its_dimension_is_fused(torch):
    q, k, v = (x.detach()[0].requires_grad_() for x in inputs(torch, 2, 3))
    choice = torch._fused_sdp_choice
    assert choice(q, k, v) == choice(q, k, v, torch.ones(3, 4, 5)) == choice(q, k, v, torch.ones(4, 5)) == 1
    assert choice(q, k[:1], v[:1]) == choice(q, k, v, torch.ones(5)) == choice(q, k, v, torch.ones(1, 3, 1, 5)) == 1
    assert choice(q, k, v, torch.ones(2, 4, 5)) == choice(q, k, v, torch.ones(5, 1)) == 0
    assert choice(q[0], k[0], v[0]) == choice(q[None, None], k[None, None], v[None, None]) == 0
    assert choice(q, k, v, None, 0.5) == choice(q[:, :0], k, v) == choice(q.mT.contiguous().mT, k, v) == 0
    for mask in (None, torch.ones(3, 4, 5).tril(), torch.ones(4, 5), torch.arange(5.0), torch.ones(())):
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
        expected = torch.nn.functional.scaled_dot_product_attention(
            q[None], k[None], v[None], None if mask is None else mask.expand(1, 3, 4, 5)
        )[0]
        assert found.grad_fn.name() == "SqueezeBackward1"
        torch.testing.assert_close(found, expected)
        slopes = torch.autograd.grad(found.square().sum(), (q, k, v))
        for slope, other in zip(slopes, torch.autograd.grad(expected.square().sum(), (q, k, v)), strict=True):
            torch.testing.assert_close(slope, other)


def test_a_mask_has_tangents(gradloom):
    """The fused computation has none for a mask."""
    q, k, v = (x.detach() for x in inputs(gradloom, 2, 3, dtype=gradloom.float64))
    mask, tangent = gradloom.randn(2, 4, 5, dtype=gradloom.float64)

    def total(mask):
        return attention(gradloom, q, k, v, mask).square().sum()

    along = (gradloom.func.grad(total)(mask) * tangent).sum()
    found = gradloom.func.jvp(total, (mask,), (tangent,))[1]
    assert found.item() == pytest.approx(along.item(), rel=1e-12) and along.item() != 0


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "columns", "large"), [(300, 400, 1.0), (400, 300, 1.0), (33, 17, 60.0)])
def test_the_fused_computation_gives_what_products_and_a_softmax_give(torch, rows, columns, large, causal):
    """In several blocks, and with scores far apart."""
    q, k, v = inputs(torch, 1, 4, rows=rows, columns=columns, groups=2, dtype=torch.float64)
    results = []
    for function in (attention, lambda torch, *args, **kw: torch._scaled_dot_product_attention_math(*args, **kw)[0]):
        found = function(torch, q * large, k, v, is_causal=causal, enable_gqa=True)
        results.append((found, *torch.autograd.grad((found * found).sum(), (q, k, v))))
    for fused, plain in zip(*results, strict=True):
        assert torch.allclose(fused, plain, rtol=1e-9, atol=1e-9)


def test_a_query_that_may_attend_to_nothing_gives_zeros(torch):
    q, k, v = inputs(torch, 2, 3)
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[1] = False
    found = attention(torch, q, k, v, mask)
    found.sum().backward()
    assert not found[:, :, 1].any() and found[:, :, 0].all()
    assert not q.grad[:, :, 1].any() and q.grad.isfinite().all() and k.grad.isfinite().all()
    assert found.grad_fn is not None and not attention(torch, q[0], k[0], v[0], mask)[:, 1].any()


def test_results_and_gradients_are_laid_out_with_the_heads_of_a_time_together(torch):
    q, k, v = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in inputs(torch, 2, 3)]
    found = attention(torch, q, k, v)
    assert found.stride() == q.stride() == (96, 8, 24, 1)
    grads = torch.autograd.grad(found.sum(), (q, k, v))
    assert [g.stride() for g in grads] == [(96, 8, 24, 1), (120, 8, 24, 1), (120, 8, 24, 1)]


def test_dropout_draws_the_numbers_of_dropout(torch):
    q, k, v = inputs(torch, 2, 3)
    torch.manual_seed(1)
    found = attention(torch, q, k, v, dropout_p=0.5)
    torch.manual_seed(1)
    weights = torch.softmax(q @ k.mT / 8**0.5, -1)
    assert torch.allclose(found, torch.dropout(weights, 0.5, True) @ v, atol=1e-5)


def test_errors(torch):
    q, k, v = inputs(torch, 2, 3)
    for args, given, words in (
        ((q, k.double(), v), {}, "same dtype, but got query.dtype: float key.dtype: double and value.dtype: float"),
        ((q[0, 0, 0], k, v), {}, "to all be  at least 2 dimensional, but got query.dim: 1 key.dim: 4"),
        ((q, k, v, torch.ones(4, 5, dtype=torch.int64)), {}, "attn_mask.dtype: long int and  query.dtype: float"),
        ((q, k, v, torch.ones(3, 3)), {}, "must match the size of tensor b"),
        ((q, k, v), {"dropout_p": 1.5}, "dropout probability has to be between 0 and 1, but got 1.5"),
        ((q, k[:, :2], v[:, :2]), {"enable_gqa": True}, "Number of heads in key and value must divide"),
        ((q[0], k[0], v[0], torch.ones(4, 5)), {"is_causal": True}, "should not be set when is_causal=True"),
    ):
        with pytest.raises(RuntimeError, match=words):
            attention(torch, *args, **given)
    fused = torch._scaled_dot_product_flash_attention_for_cpu
    for args, words in (
        ((q[0], k, v), "Accept only 4 dims inputs shape of {B, H, T, K}"),
        ((q, k, v[..., :4]), "Q/K/V should have the same head size"),
        ((q, k, v, 0.5), "Currently do not support dropout > 0"),
        ((q.long(), k.long(), v.long()), "Expected data type in FP32, FP64, BF16, FP16, but got Long instead"),
    ):
        with pytest.raises(RuntimeError, match=words):
            fused(*args)


@pytest.mark.parametrize("shape", [(1, 1, 1, 3, 3), (3, 1, 3, 3)])
def test_a_mask_that_is_larger_than_the_scores_is_refused(torch, shape):
    q = torch.ones(1, 2, 3, 4)
    with pytest.raises(RuntimeError, match=r"output with shape \[1, 2, 3, 3\] doesn't match the broadcast shape"):
        torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(shape))


def test_a_mask_of_batches_of_heads_has_rows_and_columns(torch):
    q = torch.ones(1, 2, 3, 4)
    with pytest.raises(IndexError, match="got -2"):
        torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(3))
    three = q[0]
    attend = torch.nn.functional.scaled_dot_product_attention
    assert torch.equal(attend(three, three, three, attn_mask=torch.ones(3)), three)


def flex(torch):
    """The module of flex attention; without a compiler, and so without its warning, in PyTorch."""
    found = import_module(f"{torch.__name__}.nn.attention.flex_attention")
    found._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    return found


def flex_inputs(torch, dtype="float64"):
    torch.manual_seed(0)
    dtype = getattr(torch, dtype)
    shapes = ((2, 4, 9, 8), (2, 2, 12, 8), (2, 2, 12, 5))
    return [torch.randn(shape, dtype=dtype) for shape in shapes], torch.randn(4, 21, dtype=dtype)


def seen(b, h, q, kv):
    return (q >= kv) & (q > 2)


def dense_attention(torch, q, k, v, bias, scale=8**-0.5):
    """What flex attention computes with `seen` and the bias of each head and distance."""
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    rows, columns = torch.arange(9).unsqueeze(1), torch.arange(12)
    scores = q @ k.mT * scale + bias[:, rows - columns + 12]
    scores = scores.masked_fill(~seen(0, 0, rows, columns), -float("inf"))
    return scores.softmax(-1).nan_to_num(0) @ v, scores.logsumexp(-1)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 1e-5), ("bfloat16", 0.05)])
def test_flex_attention_applies_functions_to_scores(torch, dtype, tolerance):
    module = flex(torch)
    (q, k, v), bias = flex_inputs(torch, dtype)
    mask = module.create_block_mask(seen, None, None, 9, 12, device="cpu", BLOCK_SIZE=4)
    found, aux = module.flex_attention(
        q, k, v, lambda s, b, h, i, j: s + bias[h, i - j + 12], mask, enable_gqa=True,
        return_aux=module.AuxRequest(lse=True),
    )  # fmt: skip
    expected, lse = dense_attention(torch, q, k, v, bias)
    assert found.dtype is q.dtype
    assert torch.allclose(found, expected, atol=tolerance)
    assert torch.allclose(aux.lse.to(q.dtype), lse, atol=tolerance) and aux.max_scores is None
    assert found[:, :, :3].eq(0).all()


def test_flex_attention_has_gradients_also_for_what_functions_capture(gradloom):
    torch = gradloom  # PyTorch refuses them on a CPU
    module = flex(torch)
    inputs, bias = flex_inputs(torch)
    leaves = [x.requires_grad_() for x in (*inputs, bias)]
    mask = module.create_block_mask(seen, 2, 4, 9, 12)
    found = module.flex_attention(
        *inputs, lambda s, b, h, i, j: s + bias[h, i - j + 12], mask, enable_gqa=True, scale=0.5
    )
    expected = dense_attention(torch, *inputs, bias, scale=0.5)[0]
    weights = torch.randn_like(found)
    for ours, plain in zip(
        torch.autograd.grad(found, leaves, weights), torch.autograd.grad(expected, leaves, weights), strict=True
    ):
        assert torch.allclose(ours, plain.nan_to_num(0), atol=1e-12)
    q = inputs[0][:1, :2, :4].detach().requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda q: module.flex_attention(q, q, q, lambda s, b, h, i, j: torch.where(i >= j, s * 2, -float("inf"))), q
    )


def test_a_block_mask_lists_blocks(torch):
    module = flex(torch)
    mask = module.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 48, 48, device="cpu", BLOCK_SIZE=16)
    assert mask.shape == (1, 1, 48, 48) and mask.numel() == 2304 and mask.BLOCK_SIZE == (16, 16)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1]]] and mask.kv_indices[0, 0, :, 0].tolist() == [0, 1, 2]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 2]]] and mask.full_q_num_blocks.tolist() == [[[2, 1, 0]]]
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert str(mask).splitlines() == [
        "BlockMask(shape=(1, 1, 48, 48), sparsity=33.33%, ", "(0, 0)", "██    ", "████  ", "██████", ")",
    ]  # fmt: skip
    assert "    full_q_indices=torch.Size([1, 1, 3, 3]),\n    BLOCK_SIZE=(16, 16),\n    shape=(1, 1, 48, 48)," in repr(
        mask
    )
    assert mask[0, 0, 1:].to_dense().tolist() == [[[[1, 1, 0], [1, 1, 1]]]]
    assert mask._adjust(20, 30).to_dense().tolist() == [[[[1, 0], [1, 1]]]]
    whole = module.create_block_mask(module.and_masks(seen, module.noop_mask), 2, 1, 8, 8, device="cpu")
    assert whole.kv_num_blocks.tolist() == [[[1]], [[1]]]
    scores = module.create_mask(lambda s, b, h, q, kv: torch.where(q > kv, s, -float("inf")), 1, 1, 2, 2, device="cpu")
    assert scores.tolist() == [[[[False, False], [True, False]]]]


@pytest.mark.since("2.15")
def test_masks_of_another_number_of_queries_are_refused(torch):
    module, x = flex(torch), torch.ones(1, 2, 8, 4)
    mask = module.create_block_mask(seen, None, None, 8, 8, device="cpu", BLOCK_SIZE=4)
    with pytest.raises(RuntimeError, match="block_mask was created for a larger length than you're using it for"):
        module.flex_attention(x[:, :, :4], x, x, block_mask=mask)
    with pytest.raises(RuntimeError, match="for a smaller length than you're using it for, you likely need"):
        module.flex_attention(torch.ones(1, 2, 9, 4), x, x, block_mask=mask)


def test_what_flex_attention_refuses(torch):
    module, x = flex(torch), torch.ones(1, 2, 8, 4)
    mask = module.create_block_mask(seen, None, None, 8, 8, device="cpu", BLOCK_SIZE=4)
    for call, error, message in (
        (lambda: module.flex_attention(x, x[:, :1], x[:, :1]), ValueError, "Try setting enable_gqa=True for GQA"),
        (lambda: module.flex_attention(x, x[..., :2], x), ValueError, "same embedding dimension but got E=4 and E=2"),
        (lambda: module.flex_attention(x[0], x[0], x[0]), NotImplementedError, "must be 4D tensors"),
        (lambda: module.flex_attention(x, x, x, block_mask=mask[0]), RuntimeError, "from a sliced BlockMask"),
        (lambda: module.create_block_mask(lambda s: s, 1, 1, 2, 2), AssertionError, "Expected 4 or 5 positional args"),
        (lambda: module.create_block_mask(lambda s, b, h, q, k: s, 1, 1, 2, 2), AssertionError, "requires a mask_mod"),
        (lambda: module.or_masks(1), RuntimeError, "All inputs should be callable mask_mods"),
    ):
        with pytest.raises(error, match=message):
            call()
