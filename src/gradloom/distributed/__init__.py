"""torch.distributed: programs that run as several processes, on one machine or more.

    torch.distributed.init_process_group()
    torch.distributed.all_reduce(tensor)

`gradloom torchrun --nproc-per-node=4 train.py`, mpiexec or multiprocessing starts the processes. What the calls stand
on is imported when the first of them is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..utils._refused import declare
from .errors import (
    DistBackendError as DistBackendError,
    DistError as DistError,
    DistNetworkError as DistNetworkError,
    DistStoreError as DistStoreError,
    QueueEmptyError as QueueEmptyError,
    default_pg_timeout as default_pg_timeout,
)

if TYPE_CHECKING:
    from .distributed_c10d import *  # noqa: F403

__all__ = ["is_available"]


def is_available() -> bool:
    """Return True: processes can be connected."""
    return True


_REASON = "gradloom has nothing of this kind yet; docs/distributed.md lists what there is"
# What programs import, and gradloom refuses on use, by module; but `_GIVEN` says where it has some of these names.
# fsdp, checkpoint and optim declare their own.
_FSDP = "CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy fully_shard register_fsdp_forward_method"
_PLACEMENTS = "Partial Placement Replicate Shard _StridedShard"
_TENSOR = f"{_PLACEMENTS} DTensor distribute_module distribute_tensor"

_NAMES = {
    "": "Logger ProcessGroupNCCL Reducer",
    "_composable": "checkpoint fully_shard replicate",
    "_composable.fsdp": _FSDP,
    "_tensor": _TENSOR,
    "_tensor.api": _TENSOR,
    "_tensor.placement_types": _PLACEMENTS,
    "_tensor.device_mesh": "DeviceMesh init_device_mesh",
    "_tensor.experimental": "implicit_replication local_map",
    "algorithms._checkpoint": "",
    "algorithms._checkpoint.checkpoint_wrapper": """
        CheckpointImpl CheckpointWrapper apply_activation_checkpointing checkpoint_wrapper offload_wrapper
        """,
    "algorithms.model_averaging.hierarchical_model_averager": "HierarchicalModelAverager",
    "pipelining": "PipelineStage Schedule1F1B ScheduleGPipe SplitPoint pipe_split pipeline",
    "pipelining.microbatch": "*",
    "pipelining.schedules": "*",
    "pipelining.stage": "*",
    "launcher": "",
    "launcher.api": "LaunchConfig elastic_launch",
    "utils": "_sync_module_states",
}

_GIVEN = {
    **dict.fromkeys(_FSDP.split(), ".fsdp"),
    **dict.fromkeys(_PLACEMENTS.split(), ".tensor.placement_types"),
    **dict.fromkeys("DTensor distribute_module distribute_tensor".split(), ".tensor"),
    **dict.fromkeys("implicit_replication local_map".split(), ".tensor.experimental"),
    **dict.fromkeys("DeviceMesh init_device_mesh".split(), ".device_mesh"),
}
_refused = declare(__name__, _NAMES, _REASON, _GIVEN)
_MODULES = frozenset(
    """
    device_mesh distributed_c10d nn rendezvous run launch _functional_collectives constants utils algorithms elastic
    optim fsdp checkpoint tensor collective_utils rpc autograd argparse_util
    """.split()
)


def _loaded() -> Any:
    """Load what the calls stand on, and take its names over."""
    module = import_module(".distributed_c10d", __name__)
    for name, value in vars(module).items():
        if not name.startswith("__"):
            globals().setdefault(name, value)
    return module


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        if name in ("DeviceMesh", "init_device_mesh"):
            return getattr(import_module(".device_mesh", __name__), name)
        if name == "GradBucket":
            return import_module("._buckets", __name__).GradBucket
        if not name.startswith("__"):
            module = vars(_loaded())
            if name in module and name != "__getattr__":
                return module[name]
        return _refused(name)

    def __dir__() -> list[str]:
        _loaded()
        return sorted(globals())
