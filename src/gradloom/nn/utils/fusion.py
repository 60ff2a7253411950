"""Fusing a layer with the batch normalisation after it, for evaluation: one layer with other weights."""

from __future__ import annotations

import copy
from typing import TypeVar

import gradloom as gl
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

_Layer = TypeVar("_Layer", bound=Module)


def _require_eval(*modules: Module) -> None:
    """Refuse modules that are training, also under `python -O`."""
    if any(module.training for module in modules):
        raise AssertionError("Fusion only for eval!")


def fuse_conv_bn_eval(conv: _Layer, bn: Module, transpose: bool = False) -> _Layer:
    """Return a convolution that computes `bn(conv(x))`.

    Args:
        conv: in evaluation mode; it is copied.
        bn: the batch normalisation after it, in evaluation mode, with running statistics.
        transpose: whether the convolution is transposed.
    """
    _require_eval(conv, bn)
    assert bn.running_mean is not None and bn.running_var is not None, "fusion needs running statistics"
    fused = copy.deepcopy(conv)
    statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, *statistics, transpose)
    return fused


def fuse_conv_bn_weights(
    conv_w: gl.Tensor,
    conv_b: gl.Tensor | None,
    bn_rm: gl.Tensor,
    bn_rv: gl.Tensor,
    bn_eps: float,
    bn_w: gl.Tensor | None,
    bn_b: gl.Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a convolution fused with a batch normalisation.

    Args:
        conv_w, conv_b: weight and bias of the convolution.
        bn_rm, bn_rv, bn_eps, bn_w, bn_b: mean, variance, eps, weight and bias of the normalisation.
        transpose: whether the convolution is transposed, so that its weight has the outputs in dimension 1.
    """
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_eval(linear: _Layer, bn: Module) -> _Layer:
    """Return a linear layer that computes `bn(linear(x))`.

    Args:
        linear: in evaluation mode; it is copied.
        bn: the batch normalisation after it, in evaluation mode, with running statistics and as many features, or one.
    """
    _require_eval(linear, bn)
    assert linear.out_features == bn.num_features or bn.num_features == 1, (
        "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
    )
    assert bn.running_mean is not None and bn.running_var is not None, "fusion needs running statistics"
    fused = copy.deepcopy(linear)
    statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, *statistics)
    return fused


def fuse_linear_bn_weights(
    linear_w: gl.Tensor,
    linear_b: gl.Tensor | None,
    bn_rm: gl.Tensor,
    bn_rv: gl.Tensor,
    bn_eps: float,
    bn_w: gl.Tensor,
    bn_b: gl.Tensor,
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a linear layer fused with a batch normalisation.

    Args:
        linear_w, linear_b: weight and bias of the layer.
        bn_rm, bn_rv, bn_eps, bn_w, bn_b: mean, variance, eps, weight and bias of the normalisation.
    """
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _fused(weight, bias, mean, variance, eps, bn_weight, bn_bias, shape):
    """With r = bn_weight / sqrt(variance + eps): weight r, and (bias - mean) r + bn_bias."""
    dtypes = weight.dtype, weight.dtype if bias is None else bias.dtype
    bias = gl.zeros_like(mean) if bias is None else bias
    factor = gl.rsqrt(variance + eps)
    factor = factor if bn_weight is None else bn_weight * factor
    fused = (bias - mean) * factor
    fused = fused if bn_bias is None else fused + bn_bias
    parts = (weight * factor.reshape(shape)).to(dtype=dtypes[0]), fused.to(dtype=dtypes[1])
    return tuple(
        [Parameter(t, needs) for t, needs in zip(parts, (weight.requires_grad, bias.requires_grad), strict=True)]
    )
