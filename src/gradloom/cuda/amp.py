"""The deprecated names of `gradloom.amp` for GPUs: regions and scalers are disabled and warn, since there is no GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import amp
from ..amp.per_device import DeviceAutocast, DeviceGradScaler, warn_deprecated
from ..types.dtype import dtype as DType

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


def amp_definitely_not_available() -> bool:
    """Return True: there is no GPU."""
    return True


class autocast(DeviceAutocast):
    """Deprecated: `gradloom.amp.autocast("cuda", ...)`."""

    _type = "cuda"


class GradScaler(DeviceGradScaler):
    """Deprecated: `gradloom.amp.GradScaler("cuda", ...)`."""

    _type = "cuda"


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: DType | None = None) -> Any:
    """Deprecated: `gradloom.amp.custom_fwd(..., device_type="cuda")`."""
    warn_deprecated("cuda", "custom_fwd", "args..., device_type='cuda'")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """Deprecated: `gradloom.amp.custom_bwd(..., device_type="cuda")`."""
    warn_deprecated("cuda", "custom_bwd", "args..., device_type='cuda'")
    return amp.custom_bwd(bwd, device_type="cuda")
