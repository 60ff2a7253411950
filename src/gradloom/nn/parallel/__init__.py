"""Data parallelism over processes, and over accelerators, of which there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradloom.nn.parallel.data_parallel import DataParallel as DataParallel, data_parallel as data_parallel
from gradloom.nn.parallel.scatter_gather import gather as gather, scatter as scatter
from gradloom.utils._refused import declare

if TYPE_CHECKING:
    from gradloom.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]

_refused = declare(
    __name__,
    {
        "": "parallel_apply replicate",
        "comm": "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter",
        "parallel_apply": "get_a_var parallel_apply",
        "replicate": "replicate",
    },
    "there are no accelerators to distribute modules and tensors to: use the module or tensor itself",
)
# Functions that have the names of their modules.
parallel_apply: Callable[..., list[Any]] = _refused("parallel_apply")
replicate: Callable[..., list[Any]] = _refused("replicate")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in ("DistributedDataParallel", "distributed"):  # stands on gradloom.distributed
            from importlib import import_module

            module = import_module(f"{__name__}.distributed")
            return module if name == "distributed" else module.DistributedDataParallel
        return _refused(name)
