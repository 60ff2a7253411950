"""Losses made of other operators."""

from __future__ import annotations

import math

from ..autograd.grad_mode import untracked
from ..dispatch import _operators as ops
from ..dispatch.state import state
from ..tensors.construction import tensor
from ..types.dtype import promote_types, scalar_type_name


def reduced(losses, reduction):
    """Return the elementwise losses, their mean or their sum."""
    return losses if reduction == 0 else losses.mean() if reduction == 1 else losses.sum()


def l1_loss(self, target, reduction=1):
    """|self - target|, reduced."""
    return reduced((self - target).abs(), reduction)


def multilabel_margin_loss(self, target, reduction=1):
    """Return the margin loss of several labels; see `multilabel_margin_loss_forward`."""
    return ops.multilabel_margin_loss_forward(self, target, reduction)[0]


def kl_div(self, target, reduction=1, log_target=False):
    """target * (log(target) - self), reduced; `target` holds logarithms with `log_target`."""
    for given in (self, target):
        if given.is_complex():
            raise RuntimeError("kl_div: Complex inputs not supported.")
        if not given.is_floating_point():
            raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        difference = target - self  # made first, so that its gradient arrives last
        return reduced(target.exp() * difference, reduction)
    product = target * self  # made first, so that its gradient arrives last
    losses = target.xlogy(target) - product
    return reduced(losses, reduction)


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """exp(x) - t * x with `log_input`, else x - t * log(x + eps); `full` adds t * log(t) - t + log(2 * pi *
    t) / 2 where t > 1. Reduced."""
    product = target * (input if log_input else ops.add_Scalar(input, eps, 1).log())  # node made first, as in PyTorch
    losses = (input.exp() if log_input else input) - product
    if full:
        few = target <= 1
        counts = target.masked_fill(few, 1)  # of 0, the logarithm's derivative is infinite
        half_log = ops.mul_Scalar(ops.mul_Scalar(counts, 2 * math.pi).log(), 0.5)
        stirling = counts * counts.log() - counts + half_log
        losses = losses + stirling.masked_fill(few, 0)
    return reduced(losses, reduction)


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """max(0, -target * (input1 - input2) + margin), reduced."""
    return reduced(ops.add_Scalar(-target * (input1 - input2), margin, 1).clamp_min(0), reduction)


def hinge_embedding_loss(self, target, margin=1.0, reduction=1):
    """Return self where the target is 1, max(0, margin - self) where it is -1, their sum elsewhere; reduced."""
    zeros = ops.zeros_like(self)
    away = (ops.full_like(self, margin) - self).clamp_min(0)
    return reduced(ops.where(target != 1, away, zeros) + ops.where(target != -1, self, zeros), reduction)


def cosine_similarity(x1, x2, dim=1, eps=1e-08):
    """sum(x1 * x2) along `dim`, over their norms, each at least `eps`; shapes broadcast."""
    dtype = promote_types(x1.dtype, x2.dtype)
    if not dtype.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {scalar_type_name(dtype)}")
    x2, x1 = ops.broadcast_tensors((x2.to(dtype), x1.to(dtype)))
    norms = [ops.linalg_vector_norm(x, 2, [dim], True).clone() for x in (x1, x2)]
    with untracked():  # no gradient flows through the bound
        for norm in norms:
            norm.clamp_(min=eps)
    second = x2 / norms[1]
    return (x1 / norms[0] * second).sum([dim])


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """Return 1 - cos(input1, input2) where the target is 1, max(0, cos - margin) where it is -1; reduced.

    Args:
        input1, input2: (n, d), or (d,).
        target: (n,), or ().
    """
    ndim = target.dim()
    if ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1.dim() != ndim + 1 or input2.dim() != ndim + 1:
        raise RuntimeError(
            f"{ndim}D target tensor expects {ndim + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    products = (input1 * input2).sum([ndim])
    squares = [ops.add_Scalar((x * x).sum([ndim]), 1e-12, 1) for x in (input1, input2)]
    cosine = products / (squares[0] * squares[1]).sqrt()
    zeros = ops.zeros_like(cosine)
    one_less, above = ops.ones_like(cosine) - cosine, ops.sub_Scalar(cosine, margin, 1).clamp_min(0)
    near = ops.where(target == 1, one_less, zeros)
    return reduced(near + ops.where(target == -1, above, zeros), reduction)


def pairwise_distance(x1, x2, p=2.0, eps=1e-06, keepdim=False):
    """Return the p-norm of x1 - x2 + eps over the last dimension; shapes broadcast."""
    return ops.norm_ScalarOpt_dim(ops.add_Scalar(x1 - x2, eps, 1), p, (max(x1.dim(), x2.dim()) - 1,), keepdim)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=1):
    """max(0, |anchor - positive| - |anchor - negative| + margin), reduced; `swap` takes the negative's distance from
    the positive where that is smaller. Raises RuntimeError unless all have as many dimensions."""
    a, b, c = anchor.dim(), positive.dim(), negative.dim()
    if not a == b == c:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {a}D, positive {b}D, and negative {c}D inputs"
        )
    near = ops.pairwise_distance(anchor, positive, p, eps)
    far = ops.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, ops.pairwise_distance(positive, negative, p, eps))
    return reduced((ops.add_Scalar(near, margin, 1) - far).clamp_min(0), reduction)


def nll_loss(self, target, weight=None, reduction=1, ignore_index=-100):
    """Return the negative log likelihood of target classes; see `nll_loss_forward`."""
    return ops.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]


def nll_loss2d(self, target, weight=None, reduction=1, ignore_index=-100):
    """Return the negative log likelihood of the class of each pixel; see `nll_loss2d_forward`."""
    return ops.nll_loss2d_forward(self, target, weight, reduction, ignore_index)[0]


def nll_loss_nd(self, target, weight=None, reduction=1, ignore_index=-100):
    """Return the negative log likelihood for inputs of any rank.

    Args:
        self: (classes,), (n, classes) or (n, classes, d1, ...), log-probabilities.
        target: (), (n,) or (n, d1, ...), classes.
    """
    ndim = self._array.ndim
    if ndim < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {ndim})")
    if ndim == 1 and target._array.ndim == 1:
        if target.shape[0] != 1:
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}")
        target = target.reshape(())
    elif ndim != 1 and self._array.shape[:1] != target._array.shape[:1]:
        raise ValueError(
            f"Expected input batch_size ({self.shape[0]}) to match target batch_size "
            f"({target.shape[0] if target._array.ndim else 1})."
        )
    if ndim == 2 and not state.flags:  # as `cross_entropy_loss`
        return ops.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]
    if ndim <= 2:
        return ops.nll_loss(self, target, weight, reduction, ignore_index)
    if ndim == 4:
        return ops.nll_loss2d(self, target, weight, reduction, ignore_index)
    shape = self.shape
    expected = (shape[0], *shape[2:])
    if target.shape != expected:
        raise RuntimeError(f"Expected target size {list(expected)}, got {list(target.shape)}")
    if self.numel():
        self = self.contiguous().view((shape[0], shape[1], 1, -1))
        target = target.contiguous().view((shape[0], 1, -1))
    else:
        self = self.contiguous().view((shape[0], shape[1], 0, 0))
        target = target.contiguous().view((shape[0], 0, 0))
    found = ops.nll_loss2d(self, target, weight, reduction, ignore_index)
    return found.view(expected) if reduction == 0 else found


def cross_entropy_loss(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    """Return the cross entropy of softmax(self) and target classes, or class probabilities if target has self's shape.

    Args:
        self: (classes,), (n, classes) or (n, classes, d1, ...).
        weight: (classes,) or None.
        label_smoothing: share of the target, in [0, 1], spread evenly over all classes.
    """
    by_probability = self._array.shape == target._array.shape
    if by_probability:
        _check_probabilities(target, ignore_index)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    rows = self._array.shape[:1]
    if not (by_probability or label_smoothing or state.flags) and self._array.ndim == 2 and target._array.shape == rows:
        # What the operators below do in this common case, without the calls between them, which only profilers see.
        return ops.nll_loss_forward(ops._log_softmax(self, 1, False), target, weight, reduction, ignore_index)[0]
    dim = 0 if self._array.ndim == 1 else 1
    logs = ops.exact.log_softmax_int(self, dim, None)
    if by_probability:
        return _cross_entropy_of_probabilities(logs, target, weight, reduction, label_smoothing, dim)
    if label_smoothing > 0.0:
        return _smoothed_cross_entropy(logs, target, weight, reduction, ignore_index, label_smoothing, dim)
    return ops.nll_loss_nd(logs, target, weight, reduction, ignore_index)


def _check_probabilities(target, ignore_index) -> None:
    if not target.is_floating_point():
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {scalar_type_name(target.dtype)}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")


def _shaped_weight(weight, logs, dim):
    shape = [1] * logs._array.ndim
    shape[dim] = weight.shape[0]
    return weight.view(shape)


def _cross_entropy_of_probabilities(logs, target, weight, reduction, label_smoothing, dim):
    classes = logs.shape[dim]
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or no "
            f"classes but got weight tensor of shape: {list(weight.shape)}"
        )
    if label_smoothing > 0.0:
        target = ops.add_Scalar(ops.mul_Scalar(target, 1 - label_smoothing), label_smoothing / classes, 1)
    products = logs * target
    if weight is not None:
        products = products * _shaped_weight(weight, logs, dim)
    if reduction == 0:
        return -products.sum([dim])
    total = -products.sum()
    if reduction == 2:
        return total
    return ops.div_Scalar(total, logs.numel() // classes if classes else 0)  # a mean of nothing is NaN


def _smoothed_cross_entropy(logs, target, weight, reduction, ignore_index, label_smoothing, dim):
    nll = ops.nll_loss_nd(logs, target, weight, reduction, ignore_index)
    weighted = logs if weight is None else logs * _shaped_weight(weight, logs, dim)
    smooth = -weighted.sum([dim])
    ignored = ops.eq(target, ignore_index)
    smooth = smooth.masked_fill(ignored, 0.0)
    if reduction == 1:
        if weight is None:
            smooth = smooth.sum() / (target.numel() - ignored.sum())
        else:
            kept = weight.gather(0, target.masked_fill(ignored, 0).flatten())
            smooth = smooth.sum() / kept.masked_fill(ignored.flatten(), 0).sum()
    elif reduction == 2:
        smooth = smooth.sum()
    return ops.mul_Scalar(nll, 1 - label_smoothing) + ops.mul_Scalar(smooth, label_smoothing / logs.shape[dim])


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """Connectionist temporal classification of (frames, n, classes) or (frames, classes); see the kernel. For the mean,
    each sample's loss is divided by its number of labels; `zero_infinity` replaces infinite losses by 0."""
    batched = log_probs.dim() == 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
        if targets.dim() == 1:
            targets = targets.unsqueeze(0)
    found = ops._ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)[0]
    if not batched:
        found = found.squeeze(0)
    if zero_infinity:
        found = ops.where(found == math.inf, ops.zeros((), dtype=found.dtype), found)
    if reduction == 1:
        return (found / tensor([max(n, 1) for n in target_lengths], dtype=found.dtype)).mean()
    return found.sum() if reduction == 2 else found


def ctc_loss_of_tensors(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """`ctc_loss` with lengths as tensors."""
    for name, lengths in (("input", input_lengths), ("target", target_lengths)):
        if lengths.is_floating_point() or lengths.is_complex():
            raise RuntimeError(f"{name}_lengths must be integral")
    input_lengths, target_lengths = (lengths.reshape(-1).tolist() for lengths in (input_lengths, target_lengths))
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
