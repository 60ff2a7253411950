"""Data parallelism over accelerators, of which there are none."""

from __future__ import annotations

from gradloom.nn.parallel.data_parallel import DataParallel as DataParallel
from gradloom.utils._refused import declare

__all__ = ["DataParallel"]

__getattr__ = declare(
    __name__,
    {
        "": "DistributedDataParallel gather scatter",
        "distributed": "DistributedDataParallel",
        "scatter_gather": "gather scatter scatter_kwargs",
    },
    "gradloom runs in one process: use the module itself",
)
