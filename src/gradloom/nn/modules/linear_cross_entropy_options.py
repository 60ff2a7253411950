"""How a linear cross entropy is divided into chunks of rows."""

from __future__ import annotations

import re
from dataclasses import dataclass

import gradloom as gl
from gradloom.types import DType

__all__ = ["LinearCrossEntropyOptions"]


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """Options of `linear_cross_entropy`, which let it compute the loss in chunks of rows.

    Chunks save memory and time where there are more rows than features and more classes than features.

    Args:
        allow_retain_graph: allow several backward passes for the reductions "mean" and "sum".
        batch_chunk_size: rows of a chunk, 1 or more; None lets `chunking_method` decide.
        chunking_method: "aspect_ratio" chooses a power of 2 for which a chunk's logits are as large as the input;
            "aspect_ratio:n", with n of 1 or more, an n-th of it; "auto" "aspect_ratio" for half precision and
            "aspect_ratio:2" otherwise. None, without a `batch_chunk_size`, is one chunk.
        acc_policy: with an `acc_dtype` other than the input's, which values have it: "accurate" (which is "auto" for
            half precision) all, "balanced" and "compact" not the logits in float16.
        acc_dtype: the dtype of intermediate results. None is float32 for half precision and an `acc_policy` of "auto",
            otherwise the input's dtype, which is also the only other choice.

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
