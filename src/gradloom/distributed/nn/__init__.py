"""Collectives through which gradients flow."""

from __future__ import annotations

from . import functional as functional

__all__ = ["functional"]
