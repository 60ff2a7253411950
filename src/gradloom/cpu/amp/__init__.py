"""The names that mixed precision on the CPU had before `gradloom.amp` was there for all devices."""

from __future__ import annotations

import warnings

from ... import amp
from ...dtype import bfloat16
from ...dtype import dtype as DType

__all__ = ["autocast", "GradScaler"]


class autocast(amp.autocast):
    """Deprecated: `gradloom.amp.autocast("cpu", ...)`.

    Args:
        enabled, dtype, cache_enabled: as there.
    """

    def __init__(self, enabled: bool = True, dtype: DType = bfloat16, cache_enabled: bool = True) -> None:
        warnings.warn("`torch.cpu.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cpu', "
                      "args...)` instead.", FutureWarning, stacklevel=2)
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """Deprecated: `gradloom.amp.GradScaler("cpu", ...)`.

    Args:
        init_scale, growth_factor, backoff_factor, growth_interval, enabled: as there.
    """

    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:
        warnings.warn("`torch.cpu.amp.GradScaler(args...)` is deprecated. Please use `torch.amp.GradScaler('cpu', "
                      "args...)` instead.", FutureWarning, stacklevel=2)
        super().__init__("cpu", init_scale=init_scale, growth_factor=growth_factor, backoff_factor=backoff_factor,
                         growth_interval=growth_interval, enabled=enabled)
