"""Distances between batches of vectors."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules._fields import fields
from gradloom.nn.modules.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """p-norm of x1 - x2 + eps over the last dimension.

    Args:
        p: order of the norm.
        eps: added to the differences.
        keepdim: keep the last dimension, with size 1.

    Shape:
        x1, x2: (N, D) or (D,).
        output: (N,) or (); with keepdim (N, 1) or (1,).
    """

    __constants__: list[str] = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


@fields()
class CosineSimilarity(Module):
    """x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)) along `dim`.

    Args:
        dim: dimension of the vectors.
        eps: lower bound of the norms.

    Shape:
        x1, x2: (*, D, *), D at `dim`; they broadcast.
        output: (*, *).
    """

    dim: int = 1
    eps: float = 1e-8

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)

    def extra_repr(self) -> str:
        return ""
