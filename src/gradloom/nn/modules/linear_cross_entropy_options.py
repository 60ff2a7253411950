"""How PyTorch's linear cross entropy chooses its chunks; gradloom computes the plain loss."""

from __future__ import annotations

import re
from dataclasses import dataclass

import gradloom as gl
from gradloom.types import DType

__all__ = ["LinearCrossEntropyOptions"]


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """Options of `linear_cross_entropy`; checked, but without effect, as there are no chunks.

    Args:
        allow_retain_graph: allow several backward passes.
        batch_chunk_size: rows of a chunk, 1 or more; None lets `chunking_method` decide.
        chunking_method: "auto", "aspect_ratio", "aspect_ratio:n" with n of 1 or more, or None.
        acc_policy: "auto", "accurate", "balanced" or "compact".
        acc_dtype: a floating dtype, or None.

    Raises:
        ValueError: for another value.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: DType | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        method = self.chunking_method
        if method not in (None, "auto") and not re.fullmatch(r"aspect_ratio(:[1-9]\d*)?", str(method)):
            raise ValueError(f"invalid chunking_method: {method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, gl.float16, gl.bfloat16, gl.float32, gl.float64):
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, got "
                f"{self.acc_dtype!r}. Pass acc_dtype=None to let the op pick automatically."
            )
