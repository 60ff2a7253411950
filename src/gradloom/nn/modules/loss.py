"""Loss modules; each keeps its arguments and calls the function of the same name.

They share one file because programs and pickles name them by this path, which is PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import InitVar
from typing import ClassVar

from gradloom import Tensor
from gradloom.nn import _reduction, functional as F
from gradloom.nn.modules._fields import calls, fields
from gradloom.nn.modules.distance import PairwiseDistance
from gradloom.nn.modules.linear import Linear
from gradloom.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from gradloom.nn.modules.module import Module
from gradloom.types import Device, DType, IntList
from gradloom.utils._documentation import like

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class _Loss(Module):
    reduction: str

    __constants__: list[str] = ["reduction"]

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _reduction.named(reduction, size_average, reduce)

    def extra_repr(self) -> str:
        return ""


class _WeightedLoss(_Loss):
    """Base of losses with a buffer `weight`, which may be None."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class _TargetLoss(_Loss):
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        raise NotImplementedError


class _WeightedTargetLoss(_WeightedLoss):
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        raise NotImplementedError


@fields()
class _MarginLoss(_Loss):
    margin: float = 0.0
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        raise NotImplementedError


@calls(F.l1_loss)
class L1Loss(_TargetLoss): ...


@calls(F.mse_loss)
class MSELoss(_TargetLoss): ...


@fields(F.nll_loss)
class NLLLoss(_WeightedTargetLoss):
    weight: Tensor | None = None
    size_average: InitVar[bool | None] = None
    ignore_index: int = -100
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"


class NLLLoss2d(NLLLoss):
    """Deprecated name of `NLLLoss`.

    Args:
        weight, ignore_index, size_average, reduce, reduction: as for `NLLLoss`.

    Shape:
        input: (N, C, H, W).
        target: (N, H, W).
        output: (); as `target` for reduction "none".
    """


@fields(F.cross_entropy)
class CrossEntropyLoss(_WeightedTargetLoss):
    weight: Tensor | None = None
    size_average: InitVar[bool | None] = None
    ignore_index: int = -100
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"
    label_smoothing: float = 0.0


@like(
    F.linear_cross_entropy,
    in_features="size of an input.",
    num_classes="number of classes, C.",
    out_features="sizes (d1, ...) of a target's further dimensions.",
    bias="the linear map has a bias.",
    device="device of the parameters.",
    dtype="dtype of the parameters.",
)
class LinearCrossEntropyLoss(_WeightedLoss):
    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features: tuple[int, ...] = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        rows = num_classes * math.prod(self.out_features)
        self.linear: Linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )


@fields(F.poisson_nll_loss)
class PoissonNLLLoss(_Loss):
    log_input: bool = True
    full: bool = False
    size_average: InitVar[bool | None] = None
    eps: float = 1e-8
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


@fields(F.gaussian_nll_loss, kw_only=True)
class GaussianNLLLoss(_Loss):
    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


@fields(F.kl_div)
class KLDivLoss(_TargetLoss):
    __constants__: ClassVar[list[str]] = ["reduction"]

    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"
    log_target: bool = False


@calls(F.binary_cross_entropy)
class BCELoss(_WeightedTargetLoss): ...


@calls(F.binary_cross_entropy_with_logits)
class BCEWithLogitsLoss(_TargetLoss):
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)


@fields(F.hinge_embedding_loss)
class HingeEmbeddingLoss(_TargetLoss):
    margin: float = 1.0
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"


@calls(F.multilabel_margin_loss)
class MultiLabelMarginLoss(_TargetLoss): ...


@fields(F.smooth_l1_loss)
class SmoothL1Loss(_TargetLoss):
    __constants__: ClassVar[list[str]] = ["reduction"]

    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"
    beta: float = 1.0


@fields(F.huber_loss)
class HuberLoss(_TargetLoss):
    reduction: str = "mean"
    delta: float = 1.0

    def _check_fields(self) -> None:
        if not isinstance(self.delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(self.delta)}")


@calls(F.soft_margin_loss)
class SoftMarginLoss(_TargetLoss): ...


@calls(F.multilabel_soft_margin_loss)
class MultiLabelSoftMarginLoss(_WeightedTargetLoss): ...


@calls(F.cosine_embedding_loss)
class CosineEmbeddingLoss(_MarginLoss): ...


@calls(F.margin_ranking_loss)
class MarginRankingLoss(_MarginLoss): ...


@fields(F.multi_margin_loss)
class MultiMarginLoss(_WeightedTargetLoss):
    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"

    def _check_fields(self) -> None:
        if self.p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if self.weight is not None and self.weight.dim() != 1:
            raise ValueError(f"weight must be 1-dimensional, got {self.weight.dim()} dimensions")


@fields(F.triplet_margin_loss)
class TripletMarginLoss(_Loss):
    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"

    def _check_fields(self) -> None:
        if self.margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {self.margin} instead")

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


@like(F.triplet_margin_with_distance_loss)
class TripletMarginWithDistanceLoss(_Loss):
    __constants__: list[str] = ["margin", "swap", "reduction"]

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function: Callable[[Tensor, Tensor], Tensor] = (
            PairwiseDistance() if distance_function is None else distance_function
        )
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


@fields(F.ctc_loss)
class CTCLoss(_Loss):
    __constants__: ClassVar[list[str]] = ["blank", "reduction"]

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor | IntList, target_lengths: Tensor | IntList
    ) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
