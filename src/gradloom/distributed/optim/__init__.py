"""Optimizers for several processes."""

from __future__ import annotations

from ...utils._refused import declare
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]

__getattr__ = declare(
    __name__,
    {"": "DistributedOptimizer PostLocalSGDOptimizer"},
    "use ZeroRedundancyOptimizer, or an optimizer of torch.optim with DistributedDataParallel",
)
