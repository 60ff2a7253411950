"""Modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any

import gradloom as gl
from gradloom.nn.modules.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Return a module whose parameters and buffers may have any values. It draws no random numbers.

    Args:
        module_cls: its class, whose constructor takes `device` and passes it on to all tensors that it makes.
        args, kwargs: of its constructor.

    Raises:
        RuntimeError: for something that is not a class of modules.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with gl.random.fork_rng():
        return module_cls(*args, **kwargs)
