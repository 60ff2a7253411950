"""Activation modules: each keeps its arguments and calls the function of the same name; and attention with heads."""

from __future__ import annotations

import warnings
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.nn import functional as F, init
from gradloom.nn._functional.attention import _canonical_mask, _none_or_dtype
from gradloom.nn.modules._fields import calls, fields
from gradloom.nn.modules.linear import NonDynamicallyQuantizableLinear
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter
from gradloom.types import Device, DType
from gradloom.utils._documentation import like

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Activation(Module):
    """Base of modules that call a function of one tensor."""

    def forward(self, input: Tensor) -> Tensor:
        raise NotImplementedError


@fields()
class _Inplace(_Activation):
    """Base of activations that may overwrite their input."""

    inplace: bool = False


@calls(F.relu)
class ReLU(_Inplace): ...


@calls(F.selu)
class SELU(_Inplace): ...


@calls(F.silu)
class SiLU(_Inplace): ...


@calls(F.mish)
class Mish(_Inplace): ...


@calls(F.hardsigmoid)
class Hardsigmoid(_Inplace):
    def extra_repr(self) -> str:
        return ""


@calls(F.hardswish)
class Hardswish(_Inplace):
    def extra_repr(self) -> str:
        return ""


@fields(F.threshold)
class Threshold(_Activation):
    threshold: float
    value: float
    inplace: bool = False


@calls(F.hardtanh)
class Hardtanh(_Inplace):
    """x clipped to [min_val, max_val].

    Args:
        min_val: lower bound.
        max_val: upper bound.
        inplace: write the result into the input.
        min_value, max_value: deprecated names of the bounds.

    Shape:
        input: (*), any shape.
        output: as the input.

    Raises:
        ValueError: unless max_val exceeds min_val.
    """

    __constants__: list[str] = ["min_val", "max_val", "inplace"]

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        for old, new, value in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{old}` is deprecated and rename to `{new}`", FutureWarning, stacklevel=2
                )
        self.min_val: float = min_val if min_value is None else min_value
        self.max_val: float = max_val if max_value is None else max_value
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + ", inplace=True" * bool(self.inplace)


@like(F.relu6)
class ReLU6(Hardtanh):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


@fields(F.elu)
class ELU(_Activation):
    alpha: float = 1.0
    inplace: bool = False


@fields(F.celu)
class CELU(_Activation):
    alpha: float = 1.0
    inplace: bool = False


@fields(F.leaky_relu)
class LeakyReLU(_Activation):
    negative_slope: float = 1e-2
    inplace: bool = False


@fields(F.rrelu)
class RReLU(_Activation):
    lower: float = 1.0 / 8
    upper: float = 1.0 / 3
    inplace: bool = False


class PReLU(Module):
    """x for x > 0, weight * x elsewhere, with learned slopes (He et al. 2015).

    Args:
        num_parameters: 1, or the number of channels C for one slope per channel.
        init: initial slope.
        device, dtype: device and dtype of the weight.

    Shape:
        input: (*), or (N, C, *) for one slope per channel.
        output: as the input.
        weight: (num_parameters,).
    """

    __constants__: list[str] = ["num_parameters"]

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Device | None = None, dtype: DType | None = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight: Parameter = Parameter(gl.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to `init`."""
        with gl.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


@like(F.tanh)
class Tanh(Module):
    def forward(self, input: Tensor) -> Tensor:
        return gl.tanh(input)


@like(F.sigmoid)
class Sigmoid(Module):
    def forward(self, input: Tensor) -> Tensor:
        return gl.sigmoid(input)


class LogSigmoid(Module):
    """log(1 / (1 + exp(-x))), element by element.

    Shape:
        input: (*), any shape.
        output: as the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


@calls(F.softsign)
class Softsign(_Activation): ...


@calls(F.tanhshrink)
class Tanhshrink(_Activation): ...


@fields(F.gelu)
class GELU(_Activation):
    """x * Phi(x), with Phi the normal distribution function (Hendrycks and Gimpel 2016).

    Args:
        approximate: "none", or "tanh" for x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))).

    Shape:
        input: (*), any shape.
        output: as the input.
    """

    approximate: str = "none"


@fields(F.glu)
class GLU(_Activation):
    dim: int = -1


@fields(F.softplus)
class Softplus(_Activation):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x exceeds `threshold`.

    Args:
        beta: sharpness.
        threshold: bound above which the function is linear.

    Shape:
        input: (*), any shape.
        output: as the input.
    """

    beta: float = 1.0
    threshold: float = 20.0


@fields()
class _Shrink(_Activation):
    lambd: float = 0.5

    def extra_repr(self) -> str:
        return str(self.lambd)


@calls(F.hardshrink)
class Hardshrink(_Shrink):
    """x where |x| exceeds `lambd`, 0 elsewhere.

    Args:
        lambd: bound.

    Shape:
        input: (*), any shape.
        output: as the input.
    """


@calls(F.softshrink)
class Softshrink(_Shrink):
    """x moved towards 0 by `lambd`, 0 where |x| is at most `lambd`.

    Args:
        lambd: distance.

    Shape:
        input: (*), any shape.
        output: as the input.
    """


@fields()
class _OverDim(Module):
    dim: int | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def _check_fields(self) -> None:
        if self.dim is not None and (isinstance(self.dim, bool) or not isinstance(self.dim, int)):
            raise TypeError(f"dim must be an int or None, got {type(self.dim)}")


@like(F.softmax)
class Softmax(_OverDim):
    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


@like(F.log_softmax)
class LogSoftmax(_OverDim):
    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


@like(F.softmin)
class Softmin(_OverDim):
    def _check_fields(self) -> None:
        """Take any value, as PyTorch does."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels of images.

    Shape:
        input: (N, C, H, W) or (C, H, W).
        output: as the input.

    Raises:
        ValueError: from `forward`, for an input with another number of dimensions.
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


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
