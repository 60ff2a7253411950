"""Derivative helpers of losses. A reduction is a number: 0 for none, 1 for the mean, 2 for the sum."""

from __future__ import annotations

from .. import _operators as ops


def reduce_loss(losses, reduction):
    """Losses of all elements, their mean or their sum."""
    return losses if reduction == 0 else ops.mean(losses) if reduction == 1 else losses.sum()


def loss_scale(reduction, count):
    """What a reduction multiplies the sum of losses by."""
    return 1.0 / count if reduction == 1 and count else 1.0


def loss_numel(self, target):
    """The number of elements of the loss of two tensors, which broadcast."""
    if self.shape == target.shape:
        return self.numel()
    return ops.add(self.detach(), target.detach()).numel()


def mse_loss_backward_grad_output(grad, self, target, reduction):
    """The adjoint of grad_output -> 2 * (self - target) * grad_output, reduced as the loss was."""
    products = 2.0 * (self - target) * grad
    return reduce_loss(products, reduction)


def mse_loss_backward_self(grad, self, target, reduction):
    """The derivative of 2 * (self - target) for self, applied to `grad`."""
    return grad * (2.0 * loss_scale(reduction, loss_numel(self, target)))


def mse_loss_backward_jvp(grad_t, self_t, target_t, grad_output, self, target, reduction):
    """The tangent of 2 * (self - target) * grad_output * scale."""
    scale = 2.0 * loss_scale(reduction, loss_numel(self, target))
    return (grad_t * (self - target) + grad_output * (self_t - target_t)) * scale


def nll_loss_backward_jvp(grad_t, self, target, weight, reduction, ignore_index, total_weight):
    """nll_loss_backward is linear in grad_output: its tangent is itself on the tangent."""
    return ops.nll_loss_backward(grad_t, self, target, weight, reduction, ignore_index, total_weight)


def mse_loss_jvp(self_t, target_t, self, target, reduction):
    """The tangent of (self - target) ** 2, reduced."""
    return reduce_loss((self - target) * (self_t - target_t) * 2.0, reduction)
