"""Passes over graphs; each module is imported on first use."""

from __future__ import annotations

from importlib import import_module


def __getattr__(name: str) -> object:
    if name in ("shape_prop", "split_module", "utils"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
