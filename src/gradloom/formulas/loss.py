"""Derivative helpers of losses. A reduction is a number: 0 for none, 1 for the mean, 2 for the sum."""

from __future__ import annotations

from ..dispatch import _operators as ops


def reduce_loss(losses, reduction):
    """Return the elementwise losses, their mean or their sum."""
    return losses if reduction == 0 else ops.mean(losses) if reduction == 1 else ops.sum(losses)


def over_count(grad, self, target, reduction):
    """Return `grad`, divided by the number of elements of the broadcast loss if the reduction is the mean."""
    if reduction != 1:
        return grad
    count = self.numel() if self.shape == target.shape else ops.broadcast_tensors((self, target))[0].numel()
    return ops.div_Scalar(grad, count) if count else grad


def smooth_l1_double_backward(grad, self, target, reduction, beta):
    """Return `grad` times the second derivative: 1 / beta where |self - target| < beta, 0 elsewhere."""
    inner = ops.abs(self - target) < beta
    return over_count(ops.where(inner, grad / beta, 0) if beta else grad * 0, self, target, reduction)


def huber_double_backward(grad, self, target, reduction, delta):
    """Return `grad` times the second derivative: 1 where |self - target| < delta, 0 elsewhere."""
    return over_count(ops.where(ops.abs(self - target) < delta, grad, 0), self, target, reduction)


def soft_margin_double_backward(grad, self, target, reduction):
    """Return `grad` times the second derivative of log(1 + exp(-t * x)): t * t * s * (1 - s), s = sigmoid(t * x)."""
    s = ops.sigmoid(target * self)
    return over_count(grad * target * target * s * (1.0 - s), self, target, reduction)


def _weighted(grad, self, target, weight, reduction):
    return over_count(grad if weight is None else grad * weight, self, target, reduction)


def bce_target_backward(grad, self, target, weight, reduction):
    """Return the derivative for the target: log(1 - x) - log(x), infinite at 0 and 1, where the loss is bounded."""
    return _weighted(-grad * ops.logit(self), self, target, weight, reduction)


def bce_jvp(self_t, target_t, self, target, weight, reduction):
    """Return the tangent of the reduced loss. An input of 0 or 1 makes a constant target no infinite term."""
    tangent = ops.binary_cross_entropy_backward(self_t, self, target, weight, 0)
    infinite = ops.logical_or(self <= 0, self >= 1)
    inside = ops.masked_fill(self, ops.logical_and(infinite, target_t == 0), 0.5)
    return reduce_loss(tangent + bce_target_backward(target_t, inside, target, weight, 0), reduction)


def bce_double_backward(grad, self, target, weight, reduction):
    """Return `grad` times the derivative of (x - t) / (x - x * x) for x: (x * x - 2 * x * t + t) / (x - x * x) ** 2."""
    variance = ops.clamp(self - self * self, 1e-12)
    slope = (self * self - 2.0 * self * target + target) / (variance * variance)
    return _weighted(grad * slope, self, target, weight, reduction)


def bce_double_backward_target(grad, self, target, weight, reduction):
    """Return `grad` times the derivative of (x - t) / (x - x * x) for t: -1 / (x - x * x)."""
    return _weighted(-grad / ops.clamp(self - self * self, 1e-12), self, target, weight, reduction)


def bce_with_logits_backward(grad, self, target, weight, pos_weight, reduction):
    """Return the derivative for x: sigmoid(x) - t; with a positive weight w, (1 - t + w * t) * sigmoid(x) - w * t."""
    if pos_weight is None:
        slope = ops.sigmoid(self) - target
    else:
        positive = pos_weight * target
        slope = (1.0 - target + positive) * ops.sigmoid(self) - positive
    return _weighted(slope * grad, self, target, weight, reduction)


def bce_with_logits_target_backward(grad, self, target, weight, pos_weight, reduction):
    """Return the derivative for t: -x; with a positive weight w, log(1 - s) - w * log(s), s = sigmoid(x)."""
    if pos_weight is None:
        slope = -self
    else:
        slope = ops.log_sigmoid(-self) - pos_weight * ops.log_sigmoid(self)
    return _weighted(slope * grad, self, target, weight, reduction)


def bce_with_logits_jvp(self_t, target_t, self, target, weight, pos_weight, reduction):
    """Return the tangent of the reduced loss."""
    tangent = bce_with_logits_backward(self_t, self, target, weight, pos_weight, 0)
    return reduce_loss(
        tangent + bce_with_logits_target_backward(target_t, self, target, weight, pos_weight, 0), reduction
    )


def multi_margin_jvp(tangent, self, target, p, margin, weight, reduction):
    """Return the tangent of the reduced loss: the inner product of each sample's gradient and tangent."""
    slope = ops.multi_margin_loss_backward(ops.ones_like(target, dtype=self.dtype), self, target, p, margin, weight, 0)
    return reduce_loss(_over_classes(slope * tangent, target.shape), reduction)


def multi_margin_second(tangent, grad_output, self, target, p, margin, weight, reduction):
    """Return the Hessian of the margin loss times `tangent` (t) and grad_output: 0 for p = 1. For p = 2, with a =
    weight / classes for the active classes and the target y, it is 2 * a * (t - t[y]) for the other classes, and minus
    their sum for y."""
    if p == 1:
        return ops.zeros_like(self)
    ones = ops.ones_like(target, dtype=self.dtype)
    active = ops.multi_margin_loss_backward(ones, self.detach(), target, 1, margin, weight, 0)
    chosen = ops.arange(self.shape[-1], device=self.device) == target.unsqueeze(-1)
    moved = 2.0 * ops.where(chosen, 0, active) * (tangent - ops.where(chosen, tangent, 0).sum([-1], True))
    found = moved - ops.where(chosen, moved.sum([-1], True), 0)
    scale = grad_output.unsqueeze(-1) if reduction == 0 else grad_output
    return over_count(found * scale, target, target, reduction)


def multilabel_margin_jvp(tangent, self, target, reduction, is_target):
    """Return the tangent of the reduced loss: the inner product of each sample's gradient and tangent."""
    ones = ops.ones(self.shape[:-1], dtype=self.dtype, device=self.device)
    slope = ops.multilabel_margin_loss_backward(ones, self, target, 0, is_target)
    return reduce_loss(_over_classes(slope * tangent, self.shape[:-1]), reduction)


def _over_classes(products, shape):
    return ops.sum(products, [-1]).reshape(shape) if products.dim() else products.reshape(shape)
