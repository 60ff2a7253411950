"""Loss functions: reductions by name, deprecated flags, shapes checked or broadcast with a warning.

Every function takes `reduction`: "none" gives a loss per element, "mean" their mean, "sum" their sum. The old
flags `size_average` and `reduce` are still understood, with a warning, and win over it.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.autograd.grad_mode import untracked
from gradloom.nn._functional import operators as ops
from gradloom.nn._reduction import get_enum, legacy_get_string, resolve

if TYPE_CHECKING:
    from typing import Any

    from gradloom import Tensor
    from gradloom.types import IntList

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "linear_cross_entropy",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
]


def reduced(loss, reduction):
    """The loss of all elements as `reduction` says: each, their mean or their sum."""
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def _same_shape(input, target):
    """Both broadcast against each other; different shapes are likely a mistake, so they bring a warning."""
    if target.shape == input.shape:
        return input, target
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
        "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same "
        "size.",
        stacklevel=3,
    )
    return gl.broadcast_tensors(input, target)


def _weighted(loss, weight):
    if weight.shape != loss.shape:
        raise ValueError("Weights and input must have the same size.")
    return loss * weight


def _weighted_mean(loss, weight, reduction):
    """A weighted element-wise loss, reduced; its mean is taken relative to the sum of the weights."""
    weighted = _weighted(loss, weight)
    return weighted.sum() / weight.sum() if reduction == "mean" else reduced(weighted, reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood: -weight[target] * input at each target class.

    Args:
        input: (N, C), (C,) or (N, C, d1, ...), log-probabilities.
        target: (N,), () or (N, d1, ...), int64 class indices.
        weight: (C,) or None.
        ignore_index: a target that contributes nothing.
        reduction: "none", "mean" or "sum" over the elements.
    """
    number = resolve(reduction, size_average, reduce)
    return ops.nll_loss_nd(input, target, weight, number, ignore_index)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy between logits (N, C, ...) and class indices (N, ...) or probabilities (N, C, ...).

    Args:
        target: class numbers (int64), without the dimension of classes; or probabilities of the shape of `input`.
        weight: factor (C,) for each class, or None.
        ignore_index: a class number whose samples count for nothing.
        reduction: "none", "mean" or "sum" over the elements.
        label_smoothing: share of the target, in [0, 1], that is spread over all classes.
    """
    number = resolve(reduction, size_average, reduce)
    return ops.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """The cross entropy of a linear layer's outputs.

    Args:
        input: (N, in) or (in,).
        linear_weight: (C, in) or (C, d1, ..., in).
        target: class indices (N, d1, ...), or probabilities (N, C, d1, ...).
        linear_bias: of linear_weight's shape without the last dimension, or None.
        ignore_index: a class that contributes nothing; -100 if None. Only for class indices.
        options: how to save memory by working in chunks; taken, and not needed: the result is the same.
        weight: factor (C,) for each class, or None.
        reduction: "none", "mean" or "sum" over the elements.
        label_smoothing: share of the target, in [0, 1], that is spread over all classes.

    Raises:
        RuntimeError: if shapes do not fit.
    """
    _check_linear_cross_entropy(input, linear_weight, linear_bias)
    shape = linear_weight.shape[:-1]
    rows = linear_weight.flatten(0, -2)
    logits = ops.linear(input, rows, None if linear_bias is None else linear_bias.flatten())
    logits = logits.reshape(*input.shape[:-1], *shape)
    ignored = -100 if ignore_index is None else ignore_index
    return ops.cross_entropy_loss(logits, target, weight, get_enum(reduction), ignored, label_smoothing)


def _check_linear_cross_entropy(input, weight, bias):
    shape, features = tuple(weight.shape), tuple(input.shape[-1:])
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {weight.dim()}")
    if features != shape[-1:]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{features[0]} and {shape[-1]}, respectively"
        )
    if weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {shape} requires batched input, "
            f"(N, {shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )
    if bias is not None and tuple(bias.shape) != shape[:-1]:
        raise RuntimeError(f"expected linear_bias shape {shape[:-1]}, got {tuple(bias.shape)}")


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target) ** 2.

    Args:
        reduction: "none", "mean" or "sum" over the elements.
        weight: factor that broadcasts to the loss, or None.
    """
    number = resolve(reduction, size_average, reduce)
    input, target = _same_shape(input, target)
    if weight is None:
        return ops.mse_loss(input, target, number)
    return _weighted_mean(ops.mse_loss(input, target, 0), weight, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|.

    Args:
        reduction: "none", "mean" or "sum" over the elements.
        weight: factor that broadcasts to the loss, or None.
    """
    number = resolve(reduction, size_average, reduce)
    input, target = _same_shape(input, target)
    if weight is None:
        return ops.l1_loss(input, target, number)
    return _weighted_mean(ops.l1_loss(input, target, 0), weight, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d ** 2 / (2 * beta) where d = |input - target| is below beta, d - beta / 2 elsewhere.

    Args:
        reduction: "none", "mean" or "sum" over the elements.
    """
    number = resolve(reduction, size_average, reduce)
    input, target = _same_shape(input, target)
    # With no quadratic part the quotient would be 0 / 0.
    return ops.l1_loss(input, target, number) if beta == 0.0 else ops.smooth_l1_loss(input, target, number, beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d ** 2 / 2 where d = |input - target| is at most delta, delta * (d - delta / 2) elsewhere.

    Args:
        reduction: "none", "mean" or "sum" over the elements.
        weight: factor that broadcasts to the loss, or None.
    """
    input, target = _same_shape(input, target)
    if weight is None:
        return ops.huber_loss(input, target, get_enum(reduction), delta)
    return reduced(_weighted(ops.huber_loss(input, target, 0, delta), weight), reduction)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t * log(x) + (1 - t) * log(1 - x)).

    The logarithms are clipped at -100. ValueError for unequal shapes.

    Args:
        target: probabilities, of the shape of `input`.
        weight: factor that broadcasts to the loss, or None.
        reduction: "none", "mean" or "sum" over the elements.
    """
    number = resolve(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is "
            "deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand_as(target)
    return ops.binary_cross_entropy(input, target, weight, number)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(input), computed stably; `pos_weight` weighs the positive targets.

    Args:
        target: probabilities, of the shape of `input`.
        weight: factor that broadcasts to the loss, or None.
        reduction: "none", "mean" or "sum" over the elements.
    """
    number = resolve(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target * (log(target) - input): `input` holds log-probabilities, and `target` too with `log_target`.

    The reduction may also be "batchmean", the sum divided by the size of the first dimension.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. "
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition. 'mean' "
            "will be changed to behave the same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    batchmean = reduction == "batchmean"
    loss = ops.kl_div(input, target, get_enum("sum" if batchmean else reduction), log_target=log_target)
    return loss / input.shape[0] if batchmean and input.dim() else loss


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(x) - t * x with `log_input`, x - t * log(x + eps) without; `full` adds Stirling's term.

    Args:
        target: counts, of the shape of `input`.
        reduction: "none", "mean" or "sum" over the elements.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    return ops.poisson_nll_loss(input, target, log_input, full, eps, get_enum(reduction))


def _is_one_where_different(shape, other):
    """Whether a shape equals another except for one dimension, where it is 1."""
    return len(shape) == len(other) and [a for a, b in zip(shape, other, strict=True) if a != b] == [1]


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(var) + (input - target) ** 2 / var) / 2; `full` adds log(2 pi) / 2.

    Args:
        var: a number, or a tensor of input's shape, of it without the last dimension, or with one dimension
            of size 1.
        eps: the smallest variance that is used.
        reduction: "none", "mean" or "sum" over the elements.
    """
    if not isinstance(var, gl.Tensor):
        var = gl.full(input.shape, var, dtype=input.dtype, device=input.device) if var >= 0 else None
        if var is None:
            raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not _is_one_where_different(var.shape, input.shape):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    if (var < 0).any():
        raise ValueError("var has negative entry/entries")
    var = var.clone()
    with untracked():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | IntList,
    target_lengths: Tensor | IntList,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification (Graves et al. 2006) of log_probs (time, batch, classes).

    Args:
        targets: class numbers without blanks: (N, S), or all of them one after the other.
        input_lengths: (N,): how many steps of each sequence count.
        target_lengths: (N,): how long each target is.
        blank: the number of the blank class.
        reduction: "none", "mean" or "sum" over the elements.
        zero_infinity: zeros instead of infinite losses, for targets that are too long to fit.
    """
    return ops.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, get_enum(reduction), zero_infinity)
