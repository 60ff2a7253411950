"""Dropout modules; they return their input unchanged in evaluation."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules._fields import fields
from gradloom.nn.modules.module import Module
from gradloom.utils._documentation import like

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


@fields()
class _DropoutNd(Module):
    """Base of dropout modules."""

    p: float = 0.5
    inplace: bool = False

    def _check_fields(self) -> None:
        if self.p < 0 or self.p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {self.p}")

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


@like(F.dropout)
class Dropout(_DropoutNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


@like(F.dropout1d)
class Dropout1d(_DropoutNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


@like(F.dropout2d)
class Dropout2d(_DropoutNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


@like(F.dropout3d)
class Dropout3d(_DropoutNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


@like(F.alpha_dropout)
class AlphaDropout(_DropoutNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


@like(F.feature_alpha_dropout)
class FeatureAlphaDropout(_DropoutNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
