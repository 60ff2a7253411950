"""Losses with a margin: of embeddings, rankings and scores."""

from __future__ import annotations

from collections.abc import Callable

import gradloom as gl
from gradloom import Tensor
from gradloom.nn._functional import operators as ops
from gradloom.nn._functional.loss import _reduced
from gradloom.nn._reduction import get_enum, named
from gradloom.utils._documentation import pointwise_loss


@pointwise_loss
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1.

    Args:
        input: distances.
        target: 1 or -1, of the shape of `input`.
        margin: distance up to which the loss is positive for -1.
    """
    reduction = named(reduction, size_average, reduce)
    return ops.hinge_embedding_loss(input, target, margin, get_enum(reduction))


@pointwise_loss
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin).

    Args:
        input1, input2: scores.
        target: 1 where input1 should be greater, -1 where input2 should.
        margin: difference up to which the loss is positive.

    Shape:
        input1, input2, target: (*), broadcasting.
        output: (); as the inputs for reduction "none".

    Raises:
        RuntimeError: unless all have the same number of dimensions.
    """
    reduction = named(reduction, size_average, reduce)
    _require_same_dim("margin_ranking_loss", input1=input1, input2=input2, target=target)
    return ops.margin_ranking_loss(input1, input2, target, margin, get_enum(reduction))


def _require_same_dim(what, **tensors):
    if len({tensor.dim() for tensor in tensors.values()}) != 1:
        sizes = ", ".join(f"{name}: {tensor.shape}" for name, tensor in tensors.items())
        raise RuntimeError(f"{what} : All input tensors should have same dimension but got sizes: {sizes} ")


@pointwise_loss
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(input1, input2) where target is 1, max(0, cos(input1, input2) - margin) where it is -1.

    Args:
        input1, input2: vectors.
        target: 1 or -1.
        margin: cosine above which the loss is positive for -1.

    Shape:
        input1, input2: (N, D) or (D,).
        target: (N,) or ().
        output: (); (N,) for reduction "none".
    """
    reduction = named(reduction, size_average, reduce)
    return ops.cosine_embedding_loss(input1, input2, target, margin, get_enum(reduction))


@pointwise_loss
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
    """Sum over the classes i other than target of weight[target] * max(0, margin - input[target] + input[i]) ** p / C.

    Args:
        input: scores, (N, C) or (C,).
        target: int64 class indices, (N,) or ().
        p: 1 or 2.
        margin: difference up to which the loss is positive.
        weight: (C,), factor of each class, or None.

    Shape:
        output: (); as `target` for reduction "none".

    Raises:
        ValueError: for another p or a weight that is not a vector.
    """
    reduction = named(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return ops.multi_margin_loss(input, target, p, margin, weight, get_enum(reduction))


@pointwise_loss
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Sum over targets j and other classes i of max(0, 1 - (input[j] - input[i])) / C.

    Args:
        input: scores, (N, C) or (C,).
        target: int64 class indices of the shape of `input`, ended by -1.

    Shape:
        output: (); (N,) for reduction "none".
    """
    return ops.multilabel_margin_loss(input, target, get_enum(named(reduction, size_average, reduce)))


@pointwise_loss
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + exp(-target * input)).

    Args:
        target: 1 or -1, of the shape of `input`.
    """
    return ops.soft_margin_loss(input, target, get_enum(named(reduction, size_average, reduce)))


@pointwise_loss
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over the classes of the binary cross entropy of sigmoid(input) and target.

    Args:
        input: logits, (N, C).
        target: 0 or 1, (N, C).
        weight: (C,), factor of each class, or None.

    Shape:
        output: (); (N,) for reduction "none".
    """
    reduction = named(reduction, size_average, reduce)
    get_enum(reduction)
    loss = -(target * ops.log_sigmoid(input) + (1 - target) * ops.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.sum(dim=input.dim() - 1) / input.shape[-1], reduction)


@pointwise_loss
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
        anchor, positive, negative: vectors, (N, D) or (D,).
        margin: difference of distances up to which the loss is positive.
        p: order of the norm.
        eps: added to the differences.
        swap: use the distance from positive to negative if that is smaller than the anchor's.

    Shape:
        output: (); (N,) or () for reduction "none".

    Raises:
        ValueError: for a margin that is not positive.
    """
    reduction = named(reduction, size_average, reduce)
    _require_margin(margin)
    return ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, get_enum(reduction))


def _require_margin(margin):
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")


@pointwise_loss
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
    """max(0, distance(anchor, positive) - distance(anchor, negative) + margin) (Balntas et al. 2016).

    Args:
        anchor, positive, negative: (N, *).
        distance_function: function of two tensors; by default the Euclidean distance of vectors.
        margin: difference of distances up to which the loss is positive.
        swap: use the distance from positive to negative if that is smaller than the anchor's.

    Shape:
        output: (); (N,) for reduction "none".

    Raises:
        ValueError: for a margin that is not positive.
    """
    _require_margin(margin)
    get_enum(reduction)
    distance = ops.pairwise_distance if distance_function is None else distance_function
    _require_same_dim("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = gl.minimum(far, distance(positive, negative))
    return _reduced(gl.clamp_min(margin + near - far, 0), reduction)
