"""Losses of margins: of embeddings, of rankings and of scores that must stand apart.

Reductions are those of the other losses; see gradloom/nn/_functional/loss.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.nn._functional import operators as ops
from gradloom.nn._functional.loss import reduced
from gradloom.nn._reduction import get_enum, legacy_get_string, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradloom import Tensor

__all__ = [
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "cosine_embedding_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "soft_margin_loss",
    "multilabel_soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x for the target 1, max(0, margin - x) for -1.

    Args:
        input: distances, any shape.
        reduction: "none", "mean" or "sum" over the elements.
    """
    number = resolve(reduction, size_average, reduce)
    return ops.hinge_embedding_loss(input, target, margin, number)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin); RuntimeError unless all have as many dimensions.

    Args:
        reduction: "none", "mean" or "sum" over the elements.
    """
    number = resolve(reduction, size_average, reduce)
    _require_same_dim("margin_ranking_loss", input1=input1, input2=input2, target=target)
    return ops.margin_ranking_loss(input1, input2, target, margin, number)


def _require_same_dim(what, **tensors):
    if len({tensor.dim() for tensor in tensors.values()}) != 1:
        sizes = ", ".join(f"{name}: {tensor.shape}" for name, tensor in tensors.items())
        raise RuntimeError(f"{what} : All input tensors should have same dimension but got sizes: {sizes} ")


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(input1, input2) for the target 1, max(0, cos - margin) for -1.

    Args:
        reduction: "none", "mean" or "sum" over the elements.
    """
    number = resolve(reduction, size_average, reduce)
    return ops.cosine_embedding_loss(input1, input2, target, margin, number)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over all other classes of max(0, margin - input[target] + input[i]) ** p, with p 1 or 2.

    Args:
        weight: factor (C,) for each class, or None.
        reduction: "none", "mean" or "sum" over the elements.
    """
    number = resolve(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return ops.multi_margin_loss(input, target, p, margin, weight, number)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """The margin loss of several labels per sample: `target` lists their indices, ended by -1.

    Args:
        input: scores, (N, C) or (C,).
        reduction: "none", "mean" or "sum" over the elements.
    """
    return ops.multilabel_margin_loss(input, target, resolve(reduction, size_average, reduce))


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + exp(-target * input)).

    Args:
        reduction: "none", "mean" or "sum" over the elements.
    """
    return ops.soft_margin_loss(input, target, resolve(reduction, size_average, reduce))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy of sigmoid(input) with `target`, averaged over the last dimension, the classes.

    Args:
        weight: factor (C,) for each class, or None.
        reduction: "none", "mean" or "sum" over the elements.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    get_enum(reduction)
    loss = -(target * ops.log_sigmoid(input) + (1 - target) * ops.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(dim=input.dim() - 1) / input.shape[-1], reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive|_p - |anchor - negative|_p + margin) (Balntas et al. 2016).

    Args:
        p: order of the norm that is the distance.
        eps: added to differences, for stability.
        swap: take the smaller of the distances from the negative to the anchor and to the positive.
        reduction: "none", "mean" or "sum" over the elements.
    """
    number = resolve(reduction, size_average, reduce)
    _require_margin(margin)
    return ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


def _require_margin(margin):
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` for any distance, a function of two tensors; the Euclidean one by default.

    Args:
        anchor: (N, ...), floating.
        positive: likewise, what should be near.
        negative: likewise, what should be far.
        distance_function: takes two tensors and gives a distance for each pair; by default the Euclidean.
        margin: how much farther the negative should be; positive.
        swap: take the smaller of the distances from the negative to the anchor and to the positive.
        reduction: "none", "mean" or "sum" over the elements.
    """
    _require_margin(margin)
    get_enum(reduction)
    distance = ops.pairwise_distance if distance_function is None else distance_function
    _require_same_dim("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = gl.minimum(far, distance(positive, negative))
    return reduced(gl.clamp_min(margin + near - far, 0), reduction)
