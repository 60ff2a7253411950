"""Optimizers for several processes."""

from __future__ import annotations

from ...utils._refused import declare
from .post_localSGD_optimizer import PostLocalSGDOptimizer as PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]

__getattr__ = declare(
    __name__,
    {"": "DistributedOptimizer as_functional_optim"},
    "use ZeroRedundancyOptimizer, or an optimizer of torch.optim with DistributedDataParallel",
)
