"""The names of torch.distributed that programs import. gradloom runs in one process: `is_available()` is False, as in a
PyTorch that was built without it, and what would talk to other processes raises RuntimeError when it is used."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import Any, NoReturn

from ..utils._refused import declare

__all__ = [
    "ReduceOp",
    "default_pg_timeout",
    "get_backend",
    "get_rank",
    "get_world_size",
    "group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]

default_pg_timeout: timedelta = timedelta(minutes=30)


def is_available() -> bool:
    """Return False: there are no groups of processes."""
    return False


def is_initialized() -> bool:
    """Return False: there is no process group."""
    return False


def is_torchelastic_launched() -> bool:
    """Return False: nothing of torch.distributed starts processes."""
    return False


# No backend is built in.
is_nccl_available = is_gloo_available = is_mpi_available = is_ucc_available = is_xccl_available = is_available


def _without_group() -> NoReturn:
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def get_rank(group: Any = None) -> int:
    """Raise ValueError: there is no process group."""
    _without_group()


def get_world_size(group: Any = None) -> int:
    """Raise ValueError: there is no process group."""
    _without_group()


def get_backend(group: Any = None) -> str:
    """Raise ValueError: there is no process group."""
    _without_group()


class ReduceOp:
    """The ways to reduce tensors over processes, as constants: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR."""

    class RedOpType(Enum):
        SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType


class group:
    """The default process group, `WORLD`: None, since there is none."""

    WORLD: Any = None


_REASON = (
    "gradloom runs in one process and has no process groups. Ask torch.distributed.is_available() and "
    "is_initialized() first, and skip what several processes would share"
)
_COLLECTIVES = """
    all_gather all_gather_coalesced all_gather_into_tensor all_gather_object all_reduce all_reduce_coalesced all_to_all
    all_to_all_single barrier broadcast broadcast_object_list gather gather_object irecv isend monitored_barrier recv
    recv_object_list reduce reduce_scatter reduce_scatter_tensor scatter scatter_object_list send send_object_list
    """
_FSDP = """
    BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FlatParameter FullOptimStateDictConfig FullStateDictConfig
    FullyShardedDataParallel LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision MixedPrecisionPolicy
    OffloadPolicy OptimStateDictConfig OptimStateKeyType ShardedOptimStateDictConfig ShardedStateDictConfig
    ShardingStrategy StateDictConfig StateDictSettings StateDictType fully_shard register_fsdp_forward_method
    """
_PLACEMENTS = "DTensor Partial Placement Replicate Shard _StridedShard"
_PARALLEL = """
    ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput RowwiseParallel
    SequenceParallel loss_parallel parallelize_module
    """
_PLANNERS = "DefaultLoadPlanner DefaultSavePlanner LoadPlanner SavePlanner"

# By module, relative to this one.
_NAMES = {
    "": f"""
        {_COLLECTIVES} Backend DeviceMesh DistNetworkError DistributedError FileStore GradBucket GroupMember HashStore
        P2POp PrefixStore ProcessGroup ProcessGroupGloo ProcessGroupNCCL Store TCPStore Work batch_isend_irecv
        destroy_process_group get_global_rank get_group_rank get_process_group_ranks init_device_mesh init_process_group
        is_backend_available new_group new_subgroups split_group
        """,
    "_composable": "checkpoint fully_shard replicate",
    "_composable.fsdp": _FSDP,
    "_functional_collectives": """
        AsyncCollectiveTensor all_gather_tensor all_reduce all_to_all_single_autograd wait_tensor
        """,
    "_tensor": f"{_PLACEMENTS} distribute_module distribute_tensor",
    "algorithms": "",
    "algorithms._checkpoint": "",
    "algorithms._checkpoint.checkpoint_wrapper": """
        CheckpointImpl CheckpointWrapper apply_activation_checkpointing checkpoint_wrapper offload_wrapper
        """,
    "algorithms.ddp_comm_hooks": "default_hooks powerSGD_hook",
    "algorithms.ddp_comm_hooks.default_hooks": "allreduce_hook bf16_compress_hook fp16_compress_hook",
    "algorithms.ddp_comm_hooks.post_localSGD_hook": "PostLocalSGDState post_localSGD_hook",
    "algorithms.ddp_comm_hooks.powerSGD_hook": "PowerSGDState batched_powerSGD_hook powerSGD_hook",
    "algorithms.join": "Join JoinHook Joinable",
    "algorithms.model_averaging": "",
    "algorithms.model_averaging.averagers": "ModelAverager PeriodicModelAverager",
    "checkpoint": f"""
        {_PLANNERS} FileSystemReader FileSystemWriter async_save load load_state_dict save save_state_dict
        """,
    "checkpoint.default_planner": _PLANNERS,
    "checkpoint.format_utils": "_EmptyStateDictLoadPlanner dcp_to_torch_save torch_save_to_dcp",
    "checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "checkpoint.optimizer": "load_sharded_optimizer_state_dict",
    "checkpoint.state_dict": """
        StateDictOptions get_model_state_dict get_optimizer_state_dict get_state_dict set_model_state_dict
        set_optimizer_state_dict set_state_dict
        """,
    "checkpoint.state_dict_loader": "_load_state_dict load",
    "constants": "",
    "device_mesh": "DeviceMesh init_device_mesh",
    "distributed_c10d": f"{_COLLECTIVES} ProcessGroup Store _get_default_group",
    "elastic": "",
    "elastic.multiprocessing": "",
    "elastic.multiprocessing.errors": "",
    "fsdp": _FSDP,
    "fsdp.api": _FSDP,
    "fsdp.fully_sharded_data_parallel": _FSDP,
    "fsdp.sharded_grad_scaler": "ShardedGradScaler",
    "fsdp.wrap": """
        CustomPolicy ModuleWrapPolicy always_wrap_policy enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy
        transformer_auto_wrap_policy wrap
        """,
    "nn": "",
    "nn.functional": _COLLECTIVES,
    "optim": "DistributedOptimizer PostLocalSGDOptimizer ZeroRedundancyOptimizer",
    "pipelining": "PipelineStage Schedule1F1B ScheduleGPipe SplitPoint pipe_split pipeline",
    "rpc": "RRef init_rpc remote rpc_async rpc_sync shutdown",
    "run": "main run",
    "launcher": "",
    "launcher.api": "LaunchConfig elastic_launch",
    "tensor": f"{_PLACEMENTS} distribute_module distribute_tensor empty full ones rand randn zeros",
    "tensor._utils": "compute_local_shape_and_global_offset",
    "tensor.device_mesh": "DeviceMesh init_device_mesh",
    "tensor.experimental": "context_parallel local_map",
    "tensor.experimental._attention": "set_rotate_method",
    "tensor.parallel": _PARALLEL,
    "tensor.placement_types": _PLACEMENTS,
    "utils": "_sync_module_states",
}

__getattr__ = declare(__name__, _NAMES, _REASON)


def _give_away() -> None:
    """Put into submodules what they share with this module and means something without processes."""
    import sys

    sys.modules[f"{__name__}.constants"].default_pg_timeout = default_pg_timeout  # type: ignore[attr-defined]
    low_level: Any = sys.modules[f"{__name__}.distributed_c10d"]
    for name in (*__all__, "is_available"):
        setattr(low_level, name, globals()[name])
    # A decorator that reports the errors of workers: without workers, it leaves the function as it is.
    sys.modules[f"{__name__}.elastic.multiprocessing.errors"].record = lambda fn, *options: fn  # type: ignore[attr-defined]


_give_away()
