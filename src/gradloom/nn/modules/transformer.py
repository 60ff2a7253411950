"""The transformer: encoder and decoder layers, their stacks, and both together."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.nn import functional as F, init
from gradloom.nn._functional.attention import _canonical_mask, _none_or_dtype
from gradloom.nn.modules.activation import GELU, MultiheadAttention, ReLU
from gradloom.nn.modules.container import ModuleList
from gradloom.nn.modules.dropout import Dropout
from gradloom.nn.modules.linear import Linear
from gradloom.nn.modules.module import Module
from gradloom.nn.modules.normalization import LayerNorm
from gradloom.types import Device, DType

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


def _generate_square_subsequent_mask(sz: int, device: Device | None = None, dtype: DType | None = None) -> Tensor:
    """Return (sz, sz) with -inf above the diagonal and zeros elsewhere."""
    return gl.triu(gl.full((sz, sz), float("-inf"), dtype=dtype, device=device), diagonal=1)


def _length(sequence: Tensor, batch_first: bool) -> int:
    return sequence.shape[1 if batch_first and sequence.dim() == 3 else 0]


def _detect_is_causal_mask(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return the hint, or, where it is None, whether `mask` is the causal mask of that size."""
    if is_causal is not None or mask is None:
        return is_causal is True
    causal = _generate_square_subsequent_mask(
        mask.size(-2) if size is None else size, device=mask.device, dtype=mask.dtype
    )
    return mask.shape == causal.shape and bool((mask == causal).all())


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


def _get_clones(module: Module, N: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


class _Layer(Module):
    """Base of both layers: `self.norms` normalisations and the same number of dropouts around attention and a network
    of two linear maps."""

    __constants__: list[str] = ["norm_first"]
    self_attn: MultiheadAttention
    linear1: Linear
    dropout: Dropout
    linear2: Linear
    norm_first: bool
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout
    activation: Callable[[Tensor], Tensor]

    def _build(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        factory: dict[str, Any],
        names: list[str],
    ) -> None:
        """Make the children, in PyTorch's order; `names` are the attentions."""
        for name in names:
            options = {"dropout": dropout, "bias": bias, "batch_first": batch_first}
            setattr(self, name, MultiheadAttention(d_model, nhead, **options, **factory))
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory)
        self.norm_first = norm_first
        count = len(names) + 1
        for i in range(1, count + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory))
        for i in range(1, count + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        """Attend to the sequence itself."""
        options = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask, "is_causal": is_causal}
        return self.dropout1(self.self_attn(x, x, x, **options, need_weights=False)[0])

    def _ff(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feedforward network, each with a residual connection and layer normalisation.

    Args:
        d_model: features of input and output.
        nhead: number of heads, a divisor of d_model.
        dim_feedforward: features within the feedforward network.
        dropout: probability of dropout.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: eps of the normalisations.
        batch_first: the first dimension of inputs is the batch.
        norm_first: normalise before attention and network in place of after.
        bias: add learned biases.
        device, dtype: device and dtype of the parameters.

    Shape:
        src: (S, N, d_model), (N, S, d_model) if `batch_first`, or (S, d_model).
        output: as the input.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        settings = (dim_feedforward, dropout, layer_norm_eps, batch_first, norm_first, bias)
        self._build(d_model, nhead, *settings, {"device": device, "dtype": dtype}, ["self_attn"])
        function = _get_activation_fn(activation) if isinstance(activation, str) else activation
        if function is F.relu or isinstance(function, ReLU):
            kind = 1
        else:
            kind = 2 if function is F.gelu or isinstance(function, GELU) else 0
        self.activation_relu_or_gelu: int = kind
        self.activation: Callable[[Tensor], Tensor] = function

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Apply the layer.

        Args:
            src: the sequence.
            src_mask: (S, S) or (N * nhead, S, S); True for a pair to ignore, or numbers to add to scores.
            src_key_padding_mask: (N, S) or (S,), the same of keys.
            is_causal: a hint that `src_mask` is causal.
        """
        src_key_padding_mask = _canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", _none_or_dtype(src_mask), "src_mask", src.dtype
        )
        src_mask = _canonical_mask(src_mask, "src_mask", None, "", src.dtype, check_other=False)
        masks = (src_mask, src_key_padding_mask, is_causal)
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), *masks)
            found = x + self._ff_block(self.norm2(x))
        else:
            x = self.norm1(src + self._sa_block(src, *masks))
            found = self.norm2(x + self._ff_block(x))
        if self.training or found.dtype is not gl.float32 or not gl.is_autocast_enabled("cpu"):
            return found
        return found.to(gl.get_autocast_dtype("cpu")) if self._is_one_operator(src) else found

    def _is_one_operator(self, src: Tensor) -> bool:
        """Return whether PyTorch computes the layer by one operator, whose result has the dtype of autocast."""
        attention = self.self_attn
        return bool(
            src.dim() == 3
            and attention.batch_first
            and attention.in_proj_bias is not None
            and attention.num_heads % 2 == 0
            and self.activation_relu_or_gelu
            and self.norm1.eps == self.norm2.eps
            and gl.backends.mha.get_fastpath_enabled()
            and not (gl.is_grad_enabled() and any(t.requires_grad for t in (src, *self.parameters())))
        )

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._ff(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's result and a feedforward network, each with a residual connection and
    layer normalisation.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device,
            dtype: as of `TransformerEncoderLayer`.

    Shape:
        tgt: (T, N, d_model), (N, T, d_model) if `batch_first`, or (T, d_model).
        memory: (S, N, d_model) and so on.
        output: as `tgt`.
    """

    multihead_attn: MultiheadAttention
    norm3: LayerNorm
    dropout3: Dropout

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        settings = (dim_feedforward, dropout, layer_norm_eps, batch_first, norm_first, bias)
        factory = {"device": device, "dtype": dtype}
        self._build(d_model, nhead, *settings, factory, ["self_attn", "multihead_attn"])
        function = _get_activation_fn(activation) if isinstance(activation, str) else activation
        self.activation: Callable[[Tensor], Tensor] = function

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"activation": F.relu, **state})

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Apply the layer.

        Args:
            tgt: the sequence.
            memory: the encoder's result.
            tgt_mask, memory_mask: (T, T) and (T, S), or one for each head; True for a pair to ignore, or numbers.
            tgt_key_padding_mask, memory_key_padding_mask: (N, T) and (N, S), the same of keys.
            tgt_is_causal, memory_is_causal: hints that the masks are causal.
        """
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = tgt + self._sa_block(self.norm1(tgt), *own)
            x = x + self._mha_block(self.norm2(x), *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(tgt + self._sa_block(tgt, *own))
        x = self.norm2(x + self._mha_block(x, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        """Attend to the encoder's result."""
        options = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask, "is_causal": is_causal}
        return self.dropout2(self.multihead_attn(x, mem, mem, **options, need_weights=False)[0])

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._ff(x))


class TransformerEncoder(Module):
    """A stack of encoder layers, which begin with equal parameters.

    Args:
        encoder_layer: the layer to copy.
        num_layers: number of layers.
        norm: module applied to the result, or None.
        enable_nested_tensor: in evaluation without gradients, zero the results of padded places, as PyTorch's nested
            tensors do.
        mask_check: require that padding is at the end for that.

    Shape:
        src: as of the layer.
        output: as the input.
    """

    __constants__: list[str] = ["norm"]

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers: ModuleList = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm: Module | None = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor: bool = enable_nested_tensor
        self.mask_check = mask_check
        reason = _why_not_nested(encoder_layer)
        if enable_nested_tensor and reason:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {reason}", stacklevel=2
            )
            self.use_nested_tensor = False

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Apply the layers in turn.

        Args:
            src, mask, src_key_padding_mask: as of the layer.
            is_causal: a hint that `mask` is causal; None to find out.
        """
        src_key_padding_mask = _canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", _none_or_dtype(mask), "mask", src.dtype
        )
        mask = _canonical_mask(mask, "mask", None, "", src.dtype, check_other=False)
        first = self.layers[0]
        padded = self._padded(first, src, mask, src_key_padding_mask)
        is_causal = _detect_is_causal_mask(mask, is_causal, _length(src, first.self_attn.batch_first))
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=src_key_padding_mask)
        if padded is not None:
            output = output.masked_fill(padded.unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def _padded(self, first: Any, src: Tensor, mask: Tensor | None, key_padding_mask: Tensor | None) -> Tensor | None:
        """Return the padded places if PyTorch computes on nested tensors, whose results there are zeros; else None."""
        if not getattr(self, "use_nested_tensor", False) or first.training or src.dim() != 3 or mask is not None:
            return None
        if key_padding_mask is None or not gl.backends.mha.get_fastpath_enabled() or gl.is_autocast_enabled():
            return None
        if gl.is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in first.parameters())):
            return None
        padded = key_padding_mask.bool()
        if getattr(self, "mask_check", True) and not bool((padded.int().diff(dim=1) >= 0).all()):
            return None
        return padded


def _why_not_nested(layer: Module) -> str:
    """Return the first reason for which PyTorch would not use nested tensors; empty if there is none."""
    name = "encoder_layer"
    if not isinstance(layer, TransformerEncoderLayer):
        return f"{name} was not TransformerEncoderLayer"
    attention = layer.self_attn
    for found, reason in (
        (layer.norm_first, ".norm_first was True"),
        (
            not attention.batch_first,
            ".self_attn.batch_first was not True(use batch_first for better inference performance)",
        ),
        (not attention._qkv_same_embed_dim, ".self_attn._qkv_same_embed_dim was not True"),
        (attention.in_proj_bias is None, ".self_attn was passed bias=False"),
        (not layer.activation_relu_or_gelu, ".activation_relu_or_gelu was not True"),
        (layer.norm1.eps != layer.norm2.eps, f".norm1.eps was not equal to {name}.norm2.eps"),
        (attention.num_heads % 2 == 1, ".self_attn.num_heads is odd"),
    ):
        if found:
            return name + reason
    return ""


class TransformerDecoder(Module):
    """A stack of decoder layers, which begin with equal parameters.

    Args:
        decoder_layer: the layer to copy.
        num_layers: number of layers.
        norm: module applied to the result, or None.

    Shape:
        tgt, memory: as of the layer.
        output: as `tgt`.
    """

    __constants__: list[str] = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers: ModuleList = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm: Module | None = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Apply the layers in turn.

        Args:
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, memory_is_causal: as of
                the layer.
            tgt_is_causal: a hint that `tgt_mask` is causal; None to find out.
        """
        length = _length(tgt, self.layers[0].self_attn.batch_first)
        tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder (Vaswani et al. 2017).

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device,
            dtype: as of `TransformerEncoderLayer`.
        num_encoder_layers, num_decoder_layers: number of layers.
        custom_encoder, custom_decoder: modules to use in place of the stacks.

    Shape:
        src: (S, N, d_model), (N, S, d_model) if `batch_first`, or (S, d_model).
        tgt: (T, N, d_model) and so on.
        output: as `tgt`.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {
            "dim_feedforward": dim_feedforward,
            "dropout": dropout,
            "activation": activation,
            "layer_norm_eps": layer_norm_eps,
            "batch_first": batch_first,
            "norm_first": norm_first,
            "bias": bias,
            "device": device,
            "dtype": dtype,
        }

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            layer = TransformerEncoderLayer(d_model, nhead, **options)
            self.encoder: Any = TransformerEncoder(layer, num_encoder_layers, norm())
        else:
            self.encoder = custom_encoder
        if custom_decoder is None:
            other = TransformerDecoderLayer(d_model, nhead, **options)
            self.decoder: Any = TransformerDecoder(other, num_decoder_layers, norm())
        else:
            self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode `src`, and decode `tgt` with it; the masks are those of the stacks.

        Raises:
            RuntimeError: for batches or features that differ.
        """
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Device | None = None, dtype: DType | None = None) -> Tensor:
        """Return (sz, sz) with -inf above the diagonal and zeros elsewhere."""
        return _generate_square_subsequent_mask(sz, dtype=dtype, device=device)

    def _reset_parameters(self) -> None:
        """Draw all weights by Xavier's rule."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
