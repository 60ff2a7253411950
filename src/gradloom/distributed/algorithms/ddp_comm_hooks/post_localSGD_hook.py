"""Local SGD: average gradients over all ranks at first, later only over a subgroup, or not at all."""

from __future__ import annotations

from typing import Any

from ... import distributed_c10d as dist
from . import default_hooks as default
from .debugging_hooks import noop_hook

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """State of `post_localSGD_hook`.

    Args:
        process_group: over which to average at first; None for the default group.
        subgroup: over which to average later; by default, the ranks of this machine.
        start_localSGD_iter: number of the iteration with which local steps begin.
        post_local_gradient_allreduce: average over `subgroup` then; else gradients stay local.
    """

    def __init__(
        self, process_group: Any, subgroup: Any, start_localSGD_iter: int, post_local_gradient_allreduce: bool = True
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count an iteration at its last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> Any:
    """Average gradients as `state` says. A model averager must average parameters now and then."""
    local = state.iter >= state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if not local:
        return default.allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        return noop_hook(None, bucket)
    if state.subgroup is None:
        state.subgroup, _ = dist.new_subgroups()
    return default.allreduce_hook(state.subgroup, bucket)
