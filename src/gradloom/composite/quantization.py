"""Fake quantization without the mask, its gradient, and the observer that makes its own statistics."""

from __future__ import annotations

import math

from ..dispatch import _operators as ops
from ..types import dtype as dtypes


def per_tensor(self, scale, zero_point, quant_min, quant_max):
    """Fake quantize by one scale and zero point."""
    return ops.fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, quant_max)[0]


def per_tensor_of_tensors(self, scale, zero_point, quant_min, quant_max):
    """Fake quantize by one scale and zero point in tensors."""
    enabled = ops.ones((1,), dtype=dtypes.int64, device=self.device)
    return ops._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        self, scale, zero_point, enabled, quant_min, quant_max
    )[0]


def per_channel(self, scale, zero_point, axis, quant_min, quant_max):
    """Fake quantize by a scale and a zero point per index of a dimension."""
    return ops.fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min, quant_max)[0]


def masked_gradient(grad, mask):
    """grad * mask. Raises RuntimeError for a mask that is not of bools, or has another number of elements."""
    if mask.dtype is not dtypes.bool:
        raise RuntimeError(
            "Expected mask.scalar_type() == ScalarType::Bool to be true, but got false.  (Could this error message be "
            "improved?  If so, please report an enhancement request to PyTorch.)"
        )
    if mask.numel() != grad.numel():
        raise RuntimeError(
            f"`mask` and `dY` are not the same size: `mask` is size {mask.numel()} and `dY` is size {grad.numel()}"
        )
    return grad * mask if grad.numel() else grad


def moving_average(
    self,
    observer_on,
    fake_quant_on,
    running_min,
    running_max,
    scale,
    zero_point,
    averaging_const,
    quant_min,
    quant_max,
    ch_axis,
    per_row_fake_quant=False,
    symmetric_quant=False,
):
    """Fake quantize by the observed range. Empty statistics of rows get the number of rows first. An empty tensor is
    not observed."""
    if not self.numel():
        return self.clone()
    if per_row_fake_quant and ch_axis == 0:
        rows = (self.shape[0],)
        for statistic, start in ((running_min, math.inf), (running_max, -math.inf), (scale, 0), (zero_point, 0)):
            if not statistic.numel():
                statistic.resize_(rows).fill_(start)
    return ops._fused_moving_avg_obs_fq_helper(
        self,
        observer_on,
        fake_quant_on,
        running_min,
        running_max,
        scale,
        zero_point,
        averaging_const,
        quant_min,
        quant_max,
        ch_axis,
        per_row_fake_quant,
        symmetric_quant,
    )[0]
