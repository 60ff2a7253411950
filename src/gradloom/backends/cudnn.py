"""NVIDIA's library for neural networks, which is not there. Its flags may be set; nothing depends on them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ._flags import flags_of

enabled: bool = True
benchmark: bool = False
benchmark_limit: int | None = None
deterministic: bool = False
allow_tf32: bool = True
fp32_precision: str = "none"


def is_available() -> bool:
    """False."""
    return False


def version() -> int | None:
    """None: it is not there."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether it computes with a tensor: False.

    Args:
        tensor: a Tensor.
    """
    return False


def flags(
    enabled: bool | None = False,
    benchmark: bool | None = False,
    benchmark_limit: int | None = 10,
    deterministic: bool | None = False,
    allow_tf32: bool | None = True,
    fp32_precision: str = "none",
) -> AbstractContextManager[None]:
    """A `with` block in which the flags of this module are others."""
    return flags_of(
        __name__,
        {
            "enabled": enabled,
            "benchmark": benchmark,
            "benchmark_limit": benchmark_limit,
            "deterministic": deterministic,
            "allow_tf32": allow_tf32,
            "fp32_precision": fp32_precision,
        },
    )
