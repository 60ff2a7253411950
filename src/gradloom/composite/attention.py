"""Scaled dot-product attention: the checks of its arguments, the choice of a computation, and attention written out."""

from __future__ import annotations

import math

from numpy import ndarray

from ..core.tangents import is_differentiated
from ..dispatch import _operators as ops
from ..kernels._common.dims import require_dim
from ..types.dtype import bfloat16, bool as bool_, float16, float32, float64

_MATH, _FLASH = 0, 1  # PyTorch's numbers of computations
# Which computations calls may choose; `gradloom.nn.attention` and `gradloom.backends.cuda` set them.
ALLOWED = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True}
_FUSED_TYPES = (float32, float64, bfloat16, float16)


def scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """Attend with the fused kernel where it applies, else by `_scaled_dot_product_attention_math`."""
    _check(query, key, value, attn_mask)
    choice = fused_sdp_choice(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    attn_mask = _additive(attn_mask, query)
    is_one = query._array.ndim == key._array.ndim == value._array.ndim == 3  # a batch of one, without its dimension
    if is_one:
        query, key, value = (ops.unsqueeze(x, 0) for x in (query, key, value))
        if attn_mask is not None:
            attn_mask = ops.reshape(attn_mask, (*[1] * (4 - attn_mask.dim()), *attn_mask.shape))
    if choice == _FLASH:
        found = ops._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )[0]
        return ops.squeeze(found, 0) if is_one else found
    if not ALLOWED["math"]:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both the "
            "math kernel and the fused kernels."
        )
    found = ops._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]
    return ops.squeeze(found, 0) if is_one else found


def _check(query, key, value, attn_mask):
    if not query._array.dtype is key._array.dtype is value._array.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{_type(query)} key.dtype: {_type(key)} and value.dtype: {_type(value)} instead."
        )
    if not query._array.__class__ is key._array.__class__ is value._array.__class__ is ndarray and not (
        query.device == key.device == value.device
    ):
        raise RuntimeError(
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{query.device} key.device: {key.device} and value.device: {value.device} instead."
        )
    if min(query._array.ndim, key._array.ndim, value._array.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.dim()} key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if attn_mask is not None and attn_mask.dtype not in (bool_, float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{_type(attn_mask)} and  query.dtype: {_type(query)} instead."
        )


def _type(tensor):
    """Return the C++ name of a tensor's dtype, as PyTorch's message has it."""
    names = {"float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16"}
    names |= {
        "int64": "long int",
        "int32": "int",
        "int16": "short int",
        "int8": "signed char",
        "uint8": "unsigned char",
    }
    names |= {"complex64": "c10::complex<float>", "complex128": "c10::complex<double>"}
    name = str(tensor.dtype).rpartition(".")[2]
    return names.get(name, name)


def fused_sdp_choice(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """Return 1 if the fused kernel can compute the attention, else 0."""
    if dropout_p > 0 or query.dtype not in _FUSED_TYPES or not ALLOWED["flash"]:
        return _MATH
    shape, of_keys, of_values = query._array.shape, key._array.shape, value._array.shape
    ndim = len(shape)
    if ndim not in (3, 4) or not ndim == len(of_keys) == len(of_values) or not query.dtype is key.dtype is value.dtype:
        return _MATH
    if ndim == 3:
        shape, of_keys, of_values = (1, *shape), (1, *of_keys), (1, *of_values)
    if attn_mask is not None and ndim == 4:
        require_dim(-2, attn_mask.dim())
    (batch, heads, rows, size), (_, groups, columns, _) = shape, of_keys
    if not batch == of_keys[0] == of_values[0] or groups != of_values[1]:
        return _MATH
    if heads != groups and groups != 1 and not (enable_gqa and groups and heads % groups == 0):
        return _MATH
    if not size == of_keys[3] == of_values[3] or columns != of_values[2] or not rows or not columns:
        return _MATH
    tensors = [query, key, value]
    if attn_mask is not None:
        if attn_mask.requires_grad or is_differentiated(attn_mask):
            return _MATH
        if attn_mask.dim() not in (2, 4) if ndim == 4 else attn_mask.dim() > 4 or is_causal:
            return _MATH
        full = (batch, heads, rows, columns)[4 - attn_mask.dim() :]
        if any(n not in (1, m) for n, m in zip(attn_mask.shape, full, strict=True)):
            return _MATH
    return _FLASH if all(map(_is_dense_inside, tensors)) else _MATH


def _is_dense_inside(tensor) -> bool:
    """Return whether the stride of the last dimension is 1."""
    array = tensor._array
    return array.strides[-1] == array.itemsize if array.size else tensor.stride(-1) == 1


def _additive(attn_mask, query):
    """Convert a mask of bools to numbers to add to scores: 0 where it is True and -inf elsewhere."""
    if attn_mask is None or attn_mask.dtype is not bool_:
        return attn_mask
    zeros = ops.zeros_like(attn_mask, dtype=query.dtype)
    return ops.masked_fill(zeros, ops.logical_not(attn_mask), -math.inf)


def math_attention(query, key, value, attn_mask, dropout_p, is_causal, dropout_mask, scale, enable_gqa):
    """Attend by matrix products and a softmax; return the result and the attention weights after dropout.

    Query and key are each multiplied by the root of the scale, so that products of large elements do not overflow.
    Halves are computed in float32.
    """
    dtype = query.dtype
    if dtype is float16 or dtype is bfloat16:
        query, key, value = query.to(float32), key.to(float32), value.to(float32)
    factor = 1 / math.sqrt(max(query.size(-1), 1)) if scale is None else scale
    root = math.sqrt(abs(factor))
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )
        attn_mask = ops.tril(ops.ones((query.size(-2), key.size(-2)), dtype=bool_, device=query.device))
    attn_mask = _additive(attn_mask, query)
    key, value = grouped(query, key, value) if enable_gqa else (key, value)
    query = ops.mul_Scalar(query, math.copysign(root, factor))
    scores = ops.matmul(query, ops.mul_Scalar(ops.transpose(key, -2, -1), root))
    if attn_mask is not None:
        shape, scores = scores.shape, scores + attn_mask
        if scores.shape != shape:
            raise RuntimeError(
                f"output with shape {list(shape)} doesn't match the broadcast shape {list(scores.shape)}"
            )
    weights = ops._safe_softmax(scores, -1)
    if dropout_p > 0:
        if dropout_mask is None:
            weights = ops.dropout(weights, dropout_p, True)
        else:
            weights = ops.masked_fill(weights, ops.logical_not(dropout_mask), 0.0)
            value = value * (1 / (1 - dropout_p))
    found = ops.matmul(weights, value)
    return (found, weights) if found.dtype is dtype else (found.to(dtype), weights.to(dtype))


def grouped(query, key, value):
    """Repeat the heads of key and value (dimension -3) until there is one for each head of the query."""
    heads, keys, values = query.size(-3), key.size(-3), value.size(-3)
    if not keys or not values or heads % keys or heads % values:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    if keys != heads:
        key = ops.repeat_interleave(key, heads // keys, -3)
    if values != heads:
        value = ops.repeat_interleave(value, heads // values, -3)
    return key, value
