"""Attention with several heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.nn import functional as F, init
from gradloom.nn._functional.attention import _canonical_mask, _none_or_dtype
from gradloom.nn.modules.linear import NonDynamicallyQuantizableLinear
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter

if TYPE_CHECKING:
    from typing import Any

    from gradloom import Tensor
    from gradloom.types import Device, DType

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention with several heads (Vaswani et al. 2017).

    Each head projects query, key and value to embed_dim / num_heads features and attends by
    `scaled_dot_product_attention`; the heads' results are joined and projected.

    Args:
        embed_dim: features of query and result.
        num_heads: number of heads, a divisor of embed_dim.
        dropout: probability of dropout of attention weights in training.
        bias: add learned biases to the projections.
        add_bias_kv: append a learned key and a learned value.
        add_zero_attn: append a key and a value of zeros.
        kdim, vdim: features of key and value; None for embed_dim.
        batch_first: the first dimension of inputs and result is the batch.
        device, dtype: device and dtype of the parameters.

    Shape:
        query: (L, N, embed_dim), (N, L, embed_dim) if `batch_first`, or (L, embed_dim).
        key: (S, N, kdim) and so on.
        value: (S, N, vdim) and so on.
        output: as the query; and the attention weights or None.

    Raises:
        ValueError: unless embed_dim and num_heads are positive.
        AssertionError: unless num_heads divides embed_dim.
    """

    __constants__: list[str] = ["batch_first"]
    q_proj_weight: Parameter
    k_proj_weight: Parameter
    v_proj_weight: Parameter
    in_proj_bias: Parameter
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim: int = embed_dim if kdim is None else kdim
        self.vdim: int = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim: bool = self.kdim == self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim: int = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def parameter(*shape: int) -> Parameter:
            return Parameter(gl.empty(shape, device=device, dtype=dtype))

        separate = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight: Parameter = parameter(3 * embed_dim, embed_dim)
        for name, size in separate.items():
            self.register_parameter(name, None if self._qkv_same_embed_dim else parameter(embed_dim, size))
        if not self._qkv_same_embed_dim:
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj: NonDynamicallyQuantizableLinear = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        if add_bias_kv:
            self.bias_k, self.bias_v = parameter(1, 1, embed_dim), parameter(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draw the weights by Xavier's rule and zero the biases."""
        weights = (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        for weight in weights:
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_qkv_same_embed_dim": True, **state})

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend.

        Args:
            query, key, value: see the class.
            key_padding_mask: (N, S) or (S,); True for a key to ignore, or numbers to add to scores.
            need_weights: return the attention weights, too; without them, the fused computation is used.
            attn_mask: (L, S) or (N * num_heads, L, S); True for a pair to ignore, or numbers to add to scores.
            average_attn_weights: average the returned weights over the heads.
            is_causal: a hint that `attn_mask`, which must be given, is causal.

        Returns:
            The result, and the weights (N, L, S), or (N, num_heads, L, S) without averaging, or None.
        """
        key_padding_mask = _canonical_mask(
            key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
        )
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
        swapped = self.batch_first and query.dim() == 3
        if swapped:  # equal inputs stay equal, so that one product projects them
            same_key, same_value = key is query, value is key
            query = query.transpose(1, 0)
            key = query if same_key else key.transpose(1, 0)
            value = key if same_value else value.transpose(1, 0)
        found, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (found.transpose(1, 0) if swapped else found), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Combine the masks for a batch-first query (N, L, E).

        Args:
            attn_mask: (L, L) or (N * num_heads, L, L), or None.
            key_padding_mask: (N, L) or None.
            query: the query.

        Returns:
            The mask, and 1 for one of keys alone, 2 for (N, num_heads, L, L), None without masks.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            found = attn_mask.view(batch, -1, length, length)
        else:
            found = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            found = found + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return found, 2
