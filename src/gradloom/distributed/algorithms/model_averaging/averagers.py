"""Average the parameters of ranks every few steps.

Lin, Stich, Patel and Jaggi, "Don't Use Large Mini-Batches, Use Local SGD", 2018.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

from ... import distributed_c10d as dist
from .utils import average_parameters_or_parameter_groups

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Base of what averages parameters.

    Args:
        process_group: the ranks; the default group if None.

    Attributes:
        step: how often `average_parameters` was called.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = dist._group_or_default_group(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Any) -> None:
        """Average parameters, or parameter groups of an optimizer, if it is time."""


class PeriodicModelAverager(ModelAverager):
    """Average parameters every `period` steps after the first ones.

    Args:
        period: number of steps.
        warmup_steps: number of first steps, in which nothing is averaged.
        process_group: the ranks; the default group if None.

    Raises:
        ValueError: for a negative number of first steps, or a period below 1.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(
                "A period of 1 averages as often as DistributedDataParallel reduces gradients: that costs as much, and "
                "is useful only during its first steps",
                stacklevel=2,
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Any) -> None:
        """Average parameters, or parameter groups of an optimizer, if the period is over."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
