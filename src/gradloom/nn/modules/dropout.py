"""Dropout modules; they return their input unchanged in evaluation."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules._fields import calls, fields
from gradloom.nn.modules.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


@fields()
class _DropoutNd(Module):
    """Base of dropout modules."""

    p: float = 0.5
    inplace: bool = False

    def _check_fields(self) -> None:
        if self.p < 0 or self.p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {self.p}")

    def forward(self, input: Tensor) -> Tensor:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


@calls(F.dropout)
class Dropout(_DropoutNd): ...


@calls(F.dropout1d)
class Dropout1d(_DropoutNd): ...


@calls(F.dropout2d)
class Dropout2d(_DropoutNd): ...


@calls(F.dropout3d)
class Dropout3d(_DropoutNd): ...


@calls(F.alpha_dropout)
class AlphaDropout(_DropoutNd): ...


@calls(F.feature_alpha_dropout)
class FeatureAlphaDropout(_DropoutNd): ...
