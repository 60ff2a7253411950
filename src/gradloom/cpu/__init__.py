"""The CPU as a device: the functions that PyTorch has for every device type."""

from __future__ import annotations

import contextlib
from typing import Any

from . import amp as amp

__all__ = ["current_device", "device_count", "is_available", "is_initialized", "set_device", "stream", "synchronize"]


def is_available() -> bool:
    """Return True."""
    return True


def is_initialized() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1, whatever the number of cores."""
    return 1


def current_device() -> str:
    """Return "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one device."""


def synchronize(device: Any = None) -> None:
    """Do nothing: an operator has computed its result when it returns."""


def stream(stream: Any) -> contextlib.AbstractContextManager[None]:
    """Return a context that changes nothing: operators run in program order."""
    return contextlib.nullcontext()
