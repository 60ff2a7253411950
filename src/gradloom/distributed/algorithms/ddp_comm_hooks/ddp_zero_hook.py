"""Hooks that let a ZeroRedundancyOptimizer step at the end of the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["hook_with_zero_step", "hook_with_zero_step_interleaved"]


def hook_with_zero_step(
    hook: Callable[[Any, Any], Any], ddp: Any, zero: Any, shard_buckets: bool = False
) -> Callable[[Any, Any], Any]:
    """Return a hook that reduces gradients by another one; when all are reduced, the optimizer steps.

    Args:
        hook: reduces the gradients of a bucket.
        ddp: the DistributedDataParallel that the hook is for.
        zero: a ZeroRedundancyOptimizer of its parameters, with `overlap_with_ddp=True`.
        shard_buckets: has no effect: parameters are distributed one by one.

    Raises:
        ValueError: if `zero` steps by itself.
    """
    if not zero._overlap_with_ddp:
        raise ValueError("hook_with_zero_step needs a ZeroRedundancyOptimizer with overlap_with_ddp=True")
    ddp.reducer.after_reduction = zero._step
    return hook


def hook_with_zero_step_interleaved(
    hook: Callable[[Any, Any], Any], ddp: Any, zero: Any, shard_buckets: bool = False
) -> Callable[[Any, Any], Any]:
    """As `hook_with_zero_step`."""
    return hook_with_zero_step(hook, ddp, zero, shard_buckets)
