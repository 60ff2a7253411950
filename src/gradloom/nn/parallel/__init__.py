"""Data parallelism over processes, and over accelerators, of which there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradloom.nn.parallel.data_parallel import DataParallel as DataParallel
from gradloom.utils._refused import declare

if TYPE_CHECKING:
    from gradloom.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]

_refused = declare(
    __name__,
    {"": "gather scatter", "scatter_gather": "gather scatter scatter_kwargs"},
    "there are no accelerators to distribute tensors to: use the tensor itself",
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in ("DistributedDataParallel", "distributed"):  # stands on gradloom.distributed
            from importlib import import_module

            module = import_module(f"{__name__}.distributed")
            return module if name == "distributed" else module.DistributedDataParallel
        return _refused(name)
