"""The package opt_einsum, which gradloom does not use: `einsum` chooses the order of its products itself."""

from __future__ import annotations

from typing import Any

enabled: bool = False
strategy: str | None = None


def is_available() -> bool:
    """Return False."""
    return False


def get_opt_einsum() -> Any:
    """Return None."""
    return None
