"""Attention with several heads: the projections, masks and shapes around `scaled_dot_product_attention`."""

from __future__ import annotations

import math
import warnings

from gradloom import Tensor
from gradloom.nn._functional import operators as ops
from gradloom.nn._functional.random import dropout
from gradloom.nn._functional.shape import pad
from gradloom.types import DType
from gradloom.types.dtype import bool as bool_


def _require(condition: bool, message: str) -> None:
    """Raise the AssertionError that PyTorch raises, also under `python -O`."""
    if not condition:
        raise AssertionError(message)


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: DType | None,
    other_name: str,
    target_type: DType,
    check_other: bool = True,
) -> Tensor | None:
    """Return a mask as numbers to add: -inf where a mask of bools is True. Warn if the other mask's dtype differs."""
    if mask is None:
        return None
    floating = mask.is_floating_point()
    _require(floating or mask.dtype is bool_, f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    if floating:
        return mask
    return ops.masked_fill(ops.zeros_like(mask, dtype=target_type), mask, -math.inf)


def _none_or_dtype(input: Tensor | None) -> DType | None:
    return None if input is None else input.dtype


def _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads) -> bool:
    """Return whether the inputs are batched; raise AssertionError for ranks that do not belong together."""
    rank = query.dim()
    _require(rank in (2, 3), f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    kind = f"For {'batched (3-D)' if rank == 3 else 'unbatched (2-D)'} `query`, expected"
    _require(
        key.dim() == value.dim() == rank,
        f"{kind} `key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively",
    )
    if key_padding_mask is not None:
        found = key_padding_mask.dim()
        _require(
            found == rank - 1,
            f"{kind} `key_padding_mask` to be `None` or {rank - 1}-D but found {found}-D tensor instead",
        )
    if attn_mask is not None:
        found = attn_mask.dim()
        _require(found in (2, 3), f"{kind} `attn_mask` to be `None`, 2-D or 3-D but found {found}-D tensor instead")
        expected = (num_heads, query.shape[0], key.shape[0])
        if rank == 2 and found == 3 and attn_mask.shape != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return rank == 3


def _parts(projected, count, size):
    """Split the last dimension into `count` contiguous tensors that share memory, by one copy."""
    found = ops.unflatten(projected, -1, (count, size)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
    return [found[i] for i in range(count)]


def _project_packed(query, key, value, weight, bias):
    """Project query, key and value by the three parts of `weight`; equal inputs by one product."""
    size = query.size(-1)
    if key is not value:
        weights = weight.chunk(3)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        return [ops.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]
    if query is key:
        return _parts(ops.linear(query, weight, bias), 3, size)
    weights = weight.split([size, 2 * size])
    biases = (None, None) if bias is None else bias.split([size, 2 * size])
    return [ops.linear(query, weights[0], biases[0]), *_parts(ops.linear(key, weights[1], biases[1]), 2, size)]


def _project_each(inputs, weights, bias):
    """Project query, key and value, which may differ in size, each by its own weight."""
    names, size = ("query", "key", "value"), inputs[0].size(-1)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    for name, x, w in zip(names, inputs, weights, strict=True):
        wanted = (size, x.size(-1))
        _require(w.shape == wanted, f"expecting {name} weights shape of {wanted}, but got {w.shape}")
    for name, b in zip(names, biases, strict=True):
        if b is not None:
            _require(b.shape == (size,), f"expecting {name} bias shape of {(size,)}, but got {b.shape}")
    return [ops.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]


def _wider(*masks):
    """Append a key that everything may attend to; None stays None."""
    return [None if mask is None else pad(mask, (0, 1)) for mask in masks]


def _three_dimensional(attn_mask, batch, num_heads, rows, columns):
    """Give a mask the shape (1, L, S) or (N * num_heads, L, S); raise RuntimeError for other sizes."""
    if attn_mask is None:
        return None
    rank = attn_mask.dim()
    wanted = (rows, columns) if rank == 2 else (batch * num_heads, rows, columns)
    if attn_mask.shape != wanted:
        raise RuntimeError(f"The shape of the {rank}D attn_mask is {attn_mask.shape}, but should be {wanted}.")
    return attn_mask.unsqueeze(0) if rank == 2 else attn_mask


def _merged(attn_mask, key_padding_mask, batch, num_heads, columns):
    """Add the mask of padded keys, (N, S), to the mask of each head."""
    if key_padding_mask is None:
        return attn_mask
    for d, wanted in enumerate((batch, columns)):
        found = key_padding_mask.shape[d]
        _require(found == wanted, f"Expected key_padded_mask.shape[{d}] to be {wanted}, but got {found}")
    mask = key_padding_mask.view(batch, 1, 1, columns).expand(-1, num_heads, -1, -1)
    mask = mask.reshape(batch * num_heads, 1, columns)
    return mask if attn_mask is None else attn_mask + mask


def _by_head(x, static, name, batch, num_heads, size):
    """Turn (length, N, E) into (N * num_heads, length, size), or check a given tensor of that form."""
    if static is None:
        return x.view(x.shape[0], batch * num_heads, size).transpose(0, 1)
    for d, wanted in ((0, batch * num_heads), (2, size)):
        found = static.size(d)
        _require(found == wanted, f"expecting {name}.size({d}) of {wanted}, but got {found}")
    return static


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention with several heads (Vaswani et al. 2017); see `MultiheadAttention`.

    Args:
        query: (L, N, E), or (L, E) without a batch; floating.
        key, value: (S, N, *) or (S, *); of size E unless `use_separate_proj_weight`.
        embed_dim_to_check: E.
        num_heads: number of heads, a divisor of E.
        in_proj_weight: (3 E, E), the projections of query, key and value; or None.
        in_proj_bias: (3 E,) or None.
        bias_k, bias_v: (1, 1, E), a key and a value to append; or None.
        add_zero_attn: append a key and a value of zeros.
        dropout_p: probability of dropout of attention weights in training.
        out_proj_weight, out_proj_bias: (E, E) and (E,) or None, the projection of the result.
        training: whether to apply dropout.
        key_padding_mask: (N, S) or (S,); True for a key to ignore, or numbers to add to scores.
        need_weights: return the attention weights, too.
        attn_mask: (L, S) or (N * num_heads, L, S); True for a pair to ignore, or numbers to add to scores.
        use_separate_proj_weight: project by the next three weights in place of `in_proj_weight`.
        q_proj_weight, k_proj_weight, v_proj_weight: (E, size of the input).
        static_k, static_v: (N * num_heads, S, E / num_heads), in place of the projected key and value.
        average_attn_weights: average the returned weights over the heads.
        is_causal: a hint that `attn_mask` is causal.

    Shape:
        output: as the query, and (N, L, S), or (N, num_heads, L, S) without averaging, or None.

    Raises:
        AssertionError: for shapes that do not fit.
        RuntimeError: for a mask of another shape, or `is_causal` without a mask.
    """
    is_batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        same_value, same_query = key is value, query is key
        query = query.unsqueeze(1)
        key = query if same_query else key.unsqueeze(1)
        value = key if same_value else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, embed_dim = query.shape
    columns = key.shape[0]
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the hint replaces it
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
        is_causal = is_causal and key_padding_mask is None
    _require(
        embed_dim == embed_dim_to_check,
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}",
    )
    size = embed_dim // num_heads
    _require(size * num_heads == embed_dim, f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        separate = (q_proj_weight, k_proj_weight, v_proj_weight)
        _require(
            key.shape[:2] == value.shape[:2],
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}",
        )
        for name, weight in zip("qkv", separate, strict=True):
            _require(weight is not None, f"use_separate_proj_weight is True but {name}_proj_weight is None")
        q, k, v = _project_each((query, key, value), separate, in_proj_bias)
    else:
        _require(key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}")
        _require(in_proj_weight is not None, "use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _project_packed(query, key, value, in_proj_weight, in_proj_bias)
    attn_mask = _three_dimensional(attn_mask, batch, num_heads, length, columns)
    if bias_k is not None and bias_v is not None:
        _require(static_k is None, "bias cannot be added to static key.")
        _require(static_v is None, "bias cannot be added to static value.")
        k = ops.cat([k, bias_k.repeat(1, batch, 1)])
        v = ops.cat([v, bias_v.repeat(1, batch, 1)])
        attn_mask, key_padding_mask = _wider(attn_mask, key_padding_mask)
    else:
        _require(bias_k is None, "bias_k is set but bias_v is None")
        _require(bias_v is None, "bias_v is set but bias_k is None")
    q = _by_head(q, None, "", batch, num_heads, size)
    k = _by_head(k, static_k, "static_k", batch, num_heads, size)
    v = _by_head(v, static_v, "static_v", batch, num_heads, size)
    if add_zero_attn:
        k, v = [ops.cat([x, ops.zeros((len(x), 1, size), dtype=x.dtype, device=x.device)], 1) for x in (k, v)]
        attn_mask, key_padding_mask = _wider(attn_mask, key_padding_mask)
    attn_mask = _merged(attn_mask, key_padding_mask, batch, num_heads, k.size(1))
    heads = (batch, num_heads)
    if need_weights:
        _require(not is_causal or attn_mask is not None, "FIXME: is_causal not implemented for need_weights")
        found, weights = _weighted(q, k, v, attn_mask, dropout_p if training else 0.0)
        found = found.transpose(0, 1).reshape(length * batch, embed_dim)
    else:
        weights = None
        if attn_mask is not None:
            one = attn_mask.size(0) == 1 and attn_mask.dim() == 3
            attn_mask = attn_mask.unsqueeze(0) if one else attn_mask.view(*heads, -1, k.size(1))
        q, k, v = [x.view(*heads, -1, size) for x in (q, k, v)]
        found = ops.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p if training else 0.0, is_causal)
        found = found.permute(2, 0, 1, 3).reshape(batch * length, embed_dim)
    found = ops.linear(found, out_proj_weight, out_proj_bias)
    found = found.view(length, batch, found.size(1))
    if weights is not None:
        weights = weights.view(*heads, length, k.size(1))
        weights = weights.mean(dim=1) if average_attn_weights else weights
    if is_batched:
        return found, weights
    return found.squeeze(1), None if weights is None else weights.squeeze(0)


def _weighted(q, k, v, attn_mask, dropout_p):
    """Return the attention of all heads, and its weights: zeros for a query whose keys are all masked."""
    q = q * math.sqrt(1.0 / q.shape[-1])
    k = k.transpose(-2, -1)
    if attn_mask is None:
        weights = ops.softmax(ops.bmm(q, k), -1)
    else:
        weights = ops._safe_softmax(ops.baddbmm(attn_mask, q, k), -1)
    if dropout_p > 0.0:
        weights = dropout(weights, p=dropout_p)
    return ops.bmm(weights, v), weights
