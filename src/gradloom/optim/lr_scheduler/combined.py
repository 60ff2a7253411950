"""Schedulers made of other schedulers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from gradloom.optim.lr_scheduler.base import LRScheduler, copied, set_rate
from gradloom.optim.lr_scheduler.plateau import ReduceLROnPlateau
from gradloom.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class SequentialLR(LRScheduler):
    """Run schedulers one after the other.

    Args:
        optimizer: optimizer whose learning rates are set.
        schedulers: schedulers in their order.
        milestones: increasing epochs at which the next scheduler takes over; one fewer than schedulers.

    Raises:
        TypeError: for a scheduler without an optimizer.
        ValueError: for another number of milestones, a scheduler of another optimizer, or `ReduceLROnPlateau`.
    """

    last_epoch: int

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        _require_same_optimizer(type(self).__name__, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones "
                f"to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each scheduler took its first step in its constructor: undo them, and repeat the first scheduler's.
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Take back the first step of `sched`, or of all schedulers that are run here, however nested."""
        outer = self if sched is None else sched
        if hasattr(outer, "_schedulers"):
            for inner in outer._schedulers:
                self.recursive_undo(inner)
        elif hasattr(outer, "last_epoch"):
            outer.last_epoch -= 1

    def step(self) -> None:
        """Advance the active scheduler by one epoch."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes except the optimizer, with the states of the schedulers."""
        return _state_of_many(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        _load_many(self, state_dict)


class ChainedScheduler(LRScheduler):
    """Run several schedulers at every step; their factors multiply.

    Args:
        schedulers: schedulers of one optimizer, in the order in which they act.
        optimizer: their optimizer; by default that of the first.

    Raises:
        TypeError: for a scheduler without an optimizer.
        ValueError: for no scheduler, a scheduler of another optimizer, or `ReduceLROnPlateau`.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        _require_same_optimizer(type(self).__name__, schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = [copied(group["lr"]) for group in optimizer.param_groups]

    def step(self) -> None:
        """Step all schedulers, in order."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes except the optimizer, with the states of the schedulers."""
        return _state_of_many(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        _load_many(self, state_dict)


def _require_same_optimizer(name, schedulers, optimizer):
    for number, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {number} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                f"specified when calling `step`, but got one at index {number} in the given schedulers sequence."
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {number} has {scheduler.optimizer}, which is different from "
                f"{type(optimizer).__name__}."
            )


def _state_of_many(scheduler):
    state = {key: value for key, value in scheduler.__dict__.items() if key not in ("optimizer", "_schedulers")}
    state["_schedulers"] = [inner.state_dict() for inner in scheduler._schedulers]
    return state


def _load_many(scheduler, state):
    state = dict(state)
    for inner, inner_state in zip(scheduler._schedulers, state.pop("_schedulers"), strict=True):
        inner.load_state_dict(inner_state)
    scheduler.__dict__.update(state)
