"""LRScheduler, the base class of schedulers.

Most schedulers compute a rate from the current one, so that several may act on one optimizer. Rates are then products
of rounded factors; the closed form, where there is one, differs from them in the last digits.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom.optim.optimizer import Optimizer

__all__ = ["LRScheduler"]

_HOW_TO_ADJUST = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def warn_of_epoch() -> None:
    """Warn that the `epoch` argument of `step` is deprecated, at the caller of the caller."""
    warnings.warn(
        "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please "
        "use `scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the "
        "closed form is used instead of the new chainable form, where available. Please open an issue if you are "
        "unable to replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose.",
        stacklevel=3,
    )


def for_step(get_lr: Callable[[Any], list[float]]) -> Callable[[Any], list[float]]:
    """Return `get_lr` wrapped so that a call outside of `step` warns: it computes the next rates, not the present."""

    @functools.wraps(get_lr)
    def wrapper(self: Any) -> list[float]:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", stacklevel=2
            )
        return get_lr(self)

    return wrapper


def set_rate(group: dict[str, Any], rate: Any) -> Any:
    """Set a group's learning rate; a tensor is changed in place, as others may hold it.

    Args:
        group: parameter group.
        rate: new learning rate.
    """
    if isinstance(group["lr"], gl.Tensor):
        group["lr"].fill_(float(rate))
    else:
        group["lr"] = rate


def copied(rate: Any) -> Any:
    return rate.clone() if isinstance(rate, gl.Tensor) else rate


class LRScheduler:
    """Base class of schedulers. A subclass defines `get_lr`.

    Args:
        optimizer: optimizer whose learning rates are set.
        last_epoch: epoch after which to resume; -1 starts anew and stores the current rates as `initial_lr`.

    Raises:
        TypeError: if `optimizer` is not an Optimizer.
        KeyError: when resuming, if a group has no `initial_lr`.
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in "
                    f"param_groups[{number}] when resuming scheduler with last_epoch >= 0."
                )
        self.base_lrs: list[Any] = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch: int = last_epoch
        self._initial_step()

    def _initial_step(self):
        """Set the rates of the first epoch; `_is_initial` lets a scheduler treat it differently."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes except the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float]:
        """Return the rates that were set last, one per group."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """Return the rates for `last_epoch`, one per group."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Advance by one epoch and set the rates; call it after optimizer.step().

        Args:
            epoch: deprecated: epoch to go to.
        """
        if self._step_count == 1 and not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. " + _HOW_TO_ADJUST,
                stacklevel=2,
            )
        elif self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure "
                "to do this will result in PyTorch skipping the first value of the learning rate schedule. "
                + _HOW_TO_ADJUST,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        """Set the rates of `epoch`, in closed form where there is one, or of the next epoch."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self._set_rates(self.get_lr if closed is None else closed)

    def _set_rates(self, compute):
        self._get_lr_called_within_step = True
        try:
            rates = compute()
        finally:
            self._get_lr_called_within_step = False
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = [copied(group["lr"]) for group in self.optimizer.param_groups]

    def _rates(self):
        return [copied(group["lr"]) for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The base class by its old name."""


def require_optimizer(optimizer: object) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def is_function(value: object) -> bool:
    """Return whether `value` has no attributes that a state would keep: a function, or None."""
    return value is None or type(value).__name__ in ("function", "builtin_function_or_method")


def one_per_group(optimizer: Optimizer, functions: Any, what: str) -> Any:
    count = len(optimizer.param_groups)
    if not isinstance(functions, (list, tuple)):
        return [functions] * count
    if len(functions) != count:
        raise ValueError(
            f"{what} must have the same length as optimizer.param_groups. {what} has {len(functions)} values, "
            f"param_groups has {count}."
        )
    return list(functions)
