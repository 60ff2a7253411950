"""The names that mixed precision on GPUs had before `gradloom.amp` was there for all devices.

Regions and scalers of these names are disabled, since there is no GPU, and say so; the program goes on in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import amp
from ...amp.old_names import is_old
from ...types.dtype import dtype as DType, float16

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU to compute in mixed precision: True."""
    return True


class autocast(amp.autocast):
    """Deprecated: `gradloom.amp.autocast("cuda", ...)`.

    Args:
        enabled, dtype, cache_enabled: as there.
    """

    def __init__(self, enabled: bool = True, dtype: DType = float16, cache_enabled: bool = True) -> None:
        is_old("cuda", "autocast", "'cuda', args...")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """Deprecated: `gradloom.amp.GradScaler("cuda", ...)`.

    Args:
        init_scale, growth_factor, backoff_factor, growth_interval, enabled: as there.
    """

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        is_old("cuda", "GradScaler", "'cuda', args...")
        super().__init__(
            "cuda",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: DType | None = None) -> Any:
    """Deprecated: `gradloom.amp.custom_fwd(..., device_type="cuda")`.

    Args:
        fwd, cast_inputs: as there.
    """
    is_old("cuda", "custom_fwd", "args..., device_type='cuda'")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """Deprecated: `gradloom.amp.custom_bwd(..., device_type="cuda")`.

    Args:
        bwd: as there.
    """
    is_old("cuda", "custom_bwd", "args..., device_type='cuda'")
    return amp.custom_bwd(bwd, device_type="cuda")
