"""Communication hooks for DistributedDataParallel.register_comm_hook."""

from __future__ import annotations

from enum import Enum
from typing import Any

from . import (
    debugging_hooks as debugging,
    default_hooks as default,
    post_localSGD_hook as post_localSGD,
    powerSGD_hook as powerSGD,
)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(Enum):
    """The hooks by name."""

    ALLREDUCE = "allreduce"
    FP16_COMPRESS = "fp16_compress"
    BF16_COMPRESS = "bf16_compress"
    POWER_SGD = "power_sgd"
    POWER_SGD_RANK2 = "power_sgd_rank2"
    BATCHED_POWER_SGD = "batched_power_sgd"
    BATCHED_POWER_SGD_RANK2 = "batched_power_sgd_rank2"
    NOOP = "noop"


_HOOKS: dict[DDPCommHookType, Any] = {
    DDPCommHookType.ALLREDUCE: default.allreduce_hook,
    DDPCommHookType.FP16_COMPRESS: default.fp16_compress_hook,
    DDPCommHookType.BF16_COMPRESS: default.bf16_compress_hook,
    DDPCommHookType.POWER_SGD: powerSGD.powerSGD_hook,
    DDPCommHookType.POWER_SGD_RANK2: powerSGD.powerSGD_hook,
    DDPCommHookType.BATCHED_POWER_SGD: powerSGD.batched_powerSGD_hook,
    DDPCommHookType.BATCHED_POWER_SGD_RANK2: powerSGD.batched_powerSGD_hook,
    DDPCommHookType.NOOP: debugging.noop_hook,
}


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register one of the hooks; for PowerSGD, `state` is the process group, and ranks of 1 or 2 are by name."""
    if "POWER_SGD" in comm_hook_type.name:
        rank = 2 if comm_hook_type.name.endswith("RANK2") else 1
        state = powerSGD.PowerSGDState(state, matrix_approximation_rank=rank)
    model.register_comm_hook(state, _HOOKS[comm_hook_type])
