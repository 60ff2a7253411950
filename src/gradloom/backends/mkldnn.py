"""oneDNN, which gradloom does not use. Its flags can be set and have no effect."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ._flags import flags_of

enabled: bool = True
deterministic: bool = False
allow_tf32: bool = True
fp32_precision: str = "none"


def is_available() -> bool:
    """Return False."""
    return False


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> AbstractContextManager[None]:
    """Set the flags of this module within a `with` block."""
    return flags_of(__name__, dict(locals()))
