"""Warnings of PyTorch 0.1 about broadcasting and `keepdim`: settings without effect."""

from __future__ import annotations

__all__ = ["Warning", "broadcast_warning", "keepdim_warning"]


class Warning:
    """A warning that may be enabled; nothing raises it any more."""

    enabled: bool = False


broadcast_warning: Warning = Warning()
keepdim_warning: Warning = Warning()
