"""DistributedSampler: one process's part of a data set."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from math import ceil
from typing import Any

import gradloom as gl

from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every n-th index of a common order, so that n processes share a data set.

    Args:
        dataset: a data set with a length.
        num_replicas: number of processes; by default, of the default process group.
        rank: number of this process, from 0; by default, in the default process group.
        shuffle: take a random order, another one after each `set_epoch`.
        seed: seed of the random order, the same in all processes.
        drop_last: leave out examples that cannot be distributed evenly, instead of repeating some.

    Raises:
        ValueError: if `rank` is not below `num_replicas`, or if one is not given and there is no process group.
    """

    dataset: Any
    num_replicas: int
    rank: int
    shuffle: bool
    seed: int
    drop_last: bool
    epoch: int
    num_samples: int
    total_size: int

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            dist = import_module("gradloom.distributed")
            num_replicas = dist.get_world_size() if num_replicas is None else num_replicas
            rank = dist.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = gl.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = gl.randperm(count, generator=generator).tolist()
        else:
            indices = list(range(count))
        if len(indices) < self.total_size:
            indices = (indices * ceil(self.total_size / max(count, 1)))[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which changes the random order.

        Args:
            epoch: a number, the same in all processes.
        """
        self.epoch = epoch
