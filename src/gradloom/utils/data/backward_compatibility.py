"""The deprecated sharding of a pipe in a worker."""

from __future__ import annotations

import warnings

__all__ = ["worker_init_fn"]


def worker_init_fn(worker_id: int) -> None:
    """Do nothing but warn: DataLoader shards pipes itself."""
    warnings.warn(
        "Usage of backward_compatibility.worker_init_fn is deprecated as DataLoader automatically applies sharding in "
        "every worker",
        FutureWarning,
        stacklevel=2,
    )
