"""LRScheduler: what all schedulers share.

Most define `get_lr` by recursion on the present rates, so that several schedulers may act on one optimizer.
Rates are
then products of rounded factors: the closed form, where there is one, differs from them in the last digits.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from typing import Any

__all__ = ["LRScheduler"]


def set_rate(group: dict[str, Any], rate: Any) -> Any:
    """A group's new learning rate; one that is a tensor is changed in place, as others may hold it."""
    if isinstance(group["lr"], gl.Tensor):
        group["lr"].fill_(float(rate))
    else:
        group["lr"] = rate


def copied(rate: Any) -> Any:
    return rate.clone() if isinstance(rate, gl.Tensor) else rate


class LRScheduler:
    """Base class: a subclass defines `get_lr`, the list of the groups' rates for `self.last_epoch`.

    Args:
        optimizer: whose rates are set; TypeError for anything else.
        last_epoch: the epoch to resume after; -1 begins anew and notes the present rates as `initial_lr`.
            Otherwise the groups must have that entry: KeyError.
    """

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
        """Set the rates of the first epoch, for which a scheduler may go another way."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float]:
        """The rates last set, one per group."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """The rates for `last_epoch`, one per group."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Go on by one epoch (or, deprecated, to `epoch`) and set the rates.

        To be called after optimizer.step().
        """
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call them in "
                "the "
                "opposite order: `optimizer.step()` before `lr_scheduler.step()`. Failure to do this will "
                "result "
                "in skipping the first value of the learning rate schedule.",
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(
                "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
                "possible. Please use `scheduler.step()` to step the scheduler.",
                stacklevel=2,
            )
        self._go_to(self.last_epoch + 1 if epoch is None else epoch, closed=epoch is not None)

    def _go_to(self, epoch, closed=False):
        self.last_epoch = epoch
        rates = self._get_closed_form_lr() if closed and hasattr(self, "_get_closed_form_lr") else self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = [copied(group["lr"]) for group in self.optimizer.param_groups]

    def _rates(self):
        return [copied(group["lr"]) for group in self.optimizer.param_groups]


def require_optimizer(optimizer: object) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def one_per_group(optimizer: Optimizer, functions: Any, what: str) -> Any:
    count = len(optimizer.param_groups)
    if not isinstance(functions, (list, tuple)):
        return [functions] * count
    if len(functions) != count:
        raise ValueError(f"Expected {count} {what}, but got {len(functions)}")
    return list(functions)
