"""A step that keeps one process's share of the examples."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from math import prod
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from .utils import length

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):
    """Kinds of shares. Those of DISTRIBUTED are divided again by MULTIPROCESSING; DEFAULT stands alone."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(IterDataPipe[Any]):
    """Base of pipes that are shared among processes."""

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: SHARDING_PRIORITIES) -> None:
        raise NotImplementedError


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Yield every n-th example, for n processes (functional name: sharding_filter).

    DataLoader calls `apply_sharding`; before, all examples are yielded.

    Args:
        source_datapipe: the source.
        sharding_group_filter: the only SHARDING_PRIORITIES that counts, or None for all.
    """

    def __init__(self, source_datapipe: IterDataPipe[Any], sharding_group_filter: Any = None) -> None:
        super().__init__()
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self._combine()

    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: Any = SHARDING_PRIORITIES.DEFAULT
    ) -> None:
        """Choose the share.

        Args:
            num_of_instances: number of shares.
            instance_id: which one it is, from 0.
            sharding_group: the kind of shares.

        Raises:
            ValueError: if there is no such share.
            RuntimeError: for DEFAULT besides another kind.
        """
        kinds = {
            sharding_group == SHARDING_PRIORITIES.DEFAULT,
            *(g == SHARDING_PRIORITIES.DEFAULT for g in self.groups),
        }
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        if len(kinds) == 2:
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = num_of_instances, instance_id
        self._combine()

    def _combine(self) -> None:
        """Make one number of processes, and one index, of those of all kinds: those of the first kind vary slowest."""
        wanted = [g for g in sorted(self.groups) if self.sharding_group_filter in (None, g)]
        counts, indices = zip(*[self.groups[g] for g in wanted], strict=True) if wanted else ((), ())
        self.num_of_instances, self.instance_id = prod(counts), 0
        for count, index in zip(counts, indices, strict=True):
            self.instance_id = self.instance_id * count + index

    def __iter__(self) -> Iterator[Any]:
        for number, item in enumerate(self.source_datapipe):
            if number % self.num_of_instances == self.instance_id:
                yield item

    def __len__(self) -> int:
        whole, rest = divmod(length(self.source_datapipe, self), self.num_of_instances)
        return whole + (self.instance_id < rest)
