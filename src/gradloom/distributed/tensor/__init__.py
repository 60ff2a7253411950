"""torch.distributed.tensor: tensors of which each process of a mesh has a part."""

from __future__ import annotations

from ...utils._refused import declare
from ..device_mesh import DeviceMesh as DeviceMesh
from ._dtensor import DTensor as DTensor, distribute_module as distribute_module, distribute_tensor as distribute_tensor
from ._factories import (
    empty as empty,
    full as full,
    linspace as linspace,
    logspace as logspace,
    ones as ones,
    rand as rand,
    randn as randn,
    zeros as zeros,
)
from .placement_types import (
    Partial as Partial,
    Placement as Placement,
    Replicate as Replicate,
    Shard as Shard,
    _StridedShard as _StridedShard,
)

__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randn",
    "zeros",
]

__getattr__ = declare(
    __name__,
    {"debug": "CommDebugMode visualize_sharding"},
    "gradloom has nothing of this kind yet; docs/distributed.md lists what there is",
)
