"""Loss functions: reductions by name, deprecated flags, and shapes checked or broadcast with a warning."""

from __future__ import annotations

import math
import warnings
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.autograd.grad_mode import untracked
from gradloom.core import late
from gradloom.core.tangents import tangent_of
from gradloom.dispatch.state import FORWARD_AD, state
from gradloom.nn._functional import operators as ops
from gradloom.nn._functional.chunked_loss import chunked_loss, chunks_of
from gradloom.nn._reduction import get_enum, named
from gradloom.types import IntList
from gradloom.utils._documentation import pointwise_loss


def _reduced(loss, reduction):
    """Return `loss`, its mean or its sum, as `reduction` names it."""
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def _same_shape(input, target, stacklevel=3):
    """Broadcast both against each other, with a warning for different shapes."""
    if target.shape == input.shape:
        return input, target
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
        "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same "
        "size.",
        stacklevel=stacklevel,
    )
    return gl.broadcast_tensors(input, target)


def _weighted(loss, weight):
    if weight.shape != loss.shape:
        raise ValueError("Weights and input must have the same size.")
    return loss * weight


def _of_difference(loss, input, target, weight, reduction):
    """Compute and reduce a loss of the difference; with a weight, the mean is relative to the sum of the weights."""
    input, target = _same_shape(input, target, stacklevel=4)
    if weight is None:
        return loss(input, target, get_enum(reduction))
    weighted = _weighted(loss(input, target, 0), weight)
    return weighted.sum() / weight.sum() if reduction == "mean" else _reduced(weighted, reduction)


@pointwise_loss
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-weight[target] * input[target], the negative log likelihood of classes.

    Args:
        input: (N, C), (C,) or (N, C, d1, ...), log-probabilities.
        target: (N,), () or (N, d1, ...), int64 class indices.
        weight: (C,), factor of each class, or None.
        ignore_index: class index whose elements add nothing to the loss.

    Shape:
        output: (); as `target` for reduction "none". The mean is relative to the sum of the targets' weights.
    """
    reduction = named(reduction, size_average, reduce)
    return ops.nll_loss_nd(input, target, weight, get_enum(reduction), ignore_index)


@pointwise_loss
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
    """-weight[target] * log_softmax(input)[target], or with probabilities the sum of it over the classes.

    Args:
        input: (N, C), (C,) or (N, C, d1, ...), logits.
        target: (N,), () or (N, d1, ...), int64 class indices; or probabilities of the shape of `input`.
        weight: (C,), factor of each class, or None.
        ignore_index: class index whose elements add nothing to the loss; for class indices only.
        label_smoothing: share of the target, in [0, 1], spread evenly over all classes.

    Shape:
        output: (); (N,), () or (N, d1, ...) for reduction "none".
    """
    reduction = named(reduction, size_average, reduce)
    return ops.cross_entropy_loss(input, target, weight, get_enum(reduction), ignore_index, label_smoothing)


@pointwise_loss
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
    """Cross entropy of a linear map's output, cross_entropy(input @ linear_weight.T + linear_bias, target).

    Args:
        input: (N, in_features) or (in_features,).
        linear_weight: (C, in_features) or (C, d1, ..., in_features).
        target: (N, d1, ...), class indices; or (N, C, d1, ...), probabilities.
        linear_bias: (C, d1, ...) or None.
        weight: (C,), factor of each class, or None.
        ignore_index: class index whose elements add nothing to the loss; -100 if None.
        label_smoothing: share of the target, in [0, 1], spread evenly over all classes.
        options: None, or a `LinearCrossEntropyOptions`: compute in chunks of rows, so that the logits of all rows never
            exist at once; they do in forward mode and for second derivatives. Chunks need int64 class indices, a
            `linear_weight` (C, in_features) and no label_smoothing; otherwise a warning says that the options are
            ignored.

    Shape:
        output: (); (N, d1, ...) for reduction "none".

    Raises:
        RuntimeError: if shapes do not match, or for an ignore_index with probabilities.
    """
    _check_linear_cross_entropy(input, linear_weight, linear_bias)
    shape = linear_weight.shape[:-1]
    if ignore_index is not None and target.shape == (*input.shape[:-1], *shape):
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if options is not None and _has_chunks(linear_weight, target, linear_bias, reduction, label_smoothing):
        rows = input.shape[0] if input.dim() == 2 else 1
        chunking = chunks_of(options, rows, input.shape[-1], shape[0], input.dtype)
        settings = reduction, -100 if ignore_index is None else ignore_index, chunking
        operands = [t for t in (input, linear_weight, target, linear_bias) if t is not None]
        has_tangents = state.flags & FORWARD_AD and any(tangent_of(t) is not None for t in operands)
        if not has_tangents and not late.any_batched(operands):
            return chunked_loss(input, linear_weight, target, linear_bias, weight, settings)
    rows = linear_weight.flatten(0, -2)
    logits = ops.linear(input, rows, None if linear_bias is None else linear_bias.flatten())
    logits = logits.reshape(*input.shape[:-1], *shape)
    ignored = -100 if ignore_index is None else ignore_index
    return ops.cross_entropy_loss(logits, target, weight, get_enum(reduction), ignored, label_smoothing)


def _has_chunks(linear_weight, target, linear_bias, reduction, label_smoothing):
    """Return whether a loss can be computed in chunks; warn if it cannot."""
    features = tuple(linear_weight.shape[1:-1])
    if (
        not features
        and reduction in ("mean", "sum", "none")
        and label_smoothing == 0.0
        and target.dtype == gl.int64  # not probabilities
    ):
        return True
    warnings.warn(
        "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in {'mean','sum','none'}, "
        "label_smoothing == 0, target.dtype == int64, out_features == (). Got "
        f"reduction={reduction!r}, label_smoothing={label_smoothing}, target.dtype={target.dtype}, "
        f"out_features={features}, tracing=False, "
        f"linear_bias.shape={None if linear_bias is None else tuple(linear_bias.shape)}.",
        stacklevel=3,
    )
    return False


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


@pointwise_loss
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
        weight: factor of each element, of the shape of `input`; the mean is relative to the sum of the weights.

    Raises:
        ValueError: for a weight of another shape.
    """
    return _of_difference(ops.mse_loss, input, target, weight, named(reduction, size_average, reduce))


@pointwise_loss
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
        weight: factor of each element, of the shape of `input`; the mean is relative to the sum of the weights.

    Raises:
        ValueError: for a weight of another shape.
    """
    return _of_difference(ops.l1_loss, input, target, weight, named(reduction, size_average, reduce))


@pointwise_loss
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d ** 2 / (2 * beta) where d = |input - target| is below beta, d - beta / 2 elsewhere (Girshick 2015).

    Args:
        beta: bound between both parts; not negative.
    """
    reduction = named(reduction, size_average, reduce)
    input, target = _same_shape(input, target)
    # A beta of 0 has no quadratic part: its quotient would be 0 / 0.
    if beta == 0.0:
        return ops.l1_loss(input, target, get_enum(reduction))
    return ops.smooth_l1_loss(input, target, get_enum(reduction), beta)


@pointwise_loss
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d ** 2 / 2 where d = |input - target| is at most delta, delta * (d - delta / 2) elsewhere (Huber 1964).

    Args:
        delta: bound between both parts; positive.
        weight: factor of each element, of the shape of `input`.

    Raises:
        ValueError: for a weight of another shape.
    """
    input, target = _same_shape(input, target)
    if weight is None:
        return ops.huber_loss(input, target, get_enum(reduction), delta)
    return _reduced(_weighted(ops.huber_loss(input, target, 0, delta), weight), reduction)


@pointwise_loss
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-weight * (target * log(input) + (1 - target) * log(1 - input)), with logarithms of at least -100.

    Args:
        input: probabilities.
        target: probabilities of the shape of `input`.
        weight: factor of each element, expandable to `target`.

    Raises:
        ValueError: for a target of another shape.
    """
    reduction = named(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is "
            "deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand_as(target)
    return ops.binary_cross_entropy(input, target, weight, get_enum(reduction))


@pointwise_loss
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross entropy of sigmoid(input) and target, computed stably.

    Args:
        input: logits.
        target: probabilities of the shape of `input`.
        weight: factor of each element, broadcast to `input`.
        pos_weight: factor of the term of the positive class, broadcast to `input`.

    Raises:
        ValueError: for a target of another shape.
    """
    reduction = named(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, get_enum(reduction))


@pointwise_loss
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target * (log(target) - input), the Kullback-Leibler divergence.

    Args:
        input: log-probabilities.
        target: probabilities; log-probabilities with `log_target`.
        reduction: "none", "mean", "sum", or "batchmean", the sum divided by the size of the first dimension.
        log_target: whether `target` is given as logarithms.
    """
    reduction = named(reduction, size_average, reduce)
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


@pointwise_loss
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
    """exp(input) - target * input, the negative log likelihood of counts.

    Args:
        input: log of the rate, or the rate unless `log_input`.
        target: counts of the shape of `input`.
        log_input: without it, the loss is input - target * log(input + eps).
        full: add Stirling's approximation of log(target!) where target > 1.
        eps: added within the logarithm.
    """
    reduction = named(reduction, size_average, reduce)
    return ops.poisson_nll_loss(input, target, log_input, full, eps, get_enum(reduction))


def _is_one_where_different(shape, other):
    """Return whether `shape` equals `other` except in one dimension, where it is 1."""
    return len(shape) == len(other) and [a for a, b in zip(shape, other, strict=True) if a != b] == [1]


@pointwise_loss
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(max(var, eps)) + (input - target) ** 2 / max(var, eps)) / 2 (Nix and Weigend 1994).

    Args:
        input: means.
        var: variances: a number, or a tensor of input's shape, without its last dimension, or with one size of 1.
        full: add log(2 pi) / 2.
        eps: lower bound of the variances.

    Raises:
        ValueError: for a negative variance, a var of another shape or an unknown reduction.
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
    return _reduced(loss, reduction)


@pointwise_loss
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | IntList,
    target_lengths: Tensor | IntList,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification (Graves et al. 2006).

    Args:
        log_probs: (T, N, C) or (T, C), log-probabilities of the classes at each step.
        targets: (N, S) or (sum of target_lengths,), class indices other than `blank`.
        input_lengths: (N,) or (), number of valid steps.
        target_lengths: (N,) or (), length of each target.
        blank: index of the blank class.
        reduction: "none", "mean" of the losses divided by their target's length, or "sum".
        zero_infinity: replace infinite losses, of targets too long to fit, by zero.

    Shape:
        output: (); (N,) or () for reduction "none".
    """
    return ops.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, get_enum(reduction), zero_infinity)
