"""The names that mixed precision on the CPU had before `gradloom.amp` was there for all devices."""

from __future__ import annotations

from ... import amp
from ...amp.old_names import is_old
from ...types.dtype import bfloat16, dtype as DType

__all__ = ["autocast", "GradScaler"]


class autocast(amp.autocast):
    """Deprecated: `gradloom.amp.autocast("cpu", ...)`.

    Args:
        enabled, dtype, cache_enabled: as there.
    """

    def __init__(self, enabled: bool = True, dtype: DType = bfloat16, cache_enabled: bool = True) -> None:
        is_old("cpu", "autocast", "'cpu', args...")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """Deprecated: `gradloom.amp.GradScaler("cpu", ...)`.

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
        is_old("cpu", "GradScaler", "'cpu', args...")
        super().__init__(
            "cpu",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
