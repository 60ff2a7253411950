"""Schedulers that raise and lower rates in cycles; some move momentum the opposite way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gradloom.optim.lr_scheduler.base import (
    LRScheduler,
    for_step,
    is_function,
    one_per_group,
    require_optimizer,
    set_rate,
)
from gradloom.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


def _cosine(start, end, done):
    """Interpolate from start (done = 0) to end (done = 1) along half a cosine."""
    return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)


def _linear(start, end, done):
    return (end - start) * done + start


def _set_momentum(group, value):
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _require_momentum(optimizer):
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")


class CyclicLR(LRScheduler):
    """Cycle rates between `base_lr` and `max_lr` in triangles (Smith 2017).

    Args:
        optimizer: optimizer whose learning rates are set.
        base_lr, max_lr: bounds, one number or one per group.
        step_size_up, step_size_down: steps of a cycle's rising and falling half; the second defaults to the first.
        mode: amplitude of the cycles: "triangular" is constant, "triangular2" halves at each cycle, "exp_range" is
            gamma ** steps.
        gamma: base of "exp_range".
        scale_fn: amplitude as a function, instead of `mode`.
        scale_mode: argument of `scale_fn`, the number of the "cycle" or of "iterations".
        cycle_momentum: move momentum between `max_momentum` and `base_momentum`, opposite to the rate.

    Raises:
        ValueError: for an unknown mode without `scale_fn`, or an optimizer without momentum and `cycle_momentum`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = one_per_group(optimizer, base_lr, "base_lr")
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_rate(group, rate)
        self.max_lrs: list[float] = one_per_group(optimizer, max_lr, "max_lr")
        step_size_down = step_size_up if step_size_down is None else step_size_down
        self.total_size: float = float(step_size_up) + float(step_size_down)
        self.step_ratio: float = float(step_size_up) / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode: str = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _require_momentum(optimizer)
            self.use_beta1: bool = "betas" in optimizer.defaults
            self.base_momentums: list[float] = one_per_group(optimizer, base_momentum, "base_momentum")
            self.max_momentums: list[float] = one_per_group(optimizer, max_momentum, "max_momentum")
            if last_epoch == -1:
                bounds = zip(self.base_momentums, self.max_momentums, optimizer.param_groups, strict=True)
                for low, high, group in bounds:
                    _set_momentum(group, high)
                    group["base_momentum"], group["max_momentum"] = low, high
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        """Set the amplitude of the mode; its name is PyTorch's, so that each library reads the other's pickles."""
        if self._scale_fn_custom is None:
            self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"
            functions: dict[str, Callable[[float], float]] = {
                "triangular": CyclicLR._triangular_scale_fn,
                "triangular2": CyclicLR._triangular2_scale_fn,
                "exp_range": partial(CyclicLR._exp_range_scale_fn, self.gamma),
            }
            self._scale_fn_ref = functions[self.mode]

    def scale_fn(self, x: float) -> float:
        """Return the amplitude of cycle `x`, or after `x` iterations."""
        return self._scale_fn_ref(x) if self._scale_fn_custom is None else self._scale_fn_custom(x)

    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return float(gamma**x)

    @for_step
    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        up = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True)
            for low, high, group in bounds:
                _set_momentum(group, high - (high - low) * up * height)
        return [base + (top - base) * up * height for base, top in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes except the optimizer and a function of the user; of a callable object, its own."""
        custom, state = self._scale_fn_custom, super().state_dict()
        state.pop("_scale_fn_ref", None)  # the mode names it
        return state | {"_scale_fn_custom": None if is_function(custom) else custom.__dict__.copy()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        state = dict(state_dict)
        attributes = state.pop("_scale_fn_custom")
        if attributes is not None:
            self._scale_fn_custom.__dict__.update(attributes)
        super().load_state_dict(state)
        self._init_scale_fn()


class OneCycleLR(LRScheduler):
    """Raise rates once to `max_lr`, then let them fall far below the first (Smith and Topin 2019).

    Args:
        optimizer: optimizer whose learning rates are set.
        max_lr: peak, one number or one per group.
        total_steps: length of the cycle, or `epochs` times `steps_per_epoch`.
        pct_start: fraction of the cycle in which rates rise.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: move momentum between `max_momentum` and `base_momentum`, opposite to the rate.
        div_factor: initial_lr = max_lr / div_factor.
        final_div_factor: the last rate is initial_lr / final_div_factor.
        three_phase: fall to initial_lr in as many steps as the rise took, then to the last rate.

    Raises:
        ValueError: without a length, or for an option outside its range; when stepped beyond the end.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps: int = _total_steps(total_steps, epochs, steps_per_epoch)
        if not 0 <= pct_start <= 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if last_epoch == -1:
            tops = one_per_group(optimizer, max_lr, "max_lr")
            for top, group in zip(tops, optimizer.param_groups, strict=True):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _require_momentum(optimizer)
            self.use_beta1: bool = "betas" in optimizer.defaults
            if last_epoch == -1:
                lows = one_per_group(optimizer, base_momentum, "base_momentum")
                highs = one_per_group(optimizer, max_momentum, "max_momentum")
                for low, high, group in zip(lows, highs, optimizer.param_groups, strict=True):
                    _set_momentum(group, high)
                    group["base_momentum"], group["max_momentum"] = low, high
        super().__init__(optimizer, last_epoch)

    @for_step
    def get_lr(self) -> list[float]:
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}"
            )
        begin = 0
        for phase in self._schedule_phases:
            if self.last_epoch <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            begin = phase["end_step"]
        done = (self.last_epoch - begin) / (phase["end_step"] - begin)
        anneal = _cosine if self._anneal_func_type == "cos" else _linear
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(anneal(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                _set_momentum(group, anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], done))
        return rates


def _total_steps(total_steps, epochs, steps_per_epoch):
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    given = {"total_steps": total_steps} if total_steps is not None else {}
    if total_steps is None:
        given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    steps = 1
    for name, value in given.items():
        if value <= 0 or not isinstance(value, int):
            raise ValueError(f"Expected positive integer {name}, but got {value}")
        steps *= value
    return steps


def _phases(total_steps, pct_start, three_phase):
    """Return the end of each phase, and the group entries between which rate and momentum move."""
    up = float(pct_start * total_steps) - 1
    ends = [(up, "initial_lr", "max_lr", True), (total_steps - 1, "max_lr", "min_lr", False)]
    if three_phase:
        down = float(2 * pct_start * total_steps) - 2
        ends[1:] = [(down, "max_lr", "initial_lr", False), (total_steps - 1, "initial_lr", "min_lr", None)]
    momenta = {
        True: ("max_momentum", "base_momentum"),
        False: ("base_momentum", "max_momentum"),
        None: ("max_momentum", "max_momentum"),
    }
    return [
        {
            "end_step": end,
            "start_lr": start,
            "end_lr": stop,
            "start_momentum": momenta[rising][0],
            "end_momentum": momenta[rising][1],
        }
        for end, start, stop, rising in ends
    ]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Repeat half a cosine from initial_lr to `eta_min` (Loshchilov and Hutter 2017).

    lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2, T_cur epochs after the last restart.

    Args:
        optimizer: optimizer whose learning rates are set.
        T_0: epochs until the first restart, the first T_i.
        T_mult: factor of T_i at each restart.
        eta_min: smallest rate.

    Raises:
        ValueError: unless T_0 and T_mult are positive integers.
    """

    T_i: int
    T_cur: int

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    @for_step
    def get_lr(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advance by one epoch, or to `epoch`, which may be fractional.

        Raises:
            ValueError: for a negative epoch.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._place(epoch)
        self.last_epoch = math.floor(epoch)
        self._set_rates(self.get_lr)

    def _place(self, epoch):
        """Set the period of `epoch` and the position within it."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
        else:
            period = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            begin = self.T_0 * (self.T_mult**period - 1) / (self.T_mult - 1)
            self.T_i, self.T_cur = self.T_0 * self.T_mult**period, epoch - begin
