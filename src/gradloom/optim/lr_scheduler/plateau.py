"""ReduceLROnPlateau, which follows a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from gradloom import Tensor
from gradloom.optim.lr_scheduler.base import LRScheduler, require_optimizer, set_rate, warn_of_epoch
from gradloom.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Multiply rates by `factor` if a metric has not improved for more than `patience` epochs.

    Args:
        optimizer: optimizer whose learning rates are set.
        mode: "min" if lower is better, "max" if higher is.
        factor: factor of a reduction, below 1.
        patience: epochs without improvement to wait.
        threshold: smallest change that counts as an improvement.
        threshold_mode: whether `threshold` is relative ("rel") to the best metric or absolute ("abs").
        cooldown: epochs to wait after a reduction.
        min_lr: lower bound of the rates, one number or one per group.
        eps: smallest change of a rate that is applied.

    Raises:
        ValueError: for a factor of 1 or more, or an unknown mode.
    """

    best: float
    cooldown_counter: int
    num_bad_epochs: int

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        require_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.optimizer = optimizer
        self.factor = factor
        self.default_min_lr: float | None = None
        self.min_lrs: list[float] = []
        if isinstance(min_lr, (list, tuple)):
            self.min_lrs = list(min_lr)
            if len(min_lr) != len(optimizer.param_groups):
                raise ValueError(f"expected {len(optimizer.param_groups)} min_lrs, got {len(min_lr)}")
        else:
            self.default_min_lr = cast("float", min_lr)
            self.min_lrs = [self.default_min_lr] * len(optimizer.param_groups)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._rates()
        self.mode = mode
        self.mode_worse: float = math.inf if mode == "min" else -math.inf
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self):
        """Discard the best metric and the counts."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: float | Tensor, epoch: int | None = None) -> None:
        """Record an epoch's metric, and reduce the rates if due.

        Args:
            metrics: metric as a number or a one-element tensor.
            epoch: deprecated: number of the epoch.
        """
        current = float(metrics)
        if epoch is not None:
            warn_of_epoch()
        self.last_epoch: int = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()

    def _reduce_lr(self):
        groups = len(self.optimizer.param_groups)
        if groups != len(self.min_lrs) and self.default_min_lr is None:
            raise RuntimeError(
                f"The number of param groups in the `optimizer` ({groups}) differs from when `ReduceLROnPlateau` was "
                f"initialized ({len(self.min_lrs)}), usually due to a new param group being added to the optimizer. "
                "Please modify the `min_lrs` field to match the length of the `optimizer` param groups."
            )
        if groups != len(self.min_lrs):
            self.min_lrs = [self.default_min_lr] * groups
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            present = float(group["lr"])
            reduced = max(present * self.factor, least)
            if present - reduced > self.eps:
                set_rate(group, reduced)

    @property
    def in_cooldown(self) -> bool:
        """Return whether a reduction is too recent for another."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Return whether `a` improves on `best` by the threshold."""
        step = self.threshold * best if self.threshold_mode == "rel" else self.threshold
        if best in (math.inf, -math.inf):
            step = 0
        return a < best - step if self.mode == "min" else a > best + step
