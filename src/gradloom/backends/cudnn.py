"""cuDNN, which is not present. Its flags can be set and have no effect."""

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
    """Return False."""
    return False


def version() -> int | None:
    """Return None."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Return False: it computes with no tensor."""
    return False


def flags(
    enabled: bool | None = False,
    benchmark: bool | None = False,
    benchmark_limit: int | None = 10,
    deterministic: bool | None = False,
    allow_tf32: bool | None = True,
    fp32_precision: str = "none",
) -> AbstractContextManager[None]:
    """Set the flags of this module within a `with` block; None leaves a flag as it is."""
    return flags_of(__name__, dict(locals()))
