"""Tracing of operators below autograd: `proxy_tensor.make_fx`."""

from __future__ import annotations


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "proxy_tensor":
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
