"""Normalisations in terms of other operators, and checks of arguments before operators are called."""

from __future__ import annotations

from math import prod

from ..dispatch import _operators as ops
from ..kernels._common.layout import suggested_format
from ..types.device import contiguous_format
from ..types.dtype import bfloat16, finfo, float16, float32, float64


def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    """Call native_batch_norm and drop the statistics. An empty batch is only scaled."""
    if input.numel():
        return ops.native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]
    result = ops.clone(input)
    if weight is not None:
        result = result * weight[0]
    return result if bias is None else result + bias[0]


def layer_norm(input, normalized_shape, weight, bias, eps, cudnn_enable):
    """Call native_layer_norm and drop the statistics."""
    return ops.exact.native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


def group_norm(input, num_groups, weight, bias, eps, cudnn_enabled):
    """Call native_group_norm for (batch, channels, *) and drop the statistics."""
    shape = list(input.shape)
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    channels = shape[1]
    return ops.native_group_norm(input, weight, bias, shape[0], channels, prod(shape[2:]), num_groups, eps)[0]


def weight_norm(v, g, dim):
    """Return g v / |v|, where |v| is the norm over all dimensions but `dim`, or over all of them if dim is -1."""
    if dim in (0, v.dim() - 1) and v.dtype not in (float16, bfloat16):
        return ops._weight_norm_interface(ops.contiguous(v), ops.contiguous(g), dim)[0]
    return v * (g / ops.norm_except_dim(v, 2, dim))


def norm_except_dim(v, pow, dim):
    """Return the norm over all dimensions but `dim`, which are kept with size 1, or the norm of all for dim -1."""
    if dim == -1:
        return ops.norm(v, pow)
    ndim = v.dim()
    if dim not in (0, ndim - 1):
        return norm_except_dim(v.swapaxes(0, dim), pow, 0).swapaxes(0, dim)
    rows = ops.contiguous(v).view((v.shape[0], -1) if dim == 0 else (-1, v.shape[-1]))
    shape = (v.shape[0], *(1,) * (ndim - 1)) if dim == 0 else (*(1,) * (ndim - 1), v.shape[-1])
    return ops.norm(rows, pow, (1 if dim == 0 else 0,)).view(shape)


def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    """Normalize every batch element separately: its channels become channels of a batch of one."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    batch, channels = input.shape[:2]
    weight, bias, mean, variance = [
        None if t is None else ops.repeat(t, (batch,)) for t in (weight, bias, running_mean, running_var)
    ]
    if input.dtype is float64:  # the repeated statistics are temporary, and may have any dtype
        mean, variance = (None if t is None else t.to(float64) for t in (mean, variance))
    flat = ops.contiguous(input).view((1, batch * channels, *input.shape[2:]))
    result = ops.batch_norm(flat, weight, bias, mean, variance, use_input_stats, momentum, eps, cudnn_enabled)
    for running, of_samples in ((running_mean, mean), (running_var, variance)):
        if running is not None:
            running.detach().copy_(ops.mean(of_samples.detach().view((batch, channels)), [0]))
    return result.view(input.shape)


def rms_norm(input, normalized_shape, weight, eps):
    """Divide by the root mean square over the last dimensions, whose sizes are `normalized_shape`. Raises RuntimeError
    if the sizes do not fit the input or the weight."""
    _check_rms_norm(input, list(normalized_shape), weight)
    work = float64 if input.dtype is float64 else float32
    values = input if input.dtype.is_complex or input.dtype is work else input.to(work)
    if eps is None:
        eps = finfo(values.dtype).eps
    dims = list(range(input.dim()))[: -len(normalized_shape) - 1 : -1]
    result = values * ops.rsqrt(ops.add_Scalar(ops.mean(ops.pow(values, 2), dims, True), eps, 1))
    if weight is not None:
        result = result * weight
    result = ops.contiguous(result, memory_format=suggested_format(input._array) or contiguous_format)
    return result if result.dtype is input.dtype else result.to(input.dtype)


def _check_rms_norm(input, shape, weight):
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            f"element, but got normalized_shape = {shape}"
        )
    if weight is not None and list(weight.shape) != shape:
        raise RuntimeError(
            "Expected weight to be of same shape as normalized_shape, but got weight of shape "
            f"{list(weight.shape)} and normalized_shape = {shape}"
        )
    if not input.dim():
        raise ValueError("Input tensor must have at least 1 dimensions, but got 0")
    if list(input.shape[-len(shape) :]) != shape:
        inner = "".join(f", {n}" for n in shape)
        raise RuntimeError(
            f"Given normalized_shape={shape}, expected input with shape [*{inner}], but got input of "
            f"size{list(input.shape)}"
        )
