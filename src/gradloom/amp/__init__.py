"""Mixed precision: regions in which products are computed in bfloat16 or float16, and what training in them needs."""

from __future__ import annotations

from .autocast_mode import (
    _enter_autocast as _enter_autocast,
)
from .autocast_mode import (
    _exit_autocast as _exit_autocast,
)
from .autocast_mode import (
    autocast,
    custom_bwd,
    custom_fwd,
    is_autocast_available,
)
from .grad_scaler import GradScaler

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available", "GradScaler"]
