"""oneDNN, which gradloom does not use. Its flags may be set; nothing depends on them."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ._flags import flags_of

enabled: bool = True
deterministic: bool = False
allow_tf32: bool = True
fp32_precision: str = "none"


def is_available() -> bool:
    """False."""
    return False


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> AbstractContextManager[None]:
    """A `with` block in which the flags of this module are others."""
    return flags_of(
        __name__,
        {
            "enabled": enabled,
            "deterministic": deterministic,
            "allow_tf32": allow_tf32,
            "fp32_precision": fp32_precision,
        },
    )
