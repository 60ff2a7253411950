"""The deprecated names of `gradloom.amp` for the CPU."""

from __future__ import annotations

from ..amp.per_device import DeviceAutocast, DeviceGradScaler

__all__ = ["autocast", "GradScaler"]


class autocast(DeviceAutocast):
    """Deprecated: `gradloom.amp.autocast("cpu", ...)`."""

    _type = "cpu"


class GradScaler(DeviceGradScaler):
    """Deprecated: `gradloom.amp.GradScaler("cpu", ...)`."""

    _type = "cpu"
