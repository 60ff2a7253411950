"""fully_shard: modules whose parameters, gradients and optimizer states are distributed over ranks."""

from __future__ import annotations

from ...utils._refused import declare
from ._fully_shard import (
    CPUOffloadPolicy as CPUOffloadPolicy,
    FSDPModule as FSDPModule,
    GradientReductionHandle as GradientReductionHandle,
    MixedPrecisionPolicy as MixedPrecisionPolicy,
    OffloadPolicy as OffloadPolicy,
    UnshardHandle as UnshardHandle,
    fully_shard as fully_shard,
    register_fsdp_forward_method as register_fsdp_forward_method,
)

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "GradientReductionHandle",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
]

_FIRST = """
    BackwardPrefetch CPUOffload FlatParameter FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel
    LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision OptimStateDictConfig OptimStateKeyType
    ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings StateDictType
    """
__getattr__ = declare(
    __name__,
    {
        "": _FIRST,
        "api": _FIRST,
        "fully_sharded_data_parallel": _FIRST,
        "sharded_grad_scaler": "ShardedGradScaler",
        "wrap": """
            CustomPolicy ModuleWrapPolicy always_wrap_policy enable_wrap lambda_auto_wrap_policy
            size_based_auto_wrap_policy transformer_auto_wrap_policy wrap
            """,
    },
    "use fully_shard of torch.distributed.fsdp, which replaces FullyShardedDataParallel",
)
