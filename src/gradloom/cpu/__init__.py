"""The CPU as a device: the names that programs ask every device about."""

from __future__ import annotations

import contextlib
from typing import Any

from . import amp as amp

__all__ = ["current_device", "device_count", "is_available", "is_initialized", "set_device", "stream", "synchronize"]


def is_available() -> bool:
    """Whether there is a CPU: True."""
    return True


def is_initialized() -> bool:
    """Whether it can be used: True."""
    return True


def device_count() -> int:
    """How many there are: one, whatever its number of cores."""
    return 1


def current_device() -> str:
    """The device that new tensors are on: "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one device.

    Args:
        device: what to use from now on.
    """


def synchronize(device: Any = None) -> None:
    """Do nothing: operators have computed their results when they return.

    Args:
        device: what to wait for.
    """


def stream(stream: Any) -> contextlib.AbstractContextManager[None]:
    """A context that changes nothing: operators run in the order of the program.

    Args:
        stream: what to run them in.
    """
    return contextlib.nullcontext()
