"""Adaptive softmax: the logarithms of many classes' probabilities, computed by clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import gradloom as gl
from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules.container import ModuleList, Sequential
from gradloom.nn.modules.linear import Linear
from gradloom.nn.modules.module import Module
from gradloom.types import Device, DType

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Adaptive softmax and its negative log likelihood (Grave et al. 2016), for classes sorted by frequency.

    The head has a score for each of the first cutoffs[0] classes and for each cluster of the rarer ones. Cluster i,
    counted from 1, has scores of its own, a linear map of in_features // div_value**i numbers.

    Args:
        in_features: number of features.
        n_classes: number of classes.
        cutoffs: first class of each cluster, increasing, between 1 and n_classes - 1.
        div_value: factor by which each cluster has fewer features than the one before.
        head_bias: the head has a bias.
        device, dtype: device and dtype of the parameters.

    Shape:
        input: (N, in_features) or (in_features,).
        target: (N,) or (), classes.
        output: (N,) or (), log probability of each target; and the loss, (), minus their mean.

    Raises:
        ValueError: for cutoffs that are no increasing sequence of such numbers.
        RuntimeError: from `forward`, for a target of another shape or out of range.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        inside = all(int(cutoff) == cutoff and 0 < cutoff < n_classes for cutoff in cutoffs)
        if not inside or cutoffs != sorted(set(cutoffs)):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs: list[int] = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size: int = cutoffs[0]
        self.n_clusters: int = len(cutoffs)
        self.head_size: int = self.shortlist_size + self.n_clusters
        where = {"device": device, "dtype": dtype}
        self.head: Linear = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail: ModuleList = ModuleList()
        for position, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False), start=1):
            features = int(in_features // div_value**position)
            projection = Linear(in_features, features, bias=False, **where)
            self.tail.append(Sequential(projection, Linear(features, high - low, bias=False, **where)))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for projection, scores in self.tail:
            projection.reset_parameters()
            scores.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> _ASMoutput:
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        batched = target.dim() == 1
        if input.dim() != target.dim() + 1 or batched and len(input) != len(target):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if not batched:
            input, target = input.unsqueeze(0), target.unsqueeze(0)
        head = F.log_softmax(self.head(input), dim=1)
        own = head.new_zeros(len(target))  # within the cluster
        columns, counted = target.clone(), 0
        for cluster, (low, high) in enumerate(zip([0, *self.cutoffs], self.cutoffs, strict=False), start=-1):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            counted += rows.numel()
            if cluster < 0 or not rows.numel():
                continue
            scores = F.log_softmax(self.tail[cluster](input.index_select(0, rows)), dim=1)
            places = target.index_select(0, rows).unsqueeze(1) - low
            own = own.index_copy(0, rows, scores.gather(1, places).squeeze(1))
            columns.index_fill_(0, rows, self.shortlist_size + cluster)
        if counted != len(target):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        found = own + head.gather(1, columns.unsqueeze(1)).squeeze(1)
        loss = (-found).mean()
        return _ASMoutput(found if batched else found.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log probabilities of all classes, (N, n_classes).

        Args:
            input: (N, in_features).
        """
        return self._of_all(input, self.head(input))

    def _of_all(self, input, scores):
        head = F.log_softmax(scores, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for cluster, tail in enumerate(self.tail):
            column = self.shortlist_size + cluster
            parts.append(F.log_softmax(tail(input), dim=1) + head[:, column : column + 1])
        return gl.cat(parts, dim=1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each element, (N,).

        Args:
            input: (N, in_features).
        """
        scores = self.head(input)
        best = scores.argmax(dim=1)
        if not (best >= self.shortlist_size).any():
            return best
        return self._of_all(input, scores).argmax(dim=1)
