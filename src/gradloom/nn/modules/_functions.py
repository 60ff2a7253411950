"""Batch normalisation over the batches of several processes."""

from __future__ import annotations

from typing import Any

import gradloom as gl

from ...autograd.function import Function, once_differentiable
from ...distributed import distributed_c10d as dist

__all__ = ["SyncBatchNorm", "group_of"]


def group_of(process_group: Any) -> Any:
    """Return the group over which to normalise, or None if it is this process alone.

    Args:
        process_group: of the module; None for the default group, if there is one.
    """
    if not dist.is_initialized():
        return None
    group = dist._get_default_group() if process_group is None else process_group
    return group if group.size() > 1 else None


class SyncBatchNorm(Function):
    """Normalise by mean and variance of the batches of all ranks.

    Forward: each rank sends its mean, sum of squared deviations and count per channel, and combines those of all.
    Backward: the gradient depends on all batches by two sums per channel, which are added up over the ranks. Those of
    weight and bias are this rank's own.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: Any,
        weight: Any,
        bias: Any,
        running_mean: Any,
        running_var: Any,
        eps: float,
        momentum: float,
        process_group: Any,
        world_size: int,
    ) -> Any:
        """Return the normalised input, (N, C, ...); update the running statistics."""
        dims = [dim for dim in range(input.dim()) if dim != 1]
        channels = input.shape[1]
        wide = gl.promote_types(input.dtype, gl.float32)
        x = input.to(wide)
        count = x.numel() // channels if channels else 0
        own = gl.zeros(2 * channels + 1, dtype=gl.float64)
        if count:
            mean = x.mean(dims)
            own[:channels] = mean
            own[channels:-1] = (x - _along(mean, x)).square().sum(dims)
            own[-1] = count
        parts = gl.empty(world_size, 2 * channels + 1, dtype=gl.float64)
        dist.all_gather_into_tensor(parts, own[None], group=process_group)
        counts, means, squares = parts[:, -1:], parts[:, :channels], parts[:, channels:-1]
        total = counts.sum()
        if total <= 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")
        mean = (counts * means).sum(0) / total
        variance = (squares + counts * (means - mean).square()).sum(0) / total
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((variance * total / (total - 1)).to(running_var.dtype), momentum)
        mean, invstd = mean.to(wide), (variance + eps).rsqrt().to(wide)
        ctx.save_for_backward(input, weight, mean, invstd)
        ctx.process_group, ctx.total, ctx.dims = process_group, total.item(), dims
        out = (x - _along(mean, x)) * _along(invstd if weight is None else invstd * weight, x)
        if bias is not None:
            out = out + _along(bias, x)
        return out.to(input.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Any) -> Any:
        """Return the gradients of input, weight and bias.

        Args:
            ctx: what `forward` saved.
            grad_output: gradient of the output, (N, C, ...).
        """
        input, weight, mean, invstd = ctx.saved_tensors
        x, grad = input.to(mean.dtype), grad_output.to(mean.dtype)
        centred = x - _along(mean, x)
        sum_grad, sum_product = grad.sum(ctx.dims), (grad * centred).sum(ctx.dims)
        grad_input = None
        if ctx.needs_input_grad[0]:
            sums = gl.stack([sum_grad, sum_product]).to(gl.float64)
            dist.all_reduce(sums, group=ctx.process_group)
            mean_grad, mean_product = (sums / ctx.total).to(mean.dtype)
            inner = grad - _along(mean_grad, x) - centred * _along(invstd * invstd * mean_product, x)
            grad_input = (inner * _along(invstd if weight is None else invstd * weight, x)).to(input.dtype)
        grad_weight = sum_product * invstd if weight is not None and ctx.needs_input_grad[1] else None
        grad_bias = sum_grad if ctx.needs_input_grad[2] else None
        return grad_input, grad_weight, grad_bias, None, None, None, None, None, None


def _along(values: Any, like: Any) -> Any:
    """Return values of channels, (C,), in a shape that broadcasts to (N, C, ...)."""
    return values.reshape(1, -1, *[1] * (like.dim() - 2))
