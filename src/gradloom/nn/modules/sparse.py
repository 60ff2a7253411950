"""Lookup tables: Embedding and EmbeddingBag."""

from __future__ import annotations

from typing import Self

import gradloom as gl
from gradloom import Tensor
from gradloom.nn import functional as F, init
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter
from gradloom.types import Device, DType
from gradloom.utils._documentation import like

__all__ = ["Embedding", "EmbeddingBag"]

_WEIGHT = "weight: (V, H), drawn from the standard normal distribution."
_SIZES = {
    "num_embeddings": "number of rows, V.",
    "embedding_dim": "number of columns, H.",
    "device": "device of the weight.",
    "dtype": "dtype of the weight.",
}


class _Table(Module):
    """Base of lookup tables; `weight` is drawn from the standard normal distribution."""

    weight: Parameter

    def _make_weight(self, given, frozen, device, dtype):
        rows, columns = self.num_embeddings, self.embedding_dim
        if self.padding_idx is not None:
            if not -rows <= self.padding_idx < rows:
                raise AssertionError("Padding_idx must be within num_embeddings")
            self.padding_idx %= rows
        if given is None:
            self.weight = Parameter(gl.empty((rows, columns), device=device, dtype=dtype), requires_grad=not frozen)
            self.reset_parameters()
        else:
            if list(given.shape) != [rows, columns]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(given, requires_grad=not frozen)

    def reset_parameters(self) -> None:
        """Draw the weight from the standard normal distribution; zero the padding row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with gl.no_grad():
                self.weight[self.padding_idx].fill_(0)


@like(F.embedding, _WEIGHT, **_SIZES)
class Embedding(_Table):
    __constants__: list[str] = (
        "num_embeddings embedding_dim padding_idx max_norm norm_type scale_grad_by_freq sparse".split()
    )

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make_weight(_weight, _freeze, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Return an Embedding with the given table.

        Args:
            embeddings: table, (V, H), floating.
            freeze: do not learn the table.
            padding_idx: row that gets no gradient.
            max_norm: rows used whose `norm_type`-norm exceeds it are scaled down to it, in place.
            norm_type: order of the norm.
            scale_grad_by_freq: divide each row's gradient by the row's number of uses in the batch.
            sparse: whether the gradient of the table is sparse.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        options = padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        rows, columns = embeddings.shape
        return cls(rows, columns, *options, _weight=embeddings, _freeze=freeze)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq:
            parts.append("scale_grad_by_freq=True")
        if self.sparse:
            parts.append("sparse=True")
        return ", ".join(parts)


@like(F.embedding_bag, _WEIGHT, **_SIZES)
class EmbeddingBag(_Table):
    __constants__: list[str] = """
    num_embeddings embedding_dim max_norm norm_type scale_grad_by_freq mode sparse include_last_offset padding_idx
    """.split()

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = padding_idx
        self._make_weight(_weight, False, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Return an EmbeddingBag with the given table.

        Args:
            embeddings: table, (V, H), floating.
            freeze: do not learn the table.
            max_norm, norm_type, scale_grad_by_freq, mode, sparse: as for `EmbeddingBag`.
            include_last_offset, padding_idx: likewise.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        options = max_norm, norm_type, scale_grad_by_freq, mode, sparse
        rows, columns = embeddings.shape
        bag = cls(rows, columns, *options, embeddings, include_last_offset, padding_idx)
        bag.weight.requires_grad_(not freeze)
        return bag

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        options = self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse
        further = self.include_last_offset, self.padding_idx
        return F.embedding_bag(input, self.weight, offsets, *options, per_sample_weights, *further)

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq:
            parts.append("scale_grad_by_freq=True")
        parts.append(f"mode={self.mode!r}")
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        return ", ".join(parts)
