"""The package opt_einsum, which `einsum` does not need: the order in which it multiplies is its own."""

from __future__ import annotations

from typing import Any

enabled: bool = False
strategy: str | None = None


def is_available() -> bool:
    """False: it is not asked."""
    return False


def get_opt_einsum() -> Any:
    """None: it is not asked."""
    return None
