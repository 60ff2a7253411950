"""Join: train on ranks that have different numbers of inputs.

Inside the context, every iteration of a rank that has inputs begins with an all-reduce that counts such ranks. A rank
whose inputs are exhausted leaves the body, and from then on matches the collectives of the others (by the join hooks of
the objects that communicate) until the count is zero.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from ...core.tensor import wrap
from .. import distributed_c10d as dist

__all__ = ["Join", "JoinHook", "Joinable"]

_MANY = 1000  # iterations without inputs after which a rank warns


class JoinHook:
    """What an object does on a rank without inputs. Derived classes define the methods."""

    def main_hook(self) -> None:
        """Match the collectives of one iteration of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Do what remains when no rank has inputs any more.

        Args:
            is_last_joiner: whether this rank was among the last that had inputs.
        """


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config() -> _JoinConfig:
        return _JoinConfig(False, False, False)


class Joinable(ABC):
    """An object that communicates in every iteration, and can do so without inputs."""

    @abstractmethod
    def __init__(self) -> None:
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook for a rank without inputs; takes the options that Join was given."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Return the device of the tensors by which ranks are counted."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """Return the process group in which ranks are counted."""


class Join:
    """Context in which ranks may have different numbers of inputs.

    Args:
        joinables: the objects that communicate, in the order in which they do in an iteration. The first of them calls
            `Join.notify_join_context` once in each iteration.
        enable: False makes the context do nothing.
        throw_on_early_termination: raise RuntimeError on all ranks as soon as one has no more inputs.
        kwargs: passed to `join_hook` of all joinables.
    """

    def __init__(
        self, joinables: list[Any], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable, self._throws = joinables, enable, throw_on_early_termination
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        for number, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, number == 0)
        groups = {id(joinable.join_process_group): joinable.join_process_group for joinable in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._process_group = next(iter(groups.values()))
        self._rank = dist.get_rank(self._process_group)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if self._enable and kind is None:
            self._match_others()
        for joinable in self._joinables:
            joinable._join_config = _JoinConfig.construct_disabled_join_config()

    def _match_others(self) -> None:
        iterations = 0
        while self._ranks_with_inputs():
            if self._throws:
                _reduced(1, self._process_group)
                raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")
            if iterations == _MANY:
                warnings.warn(
                    f"Detected uneven input skew of greater than {_MANY}: rank {self._rank} has at least {_MANY} fewer "
                    "inputs than other currently-active ranks. Distribute the inputs more evenly.",
                    stacklevel=3,
                )
            for hook in self._join_hooks:
                hook.main_hook()
            iterations += 1
        for hook in self._join_hooks:
            hook.post_hook(is_last_joiner=not iterations)

    def _ranks_with_inputs(self) -> int:
        return _reduced(0, self._process_group)

    @staticmethod
    def notify_join_context(joinable: Any) -> Any:
        """Tell ranks without inputs that this one begins an iteration.

        Args:
            joinable: who calls this, before its other collectives of the iteration.

        Returns:
            the work whose result is the number of ranks with inputs; None for other than the first joinable, or
            outside of a context.

        Raises:
            RuntimeError: with `throw_on_early_termination`, if a rank has no more inputs.
        """
        config = getattr(joinable, "_join_config", None)
        if config is None:
            raise AttributeError(
                f"Check that the {type(joinable).__name__} constructor calls the ``Joinable`` constructor"
            )
        if not config.is_first_joinable or not config.enable:
            return None
        group = joinable.join_process_group
        count = wrap(np.ones(1, np.float32))
        work = dist.all_reduce(count, group=group, async_op=True)
        if config.throw_on_early_termination:
            work.wait()
            if count.item() < group.size() and _reduced(0, group):
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return work


def _reduced(value: int, group: Any) -> int:
    """Return the sum of a number over all ranks."""
    total = wrap(np.array([value], np.float32))
    dist.all_reduce(total, group=group)
    return int(total.item())
