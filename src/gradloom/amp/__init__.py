"""Mixed precision: `autocast` computes products in bfloat16 or float16, `GradScaler` scales the loss for float16."""

from __future__ import annotations

from .autocast_mode import _enter_autocast, _exit_autocast, autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = [
    "GradScaler",
    "_enter_autocast",
    "_exit_autocast",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "is_autocast_available",
]
